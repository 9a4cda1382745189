package network_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// ofInteger reports whether column j of a network's inputs holds integers.
func ofInteger(net *network.Network, j int) bool {
	for _, in := range net.Inputs() {
		if j >= in.Offset && j < in.Offset+in.Len() {
			return in.Integer
		}
	}
	return false
}

// inputsOf returns random rows: normal numbers, and 0 or 1 (2 in every fourth
// column) where the network takes integers.
func inputsOf(net *network.Network, rng *rand.Rand, rows int) *mat.Dense {
	d, _, _ := net.Dims()
	x := gaussianMatrix(rng, rows, d)
	x.Apply(func(_, j int, v float64) float64 {
		switch {
		case !ofInteger(net, j):
			return v
		case j%4 == 3:
			return 2 * float64(rng.IntN(2))
		}
		return float64(rng.IntN(2))
	}, x)
	return x
}

// tokenCases take integers or truth values that depend on the input.
func tokenCases() []operatorCase {
	var all []operatorCase
	add := func(name string, input onnx.DataType, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: "Tokens-" + name, opset: 13, dims: dims, input: input, build: build})
	}
	mean := func(g *graph, x string, axis int64) string {
		return g.op("ReduceMean", in(x), intsA("axes", axis), intA("keepdims", 0))
	}
	last := func(g *graph, x string, width int) string {
		return g.op("Gemm", in(x, g.param(width, 2), g.param(2)))
	}
	add("embedding", onnx.Int64, []int{4}, func(g *graph) string {
		return last(g, g.op("Tanh", in(mean(g, g.op("Gather", in(g.param(40, 3), "x")), 1))), 3)
	})
	add("embedding-small", onnx.Int32, []int{3}, func(g *graph) string {
		return g.op("Flatten", in(g.op("Gather", in(g.param(3, 2), "x"))))
	})
	add("embedding-scalar", onnx.Int64, nil, func(g *graph) string { return last(g, g.op("Gather", in(g.param(30, 3), "x")), 3) })
	add("embedding-vector", onnx.Uint8, []int{2}, func(g *graph) string { return g.op("Gather", in(g.param(30), "x")) })
	add("embedding-from-end", onnx.Int64, []int{4}, func(g *graph) string {
		at := g.op("Sub", in("x", g.ints(2))) // −2 to 0
		return mean(g, g.op("Gather", in(g.param(40, 3), at)), 1)
	})
	add("embedding-shared", onnx.Int64, []int{2, 3}, func(g *graph) string {
		table := g.param(50, 2)
		a := g.op("Gather", in("x", g.int(0)), intA("axis", 1))
		b := g.op("Squeeze", in(g.op("Slice", in("x", g.ints(1), g.ints(2), g.ints(1))), g.ints(1)))
		user := mean(g, g.op("Gather", in(table, a)), 1)
		item := mean(g, g.op("Tanh", in(g.op("Gather", in(table, b)))), 1)
		return g.op("Mul", in(user, item))
	})
	add("embedding-tied", onnx.Int64, []int{3}, func(g *graph) string {
		table := g.param(7, 2)
		h := mean(g, g.op("Gather", in(table, "x")), 1)
		return g.op("MatMul", in(h, g.op("Transpose", in(table), intsA("perm", 1, 0))))
	})
	add("embedding-scaled-table", onnx.Int64, []int{3}, func(g *graph) string {
		return g.op("Gather", in(g.op("Mul", in(g.param(6, 2), g.param(6, 1))), "x"))
	})
	add("embedding-axis", onnx.Int64, []int{4}, func(g *graph) string {
		y := g.op("Gather", in(g.param(2, 30, 3), "x"), intA("axis", 1)) // 2×N×4×3
		return g.op("Transpose", in(y), intsA("perm", 1, 0, 3, 2))
	})
	add("embedding-of-offsets", onnx.Int64, []int{3}, func(g *graph) string {
		at := g.op("Add", in("x", g.ints(0, 10, 20)))
		return last(g, g.op("ReduceSum", in(g.op("Gather", in(g.param(40, 2), at)), g.ints(1)), intA("keepdims", 0)), 2)
	})
	add("table-of-integers", onnx.Int64, []int{2}, func(g *graph) string {
		at := g.op("Gather", in(g.ints(4, 0, 7), "x"))
		return g.op("Gather", in(g.param(20, 2), g.op("Div", in(at, g.int(2)))))
	})
	add("positions", onnx.Int64, []int{3}, func(g *graph) string {
		y := g.op("Add", in(g.op("Gather", in(g.param(30, 2), "x")), g.op("Gather", in(g.param(60, 2), g.ints(5, 1, 5)))))
		return g.op("MatMul", in(g.op("Tanh", in(y)), g.param(2, 2)))
	})
	add("numbers", onnx.Int32, []int{3}, func(g *graph) string {
		return g.op("Tanh", in(g.op("Mul", in(g.cast("x", onnx.Double), g.param(3)))))
	})
	add("truth-values", onnx.Bool, []int{3}, func(g *graph) string {
		return g.op("Tanh", in(g.op("Mul", in(g.cast("x", onnx.Double), g.param(3)))))
	})
	add("arithmetic", onnx.Int64, []int{4}, func(g *graph) string {
		a := g.op("Add", in(g.op("Mul", in("x", g.ints(5))), g.ints(-3, 2, 4, -7)))
		b := g.op("Div", in(a, g.ints(2)))
		c := g.op("Mod", in(a, g.ints(3)))
		d := g.op("Mod", in(a, g.ints(3)), intA("fmod", 1))
		e := g.op("Max", in(g.op("Neg", in(b)), g.op("Abs", in(d))))
		all := g.op("Sum", in(b, g.op("Mul", in(c, g.ints(10))), g.op("Mul", in(d, g.ints(20))), g.op("Mul", in(e, g.ints(30)))))
		return g.op("Tanh", in(g.op("Mul", in(g.op("Mul", in(g.cast(all, onnx.Double), g.scalar(1.0/64))), g.param(4)))))
	})
	add("mask", onnx.Int64, []int{4}, func(g *graph) string {
		// The mean over the tokens that are not 0, as a hand-written pooling has it.
		mask := g.op("Unsqueeze", in(g.cast(g.cast("x", onnx.Bool), onnx.Double), g.ints(2)))
		y := g.op("Mul", in(g.op("Gather", in(g.param(30, 2), "x")), mask))
		n := g.op("Clip", in(g.op("ReduceSum", in(mask, g.ints(1)), intA("keepdims", 0)), g.scalar(1)))
		return g.op("Div", in(g.op("ReduceSum", in(y, g.ints(1)), intA("keepdims", 0)), n))
	})
	// The truth values of x = 0 and the number of the others.
	add("comparisons", onnx.Int64, []int{4}, func(g *graph) string {
		zero, two := g.op("Equal", in("x", g.int(0))), g.op("GreaterOrEqual", in("x", g.ints(2)))
		a := g.op("And", in(g.op("Not", in(zero)), g.op("Less", in("x", g.ints(2, 1, 2, 3)))))
		b := g.op("Xor", in(g.op("Or", in(zero, two)), g.op("LessOrEqual", in("x", g.ints(0, 1, 2, 0)))))
		c := g.op("Greater", in(g.op("Mul", in("x", "x")), "x"))
		sum := g.op("Sum", in(g.cast(a, onnx.Double), g.op("Mul", in(g.cast(b, onnx.Double), g.scalar(0.3))), g.op("Mul", in(g.cast(c, onnx.Double), g.scalar(0.7)))))
		return g.op("Tanh", in(g.op("Mul", in(sum, g.param(4)))))
	})
	add("where", 0, []int{4}, func(g *graph) string {
		a := g.op("Tanh", in(g.op("MatMul", in("x", g.param(4, 4)))))
		b := g.op("Mul", in("x", g.param(4)))
		y := g.op("Where", in(g.op("Greater", in(a, g.op("Sub", in(b, g.scalar(0.1))))), a, b))
		return g.op("Where", in(g.op("Less", in("x", g.scalar(0))), y, g.param(1, 4)))
	})
	add("where-of-integers", onnx.Int64, []int{4}, func(g *graph) string {
		at := g.op("Where", in(g.op("Equal", in("x", g.int(1))), g.ints(5, 6, 7, 8), "x"))
		return mean(g, g.op("Gather", in(g.param(40, 2), at)), 1)
	})
	attention := func(mask func(g *graph, scores string) string) func(g *graph) string {
		return func(g *graph) string {
			h := g.op("Gather", in(g.param(30, 3), "x"))
			q, k := g.op("MatMul", in(h, g.param(3, 3))), g.op("MatMul", in(h, g.param(3, 3)))
			scores := g.op("MatMul", in(q, g.op("Transpose", in(k), intsA("perm", 0, 2, 1))))
			return mean(g, g.op("MatMul", in(g.op("Softmax", in(mask(g, scores)), intA("axis", 2)), h)), 1)
		}
	}
	// The token 1 is masked; the last is never one.
	masked := func(g *graph) string {
		return g.op("Unsqueeze", in(g.op("Equal", in("x", g.int(1))), g.ints(1)))
	}
	below := g32(math.Inf(-1))
	add("attention-where", onnx.Int64, []int{4}, attention(func(g *graph, s string) string {
		return g.op("Where", in(masked(g), g.op("Constant", nil, tensorA("value", below)), s))
	}))
	add("attention-added", onnx.Int64, []int{4}, attention(func(g *graph, s string) string {
		zeros := g.op("ConstantOfShape", in(g.op("Shape", in(masked(g)))), tensorA("value", &onnx.Tensor{Type: onnx.Double, Dims: []int64{1}, Floats: []float64{0}}))
		return g.op("Add", in(s, g.op("Where", in(masked(g), g.op("Constant", nil, tensorA("value", below)), zeros))))
	}))
	add("attention-large", onnx.Int64, []int{4}, attention(func(g *graph, s string) string {
		return g.op("Add", in(s, g.op("Mul", in(g.cast(masked(g), onnx.Double), g.scalar(-1e9)))))
	}))
	add("one-hot", onnx.Int64, []int{4}, func(g *graph) string {
		at := g.op("Sub", in("x", g.ints(0, 2, 1, 7))) // of which some are out of range
		y := g.op("OneHot", in(at, g.int(3), g.of([]float64{-0.5, 2}, 2)), intA("axis", 1))
		return g.op("Tanh", in(g.op("MatMul", in(y, g.param(4, 2)))))
	})
	add("one-hot-integers", onnx.Int32, []int{4}, func(g *graph) string {
		y := g.op("OneHot", in("x", g.int(3), g.ints(0, 1)))
		return g.op("Tanh", in(g.op("MatMul", in(g.cast(y, onnx.Double), g.param(3, 2)))))
	})
	add("argmax", 0, []int{3, 4}, func(g *graph) string {
		y := g.op("MatMul", in("x", g.param(4, 5)))
		a := g.op("Gather", in(g.param(30, 2), g.op("ArgMax", in(y), intA("axis", 2), intA("keepdims", 0))))
		b := g.op("Gather", in(g.param(30, 2), g.op("ArgMin", in(y), intA("axis", -2), intA("keepdims", 0)))) // N×5×2
		return g.op("Add", in(g.op("Flatten", in(a)), g.op("Slice", in(g.op("Flatten", in(b)), g.ints(0), g.ints(6), g.ints(1)))))
	})
	add("argmax-of-integers", onnx.Int64, []int{4}, func(g *graph) string {
		first, last := g.op("ArgMax", in("x"), intA("axis", 1)), g.op("ArgMax", in("x"), intA("axis", 1), intA("select_last_index", 1))
		return g.op("Flatten", in(g.op("Gather", in(g.param(30, 2), g.op("Concat", in(first, last), intA("axis", 1))))))
	})
	add("largest", 0, []int{3, 4}, func(g *graph) string {
		y := g.op("MatMul", in("x", g.param(4, 5)))
		most := g.many("TopK", 2, in(y, g.ints(3)), intA("axis", 1))
		least := g.op("TopK", in(y, g.ints(3)), intA("axis", 1), intA("largest", 0))
		return g.op("Add", in(g.op("Mul", in(most[0], g.op("Gather", in(g.param(30), most[1])))), g.op("Tanh", in(least))))
	})
	add("largest-of-parameters", 0, []int{3, 4}, func(g *graph) string {
		return g.op("MatMul", in("x", g.op("TopK", in(g.param(4, 5), g.ints(2)))))
	})
	add("largest-of-integers", onnx.Int64, []int{4}, func(g *graph) string {
		y := g.op("TopK", in("x", g.ints(2)))
		return g.op("Tanh", in(g.op("Gather", in(g.param(30, 2), y))))
	})
	add("element-at", onnx.Int64, []int{4}, func(g *graph) string {
		y := g.op("Tanh", in(g.op("Gather", in(g.param(30, 2), "x")))) // N×4×2
		at := g.op("Sub", in(g.op("Slice", in("x", g.ints(2), g.ints(4), g.ints(1))), g.int(1)))
		return g.op("GatherElements", in(y, g.op("Unsqueeze", in(at, g.ints(1)))), intA("axis", 1))
	})
	add("cast-of-numbers", 0, []int{3}, func(g *graph) string {
		// Bins of numbers; the boundaries have no derivative.
		y := g.op("Clip", in(g.op("Mul", in("x", g.scalar(3))), g.scalar(-4), g.scalar(4)))
		at := g.cast(g.op("Add", in(y, g.scalar(5))), onnx.Int64)
		return g.op("Add", in(g.op("Gather", in(g.param(30, 2), at)), g.op("Unsqueeze", in(g.input(), g.ints(2)))))
	})
	return all
}

