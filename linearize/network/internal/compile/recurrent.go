package compile

import (
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	lstm := func(c *compiler, a []graph.Activation) graph.Cell {
		return &graph.LSTM{F: a[0], G: a[1], H: a[2], Coupled: c.attrInt("input_forget", 0) != 0}
	}
	gru := func(c *compiler, a []graph.Activation) graph.Cell {
		return &graph.GRU{F: a[0], G: a[1], ResetAfter: c.attrInt("linear_before_reset", 0) != 0}
	}
	rnn := func(_ *compiler, a []graph.Activation) graph.Cell { return &graph.RNN{F: a[0]} }
	register("Recurrent layers", map[string]operator{
		"LSTM": {translate: recurrentLayer(lstm, "Sigmoid", "Tanh", "Tanh"), inputs: 8, roles: learnt.Multiplies | learnt.Recurs, bias: 3, note: recurrentNote},
		"GRU":  {translate: recurrentLayer(gru, "Sigmoid", "Tanh"), inputs: 6, roles: learnt.Multiplies | learnt.Recurs, bias: 3, note: recurrentNote},
		"RNN":  {translate: recurrentLayer(rnn, "Tanh"), inputs: 6, roles: learnt.Multiplies | learnt.Recurs, bias: 3, note: recurrentNote},
	})
}

const recurrentNote = "sequence_lens must be absent or one constant length for all examples; clip bounds the input of every activation"

// A recurrent holds what the node of a recurrent layer says. T is the number of positions that are used, I of
// inputs, H of hidden units, D of directions, and G of the gates of a cell.
type recurrent struct {
	op         *graph.Recurrent
	batchFirst bool // layout is 1: the batch is the first axis
	steps      int  // length of the sequence, of which the layer reads the first T ≤ steps positions
	inputs     int  // I, the number of inputs
	batch      bool // the results have a batch dimension
	x, w, r, b *value
	states     []*value // initial states
	peepholes  *value
}

func (r *recurrent) dirs() int  { return len(r.op.Reverse) }
func (r *recurrent) gates() int { return r.op.Cells[0].Gates() }

// width returns D·G·H, the number of products at one position.
func (r *recurrent) width() int { return r.dirs() * r.gates() * r.op.H }

// timeAxis returns the axis of the positions in X and Y.
func (r *recurrent) timeAxis() int { return int(graph.Step(r.batchFirst)) }

// directions returns for each direction whether it runs in reverse.
func (c *compiler) directions() []bool {
	switch name := c.attrString("direction", "forward"); name {
	case "forward":
		return []bool{false}
	case "reverse":
		return []bool{true}
	case "bidirectional":
		return []bool{false, true}
	default:
		panic(refuse("direction is %s, not forward, reverse or bidirectional", quote(name)))
	}
}

// activations returns the activation functions of a cell for each direction.
func (c *compiler) activations(defaults ...string) [][]graph.Activation {
	reverse := c.directions()
	names := slices.Repeat(defaults, len(reverse))
	if a := c.attr("activations", onnx.AttrStrings); a != nil {
		if len(a.Strings) != len(names) {
			panic(refuse("it names %d activations, %d are expected", len(a.Strings), len(names)))
		}
		for i, s := range a.Strings {
			names[i] = string(s)
		}
	}
	limit := c.attrFloat("clip", math.MaxFloat32)
	if limit <= 0 {
		panic(refuse("clip is %v, which is not positive", limit))
	}
	alphas, betas := c.attrFloats("activation_alpha"), c.attrFloats("activation_beta")
	var list []graph.Activation
	for _, name := range names {
		kind, ok := graph.Activations[strings.ToLower(name)]
		if !ok {
			panic(refuse("activation %s is none of those that ONNX has", quote(name)))
		}
		var number [2]float64
		within(func() {
			number[0], alphas = parameter(kind.Alpha, alphas, kind.Uses > 0)
			number[1], betas = parameter(kind.Beta, betas, kind.Uses > 1)
		}, "activation %s", quote(name))
		f := kind.Make(number[0], number[1])
		if c.node.Attr("clip") != nil {
			f = f.Clipped(limit)
		}
		list = append(list, f)
	}
	if len(alphas) > 0 || len(betas) > 0 {
		panic(refuse("it has more activation_alpha or activation_beta than its activations take"))
	}
	return slices.Collect(slices.Chunk(list, len(defaults)))
}

// parameter takes the first number off a list, if used and the list has one, and returns it and the rest. Otherwise
// it returns def and the list.
func parameter(def float64, list []float64, used bool) (float64, []float64) {
	v := def
	if used && len(list) > 0 {
		v, list = list[0], list[1:]
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		panic(refuse("its alpha or beta is not given or no number"))
	}
	return v, list
}

