package network_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNormalized checks weights of products on either side of which only a normalization
// reads the result.
func TestNormalized(t *testing.T) {
	for name, layer := range map[string]func(g *graph, w string) string{
		"MatMul": func(g *graph, w string) string { return g.op("MatMul", in("x", w)) },
		"Einsum": func(g *graph, w string) string { return g.op("Einsum", in("x", w), textA("equation", "bi,ij->bj")) },
		"left":   func(g *graph, w string) string { return g.op("Einsum", in(w, "x"), textA("equation", "ij,bi->bj")) },
		"no product": func(g *graph, w string) string {
			return g.op("ReduceSum", in(g.op("Mul", in(g.op("Unsqueeze", in("x", g.ints(2))), w)), g.ints(1)), intA("keepdims", 0))
		},
	} {
		g := newGraph(17, 3)
		w := g.param(3, 4)
		net, err := readModel(g.output(g.op("LayerNormalization", in(layer(g, w), g.param(4), g.param(4)))), nil)
		require.NoError(t, err, name)
		if name == "no product" {
			require.Empty(t, net.Normalized(), name)
		} else {
			require.Equal(t, in(w), net.Normalized(), name)
		}
	}
}
