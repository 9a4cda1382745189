package glm

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/gonum/mathext"

	"github.com/funcgp/funcgp/glm/integral"
)

// NegativeBinomial is a likelihood of counts with a variance larger than their mean: a target is an integer ≥ 0
// with mean μ = eᶠ and variance μ + μ²/r, one for each output. It is a Poisson likelihood whose rate has a gamma
// distribution of shape r, and tends to Poisson as r grows. The dispersion r (no residual here) is fixed. μ and r
// are the parameters of model NB2 in Cameron and Trivedi, Regression Analysis of Count Data.
type NegativeBinomial struct{ r, logR float64 }

var (
	_ Likelihood = NegativeBinomial{}
	_ Marginal   = NegativeBinomial{}
	_ Counting   = NegativeBinomial{}
)

// NewNegativeBinomial returns the likelihood with the dispersion r. It returns an error unless r is positive and
// finite.
func NewNegativeBinomial(r float64) (NegativeBinomial, error) {
	if !(r > 0) || math.IsInf(r, 1) {
		return NegativeBinomial{}, fmt.Errorf("glm: the dispersion of a negative binomial is %v, which is no positive number", r)
	}
	return NegativeBinomial{r, math.Log(r)}, nil
}

// Name returns "negative-binomial:" followed by r.
func (l NegativeBinomial) Name() string {
	return "negative-binomial:" + strconv.FormatFloat(l.r, 'g', -1, 64)
}

// Overdispersion returns 1/r.
func (l NegativeBinomial) Overdispersion() float64 { return 1 / l.r }

// Targets returns c.
func (NegativeBinomial) Targets(c int) int { return c }

// CheckY accepts c finite integers ≥ 0, and returns an error for anything else.
func (l NegativeBinomial) CheckY(y []float64, c int) error { return checkCounts(l, y, c) }

// Expand returns log p(y|f) and writes the residual and Λ (E3). With t = f − log r,
//
//	log p = y log σ(t) + r log σ(−t) + log Γ(y + r)/(Γ(r) y!)
//	residual = y σ(−t) − r σ(t)
//	Λ = (y + r) σ(t) σ(−t) = r μ(y + r)/(μ + r)²
func (l NegativeBinomial) Expand(residual, lambda, root, y, f []float64) (logp float64) {
	c := len(f)
	checkSite(residual, lambda, root, y, c, c)
	clear(lambda)
	clear(root)
	for j, v := range f {
		t, k := v-l.logR, y[j]
		logp += l.logCoefficient(k) + k*integral.LogSigmoid(t) + l.r*integral.LogSigmoid(-t)
		if residual != nil {
			residual[j] = k*integral.Sigmoid(-t) - l.r*integral.Sigmoid(t)
		}
		curvature := (k + l.r) * integral.SigmoidSlope(t)
		if lambda != nil {
			lambda[j*c+j] = curvature
		}
		if root != nil {
			root[j*c+j] = math.Sqrt(curvature)
		}
	}
	return logp
}

// logCoefficient returns log Γ(k + r)/(Γ(r) k!). Of Γ(k + r)/Γ(r) and Γ(k + r)/Γ(k + 1) it takes the ratio with the
// larger denominator, in which fewer digits cancel.
func (l NegativeBinomial) logCoefficient(k float64) float64 {
	// ratio returns log Γ(a+d)/Γ(a). For a ≥ 100 it takes Stirling's series, in which no large terms cancel.
	ratio := func(a, d float64) float64 {
		if a < 100 {
			all, _ := math.Lgamma(a + d)
			one, _ := math.Lgamma(a)
			return all - one
		}
		tail := func(a float64) float64 { return (1 - 1/(30*a*a)) / (12 * a) }
		return (a+d-0.5)*math.Log1p(d/a) + d*(math.Log(a)-1) + tail(a+d) - tail(a)
	}
	if l.r > k+1 {
		rest, _ := math.Lgamma(k + 1)
		return ratio(l.r, k) - rest
	}
	rest, _ := math.Lgamma(l.r)
	return ratio(k+1, l.r-1) - rest
}

// SlopeTo writes u = (σ(−t) − σ(t)) df with t = f − log r, with which the change of Λ is dΛ = Λ diag(u).
func (l NegativeBinomial) SlopeTo(u, _, f, df []float64) {
	checkSlope(u, f, df)
	for j, v := range f {
		u[j] = -math.Tanh((v-l.logR)/2) * df[j]
	}
}

// LogProb returns log p(y|f), summed over outputs.
func (l NegativeBinomial) LogProb(y, f []float64) float64 { return l.Expand(nil, nil, nil, y, f) }

// MeanTo writes eᶠ.
func (NegativeBinomial) MeanTo(dst, f []float64) { Poisson{}.MeanTo(dst, f) }

// VarianceTo writes the variances μ + μ²/r.
func (l NegativeBinomial) VarianceTo(dst, f []float64) {
	l.MeanTo(dst, f)
	for j, mu := range dst {
		dst[j] = mu + mu*(mu/l.r)
	}
}

// Moments returns the moments of Poisson, with E[μ²]/r = e^{2(m+v)}/r added to the aleatoric variance.
func (l NegativeBinomial) Moments(output int, m, v float64) (mean, epistemic, aleatoric float64) {
	mean, epistemic, aleatoric = Poisson{}.Moments(output, m, v)
	return mean, epistemic, aleatoric + math.Exp(2*(m+v)-l.logR)
}

// LogMarginal returns log E[p(y|f)], summed over the outputs, each with its own variance. It integrates
// numerically, with logarithms of the integrand, so that small densities do not underflow.
func (l NegativeBinomial) LogMarginal(y, f, cov []float64) (float64, error) {
	c, logp := len(f), 0.0
	for j, m := range f {
		at := y[j : j+1]
		logp += min(0, integral.LogExpectation(func(f float64) float64 { return l.LogProb(at, []float64{f}) }, m, cov[j*c+j]))
	}
	return logp, nil
}

// PredictiveCDF returns P(y ≤ at) = E I_q(r, ⌊at⌋+1) with q = r/(μ + r), where I is the regularized incomplete beta
// function. The error is about 1e-10 for r up to 1e4, and 1e-7 for r = 1e9.
func (l NegativeBinomial) PredictiveCDF(_ int, at, m, v float64) float64 {
	if at < 0 {
		return 0
	}
	p := integral.Expectation(func(f float64) float64 {
		return mathext.RegIncBeta(l.r, math.Floor(at)+1, integral.Sigmoid(l.logR-f))
	}, m, v)
	return min(max(p, 0), 1)
}

// PredictiveQuantile returns the smallest count k with P(y ≤ k) ≥ p, and +Inf beyond the range of a float64.
func (l NegativeBinomial) PredictiveQuantile(output int, p, m, v float64) float64 {
	rate := math.Exp(m + math.Sqrt(v)*mathext.NormalQuantile(p))
	return countQuantile(rate, rate*(1+rate/l.r), func(k float64) bool { return l.PredictiveCDF(output, k, m, v) >= p })
}