// recurrentLayer returns the translation of a recurrent layer. cell makes the cell of one direction from its
// activations. defaults names the activations for a node that does not.
//
// The products of the sequence with the input weights do not depend on the states. A Dense computes them all at
// once. A Recurrent adds the products of the states with the recurrent weights, position by position. Its result
// holds all states; the outputs are taken from it.
func recurrentLayer(cell func(c *compiler, a []graph.Activation) graph.Cell, defaults ...string) func(c *compiler) {
	return func(c *compiler) {
		op := &graph.Recurrent{Work: -1, Addend: -1, Initial: -1, InitialCell: -1, Peepholes: -1, Tied: true}
		for _, a := range c.activations(defaults...) {
			op.Cells = append(op.Cells, cell(c, a))
		}
		op.Reverse = c.directions()
		r := &recurrent{op: op, batchFirst: c.attrInt("layout", 0) != 0}
		// Read the sequence X, the weights, biases and peepholes, the length of the sequences and the initial
		// states.
		r.x = c.float(0)
		if len(r.x.shape) != 3 {
			panic(refuse("its input of shape %v is not three-dimensional", r.x.shape))
		}
		batch := 1 - r.timeAxis()
		if r.x.shape[batch] != 1 || r.x.batch >= 0 && r.x.batch != batch {
			panic(refuse("its input of shape %v does not have the batch dimension at axis %d, where layout %d has it", r.x.shape, batch, r.timeAxis()))
		}
		r.steps, r.inputs = r.x.shape[r.timeAxis()], r.x.shape[2]
		r.join(r.x)

		r.w = c.recurrentWeight(1, "input weights")
		r.r = c.recurrentWeight(2, "recurrent weights")
		d, g := r.dirs(), r.gates()
		if len(r.r.shape) != 3 {
			panic(refuse("recurrent weights of shape %v are not three-dimensional", r.r.shape))
		}
		h := r.r.shape[2]
		r.op.H = h
		if hidden := c.attrInt("hidden_size", h); hidden != h {
			panic(refuse("hidden_size is %d, and recurrent weights of shape %v have %d hidden units", hidden, r.r.shape, h))
		}
		if !slices.Equal(r.r.shape, []int{d, g * h, h}) {
			panic(refuse("recurrent weights of shape %v are not %d×%d×%d", r.r.shape, d, g*h, h))
		}
		if !slices.Equal(r.w.shape, []int{d, g * h, r.inputs}) {
			panic(refuse("input weights of shape %v are not %d×%d×%d", r.w.shape, d, g*h, r.inputs))
		}
		if c.has(3) {
			r.b = c.recurrentWeight(3, "biases")
			if !slices.Equal(r.b.shape, []int{d, 2 * g * h}) {
				panic(refuse("biases of shape %v are not %d×%d", r.b.shape, d, 2*g*h))
			}
		}
		if c.has(7) {
			r.peepholes = c.recurrentWeight(7, "peephole weights")
			if !slices.Equal(r.peepholes.shape, []int{d, 3 * h}) {
				panic(refuse("peephole weights of shape %v are not %d×%d", r.peepholes.shape, d, 3*h))
			}
		}

		r.op.T = r.steps
		if c.has(4) {
			v := c.input(4)
			if !v.isInt || v.real {
				panic(refuse("sequence_lens depends on the input; only one constant length for all examples is supported"))
			}
			for _, l := range v.ints {
				if l != v.ints[0] || !l.constant() {
					panic(refuse("sequence_lens gives examples of different lengths; only one constant length for all is supported"))
				}
			}
			if len(v.ints) == 0 || v.ints[0].k < 1 || v.ints[0].k > r.steps {
				panic(refuse("sequence_lens has %d lengths that are not in the %d positions", len(v.ints), r.steps))
			}
			r.op.T = v.ints[0].k
		}
		for i, in := range []*int{&r.op.Initial, &r.op.InitialCell} {
			if !c.has(5 + i) {
				continue
			}
			if v := c.initialState(r, 5+i); v != nil {
				*in = len(r.states)
				r.states = append(r.states, v)
			}
		}
		states := c.emitRecurrent(r)
		// Take the outputs Y, Y_h and, for an LSTM, Y_c from the states.
		n := 2
		if _, ok := op.Cells[0].(*graph.LSTM); ok {
			n = 3
		}
		c.only(n)
		c.recurrentOutput(r, 0, states, []int{r.steps, d, h}, func(idx []int) int {
			if idx[0] >= op.T {
				return -1
			}
			return op.State(idx[1], idx[0], false) + idx[2]
		})
		for i := 1; i < n; i++ {
			c.recurrentOutput(r, i, states, []int{d, h}, func(idx []int) int {
				return op.State(idx[0], op.Last(idx[0]), i == 2) + idx[1]
			})
		}
	}
}

// join records that an input (the sequence or an initial state) differs between examples, if it has a batch axis.
func (r *recurrent) join(v *value) {
	if v.batch < 0 {
		return
	}
	if v.leading() != 1 {
		panic(errMixes)
	}
	r.batch = true
}

// recurrentWeight returns input i, which must not depend on the input of the network. what names it in messages.
func (c *compiler) recurrentWeight(i int, what string) *value {
	v := c.float(i)
	if !c.isStatic(v) || v.batch >= 0 {
		panic(refuse("its %s depend on the input", what))
	}
	return v
}

