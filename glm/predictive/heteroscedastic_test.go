package predictive

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/testref"
)

// Several targets are predicted each by itself, from its own block of the covariance.
func TestHeteroscedasticTargetsAreApart(t *testing.T) {
	h, rng := glm.Heteroscedastic{}, testref.Rand(3)
	f, cov := testref.Vec(rng, 6, 1), testref.Cov(rng, 6, 8, 1)
	y := testref.Vec(rng, 3, 1)
	got := testref.Must(h.LogMarginal(y, f, cov.RawMatrix().Data))(t)
	want := 0.0
	for j := range 3 {
		logp, err := h.LogMarginal(y[j:j+1], []float64{f[j], f[3+j]}, []float64{cov.At(j, j), cov.At(j, 3+j), cov.At(3+j, j), cov.At(3+j, 3+j)})
		require.NoError(t, err)
		want += logp
	}
	require.InDelta(t, want, got, 1e-12)
	var lo, hi mat.Dense
	require.NoError(t, IntervalTo(context.Background(), &lo, &hi, .9, h, mat.NewDense(1, 6, f), cov, 1))
	for j := range 3 {
		require.InDelta(t, .05, h.CoupledCDF(j, lo.At(0, j), f, cov.RawMatrix().Data), 1e-9)
		require.InDelta(t, .95, h.CoupledCDF(j, hi.At(0, j), f, cov.RawMatrix().Data), 1e-9)
	}
	_, cols := lo.Dims()
	require.Equal(t, 3, cols)
}