// g32 is a float32 tensor of one number without a dimension.
func g32(v float64) *onnx.Tensor { return &onnx.Tensor{Type: onnx.Float, Floats: []float64{v}} }

func init() {
	pick := func(sign float64) func(e *evaluator) []*tensor {
		return func(e *evaluator) []*tensor {
			x := e.in(0)
			ax := x.normalAxis(e.int("axis", 0))
			shape := slices.Clone(x.shape)
			shape[ax] = 1
			y := from(shape, true, func(idx []int) float64 {
				best, at := math.Inf(-1), 0.0
				for k := range x.shape[ax] {
					idx := slices.Clone(idx)
					idx[ax] = k
					if v := sign * x.at(idx...); v > best || v == best && e.int("select_last_index", 0) != 0 {
						best, at = v, float64(k)
					}
				}
				return at
			})
			if e.int("keepdims", 1) == 0 {
				y = y.with(slices.Delete(slices.Clone(shape), ax, ax+1)...)
			}
			return one(y)
		}
	}
	evaluators["ArgMax"], evaluators["ArgMin"] = pick(1), pick(-1)
	evaluators["TopK"] = func(e *evaluator) []*tensor {
		x, sign := e.in(0), float64(2*e.int("largest", 1)-1)
		ax := x.normalAxis(e.int("axis", -1))
		shape := slices.Clone(x.shape)
		shape[ax] = toInts(e.in(1).data)[0]
		at := from(shape, true, func(idx []int) float64 {
			order := make([]int, x.shape[ax])
			value := func(k int) float64 {
				idx := slices.Clone(idx)
				idx[ax] = k
				return sign * x.at(idx...)
			}
			for k := range order {
				order[k] = k
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(value(b), value(a)) })
			return float64(order[idx[ax]])
		})
		return []*tensor{from(shape, x.isInt, func(idx []int) float64 {
			idx = slices.Clone(idx)
			idx[ax] = int(at.at(idx...))
			return x.at(idx...)
		}), at}
	}
}

