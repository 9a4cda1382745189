package network_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
)

// batchVector is the vector that holds the batch size alone, as read from x.
func (g *graph) batchVector() string {
	return g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
}

func (g *graph) cast(name string, to onnx.DataType) string {
	return g.op("Cast", in(name), intA("to", int64(to)))
}

// TestIntegerDivisors checks Div and Mod in the arithmetic of shapes with divisors
// that are zero, contain the batch size, or are −1. want is part of the error; if
// it is empty, the model must be read and compute what the evaluator computes.
func TestIntegerDivisors(t *testing.T) {
	zero := "integer division by zero"
	mixes := "mix examples"
	for _, c := range []struct {
		name, want string
		build      func(g *graph) string // a vector of one integer, added to −1 and 3 as the shape of N×6
	}{
		{"Div by zero", zero, func(g *graph) string { return g.op("Div", in(g.ints(6), g.ints(0))) }},
		{"Mod by zero", zero, func(g *graph) string { return g.op("Mod", in(g.ints(6), g.ints(0))) }},
		{"fmod by zero", zero, func(g *graph) string { return g.op("Mod", in(g.ints(6), g.ints(0)), intA("fmod", 1)) }},
		{"Div of N by zero", zero, func(g *graph) string { return g.op("Div", in(g.batchVector(), g.ints(0))) }},
		{"Mod of N by zero", zero, func(g *graph) string { return g.op("Mod", in(g.batchVector(), g.ints(0))) }},
		{"fmod of N by zero", zero, func(g *graph) string { return g.op("Mod", in(g.batchVector(), g.ints(0)), intA("fmod", 1)) }},
		{"Div by N−N", zero, func(g *graph) string {
			return g.op("Div", in(g.ints(6), g.op("Sub", in(g.batchVector(), g.batchVector()))))
		}},
		{"Div by a cast N−N", zero, func(g *graph) string {
			none := g.op("Sub", in(g.cast(g.batchVector(), onnx.Float), g.cast(g.batchVector(), onnx.Float)))
			return g.cast(g.op("Div", in(g.cast(g.batchVector(), onnx.Float), none)), onnx.Int64)
		}},
		{"Mod by N−N", zero, func(g *graph) string {
			return g.op("Mod", in(g.ints(6), g.op("Sub", in(g.batchVector(), g.batchVector()))))
		}},
		{"Div by N", mixes, func(g *graph) string { return g.op("Div", in(g.ints(6), g.batchVector())) }},
		{"Mod by N", mixes, func(g *graph) string { return g.op("Mod", in(g.ints(6), g.batchVector())) }},
		{"Div of zero by N", "", func(g *graph) string {
			return g.op("Add", in(g.op("Div", in(g.ints(0), g.batchVector())), g.ints(2)))
		}},
		{"Div of a cast zero by N", "", func(g *graph) string {
			n := g.cast(g.batchVector(), onnx.Float)
			return g.op("Add", in(g.cast(g.op("Div", in(g.op("Sub", in(n, n)), n)), onnx.Int64), g.ints(2)))
		}},
		{"Div by −1", "", func(g *graph) string { return g.op("Div", in(g.ints(-2), g.ints(-1))) }},
		{"fmod of 3N+2 by −3", "", func(g *graph) string {
			n := g.op("Add", in(g.op("Mul", in(g.batchVector(), g.ints(3))), g.ints(2)))
			return g.op("Mod", in(n, g.ints(-3)), intA("fmod", 1))
		}},
		{"Div of the least integer by −1", "range of any shape", func(g *graph) string { return g.op("Div", in(g.ints(math.MinInt64), g.ints(-1))) }},
		{"Mod of the least integer by −1", "range of any shape", func(g *graph) string { return g.op("Mod", in(g.ints(math.MinInt64), g.ints(-1))) }},
		{"Sub of the least integer", "range of any shape", func(g *graph) string { return g.op("Sub", in(g.ints(0), g.ints(math.MinInt64))) }},
		{"Mul of the largest integers", "range of any shape", func(g *graph) string { return g.op("Mul", in(g.ints(math.MaxInt64), g.ints(math.MaxInt64))) }},
		{"Cast of NaN", "NaN", func(g *graph) string {
			return g.cast(g.op("Constant", nil, &onnx.Attribute{Name: "value_floats", Type: onnx.AttrFloats, Floats: []float32{float32(math.NaN())}}), onnx.Int64)
		}},
		{"Cast of a scalar NaN", "NaN", func(g *graph) string {
			return g.cast(g.op("Unsqueeze", in(g.op("Constant", nil, floatA("value_float", float32(math.NaN()))), g.ints(0))), onnx.Int64)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGraph(13, 6)
			x := g.input()
			m := g.output(g.op("Reshape", in(x, g.op("Concat", in(g.ints(-1), c.build(g), g.ints(3)), intA("axis", 0)))))
			net, err := load(m)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				requireOneLine(t, err)
				return
			}
			require.NoError(t, err)
			for rows := 1; rows < 6; rows++ {
				requireEvaluated(t, m, net, gaussianMatrix(rand.New(rand.NewPCG(1, 2)), rows, 6), nil)
			}
		})
	}
}
