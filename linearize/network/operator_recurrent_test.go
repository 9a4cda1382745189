package network_test

import (
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
)

// A recurrentNode is a recurrent layer in a case.
type recurrentNode struct {
	kind        string
	gates       int
	dirs        int
	hidden      int
	input       int
	x           string
	w, r, b     string // parameters if empty
	lengths     string
	states      []string
	peepholes   string
	outputs     int
	withoutBias bool
	attrs       []*onnx.Attribute
}

var recurrentGates = map[string]int{"LSTM": 4, "GRU": 3, "RNN": 1}

// add adds the layer and returns its results.
func (n recurrentNode) add(g *graph) []string {
	n.gates = recurrentGates[n.kind]
	n.dirs, n.outputs = max(n.dirs, 1), max(n.outputs, 1)
	rows := n.gates * n.hidden
	if n.w == "" {
		n.w = g.spread(0, 0.6, n.dirs, rows, n.input)
	}
	if n.r == "" {
		n.r = g.spread(0, 0.6, n.dirs, rows, n.hidden)
	}
	if n.b == "" && !n.withoutBias {
		n.b = g.spread(0, 0.6, n.dirs, 2*rows)
	}
	inputs := slices.Concat(in(n.x, n.w, n.r, n.b, n.lengths), n.states)
	if n.peepholes != "" {
		for len(inputs) < 7 {
			inputs = append(inputs, "")
		}
		inputs = append(inputs, n.peepholes)
	}
	for inputs[len(inputs)-1] == "" {
		inputs = inputs[:len(inputs)-1]
	}
	attrs := append(slices.Clone(n.attrs), intA("hidden_size", int64(n.hidden)))
	if n.dirs == 2 {
		attrs = append(attrs, textA("direction", "bidirectional"))
	}
	return g.many(n.kind, n.outputs, inputs, attrs...)
}

// timeFirst is the input of the network, N×T×I, as T×N×I.
func (g *graph) timeFirst() string {
	return g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2))
}

// batchLast moves the batch dimension of a result D×N×H or T×D×N×H to the front.
func (g *graph) batchLast(y string, rank int) string {
	if rank == 3 {
		return g.op("Transpose", in(y), intsA("perm", 1, 0, 2))
	}
	return g.op("Transpose", in(y), intsA("perm", 2, 0, 1, 3))
}

func recurrentCases() []operatorCase {
	var all []operatorCase
	add := func(name string, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: 17, dims: dims, build: build})
	}
	dims := []int{3, 2}
	variants := []struct {
		name, kind string
		attrs      []*onnx.Attribute
	}{{"LSTM", "LSTM", nil}, {"GRU", "GRU", nil}, {"GRU-linear", "GRU", []*onnx.Attribute{intA("linear_before_reset", 1)}}, {"RNN", "RNN", nil}}
	for _, v := range variants {
		each := func(name string, build func(g *graph, n recurrentNode) string) {
			add(v.name+"-"+name, dims, func(g *graph) string {
				return build(g, recurrentNode{kind: v.kind, hidden: 2, input: 2, attrs: v.attrs})
			})
		}
		shorter := func(name string, build func(g *graph, n recurrentNode) string) {
			each(name, build)
			all[len(all)-1].batch = 3
		}
		for _, direction := range []string{"forward", "reverse", "bidirectional"} {
			with := func(n recurrentNode) recurrentNode {
				if direction == "reverse" {
					n.attrs = append(slices.Clone(n.attrs), textA("direction", "reverse"))
				}
				n.dirs = 1
				if direction == "bidirectional" {
					n.dirs = 2
				}
				return n
			}
			each(direction, func(g *graph, n recurrentNode) string {
				n = with(n)
				n.x = g.timeFirst()
				return g.batchLast(n.add(g)[0], 4)
			})
			each(direction+"-batch-first-states", func(g *graph, n recurrentNode) string {
				n = with(n)
				n.attrs = append(slices.Clone(n.attrs), intA("layout", 1))
				n.x = g.input()
				start := g.op("Expand", in(g.spread(0, 1, 1, n.dirs, 2), g.batchAnd(int64(n.dirs), 2)))
				n.states = in(start)
				if n.kind == "LSTM" {
					n.states = in(start, start)
				}
				n.outputs = 2
				y := n.add(g)
				return g.op("Add", in(g.op("Flatten", in(g.op("Slice", in(y[0], g.ints(1), g.ints(2), g.ints(1))))), g.op("Flatten", in(y[1]))))
			})
			each(direction+"-shorter-open-batch", func(g *graph, n recurrentNode) string {
				n = with(n)
				n.x, n.outputs = g.timeFirst(), 2
				n.lengths = g.op("Expand", in(g.ints(2), g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))))
				return g.batchLast(n.add(g)[1], 3)
			})
			shorter(direction+"-shorter", func(g *graph, n recurrentNode) string {
				n = with(n)
				n.x, n.outputs = g.timeFirst(), 2
				n.lengths = g.ints(2, 2, 2)
				y := n.add(g)
				rows := func(y string, rank int) string { return g.op("Flatten", in(g.batchLast(y, rank))) }
				return g.op("Concat", in(rows(y[0], 4), rows(y[1], 3)), intA("axis", 1))
			})
		}
	}
	return slices.Concat(all, recurrentInputCases(), recurrentFormulaCases())
}

