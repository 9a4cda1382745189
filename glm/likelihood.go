package glm

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/integral"
)

// A Likelihood is p(y|f) for one example with C = len(f) outputs. The likelihoods of this package are safe for
// concurrent use. Some links also need the methods of Marginal or Logistic.
type Likelihood interface {
	// Name is the likelihood's name in lower case, for messages and metadata.
	Name() string
	// Targets returns the number of targets of an example with c outputs.
	Targets(c int) int
	// CheckY returns an error unless y holds valid targets for an example with c outputs: a *TargetError for a
	// number that is not valid. The other methods do not check the values.
	CheckY(y []float64, c int) error
	// Expand returns the normalized log p(y|f) in nats. It writes r = ∂log p/∂f (C numbers), Λ = −∂²log p/∂f² and a
	// root R with Λ = R Rᵀ (E3, E4), both C·C numbers row by row. A likelihood that is not log-concave may write
	// the Fisher information for Λ. A nil destination is skipped; a destination of a wrong length panics.
	Expand(residual, lambda, root, y, f []float64) (logp float64)
	// LogProb returns log p(y|f).
	LogProb(y, f []float64) float64
	// MeanTo writes E[y|f] = g⁻¹(f) to dst, C numbers: for classes the probabilities.
	MeanTo(dst, f []float64)
	// VarianceTo writes Var[y|f] to dst, C numbers: for classes the variances of the class indicators.
	VarianceTo(dst, f []float64)
}

// TargetError reports a target that a likelihood does not accept.
type TargetError struct {
	Likelihood string
	Target     int     // its index among the targets of the example
	Value      float64 // the number that was found
	Want       string  // the numbers that are accepted
}

func (e *TargetError) Error() string {
	return fmt.Sprintf("glm: target %d is %v; the %s likelihood wants %s", e.Target, e.Value, e.Likelihood, e.Want)
}

// checkTargets returns an error unless y has the number of targets for c outputs and ok accepts each of them. want
// describes in words what ok accepts.
func checkTargets(lik Likelihood, y []float64, c int, want string, ok func(float64) bool) error {
	if len(y) != lik.Targets(c) {
		return fmt.Errorf("glm: an example has %d targets; the %s likelihood with %d outputs wants %d",
			len(y), lik.Name(), c, lik.Targets(c))
	}
	for i, v := range y {
		if !ok(v) {
			return &TargetError{Likelihood: lik.Name(), Target: i, Value: v, Want: want}
		}
	}
	return nil
}

// checkSite panics unless y has the given number of targets and every destination that is not nil has the size for
// c outputs: C for the residual, C·C for Λ and its root.
func checkSite(residual, lambda, root, y []float64, c, targets int) {
	switch {
	case len(y) != targets:
		panic("glm: y has a wrong length")
	case residual != nil && len(residual) != c:
		panic("glm: residual has a wrong length")
	case lambda != nil && len(lambda) != c*c:
		panic("glm: lambda has a wrong length")
	case root != nil && len(root) != c*c:
		panic("glm: root has a wrong length")
	}
}

// checkSlope panics unless u, f and df have the same length.
func checkSlope(u, f, df []float64) {
	if len(u) != len(f) || len(df) != len(f) {
		panic("glm: u, f and df differ in length")
	}
}

// checkDst panics unless dst and f have the same length.
func checkDst(dst, f []float64) {
	if len(dst) != len(f) {
		panic("glm: dst and f differ in length")
	}
}

// A Marginal likelihood computes its integrals over Gaussian outputs itself. The link Exact needs it for C > 1. For
// one output Exact integrates any other likelihood by Expectation and LogExpectation, which may be slower.
type Marginal interface {
	// Moments returns E g⁻¹(f), Var g⁻¹(f) and E Var[y|f] of one output for f ~ N(m, v), v ≥ 0.
	Moments(output int, m, v float64) (mean, epistemic, aleatoric float64)
	// LogMarginal returns log E[p(y|f)] of one example in nats, where its C outputs have the mean f and the
	// covariance cov, C·C numbers row by row.
	LogMarginal(y, f, cov []float64) (float64, error)
}

