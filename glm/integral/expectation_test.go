package integral

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// expectationGrid has means and standard deviations that are tame, and ones
// that are not.
var (
	expectationMeans = []float64{-1e12, -1e4, -30, -3, -0.2, 0, 0.7, 5, 40, 1e6}
	expectationSDs   = []float64{1e-6, 1e-2, 0.5, 1, 3, 9, 50, 1e3, 1e6, 1e12, 1e100}
)

func TestE11ExpectationOfSigmoid(t *testing.T) {
	for _, s := range expectationSDs {
		for _, m := range expectationMeans {
			mean, _, slope := SigmoidMoments(m, s)
			require.InDelta(t, mean, Expectation(Sigmoid, m, s*s), 1e-12, "m=%v s=%v", m, s)
			require.InDelta(t, slope, Expectation(SigmoidSlope, m, s*s), 1e-12, "slope, m=%v s=%v", m, s)
		}
	}
}

// E Φ(f) = Φ(m/√(1+v)), and E 1[f>a] = Φ((m−a)/√v).
func TestE11ExpectationOfProbitAndStep(t *testing.T) {
	for _, s := range expectationSDs {
		for _, m := range expectationMeans {
			got := Expectation(normalCDF, m, s*s)
			require.InDelta(t, normalCDF(m/math.Sqrt(1+s*s)), got, 1e-11, "m=%v s=%v", m, s)
			a := 0.3*s + m
			step := Expectation(func(f float64) float64 {
				if f > a {
					return 1
				}
				return 0
			}, m, s*s)
			if math.Abs(m) < 1e5*s { // else f = m + s z is rounded
				require.InDelta(t, normalCDF(-0.3), step, 1e-10, "m=%v s=%v", m, s)
			}
		}
	}
}

// Polynomials and exponentials: E f², E f⁴ and E eᶠ = e^{m+v/2}.
func TestE11ExpectationOfUnbounded(t *testing.T) {
	for _, s := range []float64{1e-3, 0.5, 2, 15} {
		for _, m := range []float64{-40, -1, 0, 2.5} {
			v := s * s
			require.InEpsilon(t, m*m+v, Expectation(func(f float64) float64 { return f * f }, m, v), 1e-11)
			require.InEpsilon(t, m*m*m*m+6*m*m*v+3*v*v, Expectation(func(f float64) float64 { return f * f * f * f }, m, v), 1e-11)
			require.InEpsilon(t, math.Exp(m+v/2), Expectation(math.Exp, m, v), 1e-10, "m=%v s=%v", m, s)
		}
	}
	require.Equal(t, 9.0, Expectation(func(f float64) float64 { return f * f }, 3, 0))
	require.Panics(t, func() { Expectation(math.Exp, 0, -1) })
	require.Panics(t, func() { LogExpectation(math.Exp, 0, -1) })
}

func TestE11LogExpectationOfSites(t *testing.T) {
	for _, s := range append(expectationSDs, 1e150) {
		for _, m := range append(expectationMeans, -1e300, 1e300) {
			want := LogMeanSigmoid(m, s)
			require.InDelta(t, want, LogExpectation(LogSigmoid, m, s*s), 1e-10*(1+math.Abs(want)), "σ, m=%v s=%v", m, s)
			for _, y := range []float64{0, 1, 40} {
				want := LogMeanPoisson(y, m, s)
				got := LogExpectation(func(f float64) float64 { return LogPoisson(y, f) }, m, s*s)
				if math.IsInf(want, -1) {
					require.Equal(t, want, got, "y=%v m=%v s=%v", y, m, s)
					continue
				}
				require.InDelta(t, want, got, 1e-10*(1+math.Abs(want)), "y=%v m=%v s=%v", y, m, s)
			}
			// y ~ N(f, 1): log N(y; m, 1+v)
			y := m + 4*s + 3
			d := y - m
			want = -0.5*d*d/(1+s*s) - 0.5*math.Log(1+s*s) - HalfLog2Pi
			got := LogExpectation(func(f float64) float64 { return -0.5*(y-f)*(y-f) - HalfLog2Pi }, m, s*s)
			if math.Abs(m) < 1e5 && s <= 1e3 { // beyond, y is rounded
				require.InDelta(t, want, got, 1e-10*(1+math.Abs(want)), "normal, m=%v s=%v", m, s)
			}
		}
	}
}

// No function and no posterior makes the quadratures call it without end.
func TestE11QuadratureWorkIsBounded(t *testing.T) {
	hash := func(f float64) float64 { // as rough as a function can be
		return float64(math.Float64bits(f)*0x9e3779b97f4a7c15>>11) / (1 << 53)
	}
	for name, g := range map[string]func(float64) float64{
		"noise": hash, "flat": func(float64) float64 { return 0 }, "log σ": LogSigmoid,
		"−Inf": func(float64) float64 { return math.Inf(-1) }, "NaN": func(float64) float64 { return math.NaN() },
		"spikes": func(f float64) float64 { return 1 / (1e-300 + math.Abs(math.Sin(f))) },
	} {
		for _, v := range []float64{5e-324, 1e-300, 1e-9, 1, 1e9, 1e30, 1e300, math.MaxFloat64} {
			for _, m := range []float64{-math.MaxFloat64, -4e29, -1, 0, 1, 4e29, math.MaxFloat64} {
				calls := 0
				count := func(f float64) float64 { calls++; return g(f) }
				Expectation(count, m, v)
				require.LessOrEqual(t, calls, 40000, "%s: m=%v v=%v", name, m, v)
				calls = 0
				LogExpectation(count, m, v)
				require.LessOrEqual(t, calls, 45000, "%s: m=%v v=%v", name, m, v)
			}
		}
	}
}

// Log E σ(f) has the value of LogMeanSigmoid and its derivatives, in the far tail and for wide
// Gaussians too, against differences.
func TestLogMeanSigmoidSlopes(t *testing.T) {
	for _, s := range []float64{0, 1e-3, 0.3, 2, 7.99, 8.01, 30, 500} {
		for _, m := range []float64{0, 1, -1, 4, -5, 30, -40, -80, 900, -900, -2e5} {
			g := LogMeanSigmoidSlopes(m, s)
			require.InDelta(t, LogMeanSigmoid(m, s), g.Value, 1e-13*(1+math.Abs(g.Value)), "m = %v, s = %v", m, s)
			h := 1e-4 * (1 + s)
			up, down := LogMeanSigmoidSlopes(m+h, s), LogMeanSigmoidSlopes(m-h, s)
			tol := 1e-6 + 1e-13*math.Abs(m)/h
			require.InDelta(t, (up.Value-down.Value)/(2*h), g.M, tol, "∂m at m = %v, s = %v", m, s)
			require.InDelta(t, (up.M-down.M)/(2*h), g.MM, tol, "∂mm at m = %v, s = %v", m, s)
			if s > h {
				up, down = LogMeanSigmoidSlopes(m, s+h), LogMeanSigmoidSlopes(m, s-h)
				require.InDelta(t, (up.Value-down.Value)/(2*h), g.S, tol*(1+math.Abs(g.S)), "∂s at m = %v, s = %v", m, s)
				require.InDelta(t, (up.M-down.M)/(2*h), g.MS, tol*(1+math.Abs(g.MS)), "∂ms at m = %v, s = %v", m, s)
				require.InDelta(t, (up.S-down.S)/(2*h), g.SS, 10*tol*(1+math.Abs(g.SS)), "∂ss at m = %v, s = %v", m, s)
			}
		}
	}
}

func normalCDF(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