// recurrentInputCases vary where the inputs come from and which results are used.
func recurrentInputCases() []operatorCase {
	var all []operatorCase
	for _, kind := range []string{"LSTM", "GRU", "RNN"} {
		add := func(name string, dims []int, build func(g *graph, n recurrentNode) string) {
			all = append(all, operatorCase{name: kind + "-" + name, opset: 13, dims: dims, build: func(g *graph) string {
				n := recurrentNode{kind: kind, hidden: 2, input: 2}
				if kind == "GRU" {
					n.attrs = []*onnx.Attribute{intA("linear_before_reset", 1)}
				}
				return build(g, n)
			}})
		}
		hidden := func(g *graph, n recurrentNode) string {
			n.outputs = 2
			return g.batchLast(n.add(g)[1], 3)
		}
		// start gives the layer the same initial states for all that it has.
		start := func(n recurrentNode, state string) recurrentNode {
			n.states = in(state)
			if kind == "LSTM" {
				n.states = in(state, state)
			}
			return n
		}
		dims := []int{3, 2}
		add("without-bias", dims, func(g *graph, n recurrentNode) string {
			n.x, n.withoutBias = g.timeFirst(), true
			return hidden(g, n)
		})
		add("all-results", dims, func(g *graph, n recurrentNode) string {
			n.x, n.outputs, n.dirs = g.timeFirst(), 2, 2
			if kind == "LSTM" {
				n.outputs = 3
			}
			var parts []string
			for i, y := range n.add(g) {
				parts = append(parts, g.op("Flatten", in(g.batchLast(y, []int{4, 3, 3}[i]))))
			}
			return g.op("Concat", parts, intA("axis", 1))
		})
		add("no-result-read", dims, func(g *graph, n recurrentNode) string {
			n.x, n.attrs = g.input(), append(n.attrs, intA("layout", 1))
			return n.add(g)[0]
		})
		add("zero-states", dims, func(g *graph, n recurrentNode) string {
			zero := &onnx.Tensor{Type: onnx.Float, Dims: []int64{1}, Floats: []float64{0}}
			shape := g.op("Concat", in(g.ints(1), g.batchAnd(2)), intA("axis", 0))
			n.x = g.timeFirst()
			return hidden(g, start(n, g.op("ConstantOfShape", in(shape), tensorA("value", zero))))
		})
		add("constant-states", dims, func(g *graph, n recurrentNode) string {
			half := &onnx.Tensor{Type: onnx.Float, Dims: []int64{1}, Floats: []float64{0.5}}
			shape := g.op("Concat", in(g.ints(1), g.batchAnd(2)), intA("axis", 0))
			n.x = g.timeFirst()
			return hidden(g, start(n, g.op("ConstantOfShape", in(shape), tensorA("value", half))))
		})
		add("states-from-input", dims, func(g *graph, n recurrentNode) string {
			n.x = g.timeFirst()
			first := g.op("Slice", in(n.x, g.ints(0), g.ints(1), g.ints(0)))
			return hidden(g, start(n, g.op("Tanh", in(g.op("MatMul", in(first, g.param(2, 2)))))))
		})
		add("two-layers", dims, func(g *graph, n recurrentNode) string {
			n.x, n.dirs = g.timeFirst(), 2
			y := g.op("Transpose", in(n.add(g)[0]), intsA("perm", 0, 2, 1, 3))
			below := g.op("Reshape", in(y, g.ints(0, 0, -1)))
			return hidden(g, recurrentNode{kind: kind, hidden: 1, input: 4, x: below, attrs: n.attrs})
		})
		add("shared-weights", dims, func(g *graph, n recurrentNode) string {
			n.x = g.timeFirst()
			rows := recurrentGates[kind] * 2
			n.w, n.r, n.b = g.spread(0, 0.6, 1, rows, 2), g.spread(0, 0.6, 1, rows, 2), g.spread(0, 0.6, 1, 2*rows)
			y := n.add(g)[0]
			n.x = g.op("Squeeze", in(y, g.ints(1)))
			return hidden(g, n)
		})
		add("joined-weights", dims, func(g *graph, n recurrentNode) string {
			// As exported without constant folding.
			n.x, n.dirs = g.timeFirst(), 2
			rows := recurrentGates[kind] * 2
			join := func(shape ...int) string {
				var both []string
				for range 2 {
					w := g.spread(0, 0.6, append([]int{rows}, shape...)...)
					tail := g.op("Slice", in(w, g.ints(1), g.ints(100), g.ints(0)))
					w = g.op("Concat", in(tail, g.op("Slice", in(w, g.ints(0), g.ints(1), g.ints(0)))), intA("axis", 0))
					both = append(both, g.op("Unsqueeze", in(w, g.ints(0))))
				}
				return g.op("Concat", both, intA("axis", 0))
			}
			n.w, n.r = join(2), join(2)
			n.b = g.op("Concat", in(join(), join()), intA("axis", 1))
			return hidden(g, n)
		})
		add("resets-joined-weights", dims, func(g *graph, n recurrentNode) string {
			n.x, n.attrs = g.timeFirst(), nil
			n.r = g.op("Mul", in(g.spread(0, 0.6, 1, recurrentGates[kind]*2, 2), g.param(1)))
			return hidden(g, n)
		})
		add("recurrent-weights-alone", dims, func(g *graph, n recurrentNode) string {
			// Nothing before the recurrence is a parameter.
			n.x, n.withoutBias = g.op("Transpose", in("x"), intsA("perm", 1, 0, 2)), true
			w := &onnx.Tensor{Type: onnx.Double, Dims: []int64{1, int64(2 * recurrentGates[kind]), 2}}
			for i := range w.Dims[1] * 2 {
				w.Floats = append(w.Floats, 0.3*float64(i%5)-0.5)
			}
			n.w = g.op("Constant", nil, tensorA("value", w))
			return hidden(g, n)
		})
		add("sequence-of-parameters", []int{2}, func(g *graph, n recurrentNode) string {
			// A decoder: the input is its initial state, the sequence is learnt.
			n.x = g.op("Expand", in(g.param(3, 1, 2), g.op("Concat", in(g.ints(3), g.batchAnd(2)), intA("axis", 0))))
			return hidden(g, start(n, g.op("Unsqueeze", in(g.input(), g.ints(0)))))
		})
		add("parameters-alone", []int{2}, func(g *graph, n recurrentNode) string {
			n.x, n.dirs = g.param(3, 1, 2), 2
			y := g.op("Reshape", in(n.add(g)[0], g.ints(6, 2)))
			return g.op("MatMul", in(g.input(), g.op("Transpose", in(y))))
		})
		add("constants-alone", []int{2}, func(g *graph, n recurrentNode) string {
			number := func(shape ...int64) string {
				v := &onnx.Tensor{Type: onnx.Double, Dims: shape}
				for i := range size([]int{int(shape[0]), int(shape[1]), int(shape[2])}) {
					v.Floats = append(v.Floats, 0.3*float64(i%7)-0.8)
				}
				return g.op("Constant", nil, tensorA("value", v))
			}
			rows := int64(2 * recurrentGates[kind])
			n.x, n.w, n.r, n.withoutBias = number(3, 1, 2), number(1, rows, 2), number(1, rows, 2), true
			y := g.op("Reshape", in(n.add(g)[0], g.ints(3, 2)))
			return g.op("MatMul", in(g.input(), g.op("Transpose", in(y))))
		})
		add("wide", []int{2, 2}, func(g *graph, n recurrentNode) string {
			n.x, n.hidden = g.timeFirst(), 8
			return hidden(g, n)
		})
		add("wide-reset-before", []int{1, 8}, func(g *graph, n recurrentNode) string {
			n.x, n.input, n.hidden, n.dirs, n.attrs = g.timeFirst(), 8, 4, 1, nil
			n.states = in(g.op("Expand", in(g.param(1, 1, 4), g.op("Concat", in(g.ints(1), g.batchAnd(4)), intA("axis", 0)))))
			return hidden(g, n)
		})
		add("wide-both", []int{1, 8}, func(g *graph, n recurrentNode) string {
			n.x, n.input, n.hidden, n.dirs = g.timeFirst(), 8, 3, 2
			return hidden(g, n)
		})
		add("fixed-batch", dims, func(g *graph, n recurrentNode) string {
			n.x = g.timeFirst()
			half := &onnx.Tensor{Type: onnx.Double, Dims: []int64{1, 4, 2}, Floats: slices.Repeat([]float64{0.5, -1}, 4)}
			return hidden(g, start(n, g.op("Constant", nil, tensorA("value", half))))
		})
		all[len(all)-1].batch = 4
		add("fixed-batch-learnt-states", dims, func(g *graph, n recurrentNode) string {
			n.x = g.timeFirst()
			state := g.op("Expand", in(g.param(2, 1, 2), g.ints(2, 4, 2)))
			return hidden(g, start(n, g.op("Slice", in(state, g.ints(1), g.ints(2), g.ints(0)))))
		})
		all[len(all)-1].batch = 4
	}
	return all
}

