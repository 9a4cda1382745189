package cg

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
)

// Refit returns the posterior at the mode of the linearized model (E9),
// found by Newton steps from θ*. y has N rows. The sites, B, b and α of the
// result all belong to the mode, and its predictive mean is m + K_*n α. A
// Newton step solves for the change of α alone, and so only roughly: where
// the steps end does not depend on it. All of them together take at most
// 20·MaxSteps steps of conjugate gradients; where these are used up, there is a
// *gp.IterationWarning. One solve more may check that the sums over examples
// close. The errors are those of gp.NewSites and FitCG.
func Refit(ctx context.Context, k MulKernel, x linearize.Source, y *mat.Dense, lik gp.Likelihood, o *Options) (*Posterior, error) {
	d := o.withDefaults()
	p, start, err := newPosterior(ctx, k, x, &d)
	if err != nil {
		return nil, err
	}
	if err := gp.CheckTargets(y, p.data.n, p.data.c, lik); err != nil {
		return nil, err
	}
	p.refit = true
	r := &refit{p: p, y: y, lik: lik}
	if err := r.newton(ctx, start.f); err != nil {
		return nil, err
	}
	if err := p.warnOpen(ctx); err != nil {
		return nil, err
	}
	return p, p.finish(ctx)
}

// refitSolves is how many solves of MaxSteps steps all Newton steps of a refit
// may take together.
const refitSolves = 20

// A refit is the Newton iteration.
type refit struct {
	p   *Posterior
	y   *mat.Dense
	lik gp.Likelihood
}

// A point is a function in the span of the training examples: f = m + Kα.
type point struct {
	alpha, kalpha, f []float64
	objective        float64 // Σ log p(y|f) − ½ αᵀKα
}

// newton leaves the posterior conditioned on the sites at the mode.
func (r *refit) newton(ctx context.Context, f []float64) error {
	p, n := r.p, len(f)
	at := r.point(make([]float64, n), make([]float64, n))
	at.objective = r.objective(at)
	sitesAt := f // θ* need not lie in the span
	move, most := math.Inf(1), memory.MulInt(refitSolves, p.o.MaxSteps)
	for step := 0; ; step++ {
		if err := r.condition(ctx, sitesAt); err != nil {
			return err
		}
		alpha, kalpha := append([]float64(nil), at.alpha...), append([]float64(nil), at.kalpha...)
		if err := p.dual(ctx, alpha, kalpha, math.Max(p.o.Tolerance, polish), most-p.solve.Steps); err != nil {
			return err
		}
		p.o.Progress(gp.StageNewton, step+1, 0)
		next, last := r.point(alpha, kalpha), move
		if move = newton.RelativeMove(sitesAt, next.f); move < newton.SmallMove {
			break
		}
		if step == p.o.MaxIter || p.solve.Steps >= most {
			p.warnings = append(p.warnings, &gp.IterationWarning{Steps: step, Move: move})
			break
		}
		to := r.search(at, next, step > 0 && move < last/2)
		if to == nil && step > 0 {
			if !(move <= newton.SmallOpen) {
				p.warnings = append(p.warnings, &gp.IterationWarning{Steps: step, Move: move})
			}
			break
		}
		if to != nil {
			at = to
		}
		if math.IsInf(at.objective, 0) {
			return newton.ErrNoObjective
		}
		sitesAt = at.f
	}
	if gap := floats.Distance(p.alpha, p.local.R, 2); !(gap <= newton.SmallGap) {
		p.warnings = append(p.warnings, &gp.GapWarning{Gap: gap})
	}
	return nil
}

// condition conditions the posterior on the sites at f.
func (r *refit) condition(ctx context.Context, f []float64) error {
	s, err := gp.NewSites(r.y, mat.NewDense(r.p.data.n, r.p.data.c, f), r.lik)
	if err != nil {
		return err
	}
	return r.p.condition(ctx, s)
}

// search returns the first of the points 1, ½, ¼, … of the way to next whose
// objective is above that at from, or nil. Near the mode, where a gain is
// lost in the rounding of the objective, a contracting step counts as one.
func (r *refit) search(from, next *point, contracting bool) *point {
	for t := 1.0; t > newton.SmallStep; t /= 2 {
		to := next
		if t < 1 {
			to = r.between(from, next, t)
		}
		to.objective = r.objective(to)
		if to.objective > from.objective {
			return to
		}
		if t == 1 && contracting && from.objective-to.objective <= 1e-14*math.Abs(from.objective) {
			return to
		}
	}
	return nil
}

func (r *refit) point(alpha, kalpha []float64) *point {
	to := &point{alpha: alpha, kalpha: kalpha, f: make([]float64, len(alpha))}
	floats.AddTo(to.f, r.p.prior, kalpha)
	return to
}

// between returns the point t of the way from a to b; f is linear in α.
func (r *refit) between(a, b *point, t float64) *point {
	mix := func(x, y []float64) []float64 {
		out := make([]float64, len(x))
		for i := range out {
			out[i] = x[i] + t*(y[i]-x[i])
		}
		return out
	}
	return r.point(mix(a.alpha, b.alpha), mix(a.kalpha, b.kalpha))
}

// objective returns Σ log p(y|f) − ½ αᵀKα, −Inf where it is not finite.
func (r *refit) objective(at *point) float64 {
	c, sum := r.p.data.c, 0.0
	for i := range r.p.data.n {
		sum += r.lik.Expand(nil, nil, nil, r.y.RawRowView(i), at.f[i*c:(i+1)*c])
	}
	v := sum - floats.Dot(at.alpha, at.kalpha)/2
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.Inf(-1)
	}
	return v
}
