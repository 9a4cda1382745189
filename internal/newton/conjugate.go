package newton

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// StepResidual is the relative residual at which conjugate gradients for a Newton step stop, in the norm of the
// preconditioner: √(rᵀM⁻¹r) for the residual r, where M⁻¹ approximates H⁻¹.
const StepResidual = 1e-4

// ConjugateGradients solves Hx = g for a positive definite H.
type ConjugateGradients struct {
	Times        func(v []float64) ([]float64, error) // returns H v
	Precondition func(v []float64)                    // replaces v by an approximation of H⁻¹v
	Residual     float64                              // relative residual at which the iteration stops
	Took         func(t float64)                      // called after x has moved by t v, for the last v of Times; nil for nobody
}

// Solve returns x with Hx ≈ g. settled is false where the residual is above c.Residual after limit steps, and where
// a number is not finite.
func (c ConjugateGradients) Solve(ctx context.Context, g []float64, limit int) (x []float64, settled bool, err error) {
	x = make([]float64, len(g))
	r := slices.Clone(g)
	precondition := func() ([]float64, float64) {
		q := slices.Clone(r)
		c.Precondition(q)
		return q, floats.Dot(r, q)
	}
	q, rq := precondition()
	p, first := slices.Clone(q), rq
	for range limit {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		hp, err := c.Times(p)
		if err != nil {
			return nil, false, err
		}
		curvature := floats.Dot(p, hp)
		if !(rq > 0 && curvature > 0) { // true where either is NaN, too
			return x, false, nil
		}
		t := rq / curvature
		floats.AddScaled(x, t, p)
		if c.Took != nil {
			c.Took(t)
		}
		floats.AddScaled(r, -t, hp)
		before := rq
		if q, rq = precondition(); rq <= c.Residual*c.Residual*first {
			return x, true, nil
		}
		floats.AddScaledTo(p, q, rq/before, p)
	}
	return x, false, nil
}
