package onnx_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// TestBuilder runs each node that a Builder writes, by package network, and compares it with Go: of rows x and
// constants y, four numbers each.
func TestBuilder(t *testing.T) {
	x, y := mat.NewDense(2, 4, []float64{1, -2, .5, 3, -1, .25, 2, -4}), []float64{.5, -3, .5, 2}
	each := func(f func(a, b float64) float64) func(x []float64) []float64 {
		return func(x []float64) (out []float64) {
			for i, a := range x {
				out = append(out, f(a, y[i]))
			}
			return out
		}
	}
	holds := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	for name, c := range map[string]struct {
		write func(b *onnx.Builder, x, y string) string
		want  func(x []float64) []float64
	}{
		"Add": {(*onnx.Builder).Add, each(func(a, b float64) float64 { return a + b })},
		"Sub": {(*onnx.Builder).Sub, each(func(a, b float64) float64 { return a - b })},
		"Mul": {(*onnx.Builder).Mul, each(func(a, b float64) float64 { return a * b })},
		"Div": {(*onnx.Builder).Div, each(func(a, b float64) float64 { return a / b })},
		"Max": {(*onnx.Builder).Max, each(math.Max)},
		"Min": {(*onnx.Builder).Min, each(math.Min)},
		"Of": {func(b *onnx.Builder, x, _ string) string { return b.Of("Abs", x) },
			each(func(a, _ float64) float64 { return math.Abs(a) })},
		"Holds": {func(b *onnx.Builder, x, y string) string { return b.Holds("GreaterOrEqual", x, y) },
			each(func(a, b float64) float64 { return holds(a >= b) })},
		"Where, Above": {func(b *onnx.Builder, x, y string) string { return b.Where(b.Above(x, .5), x, y) },
			each(func(a, b float64) float64 {
				if a > .5 {
					return a
				}
				return b
			})},
		"MatMul": {func(b *onnx.Builder, x, y string) string { return b.MatMul(x, b.Reshape(y, 4, 1)) },
			func(x []float64) []float64 { return []float64{x[0]*y[0] + x[1]*y[1] + x[2]*y[2] + x[3]*y[3]} }},
		"Einsum, Unsqueeze": { // the square of a matrix
			func(b *onnx.Builder, x, _ string) string {
				m := b.Reshape(x, -1, 2, 2)
				return b.Reshape(b.Sum(b.Unsqueeze(b.Einsum("tij,tjk->tik", m, m), 3), 3), -1, 4)
			},
			func(x []float64) []float64 {
				m := mat.NewDense(2, 2, x)
				var square mat.Dense
				square.Mul(m, m)
				return square.RawMatrix().Data
			}},
		"Transpose, Sum": { // columns of a matrix
			func(b *onnx.Builder, x, _ string) string {
				return b.Sum(b.Transpose(b.Reshape(x, -1, 2, 2), 0, 2, 1), 2)
			},
			func(x []float64) []float64 { return []float64{x[0] + x[2], x[1] + x[3]} }},
		"Columns, Concat": {func(b *onnx.Builder, x, _ string) string { return b.Concat(1, b.Columns(x, 2, 3, 0), x) },
			func(x []float64) []float64 { return append([]float64{x[3], x[0]}, x...) }},
		"Ops, Concat of one, Range": { // the two largest
			func(b *onnx.Builder, x, _ string) string {
				two := b.Ops("TopK", 2, []string{x, b.Ints(2)}, "axis", 1)
				at := b.Holds("Equal", b.Unsqueeze(two[1], 2), b.Range(4))
				return b.Sum(b.Mul(at, b.Unsqueeze(b.Concat(1, x), 1)), 2)
			},
			func(x []float64) []float64 {
				if x[0] == 1 {
					return []float64{3, 1}
				}
				return []float64{2, .25}
			}},
	} {
		b := &onnx.Builder{}
		b.Graph.Inputs = []*onnx.ValueInfo{onnx.Rows("x", onnx.Double, 4)}
		width := len(c.want(mat.Row(nil, 0, x)))
		parameter := b.Doubles(make([]float64, width), 1, width) // which package network wants
		b.Output("out", b.Add(c.write(b, "x", b.Doubles(y, 1, 4)), parameter), onnx.Double, width)
		data := testref.Must((&onnx.Model{IRVersion: 8, OpsetImport: []onnx.Opset{{Version: 17}}, Graph: &b.Graph}).Encode())(t)
		n, err := network.ReadONNX(bytes.NewReader(data), nil)
		require.NoError(t, err, name)
		got := testref.Must(n.Forward(t.Context(), x))(t)
		for i := range 2 {
			require.Equal(t, c.want(mat.Row(nil, i, x)), got.RawRowView(i), name)
		}
	}
}

// TestBuilderShares: equal scalars and vectors of integers are stored once, and arrays each time; all names differ.
func TestBuilderShares(t *testing.T) {
	b := &onnx.Builder{}
	require.Equal(t, b.Double(.1), b.Double(.1))
	require.Equal(t, b.Ints(0, 1, 2), b.Range(3))
	names := map[string]bool{b.Double(.1): true, b.Double(.1 + 1e-17): true, b.Double(.1 + 2e-17): true, b.Double(1): true, b.Ints(1): true}
	require.Len(t, names, 4, "numbers that differ in the last place are two")
	for _, name := range []string{b.Doubles([]float64{.1}), b.Doubles([]float64{.1}), b.Of("Neg", "x"), b.Of("Neg", "x")} {
		require.NotContains(t, names, name)
		names[name] = true
	}
	require.Panics(t, func() { b.Op("Elu", []string{"x"}, "alpha", .5) })
}

// TestAppender: names that the graph has, of whatever kind, are not given again, and the graph stays as it is.
func TestAppender(t *testing.T) {
	g := &onnx.Graph{
		Inputs:       []*onnx.ValueInfo{onnx.Rows("p_0_Neg", onnx.Double, 1)},
		Initializers: []*onnx.Tensor{{Name: "p_1_Neg"}},
		Nodes:        []*onnx.Node{{OpType: "Abs", Inputs: []string{"p_0_Neg"}, Outputs: []string{"p_2_Neg"}}},
	}
	a := onnx.NewAppender(g, "p")
	require.Equal(t, "p_3_Neg", a.Add("Neg", nil, "p_2_Neg"))
	require.Equal(t, "p_4_Neg", a.Add("Neg", nil, a.Constant(&onnx.Tensor{Type: onnx.Double})))
	require.Len(t, g.Nodes, 1)
	require.Len(t, a.Graph.Nodes, 4)
	require.Equal(t, "value", a.Graph.Nodes[2].Attributes[0].Name)
}
