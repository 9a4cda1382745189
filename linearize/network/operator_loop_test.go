package network_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
)

// evalLoop and evalScan are no members of evaluators, because they come back to them.
func evalLoop(e *evaluator) []*tensor {
	n, body := e.node, e.node.Attr("body").G
	turns, goes := 1<<20, true
	if e.has(0) {
		turns = e.in(0).ints()[0]
	}
	if e.has(1) {
		goes = e.in(1).data[0] != 0
	}
	var state []*tensor
	for i := 2; i < len(n.Inputs); i++ {
		state = append(state, e.in(i))
	}
	scanned := make([][]*tensor, len(body.Outputs)-1-len(state))
	for t := 0; t < turns && goes; t++ {
		inner := newEvaluator(body, e)
		inner.env[body.Inputs[0].Name] = &tensor{shape: []int{}, data: []float64{float64(t)}, isInt: true}
		inner.env[body.Inputs[1].Name] = &tensor{shape: []int{}, data: []float64{1}, isInt: true}
		out := turn(inner, body.Inputs[2:], state)
		goes = out[0].data[0] != 0
		copy(state, out[1:])
		for k, v := range out[1+len(state):] {
			scanned[k] = append(scanned[k], v)
		}
	}
	out := slices.Clone(state)
	for _, list := range scanned {
		out = append(out, joined(list, 0, true))
	}
	return out
}

func evalScan(e *evaluator) []*tensor {
	n, body := e.node, e.node.Attr("body").G
	k := e.int("num_scan_inputs", 0)
	elements := make([][]*tensor, k)
	for i := range k {
		v := e.in(len(n.Inputs) - k + i)
		ax := v.normalAxis(e.ints("scan_input_axes", make([]int, k))[i])
		for t := range v.shape[ax] {
			shape := slices.Delete(slices.Clone(v.shape), ax, ax+1)
			elements[i] = append(elements[i], from(shape, v.isInt, func(idx []int) float64 { return v.at(slices.Insert(slices.Clone(idx), ax, t)...) }))
		}
		if e.ints("scan_input_directions", make([]int, k))[i] == 1 {
			slices.Reverse(elements[i])
		}
	}
	var state []*tensor
	for i := range len(n.Inputs) - k {
		state = append(state, e.in(i))
	}
	scanned := make([][]*tensor, len(body.Outputs)-len(state))
	for t := range elements[0] {
		values := slices.Clone(state)
		for i := range k {
			values = append(values, elements[i][t])
		}
		out := turn(newEvaluator(body, e), body.Inputs, values)
		copy(state, out)
		for i, v := range out[len(state):] {
			scanned[i] = append(scanned[i], v)
		}
	}
	out := slices.Clone(state)
	for i, list := range scanned {
		if e.entry(n, "scan_output_directions", i) == 1 {
			slices.Reverse(list)
		}
		out = append(out, joined(list, e.entry(n, "scan_output_axes", i), true))
	}
	return out
}

// entry is entry i of a list of integers, or 0.
func (*evaluator) entry(n *onnx.Node, name string, i int) int {
	if a := n.Attr(name); a != nil {
		return int(a.Ints[i])
	}
	return 0
}

// turn runs a body with the values of its inputs.
func turn(e *evaluator, inputs []*onnx.ValueInfo, values []*tensor) (out []*tensor) {
	for i, v := range inputs {
		e.env[v.Name] = values[i]
	}
	for _, v := range e.graph.Outputs {
		out = append(out, e.value(v.Name))
	}
	return out
}

// joined joins tensors along an axis, a new one if so.
func joined(list []*tensor, axis int, isNew bool) *tensor {
	check(len(list) > 0, "no tensors")
	shape := slices.Clone(list[0].shape)
	if isNew {
		axis = normalAxis(axis, len(shape)+1)
		shape = slices.Insert(shape, axis, len(list))
		return from(shape, list[0].isInt, func(idx []int) float64 {
			return list[idx[axis]].at(slices.Delete(slices.Clone(idx), axis, axis+1)...)
		})
	}
	axis = normalAxis(axis, len(shape))
	var of, at []int // by position on the axis, the tensor and the position in it
	for k, v := range list {
		for i := range v.shape[axis] {
			of, at = append(of, k), append(at, i)
		}
	}
	shape[axis] = len(of)
	return from(shape, list[0].isInt, func(idx []int) float64 {
		own := slices.Clone(idx)
		own[axis] = at[idx[axis]]
		return list[of[idx[axis]]].at(own...)
	})
}

