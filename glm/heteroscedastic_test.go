package glm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm/integral"
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
				got := testref.Must(h.LogMarginal([]float64{y}, f, cov))(t)
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
	got := testref.Must(h.LogMarginal([]float64{200}, f, cov))(t)
	// log σ² hardly varies, but where it does the density gains: log E N(200; 0, 1 + eˢ) with
	// h'(s) at s = 0 of about 200²/8 and a standard deviation of 1e-4.
	slope := 200.0*200/8 - 0.25
	want := -200.0*200/4 - 0.5*math.Log(4*math.Pi) + slope*slope*1e-8/2
	require.InDelta(t, want, got, 1e-3)
	got = testref.Must(h.LogMarginal([]float64{1e3}, []float64{0, 0}, make([]float64, 4)))(t)
	require.InDelta(t, h.LogProb([]float64{1e3}, []float64{0, 0}), got, 1e-6)
}

// The trapezoid of the density agrees with adaptive quadrature over wide ranges.
func TestHeteroscedasticDensity(t *testing.T) {
	rng := testref.Rand(12)
	for range 3000 {
		m, s, vm, vs := rng.NormFloat64(), 4*rng.NormFloat64(), math.Exp(4*rng.NormFloat64()), math.Exp(3*rng.NormFloat64())
		f, cov := gaussianOf(m, s, vm, vs, 2*rng.Float64()-1)
		p := newNoisyMean(0, f, cov)
		y := m + math.Sqrt(vm+math.Exp(s))*3*rng.NormFloat64()
		want := integral.LogExpectation(func(s float64) float64 {
			mean, logVariance := p.given(s)
			d := y - mean
			return -d*d*math.Exp(-logVariance)/2 - logVariance/2 - integral.HalfLog2Pi
		}, p.m, p.v)
		require.InDelta(t, want, p.logDensity(y), 1e-9*(1+math.Abs(want)), "%v %v at %v", f, cov, y)
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
