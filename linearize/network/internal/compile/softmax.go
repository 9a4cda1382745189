package compile

import (
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

// A mask records which elements of a tensor are −Inf, so that a Softmax to which they are added ignores them. Only
// operators that move, select or add elements may read the tensor.
type mask struct {
	at   []float64 // −Inf where the tensor is −Inf, otherwise 0; for one example
	may  bool      // these elements are −Inf or finite, depending on the input
	from error     // the error if another operator reads the −Inf
}

// onlyInf returns a copy of data with every element but −Inf set to 0.
func onlyInf(data []float64) []float64 {
	at := make([]float64, len(data))
	for i, x := range data {
		if math.IsInf(x, -1) {
			at[i] = x
		}
	}
	return at
}

// maskAfter returns the mask of a node's result with size elements, or nil if the result has no −Inf. It refuses a
// node that cannot read the −Inf of its inputs.
func (c *compiler) maskAfter(nd *graph.Node, size int) *mask {
	i := slices.IndexFunc(nd.In, func(slot int) bool { return c.masks[slot] != nil })
	if i < 0 {
		return nil
	}
	from := c.masks[nd.In[i]].from
	switch o := nd.Op.(type) {
	case *graph.Index, *graph.Select, *graph.Concat, *graph.Where:
	case *graph.Softmax:
		if o.Log {
			panic(refusal{from})
		}
		if c.masks[nd.In[0]].may {
			return nil // a row with all elements masked is an error when the network runs
		}
		if err := o.CheckMask(c.masks[nd.In[0]].at); err != nil {
			panic(refusal{err})
		}
		return nil
	case *graph.Binary:
		if !masking[c.node.OpType] {
			panic(refusal{from})
		}
	default:
		panic(refusal{from})
	}
	// Find where the result has −Inf by running the node's operation on substitutes: the mask of an input that has
	// one, the numbers of a constant, and zeros for any other input.
	p, own := &graph.Program{}, graph.Node{Op: nd.Op, Out: len(nd.In)}
	var values [][]float64
	for j, slot := range nd.In {
		n := c.prog.Slots[slot].Size
		p.Slots, own.In = append(p.Slots, graph.Slot{Size: n, Static: true}), append(own.In, j)
		at := c.static[slot]
		switch m := c.masks[slot]; {
		case m != nil:
			at = m.at
		case at != nil:
		case scaling[c.node.OpType]:
			panic(refusal{from})
		default:
			c.spend(numberBytes * n)
			at = make([]float64, n)
		}
		values = append(values, at)
	}
	c.spend(numberBytes * size)
	p.Slots, values = append(p.Slots, graph.Slot{Size: size, Static: true}), append(values, make([]float64, size))
	nd.Op.Forward(&graph.State{Program: p, Static: values, N: 1}, &own)
	if slices.ContainsFunc(values[own.Out], func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 1) }) {
		panic(refusal{from}) // a mask multiplied by zero or a negative number
	}
	at, may := onlyInf(values[own.Out]), false
	if _, ok := nd.Op.(*graph.Where); ok && c.static[nd.In[0]] == nil {
		// The condition depends on the input: run again with the other of the two elements.
		for i := range values[0] {
			values[0][i] = 1 - values[0][i]
		}
		nd.Op.Forward(&graph.State{Program: p, Static: values, N: 1}, &own)
		for i, x := range values[own.Out] {
			at[i] = min(at[i], x)
		}
		at, may = onlyInf(at), true
	}
	for _, slot := range nd.In {
		may = may || c.masks[slot] != nil && c.masks[slot].may
	}
	if !slices.Contains(at, math.Inf(-1)) {
		return nil
	}
	return &mask{at: at, may: may, from: from}
}

// masking lists the operators that may read the −Inf of a mask in a function of two numbers. scaling lists those
// among them that may only if the other numbers are constants: PyTorch multiplies a mask by 1.
var (
	masking = set("Add", "Sum", "Max", "Mul", "Div", "Attention", "MultiHeadAttention")
	scaling = set("Mul", "Div")
)
