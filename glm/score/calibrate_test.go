package score

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// scaledNLL is the NLL at one scale, computed plainly.
func scaledNLL(t *testing.T, link predictive.Link, lik glm.Likelihood, y, mean, cov *mat.Dense, s float64) float64 {
	t.Helper()
	n, _ := mean.Dims()
	var scaled mat.Dense
	scaled.Scale(s, cov)
	logp := make([]float64, n)
	require.NoError(t, link.LogPredictiveTo(logp, lik, y, mean, &scaled))
	return NLL(logp)
}

// temperedNLL is the NLL at a scale and a temperature, computed plainly.
func temperedNLL(t *testing.T, link predictive.Link, lik glm.Likelihood, y, mean, cov *mat.Dense, s, tau float64) float64 {
	t.Helper()
	var tempered mat.Dense
	tempered.Scale(tau, mean)
	return scaledNLL(t, link, lik, y, &tempered, cov, s)
}

// penaltyOf is ½ (log s)²/spread² over n rows.
func penaltyOf(s, spread float64, n int) float64 {
	return math.Pow(math.Log(s)/spread, 2) / 2 / float64(n)
}

// penaltyOfBoth is ½ (log s/τ²)²/spread² + ½ (log τ)²/spread² over n rows.
func penaltyOfBoth(s, tau, spread float64, n int) float64 {
	return penaltyOf(s/(tau*tau), spread, n) + penaltyOf(tau, spread, n)
}

// The zero value scales nothing, and the other scales of a partly filled one stay 1.
func TestZeroCalibration(t *testing.T) {
	gauss := testref.Must(glm.NewGaussian(.25))(t)
	mean, cov := mat.NewDense(1, 1, []float64{3}), mat.NewDense(1, 1, []float64{2})
	for _, c := range []*Calibration{{}, {NoiseScale: 1}, {Scale: 1}, {Scale: 1, Temperature: 1, NoiseScale: 1}} {
		lik, m, v, err := c.Apply(gauss, mean, cov)
		require.NoError(t, err)
		require.Equal(t, 3.0, m.At(0, 0))
		require.Equal(t, 2.0, v.At(0, 0))
		require.Equal(t, gauss.LogProb([]float64{1}, []float64{3}), lik.LogProb([]float64{1}, []float64{3}))
	}
	lik, _, v, err := (&Calibration{Scale: .5}).Apply(gauss, mean, cov)
	require.NoError(t, err)
	require.Equal(t, 1.0, v.At(0, 0))
	require.Equal(t, gauss.LogProb([]float64{1}, []float64{3}), lik.LogProb([]float64{1}, []float64{3}))
}

// The scale and the temperature are the best of a fine grid of pairs, for each likelihood
// and by other links, with priors and without (E18, E21).
func TestE18CalibrateAgainstBruteForce(t *testing.T) {
	rng := testref.Rand(3)
	below := 0
	for trial := range 75 {
		spread := []float64{math.Inf(1), 2, 0.5}[trial/5%3]
		n := 2 + rng.IntN(20)
		var lik glm.Likelihood = glm.Bernoulli{}
		var link predictive.Link = predictive.Exact{}
		c, temperatures := 1, 61
		switch trial % 5 {
		case 1:
			lik, temperatures = glm.Poisson{}, 1
		case 2:
			lik, link, c = glm.Categorical{}, predictive.Probit{}, 3
		case 3:
			lik, link, c = glm.Categorical{}, predictive.QMC{}, 2
		case 4:
			c = 2
		}
		mean, cov := testref.Moments(rng, n, c, 1.5, math.Exp(rng.NormFloat64()))
		y := mat.NewDense(n, lik.Targets(c), nil)
		for i := range n {
			for j := range lik.Targets(c) {
				y.Set(i, j, float64(rng.IntN(max(c, 2))))
				if rng.Float64() < 0.6 && c == 1 && mean.At(i, 0) > 0 {
					y.Set(i, j, 1)
				}
			}
		}
		got, err := Calibrate(t.Context(), lik, y, mean, cov, &CalibrateOptions{Link: link, Spread: spread, KeepMean: temperatures == 1})
		require.NoError(t, err)
		at := func(s, tau float64) float64 {
			return temperedNLL(t, link, lik, y, mean, cov, s, tau) + penaltyOfBoth(s, tau, spread, n)
		}
		best, bestS, bestTau := math.Inf(1), 0.0, 0.0
		for k := range 61 {
			for j := range temperatures {
				tau := math.Pow(minTemperature, float64(j)/60)
				s := tau * tau * minScale * math.Pow(maxScale/minScale, float64(k)/60)
				if v := at(s, tau); v < best {
					best, bestS, bestTau = v, s, tau
				}
			}
		}
		require.LessOrEqual(t, at(got.Scale, got.Temperature), best+1e-6*math.Abs(best),
			"trial %d: %v %v against %v %v", trial, got.Scale, got.Temperature, bestS, bestTau)
		require.InDelta(t, temperedNLL(t, link, lik, y, mean, cov, got.Scale, got.Temperature), got.NLL, 1e-12)
		require.Equal(t, 1.0, got.NoiseScale)
		if temperatures == 1 {
			require.Equal(t, 1.0, got.Temperature)
		}
		if got.Temperature < 1 {
			below++
		}
		require.Equal(t, n, got.Rows)
		require.InDelta(t, scaledNLL(t, link, lik, y, mean, cov, 1), got.Unscaled, 1e-12)
		before := math.Log(got.Scale / (got.Temperature * got.Temperature) / 0.1)
		require.LessOrEqual(t, math.Abs(before), math.Log(1000)+1e-9)
		require.Equal(t, math.Abs(before) > math.Log(1000)-1e-9 || got.Temperature == minTemperature, got.Edge)
	}
	require.Greater(t, below, 20)
	require.Less(t, below, 55)
}