func textsA(name string, v ...string) *onnx.Attribute {
	a := &onnx.Attribute{Name: name, Type: onnx.AttrStrings}
	for _, s := range v {
		a.Strings = append(a.Strings, []byte(s))
	}
	return a
}

// recurrentFormulaCases vary what a cell computes.
func recurrentFormulaCases() []operatorCase {
	var all []operatorCase
	add := func(name string, n recurrentNode, build func(g *graph, n *recurrentNode)) {
		n.hidden, n.input, n.outputs = 2, 2, 2
		all = append(all, operatorCase{name: name, opset: 14, dims: []int{3, 2}, build: func(g *graph) string {
			n := n
			n.x = g.timeFirst()
			if build != nil {
				build(g, &n)
			}
			return g.batchLast(n.add(g)[1], 3)
		}})
	}
	with := func(a ...*onnx.Attribute) []*onnx.Attribute { return a }
	peephole := func(g *graph, n *recurrentNode) { n.peepholes = g.param(max(n.dirs, 1), 6) }
	add("LSTM-peepholes", recurrentNode{kind: "LSTM"}, peephole)
	add("LSTM-peepholes-both", recurrentNode{kind: "LSTM", dirs: 2}, peephole)
	add("LSTM-input-forget", recurrentNode{kind: "LSTM", attrs: with(intA("input_forget", 1))}, nil)
	add("LSTM-input-forget-peepholes", recurrentNode{kind: "LSTM", attrs: with(intA("input_forget", 1))}, peephole)
	add("LSTM-clip", recurrentNode{kind: "LSTM", attrs: with(floatA("clip", 0.7))}, peephole)
	add("GRU-clip", recurrentNode{kind: "GRU", dirs: 2, attrs: with(floatA("clip", 0.7))}, nil)
	add("RNN-clip", recurrentNode{kind: "RNN", attrs: with(floatA("clip", 0.7), textsA("activations", "Affine"), floatsA("activation_alpha", 1.5))}, nil)
	add("LSTM-activations", recurrentNode{kind: "LSTM", attrs: with(textsA("activations", "HardSigmoid", "ScaledTanh", "Affine"),
		floatsA("activation_alpha", 0.3, 1.2, 0.8), floatsA("activation_beta", 0.4, 0.7, 0.1))}, nil)
	add("LSTM-activations-both", recurrentNode{kind: "LSTM", dirs: 2, attrs: with(textsA("activations", "HardSigmoid", "Elu", "Softsign", "sigmoid", "LeakyRelu", "TANH"),
		floatsA("activation_alpha", 0.3, 0.9))}, nil)
	add("GRU-activations", recurrentNode{kind: "GRU", attrs: with(textsA("activations", "Softsign", "Softplus"))}, nil)
	add("GRU-linear-activations", recurrentNode{kind: "GRU", attrs: with(textsA("activations", "HardSigmoid", "ThresholdedRelu"), intA("linear_before_reset", 1), floatsA("activation_alpha", 0.25, 0.1))}, nil)
	for _, name := range []string{"Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Elu", "Softsign", "Softplus"} {
		add("RNN-"+name, recurrentNode{kind: "RNN", attrs: with(textsA("activations", name))}, nil)
	}
	return all
}

