package glm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/testref"
)

// Probabilities of all counts sum to one, and the closed-form mean is Σ y p(y).
func TestE11PoissonPredictiveIsNormalized(t *testing.T) {
	for _, tc := range []struct {
		m, s float64
		n    int
		tol  float64
	}{
		{0, 0.5, 200, 1e-12},
		{1, 0.1, 200, 1e-12},
		{2, 0.4, 2000, 1e-12},
	} {
		sum, mean := 0.0, 0.0
		for y := range tc.n {
			p := math.Exp(integral.LogMeanPoisson(float64(y), tc.m, tc.s))
			sum += p
			mean += float64(y) * p
		}
		require.InDelta(t, 1, sum, tc.tol)
		want, _, _ := Poisson{}.Moments(0, tc.m, tc.s*tc.s)
		require.InEpsilon(t, want, mean, 10*tc.tol)
	}
}

func TestE11PoissonMoments(t *testing.T) {
	for _, m := range []float64{-2, 0, 1.5} {
		for _, s := range []float64{1e-4, 0.3, 1, 2} {
			mean, variance, noise := Poisson{}.Moments(0, m, s*s)
			want := testref.Expect(m, s, math.Exp)
			require.InEpsilon(t, want, mean, 1e-12)
			require.InEpsilon(t, testref.Expect(m, s, func(f float64) float64 { d := math.Exp(f) - want; return d * d }), variance, 1e-9)
			require.Equal(t, mean, noise)
		}
	}
}
