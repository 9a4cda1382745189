// Package descent says at which prior precision a training by stochastic gradient descent stopped.
package descent

import (
	"fmt"
	"math"
)

// A Descent is a training by stochastic gradient descent on the mean of −log p over the
// training rows, from a start near the prior mean. A loss that is a multiple of −log p, as a
// mean of squares is with 2σ², has its Rate times that multiple.
type Descent struct {
	Rate     float64 // η, the step size; of a schedule its mean over the steps
	Momentum float64 // μ, from 0 to below 1, without dampening
	Steps    int     // T, on minibatches
	Decay    float64 // δ of the decay in training, N·λ with the weight decay λ; 0 for none
}

// Precision returns the prior precision under which the linearized model is about where the
// training of so many rows left it, for contributions and removals that another training
// would bear out. In a direction in which the rows say little, T steps of size η/(1−μ) along
// a mean over N rows shrink the optimum by the factor by which a ridge with
//
//	δ_T = N(1−μ)/(ηT)
//
// does. With the decay δ the flow goes on towards the ridge δ, and the factor is that of
// δ/(1 − exp(−δ/δ_T)): δ_T without decay, and δ where the training was long.
func (d Descent) Precision(rows int) (float64, error) {
	switch {
	case rows < 1:
		return 0, fmt.Errorf("descent: a training of %d rows has no length", rows)
	case !(d.Rate > 0) || math.IsInf(d.Rate, 1):
		return 0, fmt.Errorf("descent: the step size %v must be a positive number", d.Rate)
	case !(d.Momentum >= 0 && d.Momentum < 1):
		return 0, fmt.Errorf("descent: the momentum %v must be at least 0 and below 1", d.Momentum)
	case d.Steps < 1:
		return 0, fmt.Errorf("descent: %d steps are no training", d.Steps)
	case !(d.Decay >= 0) || math.IsInf(d.Decay, 1):
		return 0, fmt.Errorf("descent: the precision %v of the decay must be 0 or a positive number", d.Decay)
	}
	length := float64(rows) * (1 - d.Momentum) / (d.Rate * float64(d.Steps))
	if d.Decay == 0 {
		return length, nil
	}
	return d.Decay / -math.Expm1(-d.Decay/length), nil
}
