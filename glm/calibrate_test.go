package glm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// randomMoments returns means and covariances of n rows with c outputs.
func randomMoments(rng *rand.Rand, n, c int, spread, width float64) (mean, cov *mat.Dense) {
	mean, cov = mat.NewDense(n, c, randomVec(rng, n*c, spread)), mat.NewDense(n*c, c, nil)
	for i := range n {
		a := mat.NewDense(c, c, randomVec(rng, c*c, width))
		cov.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Mul(a, a.T())
	}
	return mean, cov
}

// scaledNLL is the NLL at one scale, computed plainly.
func scaledNLL(t *testing.T, link Link, lik Likelihood, y, mean, cov *mat.Dense, s float64) float64 {
	t.Helper()
	n, _ := mean.Dims()
	var scaled mat.Dense
	scaled.Scale(s, cov)
	logp := make([]float64, n)
	require.NoError(t, link.LogPredictiveTo(logp, lik, y, mean, &scaled))
	return NLL(logp)
}

// The scale is the best of five hundred, for each likelihood.
func TestCalibrateAgainstBruteForce(t *testing.T) {
	rng := newRand(3)
	for trial := range 24 {
		n := 2 + rng.IntN(20)
		var lik Likelihood = Bernoulli{}
		var link Link = Exact{}
		c := 1
		switch trial % 3 {
		case 1:
			lik = Poisson{}
		case 2:
			lik, link, c = Categorical{}, Probit{}, 3
		}
		mean, cov := randomMoments(rng, n, c, 1.5, math.Exp(rng.NormFloat64()))
		y := mat.NewDense(n, 1, nil)
		for i := range n {
			y.Set(i, 0, float64(rng.IntN(max(c, 2))))
		}
		got, err := Calibrate(t.Context(), lik, y, mean, cov, &CalibrateOptions{Link: link})
		require.NoError(t, err)
		best, at := math.Inf(1), 0.0
		for k := range 501 {
			s := minScale * math.Pow(maxScale/minScale, float64(k)/500)
			if v := scaledNLL(t, link, lik, y, mean, cov, s); v < best {
				best, at = v, s
			}
		}
		require.LessOrEqual(t, got.NLL, best+1e-6*math.Abs(best), "trial %d: %v against %v", trial, got.Scale, at)
		require.InDelta(t, scaledNLL(t, link, lik, y, mean, cov, got.Scale), got.NLL, 1e-12)
		require.Equal(t, 1.0, got.NoiseScale)
		require.Equal(t, n, got.Rows)
		require.InDelta(t, scaledNLL(t, link, lik, y, mean, cov, 1), got.Unscaled, 1e-12)
		require.Equal(t, got.Scale == minScale || got.Scale == maxScale, got.Edge)
		require.Equal(t, got.Edge, len(got.Warnings) == 1)
	}
}

// The two scales of a Gaussian are the best of a square grid of pairs, for each kind
// of noise.
func TestCalibrateGaussianAgainstBruteForce(t *testing.T) {
	rng := newRand(4)
	for trial := range 30 {
		n, c := 2+rng.IntN(12), 1+trial%3
		lik, err := NewGaussian(math.Exp(rng.NormFloat64()))
		require.NoError(t, err)
		if trial%2 == 1 {
			a := mat.NewDense(c, c, randomVec(rng, c*c, 1))
			s := mat.NewSymDense(c, nil)
			s.SymOuterK(1, a)
			for j := range c {
				s.SetSym(j, j, s.At(j, j)+0.1)
			}
			lik, err = NewGaussianMatrix(s)
			require.NoError(t, err)
		}
		mean, cov := randomMoments(rng, n, c, 1, math.Exp(rng.NormFloat64()))
		y := mat.NewDense(n, c, randomVec(rng, n*c, math.Exp(2*rng.NormFloat64())))
		got, err := Calibrate(t.Context(), lik, y, mean, cov, nil)
		require.NoError(t, err)
		at := func(s, noise float64) float64 {
			scaled, err := lik.ScaleNoise(noise)
			require.NoError(t, err)
			return scaledNLL(t, Exact{}, scaled, y, mean, cov, s)
		}
		const steps = 30
		for i := range steps + 1 {
			for j := range steps + 1 {
				s, noise := minScale*math.Pow(1e6, float64(i)/steps), minScale*math.Pow(1e6, float64(j)/steps)
				require.LessOrEqual(t, got.NLL, at(s, noise)+1e-9, "trial %d: %v %v against %v %v", trial, got.Scale, got.NoiseScale, s, noise)
			}
		}
		require.InDelta(t, at(got.Scale, got.NoiseScale), got.NLL, 1e-9)
		require.InDelta(t, at(1, 1), got.Unscaled, 1e-9)
	}
}