func init() {
	evaluators["LSTM"] = func(e *evaluator) []*tensor {
		return evalRecurrent(e, 4, []string{"Sigmoid", "Tanh", "Tanh"}, lstmStep)
	}
	evaluators["GRU"] = func(e *evaluator) []*tensor { return evalRecurrent(e, 3, []string{"Sigmoid", "Tanh"}, gruStep) }
	evaluators["RNN"] = func(e *evaluator) []*tensor { return evalRecurrent(e, 1, []string{"Tanh"}, rnnStep) }
}

// A recurrentUnit is what hidden unit j of direction d of example n reads at
// position t: w and r return the products of a gate with the input and with a
// state, biases included in wb and rb.
type recurrentUnit struct {
	e       *evaluator
	f       []func(x float64) float64
	n, t, d int
	h, c    []float64 // states before, all units
}

// gate is row g·H+j of the weights times the input, and its bias.
func (u recurrentUnit) gate(g, j int) float64 {
	w := u.e.in(1)
	row, s := g*len(u.h)+j, 0.0
	for i := range w.shape[2] {
		s += w.at(u.d, row, i) * u.x(i)
	}
	if u.e.has(3) {
		s += u.e.in(3).at(u.d, row)
	}
	return s
}

func (u recurrentUnit) x(i int) float64 {
	if u.e.int("layout", 0) != 0 {
		return u.e.in(0).at(u.n, u.t, i)
	}
	return u.e.in(0).at(u.t, u.n, i)
}

