package network_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
)

// tokenShapeEvaluators are those of operators by which transformers compute shapes,
// positions and masks.
var tokenShapeEvaluators = map[string]func(e *evaluator) []*tensor{
	"Tile":   evalTile,
	"CumSum": evalCumSum,
	"Size": func(e *evaluator) []*tensor {
		return one(&tensor{shape: []int{}, data: []float64{float64(len(e.in(0).data))}, isInt: true})
	},
	"EyeLike": evalEyeLike,
	"OneHot":  evalOneHot,
	"NonZero": evalNonZero,
}

func evalTile(e *evaluator) []*tensor {
	x, times := e.in(0), e.in(1).ints()
	check(len(times) == x.rank(), "repeats")
	shape := slices.Clone(x.shape)
	for d := range shape {
		check(times[d] >= 0 && times[d] <= evaluateLimit, "repeats")
		shape[d] *= times[d]
	}
	return one(from(shape, x.isInt, func(idx []int) float64 {
		at := slices.Clone(idx)
		for d := range at {
			at[d] %= x.shape[d]
		}
		return x.at(at...)
	}))
}

func evalCumSum(e *evaluator) []*tensor {
	x := e.in(0)
	check(len(e.in(1).data) == 1, "axis")
	ax := x.normalAxis(e.in(1).ints()[0])
	exclusive, reverse := e.int("exclusive", 0) != 0, e.int("reverse", 0) != 0
	return one(from(x.shape, x.isInt, func(idx []int) float64 {
		sum := 0.0
		for j := range x.shape[ax] {
			at := slices.Clone(idx)
			at[ax] = j
			before := j < idx[ax]
			if reverse {
				before = j > idx[ax]
			}
			if before || j == idx[ax] && !exclusive {
				sum += x.at(at...)
			}
		}
		return sum
	}))
}

func evalEyeLike(e *evaluator) []*tensor {
	x := e.in(0)
	check(x.rank() == 2, "rank")
	isInt := x.isInt
	if a := e.node.Attr("dtype"); a != nil {
		isInt = onnx.DataType(a.I).IsInt()
	}
	return one(from(x.shape, isInt, func(idx []int) float64 { return truth(idx[1]-idx[0] == e.int("k", 0)) }))
}

func evalOneHot(e *evaluator) []*tensor {
	x, values := e.in(0), e.in(2)
	check(len(e.in(1).data) == 1 && len(values.data) == 2, "depth and values")
	depth := int(limit(e.in(1).data[0], 0, evaluateLimit))
	ax := normalAxis(e.int("axis", -1), x.rank()+1)
	return one(from(slices.Insert(slices.Clone(x.shape), ax, depth), values.isInt, func(idx []int) float64 {
		at := math.Trunc(x.at(slices.Delete(slices.Clone(idx), ax, ax+1)...))
		if at < 0 {
			at += float64(depth)
		}
		return values.data[int(truth(at == float64(idx[ax])))]
	}))
}

func evalNonZero(e *evaluator) []*tensor {
	x := e.in(0)
	var places [][]int
	each(x.shape, func(idx []int) {
		if x.at(idx...) != 0 {
			places = append(places, slices.Clone(idx))
		}
	})
	return one(from([]int{x.rank(), len(places)}, true, func(idx []int) float64 { return float64(places[idx[1]][idx[0]]) }))
}

