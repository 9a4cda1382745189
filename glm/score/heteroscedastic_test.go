package score

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/testref"
)

// Monte Carlo agrees with the closed forms, and the metrics compare targets with means.
func TestHeteroscedasticLinksAndScores(t *testing.T) {
	h, rng := glm.Heteroscedastic{}, testref.Rand(5)
	f, cov := testref.Posterior(6, 40, 4, 0.2)
	y := mat.NewDense(40, 2, nil)
	for i := range 40 {
		for j := range 2 {
			y.Set(i, j, f.At(i, j)+0.3*rng.NormFloat64())
		}
	}
	var exact, drawn, aleatoric, epistemic, a, e mat.Dense
	mc := predictive.MonteCarlo{Samples: 20000, Seed: 3}
	require.NoError(t, predictive.Exact{}.PredictTo(&exact, nil, h, f, cov))
	require.NoError(t, mc.PredictTo(&drawn, nil, h, f, cov))
	require.NoError(t, predictive.Exact{}.SplitTo(&aleatoric, &epistemic, h, f, cov))
	require.NoError(t, mc.SplitTo(&a, &e, h, f, cov))
	for i := range 40 {
		for j := range 2 {
			sd := math.Sqrt(epistemic.At(i, j))
			require.InDelta(t, exact.At(i, j), drawn.At(i, j), 5*sd/math.Sqrt(20000))
			require.InEpsilon(t, aleatoric.At(i, j), a.At(i, j), .1)
			require.InEpsilon(t, epistemic.At(i, j), e.At(i, j), .1)
		}
	}
	require.InDeltaSlice(t, logPredictive(t, predictive.Exact{}, h, y, f, cov), logPredictive(t, predictive.MonteCarlo{Samples: 20000}, h, y, f, cov), .3)
	s := testref.Must(ScoreOf(nil, h, y, f, cov))(t)
	sum := 0.0
	for i := range 40 {
		for j := range 2 {
			sum += math.Pow(y.At(i, j)-f.At(i, j), 2)
		}
	}
	require.InDelta(t, math.Sqrt(sum/80), s.RMSE, 1e-12)
	n := testref.Must(NoveltyOf(context.Background(), nil, h, f, cov, 1))(t)
	for i, v := range n.Score {
		require.InDelta(t, aleatoric.At(i, 0)+aleatoric.At(i, 1)+epistemic.At(i, 0)+epistemic.At(i, 1), v, 1e-12)
	}
}

// Calibration finds the scale by which a covariance is wrong.
func TestE18Heteroscedastic(t *testing.T) {
	h, rng := glm.Heteroscedastic{}, testref.Rand(8)
	const n = 300
	f, cov, y := mat.NewDense(n, 2, nil), mat.NewDense(2*n, 2, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		// Means with variance .5 and log variances with .2, said to be ten times as wide.
		m, s := rng.NormFloat64(), rng.NormFloat64()-1
		f.SetRow(i, []float64{m, s})
		cov.Set(2*i, 0, 5)
		cov.Set(2*i+1, 1, 2)
		at, noise := m+math.Sqrt(.5)*rng.NormFloat64(), s+math.Sqrt(.2)*rng.NormFloat64()
		y.Set(i, 0, at+math.Exp(noise/2)*rng.NormFloat64())
	}
	c := testref.Must(Calibrate(context.Background(), h, y, f, cov, nil))(t)
	require.InDelta(t, math.Log(.1), math.Log(c.Scale), .8)
	require.Equal(t, 1.0, c.NoiseScale)
}

// Intervals are as wide as the noise is at their input, and hold their share.
func TestHeteroscedasticJackknife(t *testing.T) {
	h, rng := glm.Heteroscedastic{}, testref.Rand(9)
	const n = 2000
	f, y := mat.NewDense(n, 2, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		m, s := rng.NormFloat64(), 2*rng.NormFloat64()
		f.SetRow(i, []float64{m, s})
		y.Set(i, 0, m+math.Exp(s/2)*rng.NormFloat64())
	}
	j := testref.Must(NewJackknife(h, .9, y, f))(t)
	at := func(m, s float64) (lo, hi float64) {
		same := mat.NewDense(n, 2, nil)
		for i := range n {
			same.SetRow(i, []float64{m, s})
		}
		return j.Interval(0, same)
	}
	for _, s := range []float64{-2, 0, 3} {
		lo, hi := at(1, s)
		require.InEpsilon(t, 1.645, (hi-1)*math.Exp(-s/2), .06)
		require.InEpsilon(t, 1.645, (1-lo)*math.Exp(-s/2), .06)
	}
}
