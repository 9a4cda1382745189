package weightspace

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Refit returns the posterior at the mode of the linearized model (E9), which maximizes Σ log p(y|f_lin(x;θ)) −
// ½(θ−μ₀)ᵀΣ₀⁻¹(θ−μ₀) over θ. It takes Newton steps with a line search, from θ* on. The sites, H
// and θ̂ of the result are those at the mode. The error is an error of gp.NewSites or Fit. Warnings tells whether
// the refit missed the mode.
//
// H is factored at θ* and at the mode. The Newton steps between are solved by conjugate gradients with the last factor
// as preconditioner. If conjugate gradients converge too slowly at a step, H is factored there too.
func Refit(ctx context.Context, b *linearize.Batch, y *gp.Targets, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	s, err := gp.NewSites(y, b.F)
	if err != nil {
		return nil, err
	}
	w, err := newPosterior(b, s, prior, theta, o)
	if err != nil {
		return nil, err
	}
	return w, w.newton(ctx, y)
}

// Refit is the function Refit with the training examples, the prior and the options of w. It starts from the factor
// of w and does not change w. It needs the memory of another posterior, and returns a *gp.MemoryError where that is
// not free.
func (w *Posterior) Refit(ctx context.Context, y *gp.Targets) (*Posterior, error) {
	if err := w.checkBlocks(); err != nil {
		return nil, err
	}
	if _, err := gp.NewSites(y, w.x.F); err != nil { // checks y
		return nil, err
	}
	r := *w
	r.h = slices.Clone(w.h)
	r.h[0].shared = true
	return &r, r.newton(ctx, y)
}

// newton moves w to the mode and to the sites there. The factor of H̃ at earlier sites is the preconditioner of its
// steps.
func (w *Posterior) newton(ctx context.Context, y *gp.Targets) error {
	w.refit = true
	start := w.start
	if start != nil {
		l, origin := &newton.Objective{Y: y}, make([]float64, len(w.theta))
		if l.Objective(w.pointAt(origin)) > l.Objective(w.pointAt(w.white.Of(start))) {
			start = w.white.Mean // under another prior the prior mean may be the better start
		}
	}
	pre := &preconditioner{limit: w.iterations(), factor: func(ctx context.Context, s *gp.Sites) (*precision, error) {
		return &w.h[0], w.condition(ctx, s)
	}}
	if w.conditioned != nil {
		pre.h = &w.h[0]
	}
	found, err := mode.Find(ctx, w.x, y, w.prior, w.theta, &mode.Options{
		Outputs: w.x.F, Start: start, Precondition: pre.at, MaxIter: w.o.MaxIter, Limits: w.o.Limits})
	if err != nil {
		return err
	}
	if err := w.condition(ctx, found.Sites); err != nil {
		return err
	}
	// Take one more step z + H̃⁻¹(J̃ᵀr − z), with f computed anew at the mode, without the rounding of the search.
	z := w.white.Of(found.Theta)
	at, err := gp.NewSites(y, mat.NewDense(w.n, w.c, w.pointAt(z).F))
	if err != nil {
		return err
	}
	gradient := newton.Minus(w.pullBack(dense.Flat(at.Residual)), z)
	step := slices.Clone(gradient)
	w.h[0].solve(step)
	if w.warnings = found.Warnings; found.GradientNorm <= newton.SmallGap {
		w.warnings = append(w.warnings, newton.GradientWarnings(floats.Norm(gradient, 2), floats.Dot(gradient, step)/2)...)
	}
	floats.Add(z, step)
	w.setMean(z)
	return nil
}

// A preconditioner is H̃⁻¹ at the sites of an earlier Newton step.
type preconditioner struct {
	factor func(ctx context.Context, s *gp.Sites) (*precision, error) // factors H̃ at s
	limit  int                                                        // conjugate gradient steps that take as long as factor
	h      *precision
	steps  int // conjugate gradient steps since h was factored
}

// at returns the preconditioner for a Newton step at the sites s. It factors H̃ again if the conjugate gradient steps
// with the last factor took longer than a factorization.
func (p *preconditioner) at(ctx context.Context, s *gp.Sites) (func(z []float64), error) {
	if p.h == nil || p.steps > p.limit {
		p.h, p.steps = nil, 0 // free the memory of the old factor before making the next
		var err error
		if p.h, err = p.factor(ctx, s); err != nil {
			return nil, err
		}
	}
	return func(z []float64) {
		p.steps++
		p.h.solve(z)
	}, nil
}

const (
	// fewParameters is the number of parameters below which every Newton step factors H̃, which then takes
	// milliseconds.
	fewParameters = 512
	// factorSpeed is how many times more operations per second a factorization does than products with vectors,
	// whose speed is limited by memory.
	factorSpeed = 25
)

// iterations returns the number of conjugate gradient steps that take about one and a half times as long as a
// factorization of H̃. A step takes 2·P² operations for two triangular solves, and a product with J and one with Jᵀ. A
// factorization takes N·C·P² + P³/3 operations.
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
			rows *= c // other blocks are multiplied through their factors
		case *linearize.Conv:
			t, _, _ := b.Layout.Factors()
			rows *= t
		}
		step += 4 * float64(rows) * float64(linearize.Width(b))
	}
	factorization := float64(n*c)*p*p + p*p*p/3
	return int(1.5 * factorization / (factorSpeed * step))
}

func (w *Posterior) pointAt(z []float64) *newton.Point {
	return &newton.Point{Weights: z, F: w.functionAt(w.white.Theta(z))}
}