// initialState returns input i, the initial states of all directions, or nil if they are zero. Zeros that the file
// stores are zero states unless they are to be learnt, because training would not leave all of them at zero.
func (c *compiler) initialState(r *recurrent, i int) *value {
	if in := c.inits[c.node.Inputs[i]]; in != nil && in.value == nil && in.t.Type.IsFloat() && !c.learn[in.t.Name] && zeros(in.t.Floats) {
		return nil
	}
	v := c.float(i)
	batch := 1 - r.timeAxis()
	want := []int{r.dirs(), 1, r.op.H}
	if r.batchFirst {
		want = []int{1, r.dirs(), r.op.H}
	}
	if data := c.static[v.slot]; data != nil && zeros(data) {
		return nil
	}
	if v.batch < 0 && c.batch > 1 && len(v.shape) == 3 && v.shape[batch] == c.batch {
		v = c.sameForAll(v, batch)
	}
	if !slices.Equal(v.shape, want) || v.batch >= 0 && v.batch != batch {
		panic(refuse("an initial state of shape %v is not %v", v.shape, want))
	}
	r.join(v)
	return v
}

func zeros(data []float64) bool {
	return !slices.ContainsFunc(data, func(v float64) bool { return v != 0 })
}

// emitRecurrent emits the products of the sequence with the input weights plus the biases, and the recurrence. It
// returns the result of the recurrence, all states.
func (c *compiler) emitRecurrent(r *recurrent) *value {
	op, x, n := r.op, r.x, r.gates()*r.op.H
	if op.T < r.steps {
		x = c.sliceAxis(x, r.timeAxis(), 0, op.T, 1)
	}
	cell, ok := op.Cells[0].(*graph.GRU)
	resetAfter := ok && cell.ResetAfter
	args := []*value{x, {slot: r.w.slot, batch: -1}}
	switch {
	case r.b == nil:
	case resetAfter: // the biases of the recurrent weights are added to their products, below
		table := c.tableOf([]int{r.dirs(), n}, func(idx []int) int { return 2*idx[0]*n + idx[1] })
		args = append(args, c.emit(&graph.Index{Source: table}, []int{r.width()}, -1, r.b))
	default:
		table := c.tableOf([]int{r.dirs(), 2, n}, func(idx []int) int { return idx[0]*n + idx[2] })
		args = append(args, c.emit(&graph.Reduce{Target: table, Scale: 1}, []int{r.width()}, -1, r.b))
	}
	count([]int{op.T, r.dirs(), r.gates(), op.H})
	products := c.emit(&graph.Dense{T: op.T, In: r.inputs, Out: r.width(), Tied: true, TiedBias: true}, []int{op.T, r.width()}, -1, args...)
	in := []*value{products, r.r}
	if resetAfter {
		// The addend holds the biases of the recurrent weights at each position, or zeros. Its gradient is also the
		// gradient with respect to the products with R, from which R's gradient is computed. R is among the
		// arguments, though it is not read, so that the addend has a gradient whenever R has one.
		args := []*value{{slot: r.r.slot, batch: -1}}
		source := func([]int) int { return -1 }
		if r.b != nil {
			args = []*value{r.b, args[0]}
			source = func(idx []int) int { return (2*idx[1]+1)*n + idx[2] }
		}
		table := c.tableOf([]int{op.T, r.dirs(), n}, source)
		bias := c.emit(&graph.Index{Source: table}, []int{op.T, r.width()}, -1, args...)
		op.Addend, in = len(in), append(in, bias)
	}
	for _, i := range []*int{&op.Initial, &op.InitialCell} {
		if *i >= 0 {
			*i += len(in)
		}
	}
	in = append(in, r.states...)
	if r.peepholes != nil {
		op.Peepholes, in = len(in), append(in, r.peepholes)
	}
	count([]int{op.WorkSize()})
	states := c.emit(op, []int{op.Size()}, -1, in...)
	if c.static[states.slot] == nil {
		c.charge(nil, op.WorkSize(), c.isStatic(states))
		op.Work = c.addSlot(graph.Slot{Size: op.WorkSize(), Static: c.isStatic(states), Param: -1})
	}
	return states
}

// recurrentOutput sets output i of the node. shape is its shape for one example, without the batch dimension. An
// output that no node reads is left out, unless no node reads any: then one of the outputs is the output of the
// network.
func (c *compiler) recurrentOutput(r *recurrent, i int, states *value, shape []int, source func(idx []int) int) {
	read := func(name string) bool { return name != "" && c.uses[name] > 0 }
	if i >= len(c.node.Outputs) || !read(c.node.Outputs[i]) && slices.ContainsFunc(c.node.Outputs, read) {
		return
	}
	table := c.tableOf(shape, source)
	axis := len(shape) - 1 // the axis of the batch, before H
	if r.batchFirst {
		axis = 0
	}
	v := c.emit(&graph.Index{Source: table}, slices.Insert(slices.Clone(shape), axis, 1), -1, states)
	if r.batch {
		v.batch = axis
	}
	c.set(i, v)
}