// position is the position in a sequence that input i gives, or def.
func (e *evaluator) position(list []*tensor, i, def int) int {
	if e.has(i) {
		def = e.in(i).ints()[0]
	}
	if def < 0 {
		def += len(list)
	}
	return def
}

var sequenceEvaluators = map[string]func(e *evaluator) []*tensor{
	"SequenceEmpty": func(*evaluator) []*tensor { return []*tensor{{list: []*tensor{}}} },
	"SequenceConstruct": func(e *evaluator) []*tensor {
		out := &tensor{}
		for i := range e.node.Inputs {
			out.list = append(out.list, e.in(i))
		}
		return []*tensor{out}
	},
	"SequenceInsert": func(e *evaluator) []*tensor {
		l := e.in(0).list
		return []*tensor{{list: slices.Insert(slices.Clone(l), e.position(l, 2, len(l)), e.in(1))}}
	},
	"SequenceErase": func(e *evaluator) []*tensor {
		l := e.in(0).list
		k := e.position(l, 1, -1)
		return []*tensor{{list: slices.Delete(slices.Clone(l), k, k+1)}}
	},
	"SequenceAt": func(e *evaluator) []*tensor { return []*tensor{e.in(0).list[e.position(e.in(0).list, 1, 0)]} },
	"SequenceLength": func(e *evaluator) []*tensor {
		return []*tensor{{shape: []int{}, data: []float64{float64(len(e.in(0).list))}, isInt: true}}
	},
	"SplitToSequence": func(e *evaluator) []*tensor {
		v, out := e.in(0), &tensor{}
		axis := v.normalAxis(e.int("axis", 0))
		var sizes []int
		if e.has(1) {
			sizes = e.in(1).ints()
		}
		keep, size := e.has(1) || e.int("keepdims", 1) != 0, 1
		if e.has(1) && e.in(1).rank() == 0 {
			size, sizes = sizes[0], nil
		}
		for at := 0; at < v.shape[axis]; {
			n := min(size, v.shape[axis]-at)
			if sizes != nil {
				n, sizes = sizes[0], sizes[1:]
			}
			shape := slices.Clone(v.shape)
			shape[axis] = n
			part := from(shape, v.isInt, func(idx []int) float64 {
				own := slices.Clone(idx)
				own[axis] += at
				return v.at(own...)
			})
			if !keep {
				part = part.with(slices.Delete(shape, axis, axis+1)...)
			}
			out.list, at = append(out.list, part), at+n
		}
		return []*tensor{out}
	},
	"ConcatFromSequence": func(e *evaluator) []*tensor {
		return []*tensor{joined(e.in(0).list, e.int("axis", 0), e.int("new_axis", 0) != 0)}
	},
}

// body is the attribute of a Loop or Scan with a graph. Of its values c and d are truth values, and i to l integers, of
// rank 0.
func body(inputs, outputs []string, nodes ...*onnx.Node) *onnx.Attribute {
	g := &onnx.Graph{Name: "turn", Nodes: nodes}
	for _, list := range []struct {
		names []string
		to    *[]*onnx.ValueInfo
	}{{inputs, &g.Inputs}, {outputs, &g.Outputs}} {
		for _, name := range list.names {
			v := &onnx.ValueInfo{Name: name, Type: onnx.Double}
			switch name[0] {
			case 'c', 'd':
				v.Type, v.HasShape = onnx.Bool, true
			case 'i', 'j', 'k', 'l':
				v.Type, v.HasShape = onnx.Int64, true
			}
			*list.to = append(*list.to, v)
		}
	}
	for _, n := range nodes {
		n.Name += " of " + n.Outputs[0]
	}
	return &onnx.Attribute{Name: "body", Type: onnx.AttrGraph, G: g}
}