// The two scales of a Gaussian are the best of a square grid of pairs, for each kind
// of noise.
func TestCalibrateGaussianAgainstBruteForce(t *testing.T) {
	rng := testref.Rand(4)
	for trial := range 45 {
		n, c := 2+rng.IntN(12), 1+trial%3
		spread := []float64{math.Inf(1), 2, 0.5}[trial/3%3]
		lik := testref.Must(glm.NewGaussian(math.Exp(rng.NormFloat64())))(t)
		if trial%2 == 1 {
			a := mat.NewDense(c, c, testref.Vec(rng, c*c, 1))
			s := mat.NewSymDense(c, nil)
			s.SymOuterK(1, a)
			for j := range c {
				s.SetSym(j, j, s.At(j, j)+0.1)
			}
			lik = testref.Must(glm.NewGaussianMatrix(s))(t)
		}
		mean, cov := testref.Moments(rng, n, c, 1, math.Exp(rng.NormFloat64()))
		y := mat.NewDense(n, c, testref.Vec(rng, n*c, math.Exp(2*rng.NormFloat64())))
		got := testref.Must(Calibrate(t.Context(), lik, y, mean, cov, &CalibrateOptions{Spread: spread}))(t)
		at := func(s, noise float64) float64 {
			scaled := testref.Must(lik.ScaleNoise(noise))(t)
			return scaledNLL(t, predictive.Exact{}, scaled, y, mean, cov, s)
		}
		const steps = 30
		for i := range steps + 1 {
			for j := range steps + 1 {
				s, noise := minScale*math.Pow(1e6, float64(i)/steps), minScale*math.Pow(1e6, float64(j)/steps)
				require.LessOrEqual(t, got.NLL+penaltyOf(got.Scale, spread, n), at(s, noise)+penaltyOf(s, spread, n)+1e-9, "trial %d: %v %v against %v %v", trial, got.Scale, got.NoiseScale, s, noise)
			}
		}
		require.InDelta(t, at(got.Scale, got.NoiseScale), got.NLL, 1e-9)
		require.InDelta(t, at(1, 1), got.Unscaled, 1e-9)
	}
}

// calibrated calls Calibrate for rows with their scale known.
func calibrated(t *testing.T, lik glm.Likelihood, y, mean, cov *mat.Dense) *Calibration {
	t.Helper()
	return testref.Must(Calibrate(t.Context(), lik, y, mean, cov, nil))(t)
}

