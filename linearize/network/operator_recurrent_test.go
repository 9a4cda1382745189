package network_test

import (
	"slices"

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
	return all
}
