package newton

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// StepResidual is the relative residual at which conjugate gradients for a Newton step stop, in the norm of the
// preconditioner: √(rᵀM⁻¹r) for the residual r, where M⁻¹ approximates H⁻¹.
const StepResidual = 1e-4

// ConjugateGradients solves Hx = g for a positive definite H. The vectors are rows of matrices, one for each right-hand
// side, and each row is solved for by itself.
type ConjugateGradients struct {
	Times        func(v *mat.Dense) (*mat.Dense, error) // returns H v
	Precondition func(v *mat.Dense) error               // replaces v by an approximation of H⁻¹v
	Residual     float64                                // relative residual at which the iteration stops
	Took         func(t float64)                        // if not nil, called after the single x moved by t v, with the last v of Times
}

// Solve returns x with Hx ≈ g. settled is false where a residual is above c.Residual after limit steps, and where
// a number is not finite.
func (c ConjugateGradients) Solve(ctx context.Context, g *mat.Dense, limit int) (x *mat.Dense, settled bool, err error) {
	rows, n := g.Dims()
	x, p, r := mat.NewDense(rows, n, nil), mat.NewDense(rows, n, nil), mat.DenseCopyOf(g)
	first, rq := make([]float64, rows), make([]float64, rows)
	ended := make([]bool, rows) // rows that do not change any more
	settled = true
	for k := 0; ; k++ {
		q := mat.DenseCopyOf(r)
		if err := c.Precondition(q); err != nil {
			return nil, false, err
		}
		open := 0
		for i := range rows {
			before := rq[i]
			if rq[i] = floats.Dot(r.RawRowView(i), q.RawRowView(i)); k == 0 {
				first[i], before = rq[i], 1
			} else if ended[i] = ended[i] || rq[i] <= c.Residual*c.Residual*first[i]; ended[i] {
				continue
			}
			open++
			floats.AddScaledTo(p.RawRowView(i), q.RawRowView(i), rq[i]/before, p.RawRowView(i)) // p is 0 at first
		}
		if open == 0 || k == limit {
			return x, settled && open == 0, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		hp, err := c.Times(p)
		if err != nil {
			return nil, false, err
		}
		for i := range rows {
			if ended[i] {
				continue
			}
			curvature := floats.Dot(p.RawRowView(i), hp.RawRowView(i))
			if !(rq[i] > 0 && curvature > 0) { // true where either is NaN, too
				ended[i], settled = true, false
				continue
			}
			t := rq[i] / curvature
			floats.AddScaled(x.RawRowView(i), t, p.RawRowView(i))
			floats.AddScaled(r.RawRowView(i), -t, hp.RawRowView(i))
			if c.Took != nil {
				c.Took(t)
			}
		}
	}
}
