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
