package network_test

import (
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

var indexEvaluators = map[string]func(e *evaluator) []*tensor{
	"GatherElements":  evalGatherElements,
	"GatherND":        evalGatherND,
	"Scatter":         evalScatterElements,
	"ScatterElements": evalScatterElements,
	"ScatterND":       evalScatterND,
}

func evalGatherElements(e *evaluator) []*tensor {
	x, at := e.in(0), e.in(1)
	ax := x.normalAxis(e.int("axis", 0))
	check(x.rank() == at.rank(), "rank")
	return one(from(at.shape, x.isInt, func(idx []int) float64 {
		p := slices.Clone(idx)
		p[ax] = normalAxis(toInts([]float64{at.at(idx...)})[0], x.shape[ax])
		return x.at(p...)
	}))
}

// tuple reads the indices that follow a multi-index of all but the last axis.
func tuple(at *tensor, idx, shape []int) []int {
	var p []int
	for j := range at.shape[at.rank()-1] {
		i := toInts([]float64{at.at(append(slices.Clone(idx), j)...)})[0]
		p = append(p, normalAxis(i, shape[j]))
	}
	return p
}

func evalGatherND(e *evaluator) []*tensor {
	x, at, skip := e.in(0), e.in(1), e.int("batch_dims", 0)
	check(at.rank() > skip && skip >= 0 && x.rank() > skip, "batch_dims")
	last := at.shape[at.rank()-1]
	check(last >= 1 && skip+last <= x.rank(), "indices")
	lead := at.shape[:at.rank()-1]
	check(slices.Equal(lead[:skip], x.shape[:skip]), "batch_dims")
	return one(from(slices.Concat(lead, x.shape[skip+last:]), x.isInt, func(idx []int) float64 {
		p := tuple(at, idx[:len(lead)], x.shape[skip:])
		return x.at(slices.Concat(idx[:skip], p, idx[len(lead):])...)
	}))
}

// reduce combines what is written to an element with what is there.
func (e *evaluator) reduce(out *tensor, written map[int]bool, v float64, idx []int) {
	switch place := out.place(idx); e.text("reduction", "none") {
	case "none":
		check(!written[place], "written twice")
		written[place], out.data[place] = true, v
	case "add":
		out.data[place] += v
	default:
		check(false, "reduction")
	}
}

func evalScatterElements(e *evaluator) []*tensor {
	x, at, from := e.in(0), e.in(1), e.in(2)
	ax := x.normalAxis(e.int("axis", 0))
	check(slices.Equal(at.shape, from.shape) && x.rank() == at.rank(), "shapes")
	out := &tensor{shape: x.shape, data: slices.Clone(x.data), isInt: x.isInt && from.isInt}
	written := map[int]bool{}
	each(at.shape, func(idx []int) {
		p := slices.Clone(idx)
		p[ax] = normalAxis(toInts([]float64{at.at(idx...)})[0], x.shape[ax])
		e.reduce(out, written, from.at(idx...), p)
	})
	return one(out)
}

func evalScatterND(e *evaluator) []*tensor {
	x, at, from := e.in(0), e.in(1), e.in(2)
	check(at.rank() > 0, "rank")
	last := at.shape[at.rank()-1]
	check(last >= 1 && last <= x.rank(), "indices")
	lead := at.shape[:at.rank()-1]
	check(slices.Equal(from.shape, slices.Concat(lead, x.shape[last:])), "shapes")
	out := &tensor{shape: x.shape, data: slices.Clone(x.data), isInt: x.isInt && from.isInt}
	written := map[int]bool{}
	each(from.shape, func(idx []int) {
		p := append(tuple(at, idx[:len(lead)], x.shape), idx[len(lead):]...)
		e.reduce(out, written, from.at(idx...), p)
	})
	return one(out)
}

// table adds integers of a shape.
func (g *graph) table(shape []int, v ...int64) string {
	return g.initializer(&onnx.Tensor{Name: g.name("i"), Type: onnx.Int64, Ints: v}, shape)
}

// forExamples repeats an integer tensor, whose first dimension is one, for every
// example.
func (g *graph) forExamples(name string, dims ...int64) string {
	return g.op("Expand", in(name, g.batchAnd(dims...)))
}

// rows is N×1×1 numbers of the examples, repeated along two further dimensions.
func (g *graph) rows(dims ...int64) string {
	n := g.op("Squeeze", in(g.batchVector(), g.ints(0)))
	rows := g.op("Range", in(g.int(0), n, g.int(1)))
	return g.op("Expand", in(g.op("Reshape", in(rows, g.ints(-1, 1, 1))), g.batchAnd(dims...)))
}

func indexCases() []operatorCase {
	var all []operatorCase
	add := func(name string, opset int64, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: opset, dims: dims, build: build})
	}
	m := []int{3, 4}
	add("Gather-for-every-example", 13, m, func(g *graph) string {
		ids := g.forExamples(g.op("Unsqueeze", in(g.arange(3), g.ints(0))), 3)
		return g.op("Add", in(g.input(), g.op("Gather", in(g.param(5, 4), ids))))
	})
	add("Gather-repeated-rows-of-a-table", 13, []int{2, 2}, func(g *graph) string {
		bias := g.op("Gather", in(g.param(3, 2), g.ints(0, 1, 1, 2, 0, 0, 2, 1)))
		bias = g.op("Transpose", in(g.op("Reshape", in(bias, g.ints(2, 4, 2)))), intsA("perm", 2, 0, 1))
		return g.op("MatMul", in(g.input(), g.op("Reshape", in(bias, g.ints(2, 8)))))
	})

	add("GatherElements-repeated", 11, m, func(g *graph) string {
		at := g.forExamples(g.table([]int{1, 2, 4}, 2, 0, 0, -1, 1, 1, 2, 0), 2, 4)
		return g.op("GatherElements", in(g.input(), at), intA("axis", 1))
	})
	add("GatherElements-last-axis", 13, m, func(g *graph) string {
		at := g.forExamples(g.table([]int{1, 3, 2}, 3, 3, 0, 1, -1, -4), 3, 2)
		return g.op("GatherElements", in(g.op("Tanh", in(g.input())), at), intA("axis", -1))
	})
	add("GatherElements-of-parameters", 13, m, func(g *graph) string {
		w := g.op("GatherElements", in(g.param(2, 4), g.table([]int{3, 4}, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1)))
		return g.op("Mul", in(g.input(), w))
	})
	add("GatherElements-of-a-table-for-every-example", 13, m, func(g *graph) string {
		at := g.forExamples(g.table([]int{1, 3, 4}, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1), 3, 4)
		return g.op("Mul", in(g.input(), g.op("GatherElements", in(g.op("Expand", in(g.param(1, 3, 4), g.batchAnd(3, 4))), at), intA("axis", 1))))
	})

	moved := func(g *graph) string { return g.op("Transpose", in(g.input()), intsA("perm", 1, 2, 0)) } // 3×4×N
	add("GatherND-inside", 13, m, func(g *graph) string {
		y := g.op("GatherND", in(moved(g), g.table([]int{5, 2}, 0, 0, 2, 3, -1, -1, 1, 2, 0, 0)))
		return g.op("Transpose", in(y), intsA("perm", 1, 0))
	})
	add("GatherND-rows", 13, m, func(g *graph) string {
		y := g.op("GatherND", in(moved(g), g.table([]int{2, 2, 1}, 0, 2, 2, 1)))
		return g.op("Transpose", in(y), intsA("perm", 3, 0, 1, 2))
	})
	add("GatherND-batch-dims", 12, m, func(g *graph) string {
		at := g.forExamples(g.table([]int{1, 2, 2}, 0, 3, 2, 2), 2, 2)
		return g.op("GatherND", in(g.input(), at), intA("batch_dims", 1))
	})
	add("GatherND-numbered-examples", 13, m, func(g *graph) string {
		at := g.op("Concat", in(g.rows(2, 1), g.forExamples(g.table([]int{1, 2, 1}, 2, -3), 2, 1)), intA("axis", 2))
		return g.op("GatherND", in(g.input(), at))
	})
	add("GatherND-of-parameters", 13, m, func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("GatherND", in(g.param(2, 4), g.table([]int{3, 1}, 1, 0, 1)))))
	})

	for _, kind := range []string{"Scatter", "ScatterElements"} {
		opset := map[string]int64{"Scatter": 9, "ScatterElements": 13}[kind]
		add(kind+"-into-zeros", opset, []int{4}, func(g *graph) string {
			zeros := g.op("ConstantOfShape", in(g.batchAnd(6)), tensorA("value", &onnx.Tensor{Dims: []int64{1}, Type: onnx.Double, Floats: []float64{0}}))
			return g.op(kind, in(zeros, g.forExamples(g.table([]int{1, 4}, 5, 0, 3, -2), 4), g.input()), intA("axis", 1))
		})
		add(kind+"-into-itself", opset, m, func(g *graph) string {
			x := g.input()
			part := g.op("Tanh", in(x))
			if opset < 10 {
				part = g.op("Slice", in(part), intsA("starts", 0), intsA("ends", 2), intsA("axes", 1))
			} else {
				part = g.op("Slice", in(part, g.ints(0), g.ints(2), g.ints(1)))
			}
			return g.op(kind, in(x, g.forExamples(g.table([]int{1, 2, 4}, 2, 0, 0, -1, 1, 1, 2, 0), 2, 4), part), intA("axis", 1))
		})
	}
	add("ScatterElements-of-parameters", 13, m, func(g *graph) string {
		w := g.op("ScatterElements", in(g.param(3, 4), g.table([]int{1, 4}, 1, 2, 0, 1), g.param(1, 4)))
		return g.op("Mul", in(g.input(), w))
	})
	add("ScatterElements-sums", 16, []int{4}, func(g *graph) string {
		start := g.op("Expand", in(g.param(1, 2), g.batchAnd(2)))
		at := g.forExamples(g.table([]int{1, 4}, 1, 0, 1, 1), 4)
		return g.op("ScatterElements", in(start, at, g.input()), intA("axis", 1), textA("reduction", "add"))
	})

	add("ScatterND-slice-of-each-example", 11, m, func(g *graph) string {
		// What PyTorch makes of y[:, 1:3] = tanh(y[:, :2]).
		y := g.input()
		cols := g.op("Expand", in(g.table([]int{1, 2, 1}, 1, 2), g.batchAnd(2, 1)))
		at := g.op("Concat", in(g.rows(2, 1), cols), intA("axis", -1))
		return g.op("ScatterND", in(y, at, g.op("Tanh", in(g.op("Slice", in(y, g.ints(0), g.ints(2), g.ints(1)))))))
	})
	add("ScatterND-elements-of-each-example", 13, []int{3}, func(g *graph) string {
		zeros := g.op("ConstantOfShape", in(g.batchAnd(2, 3)), tensorA("value", &onnx.Tensor{Dims: []int64{1}, Type: onnx.Double, Floats: []float64{0.5}}))
		places := g.op("Expand", in(g.table([]int{1, 3, 2}, 0, 1, 0, 2, 1, 2), g.batchAnd(3, 2)))
		at := g.op("Concat", in(g.rows(3, 1), places), intA("axis", -1))
		return g.op("ScatterND", in(zeros, at, g.input()))
	})
	add("ScatterND-before-the-batch", 13, m, func(g *graph) string {
		y := moved(g)
		part := g.op("Gather", in(g.op("Tanh", in(y)), g.ints(2)), intA("axis", 0))
		y = g.op("ScatterND", in(y, g.table([]int{1, 1}, 0), part))
		return g.op("Transpose", in(y), intsA("perm", 2, 0, 1))
	})
	add("ScatterND-of-parameters", 13, m, func(g *graph) string {
		w := g.op("ScatterND", in(g.param(3, 4), g.table([]int{2, 2}, 0, 1, -1, -1), g.param(2)))
		return g.op("Mul", in(g.input(), w))
	})
	add("ScatterND-sums", 16, m, func(g *graph) string {
		w := g.op("ScatterND", in(g.param(3, 4), g.table([]int{3, 1}, 0, 2, 0), g.param(3, 4)), textA("reduction", "add"))
		return g.op("Mul", in(g.input(), w))
	})
	add("ScatterND-of-integers", 13, []int{6}, func(g *graph) string {
		shape := g.op("ScatterND", in(g.ints(7, 7, 3), g.table([]int{2, 1}, 0, 1), g.op("Concat", in(g.batchVector(), g.ints(2)), intA("axis", 0))))
		return g.op("Reshape", in(g.input(), shape))
	})
	fixed := func(name string, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name + "-of-a-fixed-batch", opset: 13, dims: dims, batch: 3, build: build})
	}
	thrice := func(v ...int64) []int64 { return slices.Repeat(v, 3) }
	fixed("Gather", m, func(g *graph) string {
		return g.op("Add", in(g.input(), g.op("Gather", in(g.param(5, 4), g.table([]int{3, 3}, thrice(4, 0, 1)...)))))
	})
	fixed("GatherElements", []int{4}, func(g *graph) string {
		return g.op("GatherElements", in(g.input(), g.table([]int{3, 2}, thrice(3, 1)...)), intA("axis", 1))
	})
	fixed("ScatterElements", []int{2}, func(g *graph) string {
		zeros := g.op("ConstantOfShape", in(g.ints(3, 4)))
		return g.op("ScatterElements", in(zeros, g.table([]int{3, 2}, thrice(3, 1)...), g.input()), intA("axis", 1))
	})
	fixed("ScatterND", []int{2}, func(g *graph) string {
		// What PyTorch makes of z[:, [3, 1]] = y.
		rows := g.op("Expand", in(g.op("Reshape", in(g.arange(3), g.ints(-1, 1, 1))), g.ints(3, 2, 1)))
		at := g.op("Concat", in(rows, g.op("Expand", in(g.table([]int{2, 1}, 3, 1), g.ints(3, 2, 1)))), intA("axis", 2))
		return g.op("ScatterND", in(g.op("ConstantOfShape", in(g.ints(3, 4))), at, g.input()))
	})
	fixed("Where", m, func(g *graph) string {
		seen := g.bools([]int{3, 3, 1}, thrice(1, 0, 1)...)
		return g.op("Where", in(seen, g.input(), g.constant([]int{3, 1, 1}, 2, 2, 2)))
	})
	fixed("Concat", m, func(g *graph) string {
		return g.op("Concat", in(g.constant([]int{3, 1, 4}, slices.Repeat([]float64{1, 0, 3, -1}, 3)...), g.input()), intA("axis", 1))
	})
	fixed("Mul-Tile", m, func(g *graph) string {
		at := g.op("Tile", in(g.op("Unsqueeze", in(g.arange(4), g.ints(0))), g.ints(3, 1)))
		near := g.op("Less", in(g.op("Unsqueeze", in(at, g.ints(1))), g.op("Unsqueeze", in(g.ints(1, 2, 4), g.ints(0, 2)))))
		return g.op("Mul", in(g.input(), g.cast(near, onnx.Double)))
	})
	return all
}