// Targets drawn from a predictive give back the scales by which its covariance and
// noise were changed, up to the error of a sample.
func TestCalibrateFindsTheScaleThatWasUsed(t *testing.T) {
	rng := testref.Rand(8)
	const n = 1500
	for _, s := range []float64{0.03, 1, 7} {
		mean, cov, y := mat.NewDense(n, 1, testref.Vec(rng, n, 1)), mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil)
		logits := mat.NewDense(n, 1, nil)
		for i := range n {
			v := math.Exp(rng.NormFloat64())
			cov.Set(i, 0, v/s)
			f := mean.At(i, 0) + math.Sqrt(v)*rng.NormFloat64()
			y.Set(i, 0, f+math.Sqrt(0.5)*rng.NormFloat64())
			if rng.Float64() < integral.Sigmoid(f) {
				logits.Set(i, 0, 1)
			}
		}
		lik := testref.Must(glm.NewGaussian(0.2))(t)
		c := calibrated(t, lik, y, mean, cov)
		require.InEpsilon(t, s, c.Scale, 0.3)
		require.InEpsilon(t, 2.5, c.NoiseScale, 0.16)
		require.False(t, c.Edge)
		require.Empty(t, c.Warnings)
		c = calibrated(t, glm.Bernoulli{}, logits, mean, cov)
		require.InEpsilon(t, s, c.Scale, 1)
		require.Less(t, c.NLL, c.Unscaled+1e-12)
		require.InDelta(t, 0.6, c.NLL, 5*c.StdErr+0.05)
	}
}

// At the edges there is a warning with the numbers: where every covariance is too
// wide, and where every one is too narrow.
func TestCalibrateAtTheEdges(t *testing.T) {
	noPrior := &CalibrateOptions{Spread: math.Inf(1)}
	mean, cov := mat.NewDense(4, 1, []float64{3, -3, 4, -2}), mat.NewDense(4, 1, []float64{2, 3, 1, 1})
	right, wrong := mat.NewDense(4, 1, []float64{1, 0, 1, 0}), mat.NewDense(4, 1, []float64{0, 1, 0, 1})
	for _, e := range []struct {
		y     *mat.Dense
		scale float64
		says  string
	}{{right, minScale, "the network alone predicts best"}, {wrong, maxScale, "too narrow"}} {
		c := testref.Must(Calibrate(t.Context(), glm.Bernoulli{}, e.y, mean, cov, noPrior))(t)
		require.InEpsilon(t, e.scale, c.Scale/(c.Temperature*c.Temperature), 1e-12)
		require.True(t, c.Edge)
		at := 0
		if e.scale == maxScale { // what is worse than no prediction is said first, and no temperature helps
			at = 1
			require.Equal(t, minTemperature, c.Temperature)
			worse, mean := linearize.WarningOf(c.Warnings[0]), linearize.WarningOf(c.Warnings[2])
			require.Equal(t, []any{"worse-than-constant", c.NLL, math.Ln2}, []any{worse.Code, worse.Value, worse.Limit})
			require.Equal(t, []any{"scale-edge", minTemperature, minTemperature}, []any{mean.Code, mean.Value, mean.Limit})
		}
		require.Len(t, c.Warnings, 1+2*at)
		edge := linearize.WarningOf(c.Warnings[at])
		require.Equal(t, "scale-edge", edge.Code)
		require.Equal(t, e.scale, edge.Limit)
		require.InEpsilon(t, e.scale, edge.Value, 1e-12)
		require.ErrorContains(t, edge, e.says)
		// So few rows move the scales only so far against their priors.
		c = calibrated(t, glm.Bernoulli{}, e.y, mean, cov)
		require.InDelta(t, 0, math.Log(c.Scale/c.Temperature/c.Temperature), 4)
		require.InDelta(t, 0, math.Log(c.Temperature), 3)
		require.False(t, c.Edge)
		require.Len(t, c.Warnings, at)
	}
	// A noise variance that is too large by far.
	lik := testref.Must(glm.NewGaussian(1e9))(t)
	c := calibrated(t, lik, right, right, cov)
	require.Equal(t, minScale, c.NoiseScale)
	require.True(t, c.Edge)
	require.ErrorContains(t, c.Warnings[len(c.Warnings)-1], "noise variance is 0.0001, the smallest that is tried")
}

// Without a covariance every scale is as good, and none is chosen.
func TestCalibrateWithoutCovariance(t *testing.T) {
	mean, y := mat.NewDense(3, 1, []float64{1, 2, 0.5}), mat.NewDense(3, 1, []float64{1, 0, 1})
	zero := mat.NewDense(3, 1, nil)
	lik := testref.Must(glm.NewGaussian(2))(t)
	for _, lik := range []glm.Likelihood{glm.Bernoulli{}, glm.Poisson{}, lik} {
		c := calibrated(t, lik, y, mean, zero)
		require.InDelta(t, 1, c.Scale/(c.Temperature*c.Temperature), 1e-15, lik.Name())
		require.False(t, c.Edge)
		require.Equal(t, c.NLL, linearize.FindWarning(c.Warnings, "scale-flat").Value)
	}
	c := calibrated(t, lik, y, mean, zero)
	require.InDelta(t, (0+4+0.25)/3.0/2, c.NoiseScale, 1e-12) // the mean squared error over σ²
	three, err := Calibrate(t.Context(), glm.Categorical{}, y, mat.NewDense(3, 3, []float64{1, 2, 0, 2, 0, 1, 4, 0, 1}), mat.NewDense(9, 3, nil), nil)
	require.NoError(t, err)
	require.InDelta(t, 1, three.Scale/(three.Temperature*three.Temperature), 1e-15)
	require.Less(t, three.Temperature, 1.0) // the last row is wrong
}

