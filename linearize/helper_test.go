package linearize_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// bare is a Source without further methods.
type bare struct{ src linearize.Source }

// requireSums compares a batch with the sums of the outputs of another.
func requireSums(t *testing.T, got, of *linearize.Batch, w *mat.Dense) {
	t.Helper()
	n, c, k := of.Len(), of.Outputs(), got.Outputs()
	var j, sums mat.Dense
	of.JacobianTo(&j)
	got.JacobianTo(&sums)
	require.Equal(t, n, got.Len())
	for i := range n {
		weights := w.Slice(i*k, (i+1)*k, 0, c)
		var f, rows mat.Dense
		f.Mul(weights, of.F.Slice(i, i+1, 0, c).T())
		rows.Mul(weights, j.Slice(i*c, (i+1)*c, 0, of.P))
		// two orders of sums of at most some hundred terms
		require.True(t, mat.EqualApprox(&f, got.F.Slice(i, i+1, 0, k).T(), 1e-12*(1+mat.Norm(&f, 2))))
		require.True(t, mat.EqualApprox(&rows, sums.Slice(i*k, (i+1)*k, 0, of.P), 1e-12*(1+mat.Norm(&rows, 2))))
	}
}

func gaussianMatrix(rng *rand.Rand, rows, cols int) *mat.Dense {
	m := mat.NewDense(rows, cols, nil)
	for i := range m.RawMatrix().Data {
		m.RawMatrix().Data[i] = rng.NormFloat64()
	}
	return m
}

func (p bare) Len() int { return p.src.Len() }

func (p bare) Batches(ctx context.Context, yield func(int, *linearize.Batch) error) error {
	return p.src.Batches(ctx, yield)
}