func tokenShapeCases() []operatorCase {
	var all []operatorCase
	add := func(name string, opset int64, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: opset, dims: dims, build: build})
	}
	m := []int{2, 3}
	fill := func(kind onnx.DataType, v float64) *onnx.Attribute {
		t := &onnx.Tensor{Dims: []int64{1}, Type: kind}
		if kind.IsInt() {
			t.Ints = []int64{int64(v)}
		} else {
			t.Floats = []float64{v}
		}
		return tensorA("value", t)
	}

	add("Tile-features", 13, m, func(g *graph) string { return g.op("Tile", in(g.input(), g.ints(1, 2, 3))) })
	add("Tile-nothing", 13, m, func(g *graph) string { return g.op("Tile", in(g.input(), g.ints(1, 1, 1))) })
	add("Tile-class-token", 13, m, func(g *graph) string {
		token := g.op("Tile", in(g.param(1, 1, 3), g.batchAnd(1, 1)))
		return g.op("Concat", in(token, g.input()), intA("axis", 1))
	})
	add("Tile-rows-for-every-example", 13, m, func(g *graph) string {
		rows := g.op("Tile", in(g.param(2, 3), g.op("Concat", in(g.batchVector(), g.ints(1)), intA("axis", 0)))) // 2N×3
		return g.op("Add", in(g.input(), g.op("Reshape", in(rows, g.ints(-1, 2, 3)))))
	})
	add("Tile-before-the-batch", 13, m, func(g *graph) string {
		y := g.op("Tile", in(g.op("Transpose", in(g.input()), intsA("perm", 1, 2, 0)), g.ints(2, 1, 1)))
		return g.op("Transpose", in(y), intsA("perm", 2, 0, 1))
	})
	all = append(all, operatorCase{name: "Tile-class-token-of-a-fixed-batch", opset: 13, dims: m, batch: 3, build: func(g *graph) string {
		return g.op("Concat", in(g.op("Tile", in(g.param(1, 1, 3), g.ints(3, 1, 1))), g.input()), intA("axis", 1))
	}})

	for name, attrs := range map[string][]*onnx.Attribute{"plain": nil, "exclusive": {intA("exclusive", 1)}, "reverse": {intA("reverse", 1)}, "both": {intA("exclusive", 1), intA("reverse", 1)}} {
		add("CumSum-"+name, 14, m, func(g *graph) string { return g.op("CumSum", in(g.input(), g.int(1)), attrs...) })
		add("CumSum-last-"+name, 11, m, func(g *graph) string { return g.op("CumSum", in(g.input(), g.int(-1)), attrs...) })
		add("CumSum-of-integers-"+name, 14, m, func(g *graph) string {
			i := g.op("CumSum", in(g.table([]int{2, 3}, 1, 0, 1, 1, 1, -2), g.int(1)), attrs...)
			return g.op("Mul", in(g.input(), g.cast(i, onnx.Double)))
		})
	}
	add("CumSum-of-parameters", 14, []int{3}, func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("CumSum", in(g.param(3), g.int(0)))))
	})
	add("CumSum-positions", 14, m, func(g *graph) string {
		// Positions of the tokens that a mask of ones sees, as OPT and RoBERTa count them.
		seen := g.op("ConstantOfShape", in(g.batchAnd(2)), fill(onnx.Int64, 1))
		at := g.op("Sub", in(g.op("Mul", in(g.op("CumSum", in(seen, g.int(1))), seen)), g.int(1)))
		return g.op("Add", in(g.input(), g.op("Gather", in(g.param(4, 3), at))))
	})

	add("Size-of-an-example", 13, m, func(g *graph) string {
		all, n := g.op("Size", in("x")), g.op("Squeeze", in(g.batchVector(), g.ints(0)))
		each := g.op("Div", in(all, n))
		x := g.op("Reshape", in(g.input(), g.op("Concat", in(g.ints(-1), g.op("Unsqueeze", in(each, g.ints(0)))), intA("axis", 0))))
		return g.op("Div", in(x, g.cast(g.op("Size", in(g.param(6))), onnx.Double)))
	})
	product := func(kind string) func(g *graph) string {
		return func(g *graph) string { // the number of elements of an example
			d := g.op(kind, in(g.op("Slice", in(g.op("Shape", in("x")), g.ints(1), g.ints(3)))), intA("keepdims", 1))
			return g.op("Reshape", in(g.op("Tile", in(g.input(), g.ints(1, 3, 2))), g.op("Concat", in(g.ints(-1), d), intA("axis", 0))))
		}
	}
	for _, kind := range []string{"ReduceProd", "ReduceMin", "ReduceMax"} {
		add(kind+"-of-a-shape", 13, m, product(kind))
	}
	add("ReduceProd-with-the-batch", 13, m, func(g *graph) string {
		n := g.op("ReduceProd", in(g.op("Slice", in(g.op("Shape", in("x")), g.ints(0), g.ints(2)))), intA("keepdims", 1))
		return g.op("Reshape", in(g.op("Reshape", in(g.op("Tanh", in(g.input())), g.op("Concat", in(n, g.ints(3)), intA("axis", 0)))), g.ints(-1, 6)))
	})
	add("ReduceSum-of-a-mask", 13, m, func(g *graph) string {
		seen := g.table([]int{2, 3}, 1, 1, 0, 1, 0, 0)
		count := g.op("ReduceSum", in(seen, g.ints(1)), intA("keepdims", 1))
		y := g.op("Mul", in(g.input(), g.cast(seen, onnx.Double)))
		return g.op("Div", in(y, g.cast(count, onnx.Double)))
	})
	add("Abs-Neg-Sign-Min-Max-Clip-of-integers", 13, []int{4}, func(g *graph) string {
		i := g.arange(4)
		d := g.op("Sub", in(g.op("Unsqueeze", in(i, g.ints(1))), g.op("Unsqueeze", in(i, g.ints(0)))))
		far := g.op("Min", in(g.op("Abs", in(d)), g.int(2), g.op("Max", in(g.op("Neg", in(d)), g.int(1)))))
		far = g.op("Sum", in(far, g.op("Clip", in(g.op("Sign", in(d)), g.int(0), g.int(1)))))
		bias := g.op("Gather", in(g.param(5), far)) // 4×4
		return g.op("MatMul", in(g.input(), bias))
	})

	add("EyeLike-product", 13, []int{3}, func(g *graph) string {
		eye := g.op("EyeLike", in(g.param(3, 4)), intA("k", 1))
		return g.op("MatMul", in(g.input(), eye))
	})
	add("EyeLike-integers", 9, []int{3}, func(g *graph) string {
		square := g.op("ConstantOfShape", in(g.ints(3, 3)), fill(onnx.Int64, 5))
		eye := g.op("EyeLike", in(square), intA("k", -1))
		eye = g.op("Add", in(eye, g.op("EyeLike", in(square), intA("dtype", int64(onnx.Int64)))))
		return g.op("MatMul", in(g.input(), g.cast(eye, onnx.Double)))
	})
	add("OneHot-of-positions", 11, m, func(g *graph) string {
		hot := g.op("OneHot", in(g.ints(2, -3, 5), g.int(3), g.of([]float64{0.5, 2}, 2)))
		return g.op("Mul", in(g.op("MatMul", in(g.input(), hot)), g.op("MatMul", in("x", hot))))
	})
	add("OneHot-of-integers-for-every-example", 13, m, func(g *graph) string {
		ids := g.forExamples(g.table([]int{1, 3}, 1, 0, 1), 3)
		hot := g.op("OneHot", in(ids, g.ints(2), g.ints(0, 1)), intA("axis", 1)) // N×2×3
		return g.op("Mul", in(g.input(), g.cast(hot, onnx.Double)))
	})
	add("NonZero-picks", 13, []int{5}, func(g *graph) string {
		at := g.op("NonZero", in(g.bools([]int{5}, 1, 0, 0, 1, 1)))
		y := g.op("Transpose", in(g.input()), intsA("perm", 1, 0))
		y = g.op("GatherND", in(y, g.op("Transpose", in(at), intsA("perm", 1, 0))))
		return g.op("Transpose", in(y), intsA("perm", 1, 0))
	})
	add("NonZero-of-numbers", 13, []int{3}, func(g *graph) string {
		at := g.op("NonZero", in(g.op("Sub", in(g.of([]float64{1, 2, 3, 1, 2, 1}, 3, 2), g.scalar(1)))))
		cols := g.op("Squeeze", in(g.op("Slice", in(at, g.ints(0), g.ints(1), g.ints(0))), g.ints(0)))
		return g.op("Gather", in(g.input(), cols), intA("axis", 1))
	})
	add("Concat-of-integer-matrices", 13, []int{3}, func(g *graph) string {
		grid := g.op("Concat", in(g.table([]int{2, 1}, 2, 0), g.table([]int{2, 2}, 1, 1, 0, 2)), intA("axis", 1))
		return g.op("Gather", in(g.input(), grid), intA("axis", 1))
	})
	add("Mod-of-positions-of-every-example", 13, m, func(g *graph) string {
		ids := g.op("Mod", in(g.op("Add", in(g.forExamples(g.table([]int{1, 2}, 3, 4), 2), g.int(1))), g.int(4)))
		return g.op("Add", in(g.input(), g.op("Gather", in(g.param(4, 3), ids))))
	})
	add("GatherElements-by-column-for-every-example", 13, []int{3}, func(g *graph) string {
		at := g.forExamples(g.table([]int{1, 3}, 2, 4, 0), 3)
		return g.op("Mul", in(g.input(), g.op("GatherElements", in(g.param(5, 3), at), intA("axis", 0))))
	})
	add("Where-of-numbered-examples", 13, m, func(g *graph) string {
		// An index from the end, as PyTorch writes y[:, -1] = 0.
		rows := g.rows(3, 1)
		n := g.op("Squeeze", in(g.batchVector(), g.ints(0)))
		rows = g.op("Where", in(g.op("Less", in(rows, g.int(0))), g.op("Add", in(rows, n)), rows))
		at := g.op("Concat", in(rows, g.forExamples(g.table([]int{1, 3, 2}, -1, 0, -1, 1, -1, 2), 3, 2)), intA("axis", 2))
		zeros := g.op("ConstantOfShape", in(g.batchAnd(3)), fill(onnx.Double, 0))
		return g.op("ScatterND", in(g.input(), at, zeros))
	})
	return all
}