// A Coupled likelihood has targets that each depend on several outputs, such as a mean and a log variance. Its
// integrals therefore take the covariance of the outputs, whereas a Marginal likelihood's integrals take variances.
// Heteroscedastic is one.
type Coupled interface {
	// MomentsTo writes E g⁻¹(f), Var g⁻¹(f) and E Var[y|f], C numbers each, where the outputs have the mean f and
	// the covariance cov, C·C numbers row by row.
	MomentsTo(mean, epistemic, aleatoric, f, cov []float64)
	// LogMarginal is as in Marginal.
	LogMarginal(y, f, cov []float64) (float64, error)
}

// A Logistic likelihood is a likelihood of classes whose outputs are logits. The links QMC, Probit and Bridge need
// it.
type Logistic interface {
	// Softmax tells how logits become probabilities. True: the C outputs are the logits of C classes with the
	// probabilities softmax(f). False: each output f is the logit of one of two classes, σ(f).
	Softmax() bool
}

// A Distribution likelihood gives the predictive distribution of each target, one for each output, for f ~ N(m, v),
// v ≥ 0. *Gaussian, Poisson and NegativeBinomial do.
type Distribution interface {
	// PredictiveCDF returns P(y ≤ at).
	PredictiveCDF(output int, at, m, v float64) float64
	// PredictiveQuantile returns the smallest y with P(y' ≤ y) ≥ p, 0 < p < 1.
	PredictiveQuantile(output int, p, m, v float64) float64
}

// A Counting likelihood models counts whose mean is eᶠ, one count for each output. Poisson and NegativeBinomial do.
type Counting interface {
	Distribution
	// Overdispersion returns φ of the variance Var[y|f] = eᶠ + φ e²ᶠ.
	Overdispersion() float64
}

// CoupledQuantities are the predictive distributions of targets that each depend on several outputs. The outputs
// have the mean f and the covariance cov, C·C numbers row by row. Heteroscedastic has them.
type CoupledQuantities interface {
	// CoupledCDF returns P(y ≤ at).
	CoupledCDF(target int, at float64, f, cov []float64) float64
	// CoupledQuantile returns the smallest y with P(y' ≤ y) ≥ p, 0 < p < 1.
	CoupledQuantile(target int, p float64, f, cov []float64) float64
}

// ofOutputs is a Distribution, whose targets each depend on one output, as CoupledQuantities.
type ofOutputs struct{ Distribution }

// CoupledCDF implements CoupledQuantities.
func (d ofOutputs) CoupledCDF(target int, at float64, f, cov []float64) float64 {
	return d.PredictiveCDF(target, at, f[target], cov[target*len(f)+target])
}

// CoupledQuantile implements CoupledQuantities.
func (d ofOutputs) CoupledQuantile(target int, p float64, f, cov []float64) float64 {
	return d.PredictiveQuantile(target, p, f[target], cov[target*len(f)+target])
}

// DistributionOf returns the predictive distribution of the targets of a likelihood that is a Distribution or has
// CoupledQuantities. ok is false for any other likelihood.
func DistributionOf(lik Likelihood) (d CoupledQuantities, ok bool) {
	switch l := lik.(type) {
	case CoupledQuantities:
		return l, true
	case Distribution:
		return ofOutputs{l}, true
	}
	return nil, false
}

// MostLogLik returns an upper bound of Σ w_i log p(y_i|f_i) over all function values, for targets y, N×Targets(C),
// and weights of the rows; nil stands for 1 each. For a Gaussian, counts and shares of classes it is the maximum,
// where E[y|f] = y. For any other likelihood it is 0, which labels approach as the function becomes sure and right.
// Heteroscedastic, which has no upper bound, counts as 0 too.
func MostLogLik(lik Likelihood, y *mat.Dense, weights []float64) float64 {
	n, _ := y.Dims()
	sum := 0.0
	for i := range n {
		row := y.RawRowView(i)
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		switch l := lik.(type) {
		case *Gaussian:
			sum += w * l.LogProb(row, row)
		case CategoricalShares:
			sum -= w * integral.EntropyOf(row)
		case Bernoulli:
			for _, v := range row {
				sum -= w * integral.EntropyOf([]float64{v, 1 - v})
			}
		case WeightedBernoulli:
			for j, v := range row {
				has, not := l.Positive[j]*v, 1-v
				sum -= w * (has + not) * integral.EntropyOf([]float64{has / (has + not), not / (has + not)})
			}
		case Counting:
			f := make([]float64, len(row))
			for j, v := range row {
				f[j] = math.Log(math.Max(v, 1e-300)) // for a count of 0 the supremum is 0, at f = −∞
			}
			sum += w * lik.LogProb(row, f)
		}
	}
	return sum
}
