package glm

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
)

// heteroscedasticCases are means and covariances of (μ, log σ²).
var heteroscedasticCases = []struct {
	name             string
	m, s             float64 // means
	vm, vs, relation float64 // variances and correlation
}{
	{"narrow", 0.3, -1, 1e-4, 1e-4, 0.3},
	{"usual", 0.3, -1, 0.2, 0.4, -0.5},
	{"wide", -2, 0.5, 4, 3, 0.7},
	{"no mean", 1, 0, 0, 2, 0},
	{"known variance", 1, 0.4, 0.7, 0, 0},
	{"certain", 1, 0.4, 0, 0, 0},
	{"one direction", 0, -2, 1, 1, 1},
}

func gaussianOf(m, s, vm, vs, relation float64) (f, cov []float64) {
	c := relation * math.Sqrt(vm*vs)
	return []float64{m, s}, []float64{vm, c, c, vs}
}

// dumb is E h(μ, log σ²) by a trapezoid over both of them.
func dumb(f, cov []float64, h func(m, s float64) float64) float64 {
	const step, end = 0.06, 11.0
	a := math.Sqrt(cov[3])
	b, c := 0.0, math.Sqrt(cov[0])
	if a > 0 {
		b = cov[1] / a
		c = math.Sqrt(math.Max(0, cov[0]-b*b))
	}
	sum, total := 0.0, 0.0
	for x := -end; x <= end; x += step {
		for y := -end; y <= end; y += step {
			w := math.Exp(-(x*x + y*y) / 2)
			sum += w * h(f[0]+b*x+c*y, f[1]+a*x)
			total += w
		}
	}
	return sum / total
}

// The integrals over mean and log variance, against plain quadrature in two dimensions.
func TestE11Heteroscedastic(t *testing.T) {
	h := Heteroscedastic{}
	for _, tc := range heteroscedasticCases {
		t.Run(tc.name, func(t *testing.T) {
			f, cov := gaussianOf(tc.m, tc.s, tc.vm, tc.vs, tc.relation)
			at := func(y float64) func(m, s float64) float64 {
				return func(m, s float64) float64 { return math.Exp(h.LogProb([]float64{y}, []float64{m, s})) }
			}
			for _, y := range []float64{-3, 0.2, 1, 4} {
				got, err := h.LogMarginal([]float64{y}, f, cov)
				require.NoError(t, err)
				require.InDelta(t, dumb(f, cov, at(y)), math.Exp(got), 1e-8, "density of %v", y) // of the dumb one, where the noise is narrow
				below := dumb(f, cov, func(m, s float64) float64 { return 0.5 * math.Erfc((m-y)*math.Exp(-s/2)/math.Sqrt2) })
				require.InDelta(t, below, h.CoupledCDF(0, y, f, cov), 1e-9, "P(y ≤ %v)", y)
			}
			for _, p := range []float64{1e-4, .05, .5, .9, .999} {
				require.InDelta(t, p, h.CoupledCDF(0, h.CoupledQuantile(0, p, f, cov), f, cov), 1e-9)
			}
			mean, epistemic, aleatoric := make([]float64, 2), make([]float64, 2), make([]float64, 2)
			h.MomentsTo(mean, epistemic, aleatoric, f, cov)
			variance := dumb(f, cov, func(_, s float64) float64 { return math.Exp(s) })
			testref.RequireClose(t, mean, []float64{tc.m, variance}, 1e-12, "mean")
			square := dumb(f, cov, func(_, s float64) float64 { d := math.Exp(s) - variance; return d * d })
			require.InDelta(t, square, epistemic[1], 1e-7*square+1e-20)
			testref.RequireClose(t, epistemic[:1], []float64{tc.vm}, 1e-11, "epistemic variance")
			testref.RequireClose(t, aleatoric, []float64{variance, 0}, 1e-12, "aleatoric variance")
		})
	}
}

// The density of a target that is far out of range does not underflow.
func TestHeteroscedasticTails(t *testing.T) {
	h := Heteroscedastic{}
	f, cov := gaussianOf(0, 0, 1, 1e-8, 0)
	got, err := h.LogMarginal([]float64{200}, f, cov)
	require.NoError(t, err)
	// log σ² hardly varies, but where it does the density gains: log E N(200; 0, 1 + eˢ) with
	// h'(s) at s = 0 of about 200²/8 and a standard deviation of 1e-4.
	slope := 200.0*200/8 - 0.25
	want := -200.0*200/4 - 0.5*math.Log(4*math.Pi) + slope*slope*1e-8/2
	require.InDelta(t, want, got, 1e-3)
	got, err = h.LogMarginal([]float64{1e3}, []float64{0, 0}, make([]float64, 4))
	require.NoError(t, err)
	require.InDelta(t, h.LogProb([]float64{1e3}, []float64{0, 0}), got, 1e-6)
}

