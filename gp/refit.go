package gp

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Refit returns the posterior at the mode of the linearized model (E9), found
// by Newton steps from θ*. The sites, B, b and α of the result
// all belong to the mode, and its predictive mean is m + K_*n α. K is formed
// once. The errors are those of NewSites and Fit.
func Refit(ctx context.Context, k ntk.Kernel, x *linearize.Batch, y *Targets, o *Options) (*Exact, error) {
	if err := y.checkAt(x.F); err != nil {
		return nil, err
	}
	e, err := newRowSolver(ctx, k, x, o)
	if err != nil {
		return nil, err
	}
	var f []float64
	if o != nil && o.Reuse != nil {
		f = o.Reuse.s.lastMode()
	}
	return e.newton(ctx, y, nil, f)
}

// Refit returns what the function Refit does for the training examples and the
// options of e, without forming K again. e does not change, so the result takes
// as much memory as e does; where so much is not free, Refit fails with a
// *MemoryError.
func (e *Exact) Refit(ctx context.Context, y *Targets) (*Exact, error) {
	if err := y.checkAt(e.s.x.F); err != nil {
		return nil, err
	}
	g, err := e.s.copyGram(ctx, "a refit beside the posterior it starts from")
	if err != nil {
		return nil, err
	}
	return e.s.with(g).newton(ctx, y, nil, nil)
}

// with returns the solver of the same training examples and prior before it is conditioned, with K in g.
func (e *rowSolver) with(g gram) *rowSolver {
	return &rowSolver{k: e.k, x: e.x, o: e.o, g: g, tile: e.tile, prior: e.prior}
}

// newton conditions e on the sites at the mode, which it finds, and returns the posterior. It
// begins at start, or where that is nil with the sites at the function values f. A
// nil f stands for those at θ*.
func (e *rowSolver) newton(ctx context.Context, y *Targets, start *newton.Point, f []float64) (*Exact, error) {
	e.refit = true
	s := newton.New(y, e.o.MaxIter, start == nil)
	from := start
	if start == nil {
		from = e.point(make([]float64, e.g.n), make([]float64, e.g.n)) // the prior mean
	}
	sitesAt := from.F
	switch {
	case start == nil && f != nil:
		sitesAt = f // nor need a function under another kernel
	case start == nil:
		sitesAt = dense.Flat(e.x.F) // θ* need not lie in the span
	}
	l := &newton.Objective{Y: y, Prior: e.prior}
	_, err := newton.Find(&s, l, sitesAt, from, func(f []float64, _ *newton.Point) (*newton.Point, error) {
		if err := ctx.Err(); err != nil {
			return nil, stopped("refitting", err)
		}
		sites, err := expand(y, mat.NewDense(e.x.Len(), e.x.Outputs(), f))
		if err != nil {
			return nil, err
		}
		if err := e.condition(ctx, sites); err != nil {
			return nil, err
		}
		e.o.Show(StageNewton, s.Steps+1, 0)
		return e.point(e.alpha, e.kalpha), nil
	})
	if err != nil {
		return nil, err
	}
	// The evidence has the scatter αᵀKα.
	if i, sum := newton.Overflow(e.alpha, e.kalpha); i >= 0 {
		c := e.outputs()
		return nil, &NotFiniteError{What: "scatter αᵀKα", Row: i / c, Output: i % c, Value: sum, Remedy: tooLarge}
	}
	e.warnings = append(e.warnings, s.Warnings()...)
	e.warnings = append(e.warnings, newton.GapWarnings(floats.Distance(e.alpha, dense.Flat(e.sites.Residual), 2))...)
	if err := e.warnClosure(ctx); err != nil {
		return nil, err
	}
	e.warnJitter()
	return e.exact(), nil
}

// point returns the point m + Kα.
func (e *rowSolver) point(alpha, kalpha []float64) *newton.Point {
	return &newton.Point{Dual: alpha, F: floats.AddTo(make([]float64, e.g.n), e.prior, kalpha)}
}
