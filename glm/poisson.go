package glm

import (
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/funcgp/funcgp/glm/integral"
)

// Poisson is a likelihood of counts with the rate eᶠ, one for each output. A target is an integer ≥ 0. Above f =
// 709 the rate overflows and log p is −Inf; nothing is clamped.
type Poisson struct{}

var (
	_ Likelihood = Poisson{}
	_ Marginal   = Poisson{}
	_ Counting   = Poisson{}
)

// Name returns "poisson".
func (Poisson) Name() string { return "poisson" }

// Targets returns c.
func (Poisson) Targets(c int) int { return c }

// Overdispersion returns 0.
func (Poisson) Overdispersion() float64 { return 0 }

// CheckY accepts c finite integers ≥ 0, and returns an error for anything else.
func (p Poisson) CheckY(y []float64, c int) error { return checkCounts(p, y, c) }

// checkCounts returns an error unless y holds finite integers ≥ 0, as many as lik has targets for c outputs.
func checkCounts(lik Likelihood, y []float64, c int) error {
	return checkTargets(lik, y, c, "an integer of at least 0", func(v float64) bool {
		return v >= 0 && v == math.Trunc(v) && !math.IsInf(v, 1)
	})
}

// Expand returns log p(y|f) and writes r = y − eᶠ and Λ = diag(eᶠ) [thesis table 2.1].
func (Poisson) Expand(residual, lambda, root, y, f []float64) (logp float64) {
	c := len(f)
	checkSite(residual, lambda, root, y, c, c)
	clear(lambda)
	clear(root)
	for j, v := range f {
		logp += integral.LogPoisson(y[j], v)
		rate := math.Exp(v)
		if residual != nil {
			residual[j] = y[j] - rate
		}
		if lambda != nil {
			lambda[j*c+j] = rate
		}
		if root != nil {
			root[j*c+j] = math.Exp(v / 2)
		}
	}
	return logp
}

// SlopeTo writes u = df, because the change of Λ is dΛ = Λ diag(df).
func (Poisson) SlopeTo(u, _, f, df []float64) {
	checkSlope(u, f, df)
	copy(u, df)
}

// LogProb returns log p(y|f), summed over outputs.
func (p Poisson) LogProb(y, f []float64) float64 { return p.Expand(nil, nil, nil, y, f) }

// MeanTo writes the rates eᶠ.
func (Poisson) MeanTo(dst, f []float64) {
	checkDst(dst, f)
	for j, v := range f {
		dst[j] = math.Exp(v)
	}
}

// VarianceTo writes the rates eᶠ, which are also the variances.
func (p Poisson) VarianceTo(dst, f []float64) { p.MeanTo(dst, f) }

// Moments returns the moments of the rate eᶠ in closed form. For f ~ N(m, v) the rate is log-normal: E eᶠ =
// e^{m+v/2}, Var eᶠ = e^{2m+v}(eᵛ − 1) and E Var[y|f] = E eᶠ. A moment beyond the range of a float64 is +Inf.
func (Poisson) Moments(_ int, m, v float64) (mean, epistemic, aleatoric float64) {
	mean = math.Exp(m + v/2)
	if v > 0 {
		// e^{2m+v}(eᵛ − 1) as e^{2(m+v)}(1 − e⁻ᵛ), so that Inf is never multiplied by 0
		epistemic = math.Exp(2*(m+v)) * -math.Expm1(-v)
	}
	return mean, epistemic, mean
}

// LogMarginal returns log E[p(y|f)], summed over the outputs, each with its own variance. It integrates
// numerically, with logarithms of the integrand, so that small densities do not underflow.
func (Poisson) LogMarginal(y, f, cov []float64) (float64, error) {
	c := len(f)
	logp := 0.0
	for j, m := range f {
		logp += integral.LogMeanPoisson(y[j], m, math.Sqrt(cov[j*c+j]))
	}
	return logp, nil
}

// PredictiveCDF returns P(y ≤ at) = E Q(⌊at⌋+1, eᶠ), where Q is the regularized upper incomplete gamma function,
// with an error of about 1e-10.
func (Poisson) PredictiveCDF(_ int, at, m, v float64) float64 {
	if at < 0 {
		return 0
	}
	k := math.Floor(at) + 1
	p := integral.Expectation(func(f float64) float64 {
		rate := math.Exp(f)
		switch {
		case rate == 0:
			return 1
		case math.IsInf(rate, 1):
			return 0
		}
		return mathext.GammaIncRegComp(k, rate)
	}, m, v)
	return min(max(p, 0), 1)
}

// PredictiveQuantile returns the smallest count k with P(y ≤ k) ≥ p, and +Inf beyond the range of a float64. Above
// 2⁵³ it is right to a few units in the last place.
func (l Poisson) PredictiveQuantile(output int, p, m, v float64) float64 {
	rate := math.Exp(m + math.Sqrt(v)*mathext.NormalQuantile(p))
	return countQuantile(rate, rate, func(k float64) bool { return l.PredictiveCDF(output, k, m, v) >= p })
}

// countQuantile returns the smallest count k for which reaches(k) is true. It starts from an interval of one
// standard deviation on either side of rate, widens the interval by doubled steps until it holds the quantile, and
// bisects it.
func countQuantile(rate, variance float64, reaches func(k float64) bool) float64 {
	if math.IsInf(rate, 1) {
		return rate
	}
	width := 1 + math.Sqrt(variance)
	lo, hi := math.Floor(max(rate-width, 0)), math.Ceil(rate+width)
	for ; lo > 0 && reaches(lo-1); width *= 2 {
		hi, lo = lo-1, math.Floor(max(lo-width, 0))
	}
	for ; !reaches(hi); width *= 2 {
		lo, hi = hi+1, math.Ceil(hi+width)
	}
	for lo < hi { // P(y ≤ lo − 1) < p ≤ P(y ≤ hi)
		mid := lo + math.Floor((hi-lo)/2)
		if mid >= hi {
			break
		}
		if reaches(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return hi
}
