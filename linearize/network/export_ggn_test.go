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
	d := n.newDerivatives(b, roots != nil)
	d.plan = graph.NewPlan(n.prog, b, roots != nil, false)
	d.back[0] = graph.NewBackpropagator(d.plan, d.states[0], d.squared)
	rows, _ := x.Dims()
	if err := d.addGGN(0, dst, x, roots, 0, rows); err != nil {
		t.Fatal(err)
	}
	return dst
}

// Effort returns about how many numbers and multiplications one example takes, so
// that fuzz targets can skip large models.
func (n *Network) Effort() int {
	total := 0
	for _, s := range n.prog.Slots {
		total += s.Size
	}
	for _, nd := range n.prog.Nodes {
		total += graph.Multiplications(nd.Op)
	}
	return total
}
