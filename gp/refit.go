package gp

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Refit returns the posterior at the mode of the linearized model (E9), found
// by Newton steps from θ*. y has N rows. The sites, B, b and α of the result
// all belong to the mode, and its predictive mean is m + K_*n α. K is formed
// once. The errors are those of NewSites and Fit.
func Refit(ctx context.Context, k ntk.Kernel, x *linearize.Batch, y *mat.Dense, lik Likelihood, o *Options) (*Exact, error) {
	if err := checkTargets(y, x.F, lik); err != nil {
		return nil, err
	}
	e, err := newExact(ctx, k, x, o)
	if err != nil {
		return nil, err
	}
	var f []float64
	if o != nil && o.Reuse != nil {
		f = o.Reuse.lastMode()
	}
	return e.newton(ctx, y, lik, nil, f)
}

// Refit returns what the function Refit does for the training examples and the
// options of e, without forming K again. e does not change, so the result takes
// as much memory as e does; where so much is not free, Refit fails with a
// *MemoryError.
func (e *Exact) Refit(ctx context.Context, y *mat.Dense, lik Likelihood) (*Exact, error) {
	if err := checkTargets(y, e.x.F, lik); err != nil {
		return nil, err
	}
	n, c := e.x.Len(), e.outputs()
	if err := CheckMemory("a refit beside the posterior it starts from", TrainingExamples, n, e.o.MaxMemory, func(n int) int64 { return Bytes(n, c) }); err != nil {
		return nil, err
	}
	g, err := e.g.copyKernel(ctx, e.o.Workers)
	if err != nil {
		return nil, err
	}
	r := &Exact{k: e.k, x: e.x, o: e.o, g: g, tile: e.tile, prior: e.prior}
	return r.newton(ctx, y, lik, nil, nil)
}

// A point is a function in the span of the training examples: f = m + Kα.
type point struct {
	alpha, f  []float64
	objective float64 // Σ log p(y|f) − ½ αᵀKα, 0 where it was not computed
}

// A line is the objective of a refit, Σ log p(y|f) − ½ αᵀKα.
type line struct {
	e   *Exact
	y   *mat.Dense
	lik Likelihood
}

var _ newton.Line[*point] = line{}

// newton conditions e on the sites at the mode, which it finds, and returns e. It
// begins at start, or where that is nil with the sites at the function values f. A
// nil f stands for those at θ*.
func (e *Exact) newton(ctx context.Context, y *mat.Dense, lik Likelihood, start *point, f []float64) (*Exact, error) {
	e.refit = true
	l := line{e, y, lik}
	s := newton.New(lik, e.o.MaxIter, start == nil)
	from := start
	if start == nil {
		from = e.point(make([]float64, e.g.n), make([]float64, e.g.n)) // the prior mean
	}
	sitesAt := from.f
	switch {
	case start == nil && f != nil:
		sitesAt = f // nor need a function under another kernel
	case start == nil:
		sitesAt = dense.Flat(e.x.F) // θ* need not lie in the span
	}
	for end := newton.GoesOn; end == newton.GoesOn; {
		if err := ctx.Err(); err != nil {
			return nil, stopped("refitting", err)
		}
		sites, err := expand(y, e.matrix(sitesAt), lik)
		if err != nil {
			return nil, err
		}
		if err := e.condition(ctx, sites); err != nil {
			return nil, err
		}
		e.o.Progress(StageNewton, s.Steps+1, 0)
		if from, end, err = newton.Next(&s, l, sitesAt, from, e.point(e.alpha, e.kalpha)); err != nil {
			return nil, err
		}
		sitesAt = from.f
	}
	if err := e.checkScatter(); err != nil {
		return nil, err
	}
	e.warnings = append(e.warnings, s.Warnings()...)
	e.warnings = append(e.warnings, newton.GapWarnings(floats.Distance(e.alpha, dense.Flat(e.sites.Residual), 2))...)
	if err := e.warnClosure(ctx); err != nil {
		return nil, err
	}
	e.warnJitter()
	return e, nil
}

// checkScatter returns a *NotFiniteError where the scatter αᵀKα overflows, and
// with it the evidence. The error names the example at which the sum does.
func (e *Exact) checkScatter() error {
	if i, sum := newton.Overflow(e.alpha, e.kalpha); i >= 0 {
		c := e.outputs()
		return &NotFiniteError{What: "scatter αᵀKα", Row: i / c, Output: i % c, Value: sum, Remedy: tooLarge}
	}
	return nil
}

// point returns the point m + Kα.
func (e *Exact) point(alpha, kalpha []float64) *point {
	p := &point{alpha: alpha, f: make([]float64, e.g.n)}
	floats.AddTo(p.f, e.prior, kalpha)
	return p
}

// Between returns the point t of the way from a to b; f is linear in α.
func (l line) Between(a, b *point, t float64) *point {
	return &point{alpha: newton.Mix(a.alpha, b.alpha, t), f: newton.Mix(a.f, b.f, t)}
}

// Objective returns Σ log p(y|f) − ½ αᵀKα, −Inf where it is not finite.
func (l line) Objective(p *point) float64 {
	if p.objective == 0 {
		scatter := 0.0
		for i, a := range p.alpha {
			scatter += a * (p.f[i] - l.e.prior[i])
		}
		p.objective = newton.Finite(newton.LogLik(l.lik, l.y, p.f) - scatter/2)
	}
	return p.objective
}

// Slope returns (r(f) − α)ᵀ(f_b − f_a), with f and α of p.
func (l line) Slope(p, a, b *point) float64 {
	return newton.Slope(l.lik, l.y, p.f, p.alpha, a.f, b.f)
}

// Values returns f.
func (l line) Values(p *point) []float64 { return p.f }

// matrix returns the stacked f as N×C.
func (e *Exact) matrix(f []float64) *mat.Dense {
	c := e.x.Outputs()
	return dense.View(blas64.General{Rows: len(f) / c, Cols: c, Stride: c, Data: f})
}