// back is row g·H+j of the recurrent weights times a state, and its bias.
func (u recurrentUnit) back(g, j int, state []float64) float64 {
	r := u.e.in(2)
	row, s := g*len(u.h)+j, 0.0
	for i, v := range state {
		s += r.at(u.d, row, i) * v
	}
	if b := 3; u.e.has(b) {
		s += u.e.in(b).at(u.d, u.e.in(b).shape[1]/2+row)
	}
	return s
}

// peep is the weight of the memory in gate g of i, o, f.
func (u recurrentUnit) peep(g, j int) float64 {
	if !u.e.has(7) {
		return 0
	}
	return u.e.in(7).at(u.d, g*len(u.h)+j)
}

func lstmStep(u recurrentUnit, j int) (h, c float64) {
	in := u.f[0](u.gate(0, j) + u.back(0, j, u.h) + u.peep(0, j)*u.c[j])
	forget := u.f[0](u.gate(2, j) + u.back(2, j, u.h) + u.peep(2, j)*u.c[j])
	if u.e.int("input_forget", 0) != 0 {
		forget = 1 - in
	}
	c = forget*u.c[j] + in*u.f[1](u.gate(3, j)+u.back(3, j, u.h))
	return u.f[0](u.gate(1, j)+u.back(1, j, u.h)+u.peep(1, j)*c) * u.f[2](c), c
}