// loopCases are graphs with nodes Loop and Scan, and with sequences.
func loopCases() []operatorCase {
	var all []operatorCase
	add := func(name string, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: 17, dims: dims, build: build})
	}
	add("Loop of a stored number of turns", []int{3}, func(g *graph) string {
		x, u := g.input(), g.param(3, 3)
		return g.op("Loop", in(g.int(3), g.truth(true), x), body(in("i", "c", "s"), in("c", "t"),
			node("MatMul", in("s", u), in("m")), node("Add", in("m", x), in("a")), node("Tanh", in("a"), in("t"))))
	})
	add("Loop with weights and constants inside", []int{3}, func(g *graph) string {
		b := body(in("i", "c", "s"), in("d", "t"), node("Identity", in("c"), in("d")), node("MatMul", in("s", "w"), in("m")),
			node("Constant", nil, in("k"), tensorA("value", &onnx.Tensor{Type: onnx.Double, Dims: []int64{3}, Floats: []float64{.5, -1, .25}})),
			node("Add", in("m", "k"), in("a")), node("Tanh", in("a"), in("t")))
		b.G.Initializers = []*onnx.Tensor{{Name: "w", Type: onnx.Double, Dims: []int64{3, 3}, Floats: []float64{1, -.5, 0, .3, .2, -1, .7, .1, .4}}}
		return g.op("Loop", in(g.int(4), "", g.input()), b)
	})
	add("Loop with collected outputs and the turn's number", []int{3}, func(g *graph) string {
		w := g.spread(0, 1, 4, 3)
		many := g.many("Loop", 3, in(g.int(4), g.truth(true), g.input()), body(in("i", "c", "s"), in("c", "t", "e", "f"),
			node("Gather", in(w, "i"), in("r")), node("Mul", in("s", "r"), in("e")), node("Sin", in("e"), in("t")), node("Cos", in("t"), in("f"))))
		both := g.op("Add", in(many[1], many[2]))
		return g.op("Add", in(g.op("Transpose", in(both), intsA("perm", 1, 0, 2)), g.op("Unsqueeze", in(many[0], g.ints(1)))))
	})
	add("Loop inside a Loop, for a dimension", []int{2, 3}, func(g *graph) string {
		x := g.input()
		turns := g.op("Gather", in(g.op("Shape", in(x)), g.int(1)))
		inner := node("Loop", in(g.int(3), g.truth(true), "s"), in("t"), body(in("j", "d", "p"), in("d", "q"),
			node("Add", in("p", "j0"), in("a")), node("Tanh", in("a"), in("q"))))
		inner.Attributes[0].G.Nodes = append([]*onnx.Node{node("Constant", nil, in("j0"), tensorA("value", &onnx.Tensor{Type: onnx.Double, Floats: []float64{.25}}))}, inner.Attributes[0].G.Nodes...)
		return g.op("Loop", in(turns, g.truth(true), x), body(in("i", "c", "s"), in("c", "u"), inner, node("MatMul", in("t", g.param(3, 3)), in("u"))))
	})
	add("Loop until its condition fails", []int{3}, func(g *graph) string {
		one, four := g.int(1), g.int(4)
		many := g.many("Loop", 2, in("", g.truth(true), g.int(0), g.input()), body(in("i", "c", "k", "s"), in("d", "l", "t"),
			node("Add", in("k", one), in("l")), node("Less", in("l", four), in("d")), node("Sin", in("s"), in("t"))))
		return many[1]
	})
	add("Loop whose condition is stored outside", []int{3}, func(g *graph) string {
		return g.op("Loop", in(g.int(3), g.truth(true), g.input()), body(in("i", "c", "s"), in("d", "t"), node("Identity", in(g.truth(true)), in("d")), node("Sin", in("s"), in("t"))))
	})
	add("Loop that takes no turn", []int{3}, func(g *graph) string {
		return g.op("Tanh", in(g.op("Loop", in(g.int(5), g.truth(false), g.input()), body(in("i", "c", "s"), in("c", "t"), node("Sin", in("s"), in("t"))))))
	})
	add("If inside a Loop on the turn's number", []int{3}, func(g *graph) string {
		is := node("Equal", in("i", g.int(1)), in("is"))
		choice := node("If", in("is"), in("t"), branch("then_branch", node("Exp", in("s"), nil), "t1"), branch("else_branch", node("Sin", in("s"), nil), "t2"))
		return g.op("Loop", in(g.int(3), "", g.input()), body(in("i", "c", "s"), in("c", "t"), is, choice))
	})
	add("Loop that fills a sequence", []int{3}, func(g *graph) string {
		none := g.op("SequenceEmpty", nil)
		many := g.many("Loop", 2, in(g.int(3), g.truth(true), g.input(), none), body(in("i", "c", "s", "l"), in("c", "t", "m"),
			node("Sin", in("s"), in("t")), node("SequenceInsert", in("l", "t"), in("m"))))
		return g.op("ConcatFromSequence", in(many[1]), intA("axis", 1), intA("new_axis", 1))
	})
	add("Scan over time", []int{4, 3}, func(g *graph) string {
		x := g.input()
		h := g.op("ReduceSum", in(x, g.ints(1)), intA("keepdims", 0))
		return g.op("Scan", in(h, x), body(in("s", "e"), in("t"),
			node("MatMul", in("s", g.param(3, 3)), in("a")), node("MatMul", in("e", g.param(3, 3)), in("b")), node("Add", in("a", "b"), in("c")), node("Tanh", in("c"), in("t"))),
			intA("num_scan_inputs", 1), intsA("scan_input_axes", 1))
	})
	add("Scan of two inputs, one backwards, with outputs on other axes", []int{4, 3}, func(g *graph) string {
		x := g.input()
		y := g.op("Transpose", in(g.op("Sin", in(x))), intsA("perm", 1, 0, 2))
		many := g.many("Scan", 3, in(g.op("ReduceMax", in(x), intsA("axes", 1), intA("keepdims", 0)), x, y), body(in("s", "e", "f"), in("t", "p", "q"),
			node("Mul", in("s", "e"), in("a")), node("Add", in("a", "f"), in("t")), node("Cos", in("t"), in("p")), node("Neg", in("e"), in("q"))),
			intA("num_scan_inputs", 2), intsA("scan_input_axes", -2, 0), intsA("scan_input_directions", 1, 0), intsA("scan_output_axes", 1, -1), intsA("scan_output_directions", 1, 0))
		return g.op("Concat", in(g.op("Flatten", in(many[1])), g.op("Flatten", in(many[2])), many[0]), intA("axis", 1))
	})
	add("Sequences", []int{7}, func(g *graph) string {
		x := g.input()
		parts := g.op("SplitToSequence", in(x, g.int(3)), intA("axis", 1)) // 3, 3, 1
		first, last := g.op("SequenceAt", in(parts, g.int(0))), g.op("SequenceAt", in(parts, g.int(-1)))
		l := g.op("SequenceInsert", in(g.op("SequenceConstruct", in(first, last)), g.op("Sin", in(first)), g.int(0)))
		l = g.op("SequenceErase", in(l, g.int(1)))
		l = g.op("SequenceInsert", in(g.op("SequenceErase", in(g.op("SequenceInsert", in(l, x)))), last))
		n := g.op("Cast", in(g.op("SequenceLength", in(l))), intA("to", int64(onnx.Double)))
		return g.op("Mul", in(g.op("ConcatFromSequence", in(l), intA("axis", -1)), n))
	})
	add("Splits to sequences", []int{2, 5}, func(g *graph) string {
		x := g.input()
		sizes := g.op("SplitToSequence", in(x, g.ints(1, 4)), intA("axis", 2))
		single := g.op("SplitToSequence", in(x), intA("axis", 1), intA("keepdims", 0))
		kept := g.op("SplitToSequence", in(x), intA("axis", -1))
		a := g.op("Mul", in(g.op("SequenceAt", in(sizes, g.int(1))), g.op("SequenceAt", in(sizes, g.int(0)))))
		b := g.op("Mul", in(g.op("SequenceAt", in(single, g.int(1))), g.op("SequenceAt", in(single, g.int(0)))))
		c := g.op("ConcatFromSequence", in(g.op("SequenceErase", in(kept))), intA("axis", 2))
		return g.op("Concat", in(g.op("Flatten", in(a)), b, g.op("Flatten", in(c))), intA("axis", 1))
	})
	return all
}

