package integral

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/logsum"
	"github.com/funcgp/funcgp/internal/testref"
)

var (
	integralMeans = []float64{-30, -12, -5, -1.3, -0.2, 0, 0.7, 3, 9, 30}
	integralSDs   = []float64{1e-6, 1e-3, 0.1, 0.5, 1, 2.5, 7.9, 8.1, 9, 20, 50}
)

func TestE11ExactIntegralAgainstDumbTrapezoid(t *testing.T) {
	for _, s := range integralSDs {
		t.Run(fmt.Sprintf("sd=%v", s), func(t *testing.T) {
			for _, m := range integralMeans {
				mean, variance, slope := SigmoidMoments(m, s)
				want := testref.Expect(m, s, Sigmoid)
				// DESIGN asks for 1e-10; both rules are right to rounding.
				require.InDelta(t, want, mean, 1e-13, "E σ at %v", m)
				require.InDelta(t, testref.Expect(m, s, SigmoidSlope), slope, 1e-13, "E σ' at %v", m)
				wantVar := testref.Expect(m, s, func(f float64) float64 { d := Sigmoid(f) - want; return d * d })
				require.InDelta(t, wantVar, variance, 1e-13, "Var σ at %v", m)
			}
		})
	}
}

func TestE11ExactIntegralSymmetries(t *testing.T) {
	rng := testref.Rand(1)
	for range 2000 {
		m, s := 60*rng.Float64()-30, math.Exp(math.Log(1e-6)+rng.Float64()*math.Log(50/1e-6))
		p, v, a := SigmoidMoments(m, s)
		q, w, b := SigmoidMoments(-m, s)
		// σ(−f) = 1 − σ(f)
		require.InDelta(t, 1, p+q, 1e-14)
		require.InDelta(t, v, w, 1e-14)
		require.InDelta(t, a, b, 1e-14)
		// Var[y] = E Var[y|f] + Var E[y|f]
		require.InDelta(t, p*(1-p), v+a, 1e-14)
		require.True(t, p >= 0 && p <= 1 && v >= 0 && a >= 0)
	}
}

// Both forms of the integral hold on both sides of the point where one takes
// over.
func TestE11PartsAgreeWithDirect(t *testing.T) {
	for _, s := range []float64{3, 5, 8} {
		for _, m := range integralMeans {
			p, v, a := sigmoidMomentsZ(m, s)
			q, w, b := sigmoidMomentsU(m, s)
			require.InDelta(t, p, q, 1e-14)
			require.InDelta(t, v, w, 1e-14)
			require.InDelta(t, a, b, 1e-14)
		}
	}
}

// For large s, E σ = Φ(m/s) − π²/6 (m/s³) φ(m/s) + O(s⁻⁴), at any size: an
// uncertain enough posterior costs no more than another.
func TestE11ExactIntegralOfHugeSD(t *testing.T) {
	for _, s := range []float64{1e3, 1e6, 1e12, 1e100} {
		for _, x := range []float64{-3, -0.5, 0, 1, 4} {
			m := x * s
			p, v, _ := SigmoidMoments(m, s)
			phi := math.Exp(-0.5*x*x) / math.Sqrt(2*math.Pi)
			want := 0.5*math.Erfc(-x/math.Sqrt2) - math.Pi*math.Pi/6*x*phi/(s*s)
			require.InDelta(t, want, p, 1e-11)              // 2/s⁴ at s = 1000
			require.InDelta(t, want*(1-want), v, 1/s+1e-15) // E σ' < 0.4/s
			require.LessOrEqual(t, v, p*(1-p)+1e-15)
		}
	}
}

func TestE11ZeroSDIsMAP(t *testing.T) {
	p, v, a := SigmoidMoments(1.5, 0)
	require.Equal(t, []float64{Sigmoid(1.5), 0, SigmoidSlope(1.5)}, []float64{p, v, a})
	require.Equal(t, LogSigmoid(-900), LogMeanSigmoid(-900, 0))
	require.Equal(t, LogPoisson(3, 0.5), LogMeanPoisson(3, 0.5, 0))
}

func TestE11LogMeanSigmoid(t *testing.T) {
	for _, s := range append(integralSDs, 1000) {
		for _, m := range integralMeans {
			p, _, _ := SigmoidMoments(m, s)
			if p < 1e-3 {
				continue // moments are right absolutely, not relatively
			}
			require.InEpsilon(t, p, math.Exp(LogMeanSigmoid(m, s)), 1e-12, "m=%v s=%v", m, s)
		}
	}
}

// E σ(f) = e^{m+s²/2} E σ(−f') with f' ~ N(m + s², s²) ties the far tail, where
// nothing else can be evaluated, to the other side; the code tilts only when
// m < −s²/2, so both sides of the identity are computed differently.
func TestE11LogMeanSigmoidTail(t *testing.T) {
	for _, tc := range []struct{ m, s, want, tol float64 }{
		// E σ ≈ E eᶠ = e^{m+s²/2}, less by e^{2m+2s²}
		{-1000, 1, -999.5, 1e-12},
		{-800, 0.01, -799.99995, 1e-12},
		{-1000, 5, -987.5, 1e-12},
		{-1e6, 100, -995000, 1e-9},
		// E σ ≈ Φ(m/s)·E e^{…}: compare with log Φ to the first order in 1/s
		{-4000, 1000, LogNormalCDF(-4), 1e-4},
		{-38e6, 1e6, LogNormalCDF(-38), 1e-4},
	} {
		require.InDelta(t, tc.want, LogMeanSigmoid(tc.m, tc.s), tc.tol, "m=%v s=%v", tc.m, tc.s)
	}
	// across the tilt, E σ is continuous and monotone in m
	for _, s := range []float64{2, 8, 30, 1e4} {
		m := -0.5 * s * s
		lo, hi := LogMeanSigmoid(m*(1+1e-12), s), LogMeanSigmoid(m*(1-1e-12), s)
		require.InDelta(t, lo, hi, 1e-9*math.Abs(lo))
	}
}

