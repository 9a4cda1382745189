package score

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/testref"
)

// drawnCounts are n rows of c counts with random means and variances, and targets at the rates of
// exp f, f ~ N(mean − s·v/2, s·v).
func drawnCounts(rng *rand.Rand, n, c int, s float64) (y, mean, cov *mat.Dense) {
	mean, cov = testref.Moments(rng, n, c, 1, 1)
	y = mat.NewDense(n, c, nil)
	for i := range n {
		for j := range c {
			v := s * cov.At(i*c+j, j)
			rate := math.Exp(mean.At(i, j) - v/2 + math.Sqrt(v)*rng.NormFloat64())
			u := rng.Float64()
			for p := math.Exp(-rate); u > p && y.At(i, j) < 1e4; p *= rate / y.At(i, j) {
				u -= p
				y.Set(i, j, y.At(i, j)+1)
			}
		}
	}
	return y, mean, cov
}

// shifted returns mean − s·v/2, computed plainly.
func shifted(mean, cov *mat.Dense, s float64) *mat.Dense {
	_, c := mean.Dims()
	var to mat.Dense
	to.Apply(func(i, j int, m float64) float64 { return m - s*cov.At(i*c+j, j)/2 }, mean)
	return &to
}

// Calibrated counts have the rates of the means, whatever the scale is (E18, E21), and other
// likelihoods the means themselves.
func TestE21CountsKeepTheRateOfTheMean(t *testing.T) {
	rng := testref.Rand(31)
	for trial := range 8 {
		c := 1 + 2*(trial%2)
		y, mean, cov := drawnCounts(rng, 40, c, 0.3)
		before := []*mat.Dense{mat.DenseCopyOf(mean), mat.DenseCopyOf(cov)}
		k := testref.Must(Calibrate(t.Context(), glm.Poisson{}, y, mean, cov, nil))(t)
		require.True(t, k.RateKept)
		require.NotEqual(t, 1.0, k.Scale)
		for _, k := range []*Calibration{k, {Scale: 7, RateKept: true}} {
			lik, m, s, err := k.Apply(glm.Poisson{}, mean, cov)
			require.NoError(t, err)
			require.Equal(t, glm.Poisson{}, lik)
			var rate, want mat.Dense
			require.NoError(t, predictive.Exact{}.PredictTo(&rate, nil, lik, m, s))
			want.Apply(func(_, _ int, v float64) float64 { return math.Exp(v) }, mean)
			require.True(t, mat.EqualApprox(&want, &rate, 1e-11))
			var scaled mat.Dense
			scaled.Scale(k.Scale, cov)
			require.True(t, mat.EqualApprox(&scaled, s, 1e-14))
			_, none, noCov, err := k.Apply(glm.Poisson{}, nil, nil)
			require.NoError(t, err)
			require.True(t, none == nil && noCov == nil)
			require.Panics(t, func() { _, _, _, _ = k.Apply(glm.Poisson{}, mean, nil) })
		}
		require.Equal(t, before, []*mat.Dense{mean, cov})
		require.InDelta(t, scaledNLL(t, predictive.Exact{}, glm.Poisson{}, y, shifted(mean, cov, k.Scale), cov, k.Scale), k.NLL, 1e-12)
		require.InDelta(t, scaledNLL(t, predictive.Exact{}, glm.Poisson{}, y, shifted(mean, cov, 1), cov, 1), k.Unscaled, 1e-12)

		same := testref.Must(Calibrate(t.Context(), glm.Poisson{}, y, mean, cov, &CalibrateOptions{KeepMean: true}))(t)
		_, m, _, err := same.Apply(glm.Poisson{}, mean, cov)
		require.NoError(t, err)
		require.False(t, same.RateKept)
		require.True(t, m == mean)
	}
	mean, cov := testref.Moments(rng, 5, 1, 1, 1)
	for _, lik := range []glm.Likelihood{glm.Bernoulli{}, testref.Must(glm.NewGaussian(1))(t)} {
		require.False(t, calibrated(t, lik, mat.NewDense(5, 1, []float64{1, 0, 0, 1, 1}), mean, cov).RateKept)
	}
}