// TestIndicesThatMixAreRefused checks that indices, masks and repeats of other examples,
// or of as many as there are, are errors.
func TestIndicesThatMixAreRefused(t *testing.T) {
	m := []int{2, 3}
	for _, c := range []struct {
		name, want string
		dims       []int
		build      func(g *graph) string
	}{
		{"repeated batch", mixes, m, func(g *graph) string { return g.op("Tile", in(g.input(), g.ints(2, 1, 1))) }},
		{"repeats that square the batch", mixes, m, func(g *graph) string { return g.op("Tile", in(g.input(), g.batchAnd(1, 1))) }},
		{"sums along the batch", mixes, m, func(g *graph) string { return g.op("CumSum", in(g.input(), g.int(0))) }},
		{"sums of numbered examples", mixes, []int{3}, func(g *graph) string {
			sum := g.op("ReduceSum", in(g.rows(1, 3)), intA("keepdims", 0))
			return g.op("Mul", in(g.input(), g.cast(sum, onnx.Double)))
		}},
		{"numbered examples as numbers", "batch size", []int{3}, func(g *graph) string {
			return g.op("Mul", in(g.input(), g.cast(g.op("Reshape", in(g.rows(1, 3), g.ints(-1, 3))), onnx.Double)))
		}},
		{"numbered examples as a shape", "integers", []int{3}, func(g *graph) string {
			return g.op("Reshape", in(g.input(), g.op("Reshape", in(g.rows(1, 1), g.ints(-1)))))
		}},
		{"comparison of numbered examples", mixes, []int{3}, func(g *graph) string {
			return g.op("Where", in(g.op("Equal", in(g.op("Reshape", in(g.rows(1, 1), g.ints(-1, 1))), g.int(0))), g.input(), "x"))
		}},
		{"comparison of the batch size", mixes, []int{3}, func(g *graph) string {
			return g.op("Where", in(g.op("Greater", in(g.batchVector(), g.ints(1))), g.input(), "x"))
		}},
		{"first example for all", mixes, m, func(g *graph) string {
			return g.op("GatherND", in(g.input(), g.table([]int{1, 2}, 0, 1)))
		}},
		{"next example", mixes, []int{3}, func(g *graph) string {
			rows := g.op("Add", in(g.op("Reshape", in(g.rows(1, 1), g.ints(-1, 1))), g.int(1)))
			return g.op("GatherND", in(g.input(), rows))
		}},
		{"written to the first example", mixes, m, func(g *graph) string {
			return g.op("ScatterND", in(g.input(), g.table([]int{1, 1}, 0), g.param(1, 2, 3)))
		}},
		{"gathered along the batch", mixes, m, func(g *graph) string {
			return g.op("GatherElements", in(g.input(), g.forExamples(g.table([]int{1, 2, 3}, 0, 0, 0, 0, 0, 0), 2, 3)))
		}},
		{"scattered along the batch", mixes, m, func(g *graph) string {
			return g.op("ScatterElements", in(g.input(), g.forExamples(g.table([]int{1, 2, 3}, 0, 0, 0, 0, 0, 0), 2, 3), "x"))
		}},
		{"indices of the first example alone", mixes, m, func(g *graph) string {
			return g.op("GatherElements", in(g.input(), g.table([]int{1, 2, 3}, 0, 1, 0, 1, 0, 1)), intA("axis", 1))
		}},
		{"row of a constant for each example", mixes, m, func(g *graph) string {
			at := g.forExamples(g.table([]int{1, 3}, 2, 1, 0), 3)
			return g.op("Mul", in(g.input(), g.op("Unsqueeze", in(g.op("GatherElements", in(g.param(5, 3), at), intA("axis", 1)), g.ints(1)))))
		}},
		{"block of a constant for each example", mixes, m, func(g *graph) string {
			at := g.forExamples(g.table([]int{1, 3, 1}, 2, 1, 0), 3, 1)
			return g.op("Mul", in(g.input(), g.op("Unsqueeze", in(g.op("GatherND", in(g.param(1, 3), at), intA("batch_dims", 1)), g.ints(1)))))
		}},
		{"triangle of the examples", mixes, []int{3}, func(g *graph) string { return g.op("Trilu", in(g.input())) }},
		{"identity of the examples", mixes, []int{3}, func(g *graph) string { return g.op("Mul", in(g.input(), g.op("EyeLike", in("x")))) }},
		{"places of all examples", mixes, []int{3}, func(g *graph) string {
			ones := g.op("ConstantOfShape", in(g.op("Shape", in("x"))), tensorA("value", &onnx.Tensor{Dims: []int64{1}, Type: onnx.Int64, Ints: []int64{1}}))
			return g.op("GatherND", in(g.input(), g.op("Transpose", in(g.op("NonZero", in(ones))))))
		}},
		{"table read by each example beside its own rows", mixes, m, func(g *graph) string {
			return g.op("Gather", in(g.input(), g.forExamples(g.table([]int{1, 2}, 0, 1), 2)), intA("axis", 1))
		}},
		{"two updates of one element", "two updates", m, func(g *graph) string {
			return g.op("ScatterElements", in(g.input(), g.forExamples(g.table([]int{1, 2, 3}, 0, 0, 0, 0, 0, 0), 2, 3), "x"), intA("axis", 1))
		}},
		{"largest update of an element", "reduction", m, func(g *graph) string {
			return g.op("ScatterElements", in(g.input(), g.forExamples(g.table([]int{1, 2, 3}, 0, 0, 0, 1, 1, 1), 2, 3), "x"), intA("axis", 1), textA("reduction", "max"))
		}},
		{"index beyond a row", "index 3", m, func(g *graph) string {
			return g.op("GatherElements", in(g.input(), g.forExamples(g.table([]int{1, 2, 1}, 3, 0), 2, 1)), intA("axis", 2))
		}},
		{"constants of three examples", mixes, m, func(g *graph) string {
			g.fixed(3)
			return g.op("Mul", in(g.input(), g.constant([]int{3, 1, 1}, 1, 2, 1)))
		}},
		{"integers of three examples", mixes, m, func(g *graph) string {
			g.fixed(3)
			return g.op("Where", in(g.bools([]int{3, 1, 1}, 1, 0, 1), g.input(), "x"))
		}},
		{"mask of two examples", mixes, m, func(g *graph) string {
			g.fixed(2)
			return g.op("Where", in(g.op("And", in(g.bools([]int{2, 1, 1}, 1, 0), g.bools([]int{1}, 1))), g.input(), "x"))
		}},
		{"mask of two examples beside one of all", mixes, m, func(g *graph) string {
			g.fixed(2)
			all := g.op("Greater", in(g.op("Expand", in(g.int(1), g.op("Shape", in("x")))), g.int(0)))
			return g.op("Where", in(g.op("And", in(g.bools([]int{2, 1, 1}, 1, 0), all)), g.input(), "x"))
		}},
		{"positions of three examples", "", []int{3}, func(g *graph) string {
			g.fixed(3)
			return g.op("Add", in(g.input(), g.op("Gather", in(g.param(9), g.table([]int{3, 3}, 0, 1, 2, 3, 4, 5, 6, 7, 8)))))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGraph(16, c.dims...)
			_, err := load(g.output(c.build(g)))
			require.ErrorContains(t, err, c.want)
			requireOneLine(t, err)
		})
	}
}

