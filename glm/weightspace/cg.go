package weightspace

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
)

const (
	// stepResidual is the relative residual at which conjugate gradients for a
	// Newton step stop. The inverse of the preconditioner defines its norm.
	stepResidual = 1e-4
	// fewParameters is the number of parameters below which every Newton step
	// factors H̃, which then takes milliseconds.
	fewParameters = 512
	// factorSpeed is half the factor by which a factorization does more
	// operations per second than a triangular solve with one vector, whose speed
	// is limited by memory.
	factorSpeed = 100
)

// iterations returns the number of steps of conjugate gradients that take about
// half as long as a factorization of H̃. A step takes 2·P² operations for its
// two triangular solves, a factorization N·C·P² + P³/3.
func (w *Posterior) iterations() int {
	p := len(w.theta)
	if p < fewParameters {
		return 0
	}
	return (w.x.Len()*w.x.Outputs() + p/3) / factorSpeed
}

// conjugate returns H̃⁻¹g for H̃ at the sites s, or nil where conjugate gradients
// do not converge within limit steps. The preconditioner is the factor of H̃ at
// other sites.
func (w *Posterior) conjugate(ctx context.Context, s *gp.Sites, g []float64, limit int) ([]float64, error) {
	x, r := make([]float64, len(g)), slices.Clone(g)
	precondition := func() ([]float64, float64) {
		q := slices.Clone(r)
		w.h.solve(q)
		return q, floats.Dot(r, q)
	}
	q, rq := precondition()
	p, first := slices.Clone(q), rq
	for range limit {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		hp := w.precisionTimes(s, p)
		curvature := floats.Dot(p, hp)
		if !(rq > 0 && curvature > 0) { // also where either is NaN
			return nil, nil
		}
		t := rq / curvature
		floats.AddScaled(x, t, p)
		floats.AddScaled(r, -t, hp)
		before := rq
		q, rq = precondition()
		if rq <= stepResidual*stepResidual*first {
			return x, nil
		}
		floats.AddScaledTo(p, q, rq/before, p)
	}
	return nil, nil
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