// The scale of counts is the best of a fine grid, where one row in twenty is geometric (E18): with
// priors and without, of several counts a row, and of more rows than the search's own grid takes.
func TestE18CountsAgainstAGrid(t *testing.T) {
	rng := testref.Rand(32)
	for trial := range 13 {
		n, c, steps := 3+rng.IntN(30), 1+2*(trial%2), 600
		if trial == 12 {
			n, c, steps = coarseRows+500, 1, 60
		}
		spread := []float64{math.Inf(1), 2, 0.5}[trial%3]
		y, mean, cov := drawnCounts(rng, n, c, math.Exp(2*rng.NormFloat64()-1))
		if trial == 5 {
			y.Zero()
		}
		if trial%4 == 0 { // a row that is far off
			y.Set(1, 0, 60)
			mean.Set(1, 0, -2)
		}
		got := testref.Must(Calibrate(t.Context(), glm.Poisson{}, y, mean, cov, &CalibrateOptions{Spread: spread}))(t)
		average := make([]float64, c)
		for j := range c {
			average[j] = mat.Sum(y.ColView(j)) / float64(n)
		}
		objective := func(s float64) float64 {
			var scaled mat.Dense
			scaled.Scale(s, cov)
			logp := make([]float64, n)
			require.NoError(t, predictive.Exact{}.LogPredictiveTo(logp, glm.Poisson{}, y, shifted(mean, cov, s), &scaled))
			sum := 0.0
			for i, p := range logp {
				q := 1.0
				for j, m := range average {
					q *= math.Pow(m/(1+m), y.At(i, j)) / (1 + m)
				}
				sum -= math.Log(0.95*math.Exp(p)+0.05*q) / float64(n)
			}
			return sum + penaltyOf(s, spread, n)
		}
		best := objective(got.Scale)
		for k := range steps + 1 {
			s := minScale * math.Pow(maxScale/minScale, float64(k)/float64(steps))
			require.LessOrEqual(t, best, objective(s)+1e-6, "trial %d: %v against %v", trial, got.Scale, s)
		}
	}
}

// Targets drawn from a predictive give back its scale, up to the error of a sample, and do so
// where one row in twenty has a count that does not depend on the row, by which the likelihood
// alone chooses a far larger one.
func TestCalibrateCountsWithStrays(t *testing.T) {
	rng := testref.Rand(33)
	const n = 500
	for _, s := range []float64{0.1, 1} {
		y, mean, cov := drawnCounts(rng, n, 1, s)
		require.InDelta(t, math.Log(s), math.Log(calibrated(t, glm.Poisson{}, y, mean, cov).Scale), 0.7, "s = %v", s)
	}
	const s = 0.1
	y, mean, cov := drawnCounts(rng, n, 1, s)
	for i := 0; i < n; i += 20 {
		y.Set(i, 0, math.Floor(-5*math.Log(rng.Float64())))
	}
	alone := testref.Must(Calibrate(t.Context(), glm.Poisson{}, y, mean, cov, &CalibrateOptions{KeepMean: true}))(t)
	require.Greater(t, alone.Scale, 2.5*s)
	require.InDelta(t, math.Log(s), math.Log(calibrated(t, glm.Poisson{}, y, mean, cov).Scale), 0.7)
}

// Counts that vary as Poisson counts do, but for one part in 1e12, are scored and calibrated as they are.
func TestNegativeBinomialOfLargeDispersionIsPoisson(t *testing.T) {
	rng := testref.Rand(33)
	y, mean, cov := drawnCounts(rng, 40, 1, 0.3)
	lik := testref.Must(glm.NewNegativeBinomial(1e12))(t)
	want := testref.Must(ScoreOfContext(t.Context(), nil, glm.Poisson{}, y, mean, cov))(t)
	got := testref.Must(ScoreOfContext(t.Context(), nil, lik, y, mean, cov))(t)
	require.InDelta(t, want.NLL, got.NLL, 1e-8)
	require.InDelta(t, want.RMSE, got.RMSE, 1e-8)
	poisson, other := calibrated(t, glm.Poisson{}, y, mean, cov), calibrated(t, lik, y, mean, cov)
	require.True(t, other.RateKept)
	require.InEpsilon(t, poisson.Scale, other.Scale, 1e-4)
	require.InDelta(t, poisson.NLL, other.NLL, 1e-7)
}