// TestLoopsRefused checks loops whose turns are not known, and those that are too many.
func TestLoopsRefused(t *testing.T) {
	turn := func() *onnx.Attribute {
		return body(in("i", "c", "s"), in("c", "t"), node("Sin", in("s"), in("t")))
	}
	for want, build := range map[string]func(g *graph) string{
		"its number of turns depends on the batch size": func(g *graph) string {
			return g.op("Loop", in(g.op("Gather", in(g.op("Shape", in("x")), g.int(0))), "", g.input()), turn())
		},
		"its number of turns depends on the input, so that each example would take its own; export it with as many turns for all": func(g *graph) string {
			n := g.op("Cast", in(g.op("ReduceSum", in(g.input(), g.ints(1)), intA("keepdims", 0))), intA("to", int64(onnx.Int64)))
			return g.op("Loop", in(n, "", g.input()), turn())
		},
		"its condition depends on the input": func(g *graph) string {
			x := g.input()
			first := g.op("Gather", in(x, g.int(0)), intA("axis", 1))
			return g.op("Loop", in(g.int(3), g.op("Greater", in(first, g.scalar(0))), x), turn())
		},
		"its condition never ends it":        func(g *graph) string { return g.op("Loop", in("", g.truth(true), g.input()), turn()) },
		"have more than 100000 nodes":        func(g *graph) string { return g.op("Loop", in(g.int(1<<29), "", g.input()), turn()) },
		"its body of 3 inputs and 2 outputs": func(g *graph) string { return g.op("Loop", in(g.int(2), ""), turn()) },
		"it has no body":                     func(g *graph) string { return g.op("Loop", in(g.int(2), "", g.input())) },
		"it goes along the batch dimension": func(g *graph) string {
			return g.op("Scan", in(g.param(2), g.input()), body(in("s", "e"), in("e"), node("Sin", in("e"), in("t"))), intA("num_scan_inputs", 1))
		},
		"a sequence without tensors": func(g *graph) string {
			return g.op("ConcatFromSequence", in(g.op("SequenceEmpty", nil)), intA("axis", 0))
		},
		"position 2 of a sequence of 1 tensors": func(g *graph) string {
			return g.op("SequenceAt", in(g.op("SequenceConstruct", in(g.input())), g.int(2)))
		},
		"(\"y2\") is a sequence of tensors":          func(g *graph) string { return g.op("Sin", in(g.op("SequenceConstruct", in("x")))) },
		"(\"x\") is no sequence":                     func(g *graph) string { return g.op("SequenceAt", in("x", g.int(0))) },
		"is a sequence of tensors; take one of them": func(g *graph) string { return g.op("SequenceConstruct", in(g.input())) },
		"more than 256 nodes If or turns of a loop": func(g *graph) string {
			one, most := g.int(1), g.int(1<<20)
			return g.many("Loop", 2, in("", g.truth(true), g.int(0), g.input()), body(in("i", "c", "k", "s"), in("d", "l", "t"),
				node("Add", in("k", one), in("l")), node("Less", in("l", most), in("d")), node("Sin", in("s"), in("t"))))[1]
		},
	} {
		t.Run(want, func(t *testing.T) {
			_, err := load(newGraph(17, 3).with(build))
			require.ErrorContains(t, err, want)
			requireOneLine(t, err)
		})
	}
	g := newGraph(9, 3)
	_, err := load(g.output(g.op("Loop", in(g.int(2), "", g.input()), turn())))
	require.ErrorContains(t, err, fmt.Sprintf("loops are read of opset %d and later", 11))
}

// with builds the output of a graph.
func (g *graph) with(build func(g *graph) string) *onnx.Model { return g.output(build(g)) }
