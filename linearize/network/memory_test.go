package network_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
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
		b := testref.Must(net.Linearize(t.Context(), x))(t)
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

// TestTooManyOutputs checks that what takes petabytes is refused before it is taken, with
// the bytes and the most examples that fit.
func TestTooManyOutputs(t *testing.T) {
	const outputs, rows = 21_853, 200_000 // 21,853² gradients an example
	wide := testref.Must(network.Sequential(network.Shape{2}, &network.Dense{Units: outputs}))(t)
	x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), rows, 2)
	e := testref.As[*linearize.MemoryError](t, testref.Err(wide.Linearize(t.Context(), x)))
	require.Equal(t, linearize.Examples, e.Unit)
	require.Less(t, e.Largest, rows)
	require.Equal(t, wide.BatchBytes(rows), e.Needed)
	require.LessOrEqual(t, wide.BatchBytes(e.Largest), e.Available)
	require.Greater(t, wide.BatchBytes(e.Largest+1), e.Available)
	b, err := wide.LinearizeCombined(t.Context(), x.Slice(0, 1, 0, 2).(*mat.Dense), mat.NewDense(2, outputs, nil))
	require.NoError(t, err, "two sums of the outputs are few")
	require.Equal(t, 2, b.Outputs())
}
