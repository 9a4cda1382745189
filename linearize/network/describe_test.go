package network_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// TestDescribeNamesBlocks checks that Describe names the kind of block into which
// Linearize puts a parameter.
func TestDescribeNamesBlocks(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range operatorCases() {
		net := mustLoad(t, c.model())
		d, _, _ := net.Dims()
		b, err := net.Linearize(t.Context(), mat.NewDense(1, d, nil))
		if err != nil {
			continue // no derivative at zero
		}
		want := map[int]string{}
		for _, block := range b.Blocks {
			kind := "Full"
			switch block.(type) {
			case *linearize.Outer:
				kind = "Outer"
			case *linearize.Conv:
				kind = "Conv"
			case *linearize.Embedding:
				kind = "Embedding"
			}
			for _, s := range block.Spans() {
				want[s.Offset] = kind
			}
		}
		got := map[int]string{}
		for _, p := range net.Describe().Params {
			got[p.Offset], seen[p.Block] = p.Block, true
		}
		require.Equal(t, want, got, c.name)
	}
	require.Len(t, seen, 4)
}

// TestDescribeFormsNoJacobian checks that Describe does not form a Jacobian, which
// would take 32 MB for the 2000 outputs here.
func TestDescribeFormsNoJacobian(t *testing.T) {
	g := newGraph(13, 3)
	net := mustLoad(t, g.output(g.op("MatMul", in("x", g.param(3, 2000)))))
	var d network.Description
	require.Less(t, allocated(func() { d = net.Describe() }), uint64(1<<20))
	require.Len(t, d.Params, 1)
	require.Equal(t, "Outer", d.Params[0].Block)
}
