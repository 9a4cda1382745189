package glm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/testref"
)

// A negative binomial count is one of Poisson whose rate is μ times a gamma variable of mean 1 and
// shape r: log p is that of the mixture, here integrated over the logarithm of the variable.
// Its probabilities sum to 1 with the mean μ and the variance μ + μ²/r.
func TestNegativeBinomialIsPoissonWithGammaRate(t *testing.T) {
	for _, r := range []float64{0.3, 1, 4.5, 99, 101, 1e4, 1e9} {
		l := testref.Must(NewNegativeBinomial(r))(t)
		for _, f := range []float64{-2, 0.4, 2.5} {
			var sum, first, second, cdf float64
			mu := math.Exp(f)
			for k := range 4000 {
				y := []float64{float64(k)}
				p := math.Exp(l.LogProb(y, []float64{f}))
				sum, first, second = sum+p, first+p*y[0], second+p*(y[0]-mu)*(y[0]-mu)
				if cdf += p; k < 40 && r <= 1e4 {
					require.InDelta(t, cdf, l.PredictiveCDF(0, y[0], f, 0), 2e-11, "r=%v f=%v k=%d", r, f, k)
				}
			}
			v := []float64{0}
			l.VarianceTo(v, []float64{f})
			require.InDelta(t, 1, sum, 1e-12)
			require.InEpsilon(t, mu, first, 1e-11)
			require.InEpsilon(t, v[0], second, 1e-9)
			if r > 50 {
				continue
			}
			lg, _ := math.Lgamma(r)
			for _, y := range []float64{0, 3, 120} {
				// u = log of the gamma variable
				want, step := 0.0, 1e-3
				for u := -120.0; u < 8; u += step {
					want += step * math.Exp(integral.LogPoisson(y, f+u)+r*(u+math.Log(r)-math.Exp(u))-lg)
				}
				require.InDelta(t, math.Log(want), l.LogProb([]float64{y}, []float64{f}), 1e-9, "r=%v f=%v y=%v", r, f, y)
			}
		}
	}
	for _, r := range []float64{0, -1, math.Inf(1), math.NaN()} {
		require.ErrorContains(t, testref.Err(NewNegativeBinomial(r)), "no positive number")
	}
}

// With f uncertain, the moments and the distribution are sums over the counts, and quantiles invert it.
func TestNegativeBinomialPredictive(t *testing.T) {
	l := testref.Must(NewNegativeBinomial(2.5))(t)
	const m, v = 0.7, 0.2
	var sum, first, second float64
	for k := range 600 {
		y := float64(k)
		logp := testref.Must(l.LogMarginal([]float64{y}, []float64{m}, []float64{v}))(t)
		p := math.Exp(logp)
		sum, first, second = sum+p, first+y*p, second+y*y*p
		if k < 30 {
			require.InDelta(t, sum, l.PredictiveCDF(0, y+.5, m, v), 1e-10)
		}
	}
	require.InDelta(t, 1, sum, 1e-9)
	mean, epistemic, aleatoric := l.Moments(0, m, v)
	require.InEpsilon(t, mean, first, 1e-7)
	require.InEpsilon(t, epistemic+aleatoric, second-first*first, 1e-5)
	for _, p := range []float64{.01, .5, .9, .999} {
		k := l.PredictiveQuantile(0, p, m, v)
		require.GreaterOrEqual(t, l.PredictiveCDF(0, k, m, v), p)
		require.Less(t, l.PredictiveCDF(0, k-1, m, v), p)
	}
	require.True(t, math.IsInf(l.PredictiveQuantile(0, .5, 800, 1), 1))
	require.Zero(t, l.PredictiveCDF(0, -1, m, v))
}
