package evidence

import (
	"fmt"
	"math"
)

// ZeroWarning says that the evidence is highest with a group of parameters held at
// its prior mean: the data want none of its variance.
type ZeroWarning struct {
	Group string
	Slope float64 // ∂E/∂(factor on the variance) at 0, negative
}

func (w *ZeroWarning) Error() string {
	return fmt.Sprintf("evidence: the prior variance of group %q runs to 0, where the evidence changes by %.3g times its factor: the data want these parameters at their prior mean", w.Group, w.Slope)
}

// EdgeWarning says that a variable ended at an end of its range, towards which the
// evidence still rises.
type EdgeWarning struct {
	Name      string // the group; empty for the noise
	Noise     bool
	LogFactor float64
}

func (w *EdgeWarning) Error() string {
	what := fmt.Sprintf("the prior variance of group %q", w.Name)
	if w.Noise {
		what = "the noise variance"
	}
	return fmt.Sprintf("evidence: %s ended at %.3g times the given one, the end of the range: the data do not determine it", what, math.Exp(w.LogFactor))
}

// MaximaWarning says that starts ended at different maxima.
type MaximaWarning struct {
	Best   float64
	Others []float64 // their evidences, the highest first
}

func (w *MaximaWarning) Error() string {
	return fmt.Sprintf("evidence: %d maxima were found; the highest has log evidence %.6g, the next %.6g", len(w.Others)+1, w.Best, w.Others[0])
}

// UnsettledWarning says that the best point found is not known to be a maximum: the
// Newton steps did not settle, or the curvature is not negative there.
type UnsettledWarning struct {
	Step float64 // length of the last step in the logs, NaN where there was none
}

func (w *UnsettledWarning) Error() string {
	return fmt.Sprintf("evidence: the point found is not settled as a maximum (last step %.3g in the log variances)", w.Step)
}
