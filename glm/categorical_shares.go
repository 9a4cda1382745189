package glm

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/glm/integral"
)

// CategoricalShares is Categorical with shares of the C classes as targets: log p = Σ_c q_c log softmax(f)_c, the
// negative cross entropy (E23). Soft and smoothed labels are such shares. A target has C numbers q ≥ 0 that sum to 1.
type CategoricalShares struct{}

var (
	_ Likelihood = CategoricalShares{}
	_ Logistic   = CategoricalShares{}
)

// Name returns "categorical".
func (CategoricalShares) Name() string { return Categorical{}.Name() }

// Softmax returns true.
func (CategoricalShares) Softmax() bool { return true }

// Targets returns c.
func (CategoricalShares) Targets(c int) int { return c }

// CheckY accepts c numbers in [0,1] that sum to 1 up to rounding, and returns an error for anything else.
func (k CategoricalShares) CheckY(y []float64, c int) error {
	if err := checkTargets(k, y, c, "a share of 1", func(v float64) bool { return v >= 0 && v <= 1 }); err != nil {
		return err
	}
	if sum := floats.Sum(y); !(math.Abs(sum-1) <= 1e-9) {
		return fmt.Errorf("glm: the shares of the classes sum to %v; the %s likelihood wants 1", sum, k.Name())
	}
	return nil
}

// Expand returns Σ q_c log p_c and writes r = q − p, and Λ and R of Categorical. For p > ½ it computes q − p as
// (1 − p) − (1 − q), both by sums of the others, so that no digits cancel.
func (CategoricalShares) Expand(residual, lambda, root, y, f []float64) (logp float64) {
	c := len(f)
	checkSite(residual, lambda, root, y, c, c)
	p := residual
	if p == nil {
		p = make([]float64, c)
	}
	logRest, top := integral.SoftmaxTo(p, f)
	softmaxCurvature(lambda, root, p)
	for j, q := range y {
		// log p = f − max f − log Σ e^{f−max f}
		logp += weighted(q, f[j]-top-logRest)
	}
	if residual != nil {
		likeliest := integral.Argmax(f)
		rest := integral.Complement(p, likeliest) - integral.Complement(y, likeliest)
		floats.SubTo(residual, y, p)
		residual[likeliest] = rest
	}
	return logp
}

// SlopeTo writes what Categorical.SlopeTo writes, as Λ does not depend on the shares.
func (CategoricalShares) SlopeTo(u, y, f, df []float64) { Categorical{}.SlopeTo(u, y, f, df) }

// LogProb returns Σ q_c log softmax(f)_c.
func (k CategoricalShares) LogProb(y, f []float64) float64 { return k.Expand(nil, nil, nil, y, f) }

// MeanTo writes the class probabilities softmax(f).
func (CategoricalShares) MeanTo(dst, f []float64) { Categorical{}.MeanTo(dst, f) }

// VarianceTo writes p(1−p) for each class.
func (CategoricalShares) VarianceTo(dst, f []float64) { Categorical{}.VarianceTo(dst, f) }
