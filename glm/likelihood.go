package glm

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// A Likelihood is p(y|f) of one example with C = len(f) outputs. The likelihoods
// of this package are safe for concurrent use. Some links also require the
// methods of Marginal or Logistic.
type Likelihood interface {
	// Name is the likelihood's name in lower case, for messages and metadata.
	Name() string
	// Targets returns how many numbers one example's y holds for c outputs.
	Targets(c int) int
	// CheckY returns a *TargetError when y is no admissible target of an
	// example with c outputs. The other methods do not check values.
	CheckY(y []float64, c int) error
	// Expand returns log p(y|f), normalized, and writes the residual
	// r = ∂log p/∂f (C), Λ = −∂²log p/∂f² and a root with Λ = R Rᵀ (E3, E4),
	// both C·C row-major. A nil destination is skipped; a wrong length panics.
	Expand(residual, lambda, root, y, f []float64) (logp float64)
	// LogProb returns log p(y|f).
	LogProb(y, f []float64) float64
	// MeanTo writes E[y|f] = g⁻¹(f), for classes their probabilities (C).
	MeanTo(dst, f []float64)
	// VarianceTo writes Var[y|f] of each output or class indicator (C).
	VarianceTo(dst, f []float64)
}

// TargetError reports a number in y that a likelihood does not admit.
type TargetError struct {
	Likelihood string
	Target     int     // its index in the example's row of y
	Value      float64 // what was found
	Want       string  // what is admitted
}

func (e *TargetError) Error() string {
	return fmt.Sprintf("glm: target %d is %v; the %s likelihood wants %s", e.Target, e.Value, e.Likelihood, e.Want)
}

// checkTargets returns an error unless y has the length for c outputs and ok
// admits each number.
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

// checkSite panics unless y has the given number of targets and every destination
// that is not nil has the size for c outputs.
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

// A Marginal likelihood computes its integrals against a Gaussian. Exact requires
// it where C > 1. For one output Exact integrates any other likelihood by
// Expectation and LogExpectation, which may be slower.
type Marginal interface {
	// Moments returns E g⁻¹(f), Var g⁻¹(f) and E Var[y|f] of one output for
	// f ~ N(m, v), v ≥ 0.
	Moments(output int, m, v float64) (mean, epistemic, aleatoric float64)
	// LogMarginal returns log E[p(y|f)] of one example for f ~ N(f, cov), cov
	// C·C row-major.
	LogMarginal(y, f, cov []float64) (float64, error)
}

// A Coupled likelihood is a Marginal one whose targets depend on several outputs each,
// such as a mean and a log variance, so that its integrals take the covariance of the
// outputs. Heteroscedastic is one.
type Coupled interface {
	// MomentsTo writes E g⁻¹(f), Var g⁻¹(f) and E Var[y|f], C numbers each, for
	// f ~ N(f, cov), cov C·C row-major.
	MomentsTo(mean, epistemic, aleatoric, f, cov []float64)
	// LogMarginal returns log E[p(y|f)] of one example, as LogMarginal of Marginal does.
	LogMarginal(y, f, cov []float64) (float64, error)
}

// A Logistic likelihood is one of classes, with logits as outputs. QMC, Probit and
// Bridge require it.
type Logistic interface {
	// Softmax tells how outputs become probabilities. True means that the C
	// outputs stand for C classes with probabilities softmax(f). False means that
	// each output f by itself is the logit of one of two classes, σ(f).
	Softmax() bool
}

// A Distribution likelihood has the predictive distribution of each output of y
// for f ~ N(m, v), v ≥ 0. *Gaussian, Poisson and NegativeBinomial have one.
type Distribution interface {
	// PredictiveCDF returns P(y ≤ at).
	PredictiveCDF(output int, at, m, v float64) float64
	// PredictiveQuantile returns the smallest y with P(y' ≤ y) ≥ p, 0 < p < 1.
	PredictiveQuantile(output int, p, m, v float64) float64
}

// A Counting likelihood is one of counts with the mean eᶠ, for each output by itself. Poisson
// and NegativeBinomial are.
type Counting interface {
	Distribution
	// Overdispersion returns φ in Var[y|f] = eᶠ + φ e²ᶠ.
	Overdispersion() float64
}

// CoupledQuantities are what a Distribution has for a Coupled likelihood, by target and
// for f ~ N(f, cov), cov C·C row-major. Heteroscedastic has them.
type CoupledQuantities interface {
	// CoupledCDF returns P(y ≤ at).
	CoupledCDF(target int, at float64, f, cov []float64) float64
	// CoupledQuantile returns the smallest y with P(y' ≤ y) ≥ p, 0 < p < 1.
	CoupledQuantile(target int, p float64, f, cov []float64) float64
}

// ofOutputs are the quantities of a Distribution, whose targets are its outputs.
type ofOutputs struct{ Distribution }

// CoupledCDF implements CoupledQuantities.
func (d ofOutputs) CoupledCDF(target int, at float64, f, cov []float64) float64 {
	return d.PredictiveCDF(target, at, f[target], cov[target*len(f)+target])
}

// CoupledQuantile implements CoupledQuantities.
func (d ofOutputs) CoupledQuantile(target int, p float64, f, cov []float64) float64 {
	return d.PredictiveQuantile(target, p, f[target], cov[target*len(f)+target])
}

// DistributionOf returns the predictive distribution of the targets of a likelihood that
// is a Distribution or has CoupledQuantities; ok is false for others.
func DistributionOf(lik Likelihood) (d CoupledQuantities, ok bool) {
	switch l := lik.(type) {
	case CoupledQuantities:
		return l, true
	case Distribution:
		return ofOutputs{l}, true
	}
	return nil, false
}

// MostLogLik returns the most that Σ log p(y_i|f_i) can be at any function values: 0 for classes,
// for which a sure and right function is the limit. y is N×Targets(C). A likelihood that is not of
// this package counts as one with the most 0.
func MostLogLik(lik Likelihood, y *mat.Dense) float64 {
	n, _ := y.Dims()
	sum := 0.0
	for i := range n {
		row := y.RawRowView(i)
		switch l := lik.(type) {
		case *Gaussian:
			sum += l.LogProb(row, row)
		case Counting:
			f := make([]float64, len(row))
			for j, v := range row {
				f[j] = math.Log(math.Max(v, 1e-300)) // of no events the limit is 0
			}
			sum += lik.LogProb(row, f)
		}
	}
	return sum
}
