package cg

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
)

// Refit returns the posterior at the mode of the linearized model (E9),
// found by Newton steps from θ*. y has N rows. The sites, B, b and α of the
// result all belong to the mode, and its predictive mean is m + K_*n α.
//
// Each Newton step solves only roughly, for the change of α; the mode does not
// depend on this. All Newton steps together take at most 20·MaxSteps steps of
// conjugate gradients. Where these are used up before the mode is found, Warnings
// holds one of refit-steps. One more solve may check that the sums over
// training examples close. The errors are those of gp.NewSites and Fit; a scatter
// αᵀKα that overflows is a *gp.NotFiniteError.
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
	if err := p.checkScatter(); err != nil {
		return nil, err
	}
	if err := p.warnClosure(ctx); err != nil {
		return nil, err
	}
	return p, p.finish(ctx)
}

// refitSolves·MaxSteps bounds the steps of conjugate gradients that all Newton
// steps of a refit take together.
const refitSolves = 20

// A refit makes the Newton steps and is the objective, Σ log p(y|f) − ½ αᵀKα, of
// their search.
type refit struct {
	p   *Posterior
	y   *mat.Dense
	lik gp.Likelihood
}

var _ newton.Line[*point] = (*refit)(nil)

// A point is a function in the span of the training examples: f = m + Kα.
type point struct {
	alpha, kalpha, f []float64
	objective        float64 // Σ log p(y|f) − ½ αᵀKα, 0 where it was not computed
}

// newton finds the mode and conditions the posterior on the sites there. f is
// f(x;θ*), which need not lie in the span of the training examples.
func (r *refit) newton(ctx context.Context, f []float64) error {
	p, n := r.p, len(f)
	from := r.point(make([]float64, n), make([]float64, n)) // the prior mean
	most := memory.MulInt(refitSolves, p.o.MaxSteps)
	s := newton.New(r.lik, p.o.MaxIter, true)
	for end := newton.GoesOn; end == newton.GoesOn; {
		if err := r.condition(ctx, f); err != nil {
			return err
		}
		alpha, kalpha := slices.Clone(from.alpha), slices.Clone(from.kalpha)
		if err := p.dual(ctx, alpha, kalpha, math.Max(p.o.Tolerance, polish), most-p.solve.Steps); err != nil {
			return err
		}
		p.o.Progress(gp.StageNewton, s.Steps+1, 0)
		if p.solve.Steps >= most {
			s.MaxIter = s.Steps
		}
		var err error
		if from, end, err = newton.Next(&s, r, f, from, r.point(alpha, kalpha)); err != nil {
			return err
		}
		f = from.f
	}
	p.warnings = append(p.warnings, s.Warnings()...)
	p.warnings = append(p.warnings, newton.GapWarnings(floats.Distance(p.alpha, p.local.R, 2))...)
	return nil
}

// checkScatter returns a *gp.NotFiniteError where the scatter αᵀKα overflows, and
// with it the evidence. The error names the example at which the sum does.
func (p *Posterior) checkScatter() error {
	if i, sum := newton.Overflow(p.alpha, p.kalpha); i >= 0 {
		c := p.data.c
		return &gp.NotFiniteError{What: "scatter αᵀKα", Row: i / c, Output: i % c, Value: sum, Remedy: "raise the prior precision, or check the network's Jacobian"}
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

// point returns the point m + Kα.
func (r *refit) point(alpha, kalpha []float64) *point {
	to := &point{alpha: alpha, kalpha: kalpha, f: make([]float64, len(alpha))}
	floats.AddTo(to.f, r.p.prior, kalpha)
	return to
}

// Between returns the point t of the way from a to b; f is linear in α.
func (r *refit) Between(a, b *point, t float64) *point {
	return r.point(newton.Mix(a.alpha, b.alpha, t), newton.Mix(a.kalpha, b.kalpha, t))
}

// Objective returns Σ log p(y|f) − ½ αᵀKα, −Inf where it is not finite.
func (r *refit) Objective(p *point) float64 {
	if p.objective == 0 {
		p.objective = newton.Finite(newton.LogLik(r.lik, r.y, p.f) - floats.Dot(p.alpha, p.kalpha)/2)
	}
	return p.objective
}

// Slope returns (r(f) − α)ᵀ(f_b − f_a), with f and α of p.
func (r *refit) Slope(p, a, b *point) float64 {
	return newton.Slope(r.lik, r.y, p.f, p.alpha, a.f, b.f)
}

// Values returns f.
func (r *refit) Values(p *point) []float64 { return p.f }