// One row, rows of one class, and rows that are NaN.
func TestCalibrateFewRows(t *testing.T) {
	one := func(v float64) *mat.Dense { return mat.NewDense(1, 1, []float64{v}) }
	c := calibrated(t, glm.Bernoulli{}, one(1), one(0.3), one(2))
	require.Equal(t, 1, c.Rows)
	require.True(t, math.IsNaN(c.StdErr))
	require.InDelta(t, 1, c.Scale, 0.1) // one row says next to nothing
	lik := testref.Must(glm.NewGaussian(1))(t)
	c = calibrated(t, lik, one(3), one(0), one(1)) // any s + t = 9 is as likely, and s = 1 likeliest before
	require.InDelta(t, 1, c.Scale, 0.01)
	require.InDelta(t, 9, c.Scale+c.NoiseScale, 0.01)

	rng := testref.Rand(9)
	mean, cov := testref.Moments(rng, 50, 1, 1, 1)
	y := mat.NewDense(50, 1, nil)
	for i := range 50 {
		y.Set(i, 0, 1)
	}
	all := calibrated(t, glm.Bernoulli{}, y, mean, cov)
	require.Less(t, all.NLL, all.Unscaled)

	var wide, wideMean, wideY []float64
	for i := range 50 {
		wide, wideMean, wideY = append(wide, cov.At(i, 0), math.NaN()), append(wideMean, mean.At(i, 0), 1), append(wideY, 1, 0)
	}
	c = calibrated(t, glm.Bernoulli{}, mat.NewDense(100, 1, wideY), mat.NewDense(100, 1, wideMean), mat.NewDense(100, 1, wide))
	require.ErrorContains(t, linearize.FindWarning(c.Warnings, "rows-left-out"), "50 of 100 rows")
	require.Equal(t, []int{50, 50}, []int{c.Rows, c.LeftOut})
	require.Equal(t, all.Scale, c.Scale)
	require.Equal(t, all.NLL, c.NLL)

	var none *RowsError
	_, err := Calibrate(t.Context(), glm.Bernoulli{}, one(1), one(math.NaN()), one(1), nil)
	require.ErrorAs(t, err, &none)
	_, err = Calibrate(t.Context(), glm.Bernoulli{}, one(2), one(1), one(1), nil)
	require.ErrorContains(t, err, "row 0: ")
}

// A target without a density is named.
func TestCalibrateZeroDensity(t *testing.T) {
	mean, cov, y := mat.NewDense(3, 1, []float64{math.NaN(), 1, 1e200}), mat.NewDense(3, 1, []float64{1, 1, 1}), mat.NewDense(3, 1, []float64{1, 2, 3})
	lik := testref.Must(glm.NewGaussian(1e-300))(t)
	zero := testref.As[*ZeroDensityError](t, testref.Err(Calibrate(t.Context(), glm.Poisson{}, y, mean, cov, nil)))
	require.Equal(t, 2, zero.Row)
	require.ErrorAs(t, testref.Err(Calibrate(t.Context(), lik, y, mean, cov, nil)), &zero)
	require.Equal(t, 2, zero.Row)
}

// A network that knows its digits, with a posterior that is too wide: the scale is
// small, its NLL close to the network's, and the accuracy stays.
func TestCalibrateAWellTrainedNetwork(t *testing.T) {
	rng := testref.Rand(10)
	const n = 1500
	mean, cov, y := mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		side := float64(2*rng.IntN(2) - 1)
		m := side * (6 + 2.5*rng.NormFloat64())
		mean.Set(i, 0, m)
		cov.Set(i, 0, 4+0.8*m*m*rng.Float64())
		if rng.Float64() < integral.Sigmoid(m) {
			y.Set(i, 0, 1)
		}
	}
	c := testref.Must(Calibrate(t.Context(), glm.Bernoulli{}, y, mean, cov, &CalibrateOptions{Spread: math.Inf(1)}))(t)
	network := testref.Must(ScoreOf(nil, glm.Bernoulli{}, y, mean, nil))(t)
	require.Less(t, c.Scale, 0.1)
	require.Less(t, c.NLL, network.NLL+1e-5)
	require.Greater(t, c.Unscaled, network.NLL+0.02)
	lik, tempered, scaled, err := c.Apply(glm.Bernoulli{}, mean, cov)
	require.NoError(t, err)
	s := testref.Must(ScoreOf(nil, lik, y, tempered, scaled))(t)
	require.InDelta(t, c.NLL, s.NLL, 1e-12)
	require.InDelta(t, c.StdErr, s.StdErr, 1e-12)
	require.Equal(t, network.Accuracy, s.Accuracy)
	require.Less(t, math.Abs(s.ECE-network.ECE), 0.005)
}

