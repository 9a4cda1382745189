package glm

import "fmt"

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
