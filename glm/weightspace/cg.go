package weightspace

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

const (
	// stepResidual is the relative residual at which conjugate gradients for a
	// Newton step stop. The inverse of the preconditioner defines its norm.
	stepResidual = 1e-4
	// fewParameters is the number of parameters below which every Newton step
	// factors H̃, which then takes milliseconds.
	fewParameters = 512
	// factorSpeed is how many times more operations per second a factorization does than
	// products with vectors, whose speed is limited by memory.
	factorSpeed = 25
)

// iterations returns the number of steps of conjugate gradients that take about
// half as long as a factorization of H̃. A step takes 2·P² operations for its
// two triangular solves and those of a product with J and one with Jᵀ, a
// factorization N·C·P² + P³/3.
func (w *Posterior) iterations() int {
	p := float64(len(w.theta))
	if p < fewParameters {
		return 0
	}
	n, c := w.x.Len(), w.x.Outputs()
	step := 2 * p * p
	for _, b := range w.x.Blocks {
		rows := n
		switch b := b.(type) {
		case *linearize.Full:
			rows *= c // of others the products come from their factors
		case *linearize.Conv:
			t, _, _ := b.Layout.Factors()
			rows *= t
		}
		step += 4 * float64(rows) * float64(linearize.Width(b))
	}
	factorization := float64(n*c)*p*p + p*p*p/3
	return int(factorization / (2 * factorSpeed * step))
}

// conjugate returns H̃⁻¹g for H̃ at the sites s, or nil where conjugate gradients
// do not converge within limit steps. The preconditioner is the factor of H̃ at
// other sites.
func (w *Posterior) conjugate(ctx context.Context, s *gp.Sites, g []float64, limit int) ([]float64, error) {
	c := conjugateGradients{
		times:        func(v []float64) ([]float64, error) { return w.precisionTimes(s, v), nil },
		precondition: w.h.solve,
		residual:     stepResidual,
	}
	x, _, settled, err := c.solve(ctx, g, limit)
	if err != nil || !settled {
		return nil, err
	}
	return x, nil
}

// conjugateGradients solve with a positive definite H̃.
type conjugateGradients struct {
	times        func(v []float64) ([]float64, error) // H̃ v
	precondition func(v []float64)                    // replaces v by an approximation of H̃⁻¹v
	residual     float64                              // relative, at which they stop
}

// solve returns x with H̃x ≈ g and the number of steps it took. settled is false
// where the residual is still above c.residual after limit steps, and where a
// number is no longer finite.
func (c conjugateGradients) solve(ctx context.Context, g []float64, limit int) (x []float64, steps int, settled bool, err error) {
	x = make([]float64, len(g))
	r := slices.Clone(g)
	precondition := func() ([]float64, float64) {
		q := slices.Clone(r)
		c.precondition(q)
		return q, floats.Dot(r, q)
	}
	q, rq := precondition()
	p, first := slices.Clone(q), rq
	for steps < limit {
		if err := ctx.Err(); err != nil {
			return nil, steps, false, err
		}
		hp, err := c.times(p)
		if err != nil {
			return nil, steps, false, err
		}
		curvature := floats.Dot(p, hp)
		if !(rq > 0 && curvature > 0) { // also where either is NaN
			return x, steps, false, nil
		}
		t := rq / curvature
		floats.AddScaled(x, t, p)
		floats.AddScaled(r, -t, hp)
		before := rq
		q, rq = precondition()
		if steps++; rq <= c.residual*c.residual*first {
			return x, steps, true, nil
		}
		floats.AddScaledTo(p, q, rq/before, p)
	}
	return x, steps, false, nil
}

// precisionTimes returns H̃v = v + J̃ᵀΛJ̃v at the sites s.
func (w *Posterior) precisionTimes(s *gp.Sites, v []float64) []float64 {
	scaled := make([]float64, len(v))
	floats.MulTo(scaled, w.root, v)
	f := make([]float64, w.x.Len()*w.x.Outputs())
	w.x.MulVecTo(f, scaled)
	out := w.pullBack(mulBlocks(s.Lambda, f))
	floats.Add(out, v)
	return out
}