func gruStep(u recurrentUnit, j int) (h, c float64) {
	update := u.f[0](u.gate(0, j) + u.back(0, j, u.h))
	reset := make([]float64, len(u.h))
	for k := range reset {
		reset[k] = u.f[0](u.gate(1, k) + u.back(1, k, u.h))
	}
	var candidate float64
	if u.e.int("linear_before_reset", 0) != 0 {
		candidate = u.f[1](u.gate(2, j) + reset[j]*u.back(2, j, u.h))
	} else {
		state := make([]float64, len(u.h))
		for k := range state {
			state[k] = reset[k] * u.h[k]
		}
		candidate = u.f[1](u.gate(2, j) + u.back(2, j, state))
	}
	return (1-update)*candidate + update*u.h[j], 0
}

func rnnStep(u recurrentUnit, j int) (h, c float64) {
	return u.f[0](u.gate(0, j) + u.back(0, j, u.h)), 0
}

// evalRecurrent runs a recurrent layer, unit by unit.
func evalRecurrent(e *evaluator, gates int, defaults []string, step func(u recurrentUnit, j int) (h, c float64)) []*tensor {
	direction := e.text("direction", "forward")
	check(slices.Contains([]string{"forward", "reverse", "bidirectional"}, direction), "direction")
	dirs := 1
	if direction == "bidirectional" {
		dirs = 2
	}
	x := e.in(0)
	check(x.rank() == 3 && e.in(1).rank() == 3 && e.in(2).rank() == 3, "ranks")
	steps, batch, first := x.shape[0], x.shape[1], e.int("layout", 0) != 0
	if first {
		steps, batch = batch, steps
	}
	hidden := e.in(2).shape[2]
	check(e.int("hidden_size", hidden) == hidden, "hidden_size")
	check(slices.Equal(e.in(1).shape, []int{dirs, gates * hidden, x.shape[2]}), "W %v", e.in(1).shape)
	check(slices.Equal(e.in(2).shape, []int{dirs, gates * hidden, hidden}), "R %v", e.in(2).shape)
	check(!e.has(3) || slices.Equal(e.in(3).shape, []int{dirs, 2 * gates * hidden}), "B")
	check(!e.has(7) || slices.Equal(e.in(7).shape, []int{dirs, 3 * hidden}), "P")
	check(!e.has(4) || slices.Equal(e.in(4).shape, []int{batch}), "sequence_lens")
	functions := recurrentFunctions(e, dirs, defaults)
	y, yh, yc := newTensor([]int{steps, dirs, batch, hidden}), newTensor([]int{dirs, batch, hidden}), newTensor([]int{dirs, batch, hidden})
	for d := range dirs {
		for n := range batch {
			length := steps
			if e.has(4) {
				length = e.in(4).ints()[n]
			}
			check(length > 0 && length <= steps, "length %d", length)
			h, c := initialOf(e, 5, d, n, dirs, batch, hidden), initialOf(e, 6, d, n, dirs, batch, hidden)
			for k := range length {
				t := k
				if d == 1 || direction == "reverse" {
					t = length - 1 - k
				}
				u := recurrentUnit{e: e, f: functions[d], n: n, t: t, d: d, h: slices.Clone(h), c: slices.Clone(c)}
				for j := range hidden {
					h[j], c[j] = step(u, j)
					y.set(h[j], t, d, n, j)
				}
			}
			for j := range hidden {
				yh.set(h[j], d, n, j)
				yc.set(c[j], d, n, j)
			}
		}
	}
	if first {
		y, yh, yc = transposed(y, []int{2, 0, 1, 3}), transposed(yh, []int{1, 0, 2}), transposed(yc, []int{1, 0, 2})
	}
	return []*tensor{y, yh, yc}
}

