package network_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// truths is a comparison or a function of truth values.
func truths(f func(a, b float64) bool) func(e *evaluator) []*tensor {
	return func(e *evaluator) []*tensor {
		out := combine(e.in(0), e.in(1), func(a, b float64) float64 { return truth(f(a, b)) })
		out.isInt = true
		return one(out)
	}
}

func truth(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

var maskEvaluators = map[string]func(e *evaluator) []*tensor{
	"Equal":          truths(func(a, b float64) bool { return a == b }),
	"Greater":        truths(func(a, b float64) bool { return a > b }),
	"GreaterOrEqual": truths(func(a, b float64) bool { return a >= b }),
	"Less":           truths(func(a, b float64) bool { return a < b }),
	"LessOrEqual":    truths(func(a, b float64) bool { return a <= b }),
	"And":            truths(func(a, b float64) bool { return a != 0 && b != 0 }),
	"Or":             truths(func(a, b float64) bool { return a != 0 || b != 0 }),
	"Xor":            truths(func(a, b float64) bool { return (a != 0) != (b != 0) }),
	"Not":            plain(func(x float64) float64 { return truth(x == 0) }),
	"Where":          func(e *evaluator) []*tensor { return one(evalWhere(e.in(0), e.in(1), e.in(2))) },
	"Trilu":          evalTrilu,
}

func evalWhere(cond, a, b *tensor) *tensor {
	shape := broadcastShapes(broadcastShapes(cond.shape, a.shape), b.shape)
	return from(shape, a.isInt && b.isInt, func(idx []int) float64 {
		if cond.broadcastAt(idx) != 0 {
			return a.broadcastAt(idx)
		}
		return b.broadcastAt(idx)
	})
}

func evalTrilu(e *evaluator) []*tensor {
	x, k := e.in(0), 0
	if e.has(1) {
		check(len(e.in(1).data) == 1, "k")
		k = e.in(1).ints()[0]
	}
	check(x.rank() >= 2, "rank")
	upper := e.int("upper", 1) != 0
	return one(from(x.shape, x.isInt, func(idx []int) float64 {
		row, col := idx[len(idx)-2], idx[len(idx)-1]
		if upper && col < row+k || !upper && col > row+k {
			return 0
		}
		return x.at(idx...)
	}))
}

// bools adds truth values.
func (g *graph) bools(shape []int, v ...int64) string {
	return g.initializer(&onnx.Tensor{Name: g.name("b"), Type: onnx.Bool, Ints: v}, shape)
}

// arange is the range of n integers.
func (g *graph) arange(n int64) string { return g.op("Range", in(g.int(0), g.int(n), g.int(1))) }

// attention is causal attention over an input of 4×3 with the given mask, whose scores
// are the argument.
func (g *graph) attention(mask func(scores string) string) string {
	x := g.input()
	q, k := g.op("MatMul", in(x, g.param(3, 2))), g.op("MatMul", in(x, g.param(3, 2)))
	scores := mask(g.op("MatMul", in(q, g.op("Transpose", in(k), intsA("perm", 0, 2, 1)))))
	return g.op("MatMul", in(g.op("Softmax", in(scores), intA("axis", -1)), x))
}

func (g *graph) constant(shape []int, data ...float64) string {
	t := &onnx.Tensor{Type: onnx.Double, Floats: data}
	for _, d := range shape {
		t.Dims = append(t.Dims, int64(d))
	}
	return g.op("Constant", nil, tensorA("value", t))
}

var minusInf = math.Inf(-1)

// upperInf is a matrix of −Inf above the diagonal.
func upperInf(n int) []float64 {
	data := make([]float64, n*n)
	for i := range data {
		if i%n > i/n {
			data[i] = minusInf
		}
	}
	return data
}

func maskCases() []operatorCase {
	var all []operatorCase
	add := func(name string, opset int64, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: opset, dims: dims, build: build})
	}
	seq := []int{4, 3}
	causal := func(g *graph) string { // row ≥ column
		i := g.arange(4)
		return g.op("GreaterOrEqual", in(g.op("Unsqueeze", in(i, g.ints(1))), g.op("Unsqueeze", in(i, g.ints(0)))))
	}
	masked := func(name string, opset int64, mask func(g *graph, scores string) string) {
		add("Mask-"+name, opset, seq, func(g *graph) string {
			return g.attention(func(scores string) string { return mask(g, scores) })
		})
	}
	masked("added-initializer", 13, func(g *graph, s string) string { return g.op("Add", in(s, g.of(upperInf(4), 4, 4))) })
	masked("added-constant", 11, func(g *graph, s string) string { return g.op("Add", in(g.constant([]int{1, 4, 4}, upperInf(4)...), s)) })
	masked("added-twice", 13, func(g *graph, s string) string {
		m := g.op("Where", in(causal(g), g.scalar(0), g.constant(nil, minusInf)))
		s = g.op("Add", in(s, g.op("Unsqueeze", in(m, g.ints(0)))))
		return g.op("Add", in(g.op("Reshape", in(s, g.ints(0, 4, 4))), g.of(upperInf(4), 4, 4)))
	})
	masked("to-a-bias", 14, func(g *graph, s string) string {
		fill := tensorA("value", &onnx.Tensor{Dims: []int64{1}, Type: onnx.Double, Floats: []float64{minusInf}})
		m := g.op("Trilu", in(g.op("ConstantOfShape", in(g.ints(4, 4)), fill), g.int(1)))
		return g.op("Add", in(s, g.op("Add", in(g.param(4, 4), m))))
	})
	masked("where", 13, func(g *graph, s string) string { return g.op("Where", in(causal(g), s, g.constant(nil, minusInf))) })
	masked("where-not", 13, func(g *graph, s string) string {
		return g.op("Where", in(g.op("Not", in(causal(g))), g.op("Cast", in(g.float32s([]float64{minusInf}, 1)), intA("to", int64(onnx.Double))), s))
	})
	masked("where-large", 13, func(g *graph, s string) string { return g.op("Where", in(causal(g), s, g.scalar(-1e9))) })
	masked("where-least", 13, func(g *graph, s string) string {
		return g.op("Where", in(causal(g), s, g.scalar(-math.MaxFloat64)))
	})
	masked("of-a-buffer", 13, func(g *graph, s string) string {
		buffer := g.of([]float64{1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0}, 4, 5)
		buffer = g.op("Slice", in(buffer, g.ints(0), g.ints(4), g.ints(1)))
		return g.op("Where", in(g.op("Equal", in(buffer, g.scalar(0))), g.constant(nil, minusInf), s))
	})
	masked("of-a-cast-buffer", 13, func(g *graph, s string) string {
		buffer := g.of([]float64{1, 0, 0, 1, 2, 1, 0, 0, 1, 1, 1, 0, -1, 1, 1, 1}, 4, 4)
		return g.op("Where", in(g.cast(buffer, onnx.Bool), s, g.constant(nil, minusInf)))
	})
	masked("window", 13, func(g *graph, s string) string {
		i := g.arange(4)
		d := g.op("Sub", in(g.op("Unsqueeze", in(i, g.ints(1))), g.op("Unsqueeze", in(i, g.ints(0)))))
		inside := g.op("And", in(g.op("Less", in(d, g.int(2))), g.op("Greater", in(d, g.int(-2)))))
		inside = g.op("Or", in(inside, g.op("LessOrEqual", in(d, g.int(-3)))))
		return g.op("Where", in(g.op("Xor", in(inside, g.bools([]int{1}, 1))), g.constant(nil, minusInf), s))
	})
	masked("times-one", 13, func(g *graph, s string) string {
		m := g.op("Mul", in(g.of(upperInf(4), 4, 4), g.constant(nil, 1)))
		s = g.op("Add", in(g.op("Mul", in(s, g.constant(nil, 0.5))), m))
		return g.op("Div", in(g.op("Mul", in(s, g.op("Constant", nil, floatA("value_float", 3)))), g.scalar(2)))
	})
	masked("joined", 13, func(g *graph, s string) string {
		// A fifth position that no row sees, cut off again after the softmax's turn.
		s = g.op("Concat", in(s, g.op("Expand", in(g.constant([]int{1, 1, 1}, minusInf), g.batchAnd(4, 1)))), intA("axis", 2))
		s = g.op("Transpose", in(g.op("Transpose", in(s), intsA("perm", 0, 2, 1))), intsA("perm", 0, 2, 1))
		return g.op("Slice", in(g.op("Max", in(g.op("Dropout", in(s)), g.scalar(-1e9))), g.ints(0), g.ints(4), g.ints(2)))
	})
	masked("for-every-example", 13, func(g *graph, s string) string {
		seen := g.op("ConstantOfShape", in(g.batchAnd(1, 4)), tensorA("value", &onnx.Tensor{Dims: []int64{1}, Type: onnx.Bool, Ints: []int64{1}}))
		return g.op("Where", in(g.op("And", in(seen, causal(g))), s, g.constant(nil, minusInf)))
	})

	// Numbers that are not finite as bounds, and where a maximum, a function or a choice takes them away.
	inf := math.Inf(1)
	take := func(name string, dims []int, build func(g *graph, x string) string) {
		add("Infinite-"+name, 13, dims, func(g *graph) string { return build(g, g.input()) })
	}
	take("bounds", []int{3}, func(g *graph, x string) string {
		x = g.op("Clip", in(x, g.of([]float64{minusInf}), g.of([]float64{inf})))
		return g.op("Clip", in(x, g.scalar(-0.5), g.of([]float64{inf})))
	})
	take("vectors-of-bounds", []int{3}, func(g *graph, x string) string {
		x = g.op("Max", in(x, g.of([]float64{minusInf, -0.5, minusInf}, 3)))
		return g.op("Min", in(x, g.of([]float64{inf, inf, 0.5}, 3)))
	})
	take("before-reductions", []int{4}, func(g *graph, x string) string {
		low := g.op("Add", in(x, g.of([]float64{0, minusInf, 0, 0}, 4)))
		high := g.op("Sub", in(x, g.of([]float64{0, minusInf, 0, 0}, 4)))
		list := in(g.op("ReduceMax", in(low), intsA("axes", 1)), g.op("ReduceMin", in(high), intsA("axes", 1)), g.op("ReduceLogSumExp", in(low), intsA("axes", 1)))
		return g.op("Concat", list, intA("axis", 1))
	})
	take("into-functions", []int{3}, func(g *graph, x string) string {
		x = g.op("Add", in(x, g.of([]float64{0, minusInf, 0}, 3)))
		return g.op("Concat", in(g.op("Exp", in(x)), g.op("Sigmoid", in(x)), g.op("Relu", in(x)), g.op("Tanh", in(x)), g.op("Softplus", in(x))), intA("axis", 1))
	})
	take("chosen-by-the-input", []int{4}, func(g *graph, x string) string {
		kept := g.op("Where", in(g.op("Greater", in(x, g.scalar(0))), x, g.of([]float64{minusInf})))
		return g.op("Max", in(g.op("ReduceMax", in(kept), intsA("axes", 1)), g.scalar(0.25)))
	})
	take("not-chosen", []int{3}, func(g *graph, x string) string {
		return g.op("Where", in(g.bools([]int{3}, 1, 1, 1), x, g.of([]float64{math.NaN(), inf, minusInf}, 3)))
	})
	take("divisor", []int{3}, func(g *graph, x string) string {
		return g.op("Add", in(x, g.op("Div", in(g.scalar(1), g.of([]float64{inf, 1, minusInf}, 3)))))
	})
	take("padding", []int{1, 4}, func(g *graph, x string) string {
		x = g.op("Pad", in(x, g.ints(0, 0, 1, 0, 0, 1), g.of([]float64{minusInf})))
		return g.op("MaxPool", in(x), intsA("kernel_shape", 2))
	})
	// Elements of the example's own positions, as PyTorch exports h[arange(N), positions].
	own := func(g *graph) string {
		n := g.op("Gather", in(g.op("Shape", in("x")), g.int(0)))
		return g.op("Range", in(g.int(0), n, g.int(1)))
	}
	largest := func(g *graph, x string) string { // the position of the largest row, N×1
		return g.op("ArgMax", in(g.op("ReduceSum", in(x, g.ints(2)), intA("keepdims", 0))), intA("axis", 1))
	}
	ownTuples := func(g *graph, numbers, last string) string {
		return g.op("Concat", in(g.op("Unsqueeze", in(numbers, g.ints(1))), last), intA("axis", 1))
	}
	// With 0 the batch dimension is open, and otherwise fixed; the numbers of the examples are then stored.
	for _, batch := range []int{0, 1, 3} {
		numbers := own
		if batch > 0 {
			numbers = func(g *graph) string { return g.ints([]int64{0, 1, 2}[:batch]...) }
		}
		positions := func(name string, build func(g *graph) string) {
			add(fmt.Sprintf("Own-%s-batch-%d", name, batch), 13, []int{3, 2}, build)
			all[len(all)-1].batch = batch
		}
		positions("positions", func(g *graph) string {
			x := g.input()
			return g.op("GatherND", in(g.op("Tanh", in(x)), ownTuples(g, numbers(g), largest(g, x))))
		})
		positions("positions-from-the-end", func(g *graph) string {
			x := g.input()
			last := g.op("Sub", in(largest(g, x), g.int(3)))
			return g.op("GatherND", in(g.op("Tanh", in(x)), ownTuples(g, numbers(g), last)))
		})
		positions("positions-without-numbers", func(g *graph) string {
			x := g.input()
			return g.op("GatherND", in(g.op("Tanh", in(x)), largest(g, x)), intA("batch_dims", 1))
		})
		positions("positions-in-a-flat-tensor", func(g *graph) string {
			x := g.input()
			at := g.op("Squeeze", in(largest(g, x), g.ints(1)))
			at = g.op("Add", in(at, g.op("Mul", in(numbers(g), g.int(3)))))
			return g.op("Gather", in(g.op("Reshape", in(g.op("Tanh", in(x)), g.ints(-1, 2))), at))
		})
		positions("places-with-numbers-expanded", func(g *graph) string {
			x := g.input()
			last := largest(g, x)
			number := g.op("Expand", in(numbers(g), g.op("Shape", in(g.op("Squeeze", in(last, g.ints(1)))))))
			return g.op("ScatterND", in(x, ownTuples(g, number, last), g.op("Sin", in(g.op("Gather", in(x, g.int(0)), intA("axis", 1))))))
		})
		positions("place-for-all", func(g *graph) string {
			x, shape := g.input(), g.ints(int64(batch), 2)
			if batch == 0 {
				shape = g.batchAnd(2)
			}
			place := g.op("Unsqueeze", in(g.op("Expand", in(g.ints(1), g.op("Shape", in(numbers(g))))), g.ints(1)))
			return g.op("ScatterND", in(x, ownTuples(g, numbers(g), place), g.op("Expand", in(g.param(1, 2), shape))))
		})
		for _, reduction := range []string{"none", "add"} {
			positions("places-"+reduction, func(g *graph) string {
				x := g.input()
				first := g.op("Exp", in(g.op("Gather", in(x, g.int(0)), intA("axis", 1))))
				y := g.op("ScatterND", in(x, ownTuples(g, numbers(g), largest(g, x)), first), textA("reduction", reduction))
				all := g.op("Reshape", in(y, g.ints(0, -1)))
				return g.op("MatMul", in(all, g.param(6, 2)))
			})
		}
	}
	add("Own-rows-of-a-flat-tensor", 13, []int{3, 2}, func(g *graph) string {
		at := g.op("Add", in(g.op("Mul", in(own(g), g.int(3))), g.int(2)))
		return g.op("Gather", in(g.op("Reshape", in(g.input(), g.ints(-1, 2))), at))
	})
	for _, kind := range []string{"ReduceMax", "ReduceMean"} {
		add(kind+"-of-the-only-example", 13, []int{3, 2}, func(g *graph) string {
			x := g.input()
			big := g.op("Greater", in(g.op(kind, in(x), intA("keepdims", 0)), g.scalar(0.3)))
			return g.op("Where", in(big, g.op("Tanh", in(x)), g.op("Exp", in(x))))
		})
		all[len(all)-1].batch = 1
		add(kind+"-of-the-only-example-kept", 13, []int{3, 2}, func(g *graph) string {
			x := g.input()
			return g.op("Sub", in(x, g.op(kind, in(x))))
		})
		all[len(all)-1].batch = 1
	}
	wide := []int{2, 3}
	add("Where-both-branches", 13, wide, func(g *graph) string {
		x := g.input()
		return g.op("Where", in(g.bools([]int{2, 3}, 1, 0, 1, 0, 0, 1), g.op("Tanh", in(x)), g.op("Mul", in(x, g.param(1)))))
	})
	add("Where-broadcast", 9, wide, func(g *graph) string {
		return g.op("Where", in(g.bools([]int{4, 1, 1, 3}, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0), g.op("Unsqueeze", in(g.input()), intsA("axes", 0)), g.param(2, 1)))
	})
	all[len(all)-1].build = transposedFirst(all[len(all)-1].build)
	add("Where-parameters", 13, wide, func(g *graph) string {
		w := g.op("Where", in(g.bools([]int{3, 1}, 1, 0, 1), g.param(3, 2), g.param(1, 2)))
		return g.op("MatMul", in(g.input(), w))
	})
	add("Where-of-comparison-of-parameters", 13, wide, func(g *graph) string {
		return g.op("Where", in(g.op("Less", in(g.op("Abs", in(g.of([]float64{0.1, -2, 0.4}, 3))), g.scalar(1))), g.input(), g.op("Neg", in("x"))))
	})
	add("Where-of-shapes", 13, wide, func(g *graph) string {
		// What PyTorch makes of expand(N, -1, 3).
		want := g.op("Concat", in(g.batchVector(), g.ints(-1, 3)), intA("axis", 0))
		ones := g.op("ConstantOfShape", in(g.ints(3)), tensorA("value", &onnx.Tensor{Dims: []int64{1}, Type: onnx.Int64, Ints: []int64{1}}))
		open := g.op("Equal", in(want, g.op("Mul", in(ones, g.ints(-1)))))
		token := g.op("Expand", in(g.param(1, 1, 3), g.op("Where", in(open, ones, want))))
		return g.op("Concat", in(token, g.input()), intA("axis", 1))
	})
	for name, f := range map[string][]*onnx.Attribute{"upper": nil, "lower": {intA("upper", 0)}} {
		add("Trilu-"+name, 14, []int{3, 4}, func(g *graph) string { return g.op("Trilu", in(g.input()), f...) })
		add("Trilu-"+name+"-shifted", 14, []int{2, 3, 3}, func(g *graph) string { return g.op("Trilu", in(g.input(), g.int(1)), f...) })
		add("Trilu-"+name+"-below", 14, []int{3, 3}, func(g *graph) string { return g.op("Trilu", in(g.input(), g.int(-1)), f...) })
	}
	add("Trilu-of-parameters", 14, []int{3}, func(g *graph) string {
		return g.op("MatMul", in(g.input(), g.op("Trilu", in(g.param(3, 3)), intA("upper", 0))))
	})
	add("Trilu-of-integers", 14, []int{3, 3}, func(g *graph) string {
		ones := tensorA("value", &onnx.Tensor{Dims: []int64{1}, Type: onnx.Int64, Ints: []int64{1}})
		m := g.op("Trilu", in(g.op("ConstantOfShape", in(g.ints(3, 3)), ones)), intA("upper", 0))
		return g.op("Mul", in(g.input(), g.cast(m, onnx.Double)))
	})
	add("Dropout-of-nothing-in-training", 13, wide, func(g *graph) string {
		return g.op("Dropout", in(g.input(), g.scalar(0), g.bools(nil, 1)))
	})
	return all
}