// The trapezoid of the density agrees with adaptive quadrature over wide ranges.
func TestHeteroscedasticDensity(t *testing.T) {
	rng := newRand(12)
	for range 3000 {
		m, s, vm, vs := rng.NormFloat64(), 4*rng.NormFloat64(), math.Exp(4*rng.NormFloat64()), math.Exp(3*rng.NormFloat64())
		f, cov := gaussianOf(m, s, vm, vs, 2*rng.Float64()-1)
		p := newNoisyMean(0, f, cov)
		y := m + math.Sqrt(vm+math.Exp(s))*3*rng.NormFloat64()
		want := LogExpectation(func(s float64) float64 {
			mean, logVariance := p.given(s)
			d := y - mean
			return -d*d*math.Exp(-logVariance)/2 - logVariance/2 - halfLog2Pi
		}, p.m, p.v)
		require.InDelta(t, want, p.logDensity(y), 1e-9*(1+math.Abs(want)), "%v %v at %v", f, cov, y)
	}
}

// Several targets are predicted each by itself, from its own block of the covariance.
func TestHeteroscedasticTargetsAreApart(t *testing.T) {
	h, rng := Heteroscedastic{}, newRand(3)
	f, cov := randomVec(rng, 6, 1), randomCov(rng, 6, 8, 1)
	y := randomVec(rng, 3, 1)
	got, err := h.LogMarginal(y, f, cov.RawMatrix().Data)
	require.NoError(t, err)
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

// Monte Carlo agrees with the closed forms, and the metrics compare targets with means.
func TestHeteroscedasticLinksAndScores(t *testing.T) {
	h, rng := Heteroscedastic{}, newRand(5)
	f, cov := randomPosterior(6, 40, 4, 0.2)
	y := mat.NewDense(40, 2, nil)
	for i := range 40 {
		for j := range 2 {
			y.Set(i, j, f.At(i, j)+0.3*rng.NormFloat64())
		}
	}
	var exact, drawn, aleatoric, epistemic, a, e mat.Dense
	mc := MonteCarlo{Samples: 20000, Seed: 3}
	require.NoError(t, Exact{}.PredictTo(&exact, nil, h, f, cov))
	require.NoError(t, mc.PredictTo(&drawn, nil, h, f, cov))
	require.NoError(t, Exact{}.SplitTo(&aleatoric, &epistemic, h, f, cov))
	require.NoError(t, mc.SplitTo(&a, &e, h, f, cov))
	for i := range 40 {
		for j := range 2 {
			sd := math.Sqrt(epistemic.At(i, j))
			require.InDelta(t, exact.At(i, j), drawn.At(i, j), 5*sd/math.Sqrt(20000))
			require.InEpsilon(t, aleatoric.At(i, j), a.At(i, j), .1)
			require.InEpsilon(t, epistemic.At(i, j), e.At(i, j), .1)
		}
	}
	require.InDeltaSlice(t, logPredictive(t, Exact{}, h, y, f, cov), logPredictive(t, MonteCarlo{Samples: 20000}, h, y, f, cov), .3)
	s, err := ScoreOf(nil, h, y, f, cov)
	require.NoError(t, err)
	sum := 0.0
	for i := range 40 {
		for j := range 2 {
			sum += math.Pow(y.At(i, j)-f.At(i, j), 2)
		}
	}
	require.InDelta(t, math.Sqrt(sum/80), s.RMSE, 1e-12)
	n, err := NoveltyOf(context.Background(), nil, h, f, cov, 1)
	require.NoError(t, err)
	for i, v := range n.Score {
		require.InDelta(t, aleatoric.At(i, 0)+aleatoric.At(i, 1)+epistemic.At(i, 0)+epistemic.At(i, 1), v, 1e-12)
	}
}

// Calibration finds the scale by which a covariance is wrong.
func TestE18Heteroscedastic(t *testing.T) {
	h, rng := Heteroscedastic{}, newRand(8)
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
	c, err := Calibrate(context.Background(), h, y, f, cov, nil)
	require.NoError(t, err)
	require.InDelta(t, math.Log(.1), math.Log(c.Scale), .8)
	require.Equal(t, 1.0, c.NoiseScale)
}

// Intervals are as wide as the noise is at their input, and hold their share.
func TestHeteroscedasticJackknife(t *testing.T) {
	h, rng := Heteroscedastic{}, newRand(9)
	const n = 2000
	f, y := mat.NewDense(n, 2, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		m, s := rng.NormFloat64(), 2*rng.NormFloat64()
		f.SetRow(i, []float64{m, s})
		y.Set(i, 0, m+math.Exp(s/2)*rng.NormFloat64())
	}
	j, err := NewJackknife(h, .9, y, f)
	require.NoError(t, err)
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

func TestHeteroscedasticOutputsAreEven(t *testing.T) {
	h := Heteroscedastic{}
	require.ErrorContains(t, h.CheckY([]float64{1}, 3), "even")
	require.Error(t, h.CheckY([]float64{1, 2}, 2))
	require.Error(t, h.CheckY([]float64{math.Inf(1)}, 2))
	require.NoError(t, h.CheckY([]float64{1, 2}, 4))
	require.Panics(t, func() { h.LogProb([]float64{1}, []float64{1, 2, 3}) })
	// Where the variance leaves the range of a float64, nothing is clamped.
	r := make([]float64, 2)
	require.True(t, math.IsNaN(h.Expand(r, nil, nil, []float64{1}, []float64{1, -1e5})) || math.IsInf(h.LogProb([]float64{2}, []float64{1, -1e5}), -1))
}
