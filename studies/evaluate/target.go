package evaluate

import (
	"math"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/logsum"
)

// A Target is the number of a test row that is attributed to training rows: a function g
// of its true target y and the outputs f, C numbers.
type Target interface {
	Value(y, f []float64) float64
	// GradientTo writes ∂g/∂f, C numbers.
	GradientTo(dst, y, f []float64)
}

// Margin is log p(y|f) − log(1 − p(y|f)) of the true class: f of two classes with one
// output, up to the sign, and f_y − log Σ_{c≠y} exp f_c of C > 1. It increases with
// log p, so that ranks by the one are ranks by the other, but its gradient keeps its
// size where p is near 1. y is 0 or 1 for one output, and otherwise the class.
type Margin struct{}

var _ Target = Margin{}

// Value implements Target.
func (Margin) Value(y, f []float64) float64 {
	if len(f) == 1 {
		return (2*y[0] - 1) * f[0]
	}
	sum := logsum.New()
	for c, v := range f {
		if c != int(y[0]) {
			sum.Add(v)
		}
	}
	return f[int(y[0])] - sum.Value()
}

// GradientTo implements Target.
func (m Margin) GradientTo(dst, y, f []float64) {
	if len(f) == 1 {
		dst[0] = 2*y[0] - 1
		return
	}
	rest := f[int(y[0])] - m.Value(y, f)
	for c, v := range f {
		dst[c] = -math.Exp(v - rest)
	}
	dst[int(y[0])] = 1
}

// LogProb is log p(y|f).
type LogProb struct{ Likelihood glm.Likelihood }

var _ Target = LogProb{}

// Value implements Target.
func (l LogProb) Value(y, f []float64) float64 { return l.Likelihood.LogProb(y, f) }

// GradientTo implements Target.
func (l LogProb) GradientTo(dst, y, f []float64) { l.Likelihood.Expand(dst, nil, nil, y, f) }

// Apart is f of one output, and of several the logit of class y less the mean of the others.
type Apart struct{}

var _ Target = Apart{}

// Value implements Target.
func (a Apart) Value(y, f []float64) float64 {
	w, sum := make([]float64, len(f)), 0.0
	a.GradientTo(w, y, f)
	for c, v := range f {
		sum += w[c] * v
	}
	return sum
}

// GradientTo implements Target.
func (Apart) GradientTo(dst, y, f []float64) {
	for c := range dst {
		dst[c] = -1 / float64(len(dst)-1)
	}
	if len(dst) == 1 {
		dst[0] = 1
		return
	}
	dst[int(y[0])] = 1
}