func TestE11LogMeanPoissonAgainstDumbTrapezoid(t *testing.T) {
	for _, y := range []float64{0, 1, 3, 40, 1000} {
		for _, m := range []float64{-30, -3, 0, 1.2, 5, 8} {
			for _, s := range []float64{1e-6, 0.01, 0.3, 1, 3, 7.9, 8.1, 20} {
				// 60001 points on ±36, where φ is still a normal number
				const n, h = 60001, 72.0 / 60000
				want := logsum.New()
				for k := range n {
					z := -36 + h*float64(k)
					want.Add(LogPoisson(y, m+s*z) - 0.5*z*z - HalfLog2Pi)
				}
				got := LogMeanPoisson(y, m, s)
				if got < -400 || s*math.Sqrt(y) > 300 {
					continue // beyond the range or the step of the dumb rule
				}
				// rounding of y f − eᶠ − log y!, each up to 7000
				require.InDelta(t, want.Value()+math.Log(h), got, 2e-11, "y=%v m=%v s=%v", y, m, s)
			}
		}
	}
}

// The forms of log E p(y|f) for wide posteriors hold on both sides of the
// point where one takes over.
func TestE11RarePoissonAgrees(t *testing.T) {
	for _, s := range []float64{3, 8, 20} {
		for _, y := range []float64{0, 1, 3} {
			for _, m := range []float64{-200, -20, 0, 5} {
				want := LogMeanPoisson(y, m, s)
				got := logMeanRarePoisson(y, m, s)
				require.InDelta(t, want, got, 1e-13*(1+y*math.Abs(m)+y*y*s*s), "y=%v m=%v s=%v", y, m, s)
			}
		}
	}
}

// No finite posterior makes a log predictive slow, NaN or positive.
func TestE11LogPredictiveOfHostilePosterior(t *testing.T) {
	sizes := []float64{0, 1e-300, 1e-12, 1e-3, 1, 7, 9, 1e3, 1e8, 1e60}
	for _, s := range sizes {
		for _, a := range sizes {
			for _, m := range []float64{-a, a} {
				for _, got := range []float64{
					LogMeanSigmoid(m, s), LogMeanPoisson(0, m, s), LogMeanPoisson(1, m, s), LogMeanPoisson(1e6, m, s),
				} {
					require.False(t, math.IsNaN(got) || got > 1e-12, "m=%v s=%v: %v", m, s, got)
				}
			}
		}
	}
}

func TestExpm2(t *testing.T) {
	for _, x := range []float64{-20, -0.51, -0.49, -1e-3, 1e-9, 0.3, 0.5, 0.6, 9} {
		want := testref.Big(0).Sub(testref.BigExp(x), testref.Big(1))
		want.Sub(want, testref.Big(x))
		w, _ := want.Float64()
		require.InEpsilon(t, w, expm2(x), 2e-15) // the subtraction above 0.5 loses a factor 4
	}
}

func TestLogNormalCDF(t *testing.T) {
	for _, tc := range []struct{ x, want, tol float64 }{
		{0, -math.Ln2, 1e-16},
		// Abramowitz and Stegun, table 26.2: log₁₀-free values of Q(x)
		{-5, math.Log(2.866515718791939e-7), 1e-14},
		{-10, math.Log(7.619853024160527e-24), 1e-14},
		{10, -7.619853024160527e-24, 1e-37},
	} {
		require.InDelta(t, tc.want, LogNormalCDF(tc.x), tc.tol*(1+math.Abs(tc.want)))
	}
	// The asymptotic series takes over without a step: the slope there is the
	// inverse Mills ratio, 35.03.
	a, b := LogNormalCDF(-35), LogNormalCDF(math.Nextafter(-35, 0))
	require.InDelta(t, a, b, 1e-12*math.Abs(a))
}

// The sums of the terms themselves are those of their logarithms, which cannot
// underflow, to within rounding.
func TestE11LogMeanSigmoidByTermsAgreesWithLogarithms(t *testing.T) {
	for _, s := range []float64{1e-9, 0.01, 0.3, 1, 1.1, 2, 2.1, 4, 4.1, 7, 8} {
		for _, above := range []float64{0, 0.1, 0.5, 1, 3, 10, 40} {
			m := above - 0.5*s*s
			want := logTrapezoid(min(0.5, 0.5/s), func(z float64) float64 {
				return LogSigmoid(m+s*z) - 0.5*z*z - HalfLog2Pi
			})
			require.InEpsilon(t, math.Exp(want), meanSigmoidZ(m, s), 1e-13, "m=%v s=%v", m, s)
		}
	}
	for _, s := range []float64{8.001, 9, 20, 100, 1e6} {
		for _, x := range []float64{nearTail, -2, -0.5, 0, 1, 30} {
			want := LogNormalCDF(x) + logTrapezoid(uStep, func(u float64) float64 {
				return LogSigmoid(u) + LogSigmoid(-u) + logNormalRatio(x, -u/s)
			})
			require.InEpsilon(t, math.Exp(want), meanSigmoidU(x, s), 1e-13, "x=%v s=%v", x, s)
		}
	}
}

// BenchmarkLogMeanSigmoid is a row of a sweep over scales.
func BenchmarkLogMeanSigmoid(b *testing.B) {
	for _, s := range []float64{0.5, 3, 20} {
		b.Run(fmt.Sprintf("s=%v", s), func(b *testing.B) {
			for b.Loop() {
				LogMeanSigmoid(1.5, s)
			}
		})
	}
}
