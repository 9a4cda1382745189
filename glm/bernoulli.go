package glm

import (
	"math"

	"github.com/funcgp/funcgp/glm/integral"
)

// Bernoulli is the likelihood p(y=1|f) = σ(f) of two classes. Each output is the logit of its own target. A target
// is 0, 1 or a fraction between; then log p = y log σ(f) + (1−y) log σ(−f).
type Bernoulli struct{}

var (
	_ Likelihood = Bernoulli{}
	_ Marginal   = Bernoulli{}
	_ Logistic   = Bernoulli{}
)

// Name returns "bernoulli".
func (Bernoulli) Name() string { return "bernoulli" }

// Softmax returns false: each output is a logit by itself.
func (Bernoulli) Softmax() bool { return false }

// Targets returns c.
func (Bernoulli) Targets(c int) int { return c }

// CheckY accepts c numbers in [0,1], and returns an error for anything else.
func (b Bernoulli) CheckY(y []float64, c int) error {
	return checkTargets(b, y, c, "0, 1 or a fraction between", func(v float64) bool { return v >= 0 && v <= 1 })
}

// Expand returns log p(y|f) and writes r = y − p and Λ = diag(p(1−p)) with p = σ(f) [thesis table 2.1]. It computes
// 1 − p as σ(−f), so that no digits cancel.
func (Bernoulli) Expand(residual, lambda, root, y, f []float64) (logp float64) {
	c := len(f)
	checkSite(residual, lambda, root, y, c, c)
	clear(lambda)
	clear(root)
	for j, v := range f {
		// log p = y log σ(f) + (1−y) log σ(−f)
		logp -= weighted(y[j], integral.Softplus(-v)) + weighted(1-y[j], integral.Softplus(v))
		if residual != nil {
			// r = y − p = y σ(−f) − (1−y) σ(f)
			residual[j] = y[j]*integral.Sigmoid(-v) - (1-y[j])*integral.Sigmoid(v)
		}
		if lambda != nil {
			lambda[j*c+j] = integral.SigmoidSlope(v)
		}
		if root != nil {
			root[j*c+j] = math.Sqrt(integral.SigmoidSlope(v))
		}
	}
	return logp
}

// SlopeTo writes u = (1 − 2p) df, with which the change of Λ is dΛ = R diag(u) Rᵀ.
func (Bernoulli) SlopeTo(u, _, f, df []float64) {
	checkSlope(u, f, df)
	for j, v := range f {
		// 1 − 2σ(f) = −tanh(f/2)
		u[j] = -math.Tanh(v/2) * df[j]
	}
}

// weighted returns w·v, and 0 for w = 0 even where v is infinite.
func weighted(w, v float64) float64 {
	if w == 0 {
		return 0
	}
	return w * v
}

// LogProb returns log p(y|f), summed over outputs.
func (b Bernoulli) LogProb(y, f []float64) float64 { return b.Expand(nil, nil, nil, y, f) }

// MeanTo writes σ(f).
func (Bernoulli) MeanTo(dst, f []float64) {
	checkDst(dst, f)
	for j, v := range f {
		dst[j] = integral.Sigmoid(v)
	}
}

// VarianceTo writes σ(f)(1−σ(f)).
func (Bernoulli) VarianceTo(dst, f []float64) {
	checkDst(dst, f)
	for j, v := range f {
		dst[j] = integral.SigmoidSlope(v)
	}
}

// Moments returns E σ(f), Var σ(f) and E[σ(f)(1−σ(f))] for f ~ N(m, v), with an error below 1e-10 (E11).
func (Bernoulli) Moments(_ int, m, v float64) (mean, epistemic, aleatoric float64) {
	return integral.SigmoidMoments(m, math.Sqrt(v))
}

// LogMarginal returns y log E σ(f) + (1−y) log E σ(−f), summed over the outputs. Each output has its own variance,
// the diagonal of cov. The result has full relative precision even where E σ(f) underflows.
func (Bernoulli) LogMarginal(y, f, cov []float64) (float64, error) {
	c := len(f)
	logp := 0.0
	for j, m := range f {
		s := math.Sqrt(cov[j*c+j])
		if y[j] > 0 {
			logp += y[j] * integral.LogMeanSigmoid(m, s)
		}
		if y[j] < 1 {
			logp += (1 - y[j]) * integral.LogMeanSigmoid(-m, s)
		}
	}
	return logp, nil
}