// Apply scales in new memory, and noise of each kind.
func TestApply(t *testing.T) {
	means := mat.NewDense(1, 2, []float64{2, -4})
	mean := means
	cov := mat.NewDense(2, 2, []float64{2, 1, 1, 3})
	c := &Calibration{Scale: 0.5, NoiseScale: 3}
	scalar := testref.Must(glm.NewGaussian(0.5))(t)
	vector := testref.Must(glm.NewGaussianVector([]float64{1, 2}))(t)
	full := testref.Must(glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{2, 0.5, 0.5, 1})))(t)
	y, f := mat.NewDense(1, 2, []float64{1, -1}), mat.NewDense(1, 2, []float64{0.3, 0.1})
	for _, g := range []*glm.Gaussian{scalar, vector, full} {
		lik, same, scaled, err := c.Apply(g, mean, cov)
		require.True(t, same == mean)
		require.NoError(t, err)
		require.Equal(t, []float64{1, 0.5, 0.5, 1.5}, scaled.RawMatrix().Data)
		require.Equal(t, 2.0, cov.At(0, 0))
		noise, before := make([]float64, 4), make([]float64, 4)
		lik.(*glm.Gaussian).NoiseTo(noise, 2)
		g.NoiseTo(before, 2)
		sym := mat.NewSymDense(2, nil)
		for i, v := range before {
			require.InDelta(t, 3*v, noise[i], 1e-15)
			sym.SetSym(i/2, i%2, noise[i])
		}
		// as noise that is made with three times the covariance
		want := testref.Must(glm.NewGaussianMatrix(sym))(t)
		require.InDelta(t, scaledNLL(t, predictive.Exact{}, want, y, f, cov, 1), scaledNLL(t, predictive.Exact{}, lik, y, f, cov, 1), 1e-14)
		r, l, root := make([]float64, 2), make([]float64, 4), make([]float64, 4)
		wr, wl, wroot := make([]float64, 2), make([]float64, 4), make([]float64, 4)
		require.InDelta(t, want.Expand(wr, wl, wroot, y.RawRowView(0), f.RawRowView(0)), lik.Expand(r, l, root, y.RawRowView(0), f.RawRowView(0)), 1e-14)
		require.InDeltaSlice(t, wr, r, 1e-14)
		require.InDeltaSlice(t, wl, l, 1e-14)
		require.InDeltaSlice(t, wroot, root, 1e-14)
	}
	lik, mean, same, err := (*Calibration)(nil).Apply(scalar, mean, cov)
	require.NoError(t, err)
	require.True(t, lik == scalar && mean == means && same == cov)
	c.Temperature = 0.25
	_, mean, _, err = c.Apply(glm.Bernoulli{}, means, cov)
	require.NoError(t, err)
	require.Equal(t, []float64{0.5, -1}, mean.RawMatrix().Data)
	require.Equal(t, []float64{2, -4}, means.RawMatrix().Data)
	_, mean, same, err = c.Apply(glm.Bernoulli{}, nil, nil)
	require.NoError(t, err)
	require.True(t, mean == nil && same == nil)
	tiny := testref.Must(glm.NewGaussian(1e-307))(t)
	noise := testref.As[*glm.NoiseError](t, testref.Err(tiny.ScaleNoise(1e-4)))
	require.Equal(t, -1, noise.Output)
}

