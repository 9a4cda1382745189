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
func Refit(ctx context.Context, k MulKernel, x linearize.Source, y *gp.Targets, o *Options) (*Posterior, error) {
	d := o.withDefaults()
	p, start, err := newPosterior(ctx, k, x, &d)
	if err != nil {
		return nil, err
	}
	if err := y.CheckFor(p.data.n, p.data.c); err != nil {
		return nil, err
	}
	p.refit = true
	// Find the mode and condition the posterior on the sites there. f is f(x;θ*), which need not lie
	// in the span of the training examples.
	f := start.f
	point := func(alpha, kalpha []float64) *newton.Point {
		return &newton.Point{Dual: alpha, KDual: kalpha, F: floats.AddTo(make([]float64, len(alpha)), p.prior, kalpha)}
	}
	from := point(make([]float64, len(f)), make([]float64, len(f))) // the prior mean
	most := memory.MulInt(refitSolves, p.o.MaxSteps)
	s := newton.New(y, p.o.MaxIter, true)
	l := &newton.Objective{Y: y, Prior: p.prior}
	_, err = newton.Find(&s, l, f, from, func(f []float64, from *newton.Point) (*newton.Point, error) {
		sites, err := gp.NewSites(y, mat.NewDense(p.data.n, p.data.c, f))
		if err != nil {
			return nil, err
		}
		if err := p.condition(ctx, sites); err != nil {
			return nil, err
		}
		alpha, kalpha := slices.Clone(from.Dual), slices.Clone(from.KDual)
		if err := p.dual(ctx, alpha, kalpha, math.Max(p.o.Tolerance, polish), most-p.solve.Steps); err != nil {
			return nil, err
		}
		p.o.Progress(gp.StageNewton, s.Steps+1, 0)
		if p.solve.Steps >= most {
			s.MaxIter = s.Steps
		}
		return point(alpha, kalpha), nil
	})
	if err != nil {
		return nil, err
	}
	p.warnings = append(p.warnings, s.Warnings()...)
	p.warnings = append(p.warnings, newton.GapWarnings(floats.Distance(p.alpha, p.local.R, 2))...)
	// The evidence has the scatter αᵀKα.
	if i, sum := newton.Overflow(p.alpha, p.kalpha); i >= 0 {
		c := p.data.c
		return nil, &gp.NotFiniteError{What: "scatter αᵀKα", Row: i / c, Output: i % c, Value: sum, Remedy: "raise the prior precision, or check the network's Jacobian"}
	}
	if err := p.warnClosure(ctx); err != nil {
		return nil, err
	}
	return p, p.finish(ctx)
}

// refitSolves·MaxSteps bounds the steps of conjugate gradients that all Newton
// steps of a refit take together.
const refitSolves = 20