// transposedFirst moves the second axis of a result to the front, where the batch is.
func transposedFirst(build func(g *graph) string) func(g *graph) string {
	return func(g *graph) string { return g.op("Transpose", in(build(g)), intsA("perm", 1, 0, 2, 3)) }
}

// TestMasksAreExact checks that what −Inf masks has a probability of zero: positions
// after a row change nothing in it, to the last bit.
func TestMasksAreExact(t *testing.T) {
	for _, c := range maskCases()[:3] {
		net := mustLoad(t, c.model())
		x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 2, 12)
		f := testref.Must(net.Forward(t.Context(), x))(t)
		for from := range 4 {
			y := mat.DenseCopyOf(x)
			for i := 3 * (from + 1); i < 12; i++ {
				y.Set(0, i, 10*float64(i))
			}
			g := testref.Must(net.Forward(t.Context(), y))(t)
			require.Equal(t, f.RawRowView(0)[:3*(from+1)], g.RawRowView(0)[:3*(from+1)], "%s, row %d", c.name, from)
		}
	}
}

// TestInfinitiesAreRefused checks that −Inf that is no mask, and a mask without a
// softmax, are errors.
func TestInfinitiesAreRefused(t *testing.T) {
	damaged := "its training diverged or the file is damaged"
	for _, c := range []struct {
		name, want string
		build      func(g *graph) string
	}{
		{"product", damaged, func(g *graph) string { return g.op("Mul", in(g.input(), g.of([]float64{1, minusInf, 1}, 3))) }},
		{"product with zero", damaged, func(g *graph) string {
			return g.op("Add", in(g.input(), g.op("Mul", in(g.of([]float64{1, minusInf, 1}, 3), g.constant(nil, 0)))))
		}},
		{"product with a negative number", damaged, func(g *graph) string {
			return g.op("Add", in(g.input(), g.op("Mul", in(g.constant([]int{3}, 1, -1, 1), g.of([]float64{1, minusInf, 1}, 3)))))
		}},
		{"product with a parameter", damaged, func(g *graph) string {
			return g.op("Mul", in(g.op("Add", in(g.input(), g.of([]float64{1, minusInf, 1}, 3))), g.param(1)))
		}},
		{"divisor", damaged, func(g *graph) string { return g.op("Div", in(g.input(), g.of([]float64{1, minusInf, 1}, 3))) }},
		{"weight", damaged, func(g *graph) string {
			return g.op("MatMul", in(g.input(), g.of(slices.Repeat([]float64{minusInf}, 3), 3, 1)))
		}},
		{"bias of a layer", damaged, func(g *graph) string {
			return g.op("Add", in(g.op("MatMul", in(g.input(), g.param(3, 3))), g.of([]float64{0, minusInf, 0}, 3)))
		}},
		{"bias of a Gemm", damaged, func(g *graph) string {
			return g.op("Gemm", in(g.input(), g.param(3, 2), g.of([]float64{0, minusInf}, 2)))
		}},
		{"difference", damaged, func(g *graph) string { return g.op("Sub", in(g.input(), g.of([]float64{1, minusInf, 1}, 3))) }},
		{"logarithm of a softmax", damaged, func(g *graph) string {
			y := g.op("LogSoftmax", in(g.op("Add", in(g.input(), g.of([]float64{1, minusInf, 1}, 3)))))
			return g.op("Mul", in(y, g.param(3)))
		}},
		{"constant", "a constant holds -Inf at element 1", func(g *graph) string {
			return g.op("Mul", in(g.input(), g.constant([]int{3}, 1, minusInf, 1)))
		}},
		{"output", "is masked", func(g *graph) string { return g.op("Add", in(g.input(), g.of([]float64{1, minusInf, 1}, 3))) }},
		{"logits", "is masked", func(g *graph) string {
			return g.op("Softmax", in(g.op("Add", in(g.input(), g.of([]float64{1, minusInf, 1}, 3)))), intA("axis", 1))
		}},
		{"everything masked", "wholly masked", func(g *graph) string {
			y := g.op("Softmax", in(g.op("Add", in(g.input(), g.of(slices.Repeat([]float64{minusInf}, 3), 3)))), intA("axis", 1))
			return g.op("Mul", in(y, g.param(3)))
		}},
		{"+Inf", damaged, func(g *graph) string {
			y := g.op("Softmax", in(g.op("Add", in(g.input(), g.of([]float64{1, math.Inf(1), 1}, 3)))), intA("axis", 1))
			return g.op("Mul", in(y, g.param(3)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGraph(13, 3)
			m := g.output(c.build(g))
			_, err := readModel(m, &network.ReadOptions{Learn: []string{m.Graph.Initializers[0].Name}})
			require.ErrorContains(t, err, c.want)
			requireOneLine(t, err)
		})
	}
}

// TestMasksAreNoParameters checks that a mask and a buffer that is only compared are
// not among the parameters.
func TestMasksAreNoParameters(t *testing.T) {
	for _, c := range maskCases() {
		m := c.model()
		net := mustLoad(t, m)
		for _, p := range net.Params() {
			for _, w := range m.Graph.Initializers {
				if w.Name == p.Name {
					require.False(t, slices.Contains(w.Floats, minusInf), "%s: %s", c.name, p.Name)
					require.False(t, len(w.Floats) > 12 && fmt.Sprint(w.Floats[0]) == "1", "%s: %s", c.name, p.Name)
				}
			}
		}
	}
}
