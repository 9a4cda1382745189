package network_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// TestBatchBytes compares BatchBytes with the memory that a Batch holds.
func TestBatchBytes(t *testing.T) {
	networks := map[string]*network.Network{}
	for _, e := range zoo() {
		networks[e.name] = build(t, e)
	}
	for kind := range recurrentGates {
		m, _, _, _ := wideRecurrent(kind, 2)
		networks[kind] = mustLoad(t, m)
	}
	for name, net := range networks {
		d, _, _ := net.Dims()
		x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 7, d)
		b, err := net.Linearize(t.Context(), x)
		require.NoError(t, err)
		held := map[*float64]int{}
		hold := func(m *mat.Dense) {
			if m != nil && m != x {
				held[&m.RawMatrix().Data[0]] = len(m.RawMatrix().Data)
			}
		}
		hold(b.F)
		for _, k := range b.Blocks {
			switch k := k.(type) {
			case *linearize.Outer:
				hold(k.A)
				hold(k.G)
			case *linearize.Conv:
				hold(k.X)
				hold(k.G)
			case *linearize.Embedding:
				hold(k.Index)
				hold(k.G)
			case *linearize.Full:
				hold(k.J)
			}
		}
		total := 0
		for _, n := range held {
			total += 8 * n
		}
		require.EqualValues(t, total, net.BatchBytes(7), name)
	}
}