// initialOf reads the initial state of input i.
func initialOf(e *evaluator, i, d, n, dirs, batch, hidden int) []float64 {
	out := make([]float64, hidden)
	if !e.has(i) {
		return out
	}
	first := e.int("layout", 0) != 0
	if first {
		check(slices.Equal(e.in(i).shape, []int{batch, dirs, hidden}), "initial state %v", e.in(i).shape)
	} else {
		check(slices.Equal(e.in(i).shape, []int{dirs, batch, hidden}), "initial state %v", e.in(i).shape)
	}
	for j := range out {
		if first {
			out[j] = e.in(i).at(n, d, j)
		} else {
			out[j] = e.in(i).at(d, n, j)
		}
	}
	return out
}

// recurrentFunctions returns the activations of each direction.
func recurrentFunctions(e *evaluator, dirs int, defaults []string) [][]func(x float64) float64 {
	names := slices.Repeat(defaults, dirs)
	if a := e.node.Attr("activations"); a != nil {
		names = nil
		for _, s := range a.Strings {
			names = append(names, string(s))
		}
	}
	check(len(names) == dirs*len(defaults), "activations %v", names)
	next := func(list *[]float32, def float64) float64 {
		if len(*list) == 0 {
			return float64(float32(def))
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return float64(v)
	}
	var alphas, betas []float32
	if a := e.node.Attr("activation_alpha"); a != nil {
		alphas = a.Floats
	}
	if a := e.node.Attr("activation_beta"); a != nil {
		betas = a.Floats
	}
	clip := e.float("clip", math.MaxFloat32)
	var all []func(x float64) float64
	for _, name := range names {
		f := recurrentFunction(strings.ToLower(name), func(def float64) float64 { return next(&alphas, def) }, func(def float64) float64 { return next(&betas, def) })
		all = append(all, func(x float64) float64 { return f(limit(x, -clip, clip)) })
	}
	return slices.Collect(slices.Chunk(all, len(defaults)))
}

// recurrentFunction is the list of the operators' documentation.
func recurrentFunction(name string, alpha, beta func(def float64) float64) func(x float64) float64 {
	switch name {
	case "relu":
		return func(x float64) float64 { return math.Max(0, x) }
	case "tanh":
		return math.Tanh
	case "sigmoid":
		return func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	case "softsign":
		return func(x float64) float64 { return x / (1 + math.Abs(x)) }
	case "softplus":
		return func(x float64) float64 { return math.Log1p(math.Exp(x)) }
	}
	switch a := 0.0; name {
	case "affine":
		a, b := alpha(1), beta(0)
		return func(x float64) float64 { return a*x + b }
	case "leakyrelu":
		a = alpha(0.01)
		return func(x float64) float64 { return math.Max(x, 0) + a*math.Min(x, 0) }
	case "thresholdedrelu":
		a = alpha(1)
		return func(x float64) float64 {
			if x >= a {
				return x
			}
			return 0
		}
	case "scaledtanh":
		a, b := alpha(math.NaN()), beta(math.NaN())
		return func(x float64) float64 { return a * math.Tanh(b*x) }
	case "hardsigmoid":
		a, b := alpha(0.2), beta(0.5)
		return func(x float64) float64 { return math.Min(math.Max(a*x+b, 0), 1) }
	case "elu":
		a = alpha(1)
		return func(x float64) float64 { return math.Max(x, 0) + a*math.Expm1(math.Min(x, 0)) }
	}
	check(false, "activation %q", name)
	return nil
}
