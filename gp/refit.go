package gp

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

const (
	smallMove = 1e-12 // a Newton step below this, relative to the largest entry of f̂, ends the refit
	smallStep = 1e-8  // the shortest part of a Newton step that is tried
	smallGap  = 1e-6  // ‖α − r(f̂)‖ above which there is a warning
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
	return e.newton(ctx, y, lik)
}

// Refit is the function of that name for the training examples of e, with its
// options. It saves forming K again, but takes the memory of another posterior,
// since e stays as it is: where that is not there, it fails with a *MemoryError.
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
	return r.newton(ctx, y, lik)
}

// A point is a function in the span of the training examples: f = m + Kα.
type point struct {
	alpha, f  []float64
	objective float64 // Σ log p(y|f) − ½ αᵀKα
}

// newton leaves e conditioned on the sites at the mode.
func (e *Exact) newton(ctx context.Context, y *mat.Dense, lik Likelihood) (*Exact, error) {
	e.refit = true
	at := &point{f: dense.Flat(e.x.F)} // θ*, which need not lie in the span
	move := math.Inf(1)
	for step := 0; ; step++ {
		if err := ctx.Err(); err != nil {
			return nil, stopped("refitting", err)
		}
		sites, err := expand(y, e.matrix(at.f), lik)
		if err != nil {
			return nil, err
		}
		if err := e.condition(ctx, sites); err != nil {
			return nil, err
		}
		e.o.Progress(StageNewton, step+1, 0)
		next, last := e.point(e.alpha, e.kalpha), move
		if move = relativeMove(at.f, next.f); move < smallMove {
			break
		}
		if step == e.o.MaxIter {
			e.warnMove(step, move)
			break
		}
		from := at
		if step == 0 {
			from = e.point(make([]float64, e.g.n), make([]float64, e.g.n))
			from.objective = e.objective(from, y, lik)
		}
		at = e.search(from, next, y, lik, step > 0 && move < last/2)
		if at == nil && step > 0 {
			e.warnMove(step, move)
			break
		}
		if at == nil {
			at = from
		}
		if math.IsInf(at.objective, 0) {
			return nil, errors.New("gp: the likelihood has no finite value at the prior mean or near θ*; scale the targets or raise the prior precision")
		}
	}
	if gap := floats.Distance(e.alpha, dense.Flat(e.sites.Residual), 2); !(gap <= smallGap) {
		e.warnings = append(e.warnings, &GapWarning{Gap: gap})
	}
	if err := e.warnClosure(ctx); err != nil {
		return nil, err
	}
	e.warnJitter()
	return e, nil
}

// warnMove warns of a refit that ended while its steps were still long.
func (e *Exact) warnMove(steps int, move float64) {
	if !(move <= smallClosure) {
		e.warnings = append(e.warnings, &IterationWarning{Steps: steps, Move: move})
	}
}

// search returns the first of the points 1, ½, ¼, … of the way to next whose
// objective is above that at from, or nil. Near the mode, where a gain is
// lost in the rounding of the objective, a contracting step counts as one.
func (e *Exact) search(from, next *point, y *mat.Dense, lik Likelihood, contracting bool) *point {
	for t := 1.0; t > smallStep; t /= 2 {
		p := next
		if t < 1 {
			p = between(from, next, t)
		}
		p.objective = e.objective(p, y, lik)
		if p.objective > from.objective {
			return p
		}
		if t == 1 && contracting && from.objective-p.objective <= 1e-14*math.Abs(from.objective) {
			return p
		}
	}
	return nil
}

func (e *Exact) point(alpha, kalpha []float64) *point {
	p := &point{alpha: alpha, f: make([]float64, e.g.n)}
	floats.AddTo(p.f, e.prior, kalpha)
	return p
}

// between returns the point t of the way from a to b; f is linear in α.
func between(a, b *point, t float64) *point {
	p := &point{alpha: make([]float64, len(a.f)), f: make([]float64, len(a.f))}
	for i := range p.f {
		p.alpha[i] = a.alpha[i] + t*(b.alpha[i]-a.alpha[i])
		p.f[i] = a.f[i] + t*(b.f[i]-a.f[i])
	}
	return p
}

// objective returns Σ log p(y|f) − ½ αᵀKα, −Inf where it is not finite.
func (e *Exact) objective(p *point, y *mat.Dense, lik Likelihood) float64 {
	scatter := 0.0
	for i, a := range p.alpha {
		scatter += a * (p.f[i] - e.prior[i])
	}
	v := logLik(y, e.matrix(p.f), lik) - scatter/2
	if math.IsNaN(v) {
		return math.Inf(-1)
	}
	return v
}

// matrix returns the stacked f as N×C.
func (e *Exact) matrix(f []float64) *mat.Dense {
	c := e.x.Outputs()
	return dense.View(blas64.General{Rows: len(f) / c, Cols: c, Stride: c, Data: f})
}

// relativeMove returns the largest change from a to b over b's largest entry.
func relativeMove(a, b []float64) float64 {
	move := floats.Distance(a, b, math.Inf(1))
	if move == 0 {
		return 0
	}
	return move / floats.Norm(b, math.Inf(1))
}
