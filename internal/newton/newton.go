// Package newton holds the rules by which the Newton iterations of the refits
// (E9) end, step back and warn.
package newton

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
)

const (
	SmallMove = 1e-12 // a Newton step below this, relative to the largest entry of f̂, ends the refit
	SmallStep = 1e-8  // the shortest part of a Newton step that is tried
	SmallGap  = 1e-6  // ‖α − r(f̂)‖ above which there is a warning
)

// RelativeMove returns the largest change from a to b over b's largest entry.
func RelativeMove(a, b []float64) float64 {
	move := floats.Distance(a, b, math.Inf(1))
	if move == 0 {
		return 0
	}
	return move / floats.Norm(b, math.Inf(1))
}

var ErrNoObjective = errors.New("gp: the likelihood has no finite value at the prior mean or near θ*; scale the targets or raise the prior precision")

// SmallOpen is the gap between the mean and the sum over training examples,
// relative to the largest output, above which there is a warning.
const SmallOpen = 1e-8

// RelativeTo returns gap over the largest entry of f; 0 where both are 0.
func RelativeTo(gap float64, f []float64) float64 {
	if gap == 0 {
		return 0
	}
	return gap / floats.Norm(f, math.Inf(1))
}