// TestSignOfBatchExpressions compares the comparisons that are decided at once for all
// batch sizes with those of many, over the graphs that compare n·N + r·e + k with 0: a
// decided one must hold for every example of every batch.
func TestSignOfBatchExpressions(t *testing.T) {
	decided := 0
	rng := rand.New(rand.NewPCG(3, 9))
	for range 300 {
		n, r, k := rng.Int64N(5)-2, rng.Int64N(5)-2, rng.Int64N(7)-3
		kind := []string{"Less", "LessOrEqual", "Equal", "Greater", "GreaterOrEqual"}[rng.IntN(5)]
		g := newGraph(16, 2)
		rows := g.op("Reshape", in(g.rows(1, 1), g.ints(-1, 1)))
		sum := g.op("Add", in(g.op("Mul", in(rows, g.int(r))), g.op("Mul", in(g.batchVector(), g.ints(n)))))
		cond := g.op(kind, in(g.op("Add", in(sum, g.int(k))), g.int(0)))
		m := g.output(g.op("Where", in(cond, g.input(), g.op("Neg", in("x")))))
		net, err := load(m)
		if err != nil {
			require.ErrorContains(t, err, mixes)
			continue
		}
		decided++
		for _, rows := range []int{1, 2, 5} {
			requireEvaluated(t, m, net, gaussianMatrix(rng, rows, 2), nil)
		}
	}
	require.Greater(t, decided, 60)
}
