package compile

import (
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Normalization", map[string]operator{
		"Softmax":    {translate: func(c *compiler) { c.softmax(false) }, inputs: 1, note: "of each example by itself; at the end of the network the likelihood may apply it"},
		"LogSoftmax": {translate: func(c *compiler) { c.softmax(true) }, inputs: 1, note: "of each example by itself; at the end of the network the likelihood may apply it"},
	})
}

func (c *compiler) softmax(log bool) {
	x := c.float(0)
	c.result(c.softmaxOf(x, c.softmaxAxis(len(x.shape)), log))
}

func (c *compiler) softmaxOf(x *value, ax int, log bool) *value {
	o := &graph.Softmax{Outer: graph.Product(x.shape[:ax]), Length: x.shape[ax], Inner: graph.Product(x.shape[ax+1:]), Log: log}
	old := c.opset < 13 // older versions normalize over all axes from axis on
	if old {
		o.Length, o.Inner = o.Length*o.Inner, 1
	}
	if x.isBatch(ax) || old && x.batch > ax {
		panic(errMixes)
	}
	return c.emit(o, x.shape, x.batch, x)
}

// softmaxAxis returns the axis of a Softmax or LogSoftmax.
func (c *compiler) softmaxAxis(rank int) int {
	def := -1
	if c.opset < 13 {
		def = 1
	}
	return axis(c.attrInt("axis", def), rank)
}

// A mask records which elements of a tensor are not finite: bounds that bound nothing, and what hides positions from
// a Softmax or a maximum. It is followed through the graph, because such numbers must not reach the outputs.
type mask struct {
	at   []float64 // ±Inf or NaN where the tensor is that, otherwise 0; for one example
	may  bool      // these elements are finite or not, depending on the input
	from error     // the error where the numbers reach what cannot take them
}

// nonFinite returns a copy of data with every finite element set to 0.
func nonFinite(data []float64) []float64 {
	at := make([]float64, len(data))
	for i, x := range data {
		if x-x != 0 {
			at[i] = x
		}
	}
	return at
}

// hasNonFinite reports whether a number is ±Inf or NaN.
func hasNonFinite(data []float64) bool {
	return slices.ContainsFunc(data, func(x float64) bool { return x-x != 0 })
}

// standIn is the number that stands for any finite one where a mask is followed. No operator has a pole or a root
// there.
const standIn = 0.4375

// maskAfter returns the mask of a node's result with size elements, or nil if the result is finite. It refuses a
// node that makes NaN, or what depends on the signs of other numbers, of the elements of its inputs that are not
// finite. Where it depends on the input whether they are finite, their row is an error when the network runs.
func (c *compiler) maskAfter(nd *graph.Node, size int) *mask {
	var from error
	may := false
	for _, slot := range nd.In {
		if m := c.masks[slot]; m != nil {
			from, may = m.from, may || m.may
		}
	}
	index, ok := nd.Op.(*graph.Index)
	if pads := ok && index.Fill-index.Fill != 0; pads && from == nil {
		from = fmt.Errorf("its padding is %v, which only a maximum, a minimum or a Softmax may read", index.Fill)
	}
	if from == nil {
		return nil
	}
	switch o := nd.Op.(type) {
	case *graph.Index, *graph.Where, *graph.Group, *graph.LogSumExp, *graph.Reduce, *graph.MaxPool, *graph.Extremes, graph.Relu, graph.Named:
	case *graph.Pickup:
		if c.masks[nd.In[1]] != nil {
			panic(refusal{from})
		}
		return &mask{at: slices.Repeat([]float64{math.Inf(-1)}, size), may: true, from: from}
	case *graph.Softmax:
		if m := c.masks[nd.In[0]]; !m.may {
			if err := o.CheckMask(m.at); err != nil {
				panic(refusal{err})
			}
		} else if !o.Log {
			return nil // a row with all elements masked is an error when the network runs
		}
	case *graph.Binary:
		if !masking[c.node.OpType] && !graph.Stepwise(o) {
			panic(refusal{from})
		}
	default:
		if !may {
			panic(refusal{from})
		}
		return &mask{at: slices.Repeat([]float64{math.Inf(-1)}, size), may: true, from: from}
	}
	// Find where the result is not finite by running the node's operation on the numbers of constants, and on
	// substitutes for others.
	p, own := &graph.Program{}, graph.Node{Op: nd.Op, Out: len(nd.In)}
	var values [][]float64
	for j, slot := range nd.In {
		n := c.prog.Slots[slot].Size
		p.Slots, own.In = append(p.Slots, graph.Slot{Size: n, Static: true}), append(own.In, j)
		at := c.static[slot]
		if m := c.masks[slot]; at == nil {
			if m == nil && scaling[c.node.OpType] {
				panic(refusal{from})
			}
			c.spend(numberBytes * n)
			at = slices.Repeat([]float64{standIn}, n)
			if m != nil {
				for i, x := range m.at {
					if x != 0 {
						at[i] = x
					}
				}
			}
		}
		values = append(values, at)
	}
	c.spend(numberBytes * size)
	p.Slots, values = append(p.Slots, graph.Slot{Size: size, Static: true}), append(values, make([]float64, size))
	_, moves := nd.Op.(*graph.Where)
	follow := func() []float64 {
		nd.Op.Forward(&graph.State{Program: p, Static: values, N: 1}, &own)
		return nonFinite(values[own.Out])
	}
	at := follow()
	if moves && c.static[nd.In[0]] == nil {
		// The condition depends on the input: run again with the other of the two elements.
		cond := slices.Clone(values[0])
		for i, x := range values[0] {
			cond[i] = graph.Step(x == 0)
		}
		values[0], may = cond, true
		for i, x := range follow() {
			if x != 0 {
				at[i] = x
			}
		}
	}
	switch nd.Op.(type) {
	case *graph.Index, *graph.Where:
	default:
		if slices.ContainsFunc(at, math.IsNaN) {
			panic(refusal{from}) // a mask multiplied by zero, or a difference of two
		}
	}
	if !hasNonFinite(at) {
		return nil
	}
	return &mask{at: at, may: may, from: from}
}

// masking lists the operators that may read a mask in a function of two numbers. scaling lists those among them that
// may only if the other numbers are constants: PyTorch multiplies a mask by 1.
var (
	masking = set("Add", "Sub", "Sum", "Max", "Min", "Clip", "Mul", "Div", "Attention", "MultiHeadAttention")
	scaling = set("Mul", "Div")
)
