package glm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// The distribution of a count is the sum of its probabilities, which
// logMeanPoisson integrates in another way.
func TestPoissonPredictiveIsSumOfProbabilities(t *testing.T) {
	for _, v := range []float64{0, 1e-4, 0.3, 2} {
		for _, m := range []float64{-2, 0.5, 3} {
			sum := 0.0
			for k := range 40 {
				sum += math.Exp(logMeanPoisson(float64(k), m, math.Sqrt(v)))
				require.InDelta(t, sum, Poisson{}.PredictiveCDF(0, float64(k), m, v), 1e-10, "m=%v v=%v k=%d", m, v, k)
			}
			require.Equal(t, Poisson{}.PredictiveCDF(0, 3, m, v), Poisson{}.PredictiveCDF(0, 3.7, m, v))
			require.Zero(t, Poisson{}.PredictiveCDF(0, -1, m, v))
		}
	}
}

// A quantile is the smallest number whose distribution function reaches p.
func TestPredictiveQuantiles(t *testing.T) {
	for _, p := range []float64{0.001, 0.05, 0.5, 0.95, 0.999} {
		for _, v := range []float64{0, 0.2, 3} {
			for _, m := range []float64{-8, 0, 2, 9} {
				k := Poisson{}.PredictiveQuantile(0, p, m, v)
				require.Equal(t, math.Trunc(k), k)
				require.GreaterOrEqual(t, Poisson{}.PredictiveCDF(0, k, m, v), p)
				require.Less(t, Poisson{}.PredictiveCDF(0, k-1, m, v), p)
			}
		}
		g := must[*Gaussian](t)(NewGaussianVector([]float64{1, 0.25}))
		require.InDelta(t, p, g.PredictiveCDF(1, g.PredictiveQuantile(1, p, 3, 2), 3, 2), 1e-14)
	}
}

func TestIntervals(t *testing.T) {
	g := must[*Gaussian](t)(NewGaussian(0.5))
	f, cov := randomPosterior(1, 4, 2, 1)
	var lo, hi mat.Dense
	require.NoError(t, IntervalTo(t.Context(), &lo, &hi, 0.9, g, f, cov, 0))
	for i := range 4 {
		for j := range 2 {
			half := 1.6448536269514722 * math.Sqrt(cov.At(2*i+j, j)+0.5) // Φ⁻¹(.95)
			require.InDelta(t, f.At(i, j)-half, lo.At(i, j), 1e-12)
			require.InDelta(t, f.At(i, j)+half, hi.At(i, j), 1e-12)
		}
	}
	lo, hi = mat.Dense{}, mat.Dense{}
	require.NoError(t, IntervalTo(t.Context(), &lo, &hi, 0.9, Poisson{}, f, cov, 2))
	require.True(t, mat.Min(&lo) >= 0)
	require.EqualError(t, IntervalTo(t.Context(), nil, nil, 0.9, Categorical{}, f, cov, 0), "glm: no interval by the exact link for the categorical likelihood")
	require.Panics(t, func() { _ = IntervalTo(t.Context(), nil, nil, 1, g, f, cov, 0) })
}