// The calibration is the same to the last bit on any number of processors; a cancelled
// context ends it.
func TestCalibrateOnProcessors(t *testing.T) {
	rng := testref.Rand(11)
	for _, c := range []int{1, 3} {
		n := 77 / c
		mean, cov := testref.Moments(rng, n, c, 1, 1)
		y := mat.NewDense(n, 1, nil)
		for i := range n {
			y.Set(i, 0, float64(rng.IntN(max(2, c))))
		}
		var lik glm.Likelihood = glm.Bernoulli{}
		if c == 3 {
			lik = glm.Categorical{}
		}
		var scales int
		testref.Procs(t, 1)
		one, err := Calibrate(t.Context(), lik, y, mean, cov, &CalibrateOptions{Progress: func(n int) { scales = n }})
		require.NoError(t, err)
		require.Greater(t, scales, scaleSteps)
		for _, procs := range []int{2, 5} {
			testref.Procs(t, procs)
			more := testref.Must(Calibrate(t.Context(), lik, y, mean, cov, nil))(t)
			require.Equal(t, one, more)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err = Calibrate(ctx, lik, y, mean, cov, &CalibrateOptions{Progress: func(int) { cancel() }})
		require.ErrorIs(t, err, context.Canceled)
	}
}

// The two scales of snelson by leave-one-out are the best of a fine grid of pairs.
func TestCalibrateSnelson(t *testing.T) {
	l := readLeaveOneOut(t, "snelson", "loo")
	c := testref.Must(Calibrate(t.Context(), l.lik, l.y, l.mean, l.cov, &CalibrateOptions{Spread: math.Inf(1)}))(t)
	network := testref.Must(ScoreOf(nil, l.lik, l.y, l.mean, nil))(t)
	require.Less(t, c.NLL, network.NLL)
	require.Less(t, c.NLL, c.Unscaled)
	n := len(l.density)
	best := math.Inf(1)
	for i := range 301 {
		for j := range 301 {
			s, noise := minScale*math.Pow(1e6, float64(i)/300), 0.3*math.Pow(10, float64(j)/300)
			sum := 0.0
			for k := range n {
				v, d := s*l.cov.At(k, 0)+noise*noiseOf(l.lik), l.y.At(k, 0)-l.mean.At(k, 0)
				sum += (math.Log(2*math.Pi*v) + d*d/v) / 2
			}
			best = min(best, sum/float64(n))
		}
	}
	require.LessOrEqual(t, c.NLL, best+1e-7)
	require.InDelta(t, best, c.NLL, 1e-5)
}

// BenchmarkCalibrate finds the scale of 5,000 rows.
func BenchmarkCalibrate(b *testing.B) {
	for _, c := range []int{1, 10} {
		b.Run(fmt.Sprintf("N=5000/C=%d", c), func(b *testing.B) {
			const n = 5000
			rng := testref.Rand(12)
			mean, cov := testref.Moments(rng, n, c, 3, 1)
			y := mat.NewDense(n, 1, nil)
			var lik glm.Likelihood = glm.Bernoulli{}
			if c > 1 {
				lik = glm.Categorical{}
			}
			for i := range n {
				y.Set(i, 0, float64(rng.IntN(max(2, c))))
			}
			for b.Loop() {
				if _, err := Calibrate(b.Context(), lik, y, mean, cov, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The sweep of many classes, with its fewer points, finds a scale that is as good by
// the full integrals as any of a grid, up to the error of few rows, and reports
// their NLL.
func TestCalibrateManyClasses(t *testing.T) {
	rng := testref.Rand(14)
	const n = 12
	for _, c := range []int{2, 3, 6} {
		mean, cov := testref.Moments(rng, n, c, 3, 1.5)
		y := mat.NewDense(n, 1, nil)
		for i := range n {
			y.Set(i, 0, float64(integral.Argmax(mean.RawRowView(i))))
			if i%6 == 0 {
				y.Set(i, 0, float64(rng.IntN(c)))
			}
		}
		got := calibrated(t, glm.Categorical{}, y, mean, cov)
		link := predictive.DefaultLink(glm.Categorical{}, c)
		require.InDelta(t, scaledNLL(t, link, glm.Categorical{}, y, mean, cov, got.Scale), got.NLL, 1e-12)
		for k := range 7 {
			s := minScale * math.Pow(maxScale/minScale, float64(k)/6)
			require.Less(t, got.NLL+penaltyOf(got.Scale, 2, n), scaledNLL(t, link, glm.Categorical{}, y, mean, cov, s)+penaltyOf(s, 2, n)+1e-3, "C = %d: s = %v against %v", c, got.Scale, s)
		}
	}
}

// noiseOf returns the noise variance of a Gaussian likelihood of one output.
func noiseOf(lik glm.Likelihood) float64 {
	var v [1]float64
	lik.VarianceTo(v[:], v[:])
	return v[0]
}