// TestEmbeddingBlocks checks which tables get a block of their own: those that only
// lookups along the first axis read, and that have more rows than are read.
func TestEmbeddingBlocks(t *testing.T) {
	want := map[string]int{"embedding": 4, "embedding-scalar": 1, "embedding-vector": 2, "embedding-from-end": 4, "embedding-shared": 6,
		"embedding-of-offsets": 3, "mask": 4, "positions": 3, "table-of-integers": 2, "cast-of-numbers": 3,
		"where-of-integers": 4, "attention-where": 4, "attention-added": 4, "attention-large": 4, "argmax": 8, "argmax-of-integers": 2, "largest-of-integers": 2, "element-at": 4}
	for _, c := range tokenCases() {
		name := c.name[len("Tokens-"):]
		net := mustLoad(t, c.model())
		b := testref.Must(net.Linearize(t.Context(), inputsOf(net, rand.New(rand.NewPCG(1, 2)), 2)))(t)
		positions := 0
		for _, block := range b.Blocks {
			if e, ok := block.(*linearize.Embedding); ok {
				_, n := e.Index.Dims()
				positions += n
			}
		}
		require.Equal(t, want[name], positions, name)
	}
}

// TestIndexErrors checks what is said of inputs that are no whole numbers, that the
// declared type does not hold, and that a table has no row for.
func TestIndexErrors(t *testing.T) {
	embedding := func(input onnx.DataType, move int64) *network.Network {
		g := newGraph(13, 2, 2)
		g.model.Graph.Inputs[0].Type = input
		at := g.op("Transpose", in("x"), intsA("perm", 0, 2, 1))
		if move != 0 {
			at = g.op("Add", in(g.op("Mul", in(at, at)), g.int(move)))
		}
		return mustLoad(t, g.output(g.op("Gather", in(g.param(9, 2), at))))
	}
	for _, c := range []struct {
		input onnx.DataType
		move  int64
		value float64
		want  string
	}{
		{onnx.Int64, 0, 1.5, `input row 3 holds 1.5 in column 1, where input "x" takes whole numbers from -9007199254740992 to 9007199254740992 (int64)`},
		{onnx.Uint8, 0, 256, `input row 3 holds 256 in column 1, where input "x" takes whole numbers from 0 to 255 (uint8)`},
		{onnx.Uint8, 0, -1, `input row 3 holds -1 in column 1, where input "x" takes whole numbers from 0 to 255 (uint8)`},
		{onnx.Int64, 0, 9, `input row 3 holds 9 in column 1, but table "w3" has the rows 0 to 8 (−1 to −9 from its end)`},
		{onnx.Int32, 0, -10, `input row 3 holds -10 in column 1, but table "w3" has the rows 0 to 8`},
		{onnx.Int64, 1, 3, `input row 3 leads to the index 10, but table`},
		{onnx.Int64, 0, math.NaN(), `input row 3 holds NaN in column 1`},
	} {
		net := embedding(c.input, c.move)
		x := mat.NewDense(5, 4, nil)
		x.Set(3, 1, c.value)
		x.Set(4, 0, c.value) // the first row is named
		_, err := net.Forward(t.Context(), x)
		require.ErrorContains(t, err, c.want)
		requireOneLine(t, err)
		require.ErrorContains(t, testref.Err(net.Linearize(t.Context(), x)), c.want)
		require.ErrorContains(t, net.VJP(t.Context(), make([]float64, 18), x, mat.NewDense(5, 8, nil)), c.want)
	}
	// A row of a flat tensor, counted from the first of the example.
	g := newGraph(13, 2, 3)
	n := g.op("Range", in(g.int(0), g.op("Gather", in(g.op("Shape", in("x")), g.int(0))), g.int(1)))
	at := g.op("Cast", in(g.op("Gather", in(g.op("Flatten", in("x")), g.int(1)), intA("axis", 1))), intA("to", int64(onnx.Int64)))
	at = g.op("Add", in(at, g.op("Mul", in(n, g.int(2)))))
	flat := mustLoad(t, g.output(g.op("Gather", in(g.op("Reshape", in(g.input(), g.ints(-1, 3))), at))))
	rows := mat.NewDense(5, 6, nil)
	rows.Set(3, 1, -1)
	_, err := flat.Forward(t.Context(), rows)
	require.ErrorContains(t, err, "input row 3 holds -1 in column 1, but table")
	require.ErrorContains(t, err, "has the rows 0 to 1; correct the data")
	x := mat.NewDense(2, 4, []float64{-9, 8, 0, -1, 0, 8, 0, 8})
	b := testref.Must(embedding(onnx.Int64, 0).Linearize(t.Context(), x))(t)
	testref.RequireClose(t, b.F.RawRowView(0)[:2], b.F.RawRowView(1)[:2], 0, "row −9 is row 0")
}

