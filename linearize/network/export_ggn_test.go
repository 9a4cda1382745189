package network

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// SlowGGN is GGNDiagonal without shortcuts for a diagonal M.
func SlowGGN(t *testing.T, n *Network, x, roots *mat.Dense, b Backpropagation) []float64 {
	t.Helper()
	dst := make([]float64, n.prog.P)
	g := newGGN(n, b, roots != nil)
	g.plan = graph.NewPlan(n.prog, graph.Backpropagation(b), roots != nil, false)
	g.parts[0] = dst
	rows, _ := x.Dims()
	if err := g.add(0, 0, x, roots, 0, rows); err != nil {
		t.Fatal(err)
	}
	return dst
}