// TestIntegersRefused checks operators that have no meaning for integers that depend
// on the input, or one that mixes examples.
func TestIntegersRefused(t *testing.T) {
	for _, c := range []struct {
		want  string
		input onnx.DataType
		build func(g *graph) string
	}{
		{"would mix examples", onnx.Int64, func(g *graph) string {
			y := g.op("Mul", in(g.cast("x", onnx.Double), g.param(3)))
			return g.op("Gather", in(y, "x"), intA("axis", 1))
		}},
		{"cast them to floating point", onnx.Int64, func(g *graph) string { return g.op("Mul", in(g.op("Tanh", in("x")), g.param(3))) }},
		{"would overflow", onnx.Uint8, func(g *graph) string { return g.op("Gather", in(g.param(5, 2), g.op("Mul", in("x", "x")))) }},
		{"neither integers known", 0, func(g *graph) string { return g.op("Gather", in(g.param(5, 2), "x")) }},
		{"may not hold them", onnx.Int64, func(g *graph) string { return g.op("Gather", in(g.param(5, 2), g.cast("x", onnx.Uint8))) }},
	} {
		g := newGraph(13, 3)
		if c.input != 0 {
			g.model.Graph.Inputs[0].Type = c.input
		}
		_, err := load(g.output(c.build(g)))
		require.ErrorContains(t, err, c.want)
		requireOneLine(t, err)
	}
}

// TestTokensConform runs the suite of a model on a network of token ids.
func TestTokensConform(t *testing.T) {
	g := newGraph(13, 5)
	g.model.Graph.Inputs[0].Type = onnx.Int64
	h := g.op("Tanh", in(g.op("ReduceMean", in(g.op("Gather", in(g.param(40, 3), "x"))), intsA("axes", 1), intA("keepdims", 0))))
	net := mustLoad(t, g.output(g.op("Gemm", in(h, g.param(3, 2), g.param(2)))))
	conform(t, net, inputsOf(net, rand.New(rand.NewPCG(1, 2)), 6))
}
