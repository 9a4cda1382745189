package sparse

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// A Round is the state of a refit (E9) between two passes over data that no process has all
// of. A pass is a Builder.AddAt of every part of the data; what the parts give is merged, and
// Next decides where the next pass expands the likelihood. Refit does the same in one process.
type Round struct {
	Steps int     // Newton steps made
	Move  float64 // length of the last one, relative to the largest entry of f̂; +Inf at first
	// W are the weights of the function m + Φᵀw at which the next pass expands the
	// likelihood.
	W []float64
	// Search tells that this is a point of the search along a Newton step, and not the end
	// of one.
	Search bool
	// Before are the weights at the sites of the posterior; 0 at θ*, which need not lie in
	// the span of the inducing examples.
	Before []float64
}

// FirstRound is the round after the pass at θ*, of which p is the posterior.
func FirstRound(p *Projected) *Round {
	return &Round{Move: math.Inf(1), W: p.w, Before: make([]float64, len(p.w))}
}

var errRounds = errors.New("sparse: a refit in rounds is one of a Nyström posterior, with a likelihood whose Λ is the curvature: FITC's own noise and Fisher scoring need the passes of one process")

// AddAt adds the examples of x with their sites at the function m + Φᵀw, as Add does, and
// returns the sites and Φᵀw. It takes one pass over x.
func (b *Builder) AddAt(ctx context.Context, w []float64, x linearize.Source, y *mat.Dense, lik gp.Likelihood) (*gp.Sites, []float64, error) {
	if b.sums.spec.fitc {
		return nil, nil, errRounds
	}
	if len(w) != b.b.rank() {
		panic("sparse: weights of another number of features")
	}
	n, c := x.Len(), b.b.c
	if err := gp.CheckTargets(y, n, c, lik); err != nil {
		return nil, nil, err
	}
	r := &refit{b: b.b, o: &b.o, x: x, y: y, lik: lik, spec: b.sums.spec, prior: make([]float64, n*c)}
	e := r.expansion(r.newPoint(w), newSums(b.sums.spec))
	f, a := newFeatures(b.b, n), newAdder(b.b, e.sums, n, 1)
	err := b.b.eachChunk(ctx, x, &b.o, StageData, func(t chunk) error {
		lo := t.first * c
		m := r.prior[lo : lo+t.rows]
		b.b.k.MeanTo(m, t.x)
		if err := sites.NotFinite("prior mean", m, t.first, c); err != nil {
			return err
		}
		phi, err := f.of(ctx, t)
		if err != nil {
			return err
		}
		if err := r.makeStep(nil, e.point, t, phi); err != nil {
			return err
		}
		if err := r.expand(e, t.first, t.x.Len()); err != nil {
			return err
		}
		return a.addWith(ctx, t, phi, e.local.Slice(t.first, t.first+t.x.Len()), m)
	})
	if err != nil {
		return nil, nil, err
	}
	e.sums.logLik = e.sites.LogLik
	b.used = true
	return e.sites, e.point.q, b.sums.Merge(e.sums)
}

// A Pass is what a pass over all data gives: the sites at the function m + Φᵀw, and Φᵀw,
// N·C.
type Pass struct {
	Sites *gp.Sites
	Step  []float64
}

// Next returns the round after the pass at r.W, whose sums have the posterior p, or nil where
// the refit ends, and then what it warns of. before are the sites of the posterior from which
// r came, and y are the targets of all examples. maxIter is as in Options. Where the refit
// ends, that posterior, and not p, is its result: see Projected.Refit.
func (r *Round) Next(p *Projected, before *gp.Sites, pass *Pass, y *mat.Dense, lik gp.Likelihood, maxIter int) (next *Round, end []error, err error) {
	if p.sums.spec.fitc {
		return nil, nil, errRounds
	}
	if maxIter == 0 {
		maxIter = (*Options)(nil).withDefaults().MaxIter
	}
	s := newton.New(lik, maxIter, true)
	if !s.Resumable() {
		return nil, nil, errRounds
	}
	if r.Search {
		return &Round{Steps: r.Steps, Move: r.Move, W: p.w, Before: r.W}, nil, nil
	}
	s.Steps, s.Move = r.Steps, r.Move
	l := &roundLine{y: y, lik: lik}
	at := dense.Contiguous(before.F)
	to := &roundPoint{w: r.W, f: dense.Contiguous(pass.Sites.F)}
	from := &roundPoint{w: r.Before, f: at}
	if r.Steps == 0 { // the prior mean
		from.f = make([]float64, len(to.f))
		floats.SubTo(from.f, to.f, pass.Step)
	}
	found, why, err := newton.Next(&s, l, at, from, to)
	switch {
	case err != nil:
		return nil, nil, err
	case why != newton.GoesOn:
		if s.Moves() {
			end = append(end, &gp.IterationWarning{Steps: s.Steps, Move: s.Move})
		}
		return nil, end, nil
	case found == to:
		return &Round{Steps: s.Steps, Move: s.Move, W: p.w, Before: r.W}, nil, nil
	}
	return &Round{Steps: s.Steps, Move: s.Move, W: found.w, Search: true}, nil, nil
}

// A roundLine is the objective Σ log p(y|f) − ½wᵀw of rounds, with f = m + Φᵀw.
type roundLine struct {
	y   *mat.Dense
	lik gp.Likelihood
}

var _ newton.Line[*roundPoint] = (*roundLine)(nil)

type roundPoint struct{ w, f []float64 }

// Between returns the point t of the way from a to b.
func (l *roundLine) Between(a, b *roundPoint, t float64) *roundPoint {
	return &roundPoint{w: newton.Mix(a.w, b.w, t), f: newton.Mix(a.f, b.f, t)}
}

// Objective returns Σ log p(y|f) − ½wᵀw, −Inf where it is not finite.
func (l *roundLine) Objective(p *roundPoint) float64 {
	return newton.Finite(newton.LogLik(l.lik, l.y, p.f) - floats.Dot(p.w, p.w)/2)
}

// Slope returns r(f)ᵀ(f_b − f_a) − wᵀ(w_b − w_a), with f and w of p.
func (l *roundLine) Slope(p, a, b *roundPoint) float64 {
	return newton.Slope(l.lik, l.y, p.f, nil, a.f, b.f) - floats.Dot(p.w, newton.Minus(b.w, a.w))
}

// Values returns f.
func (l *roundLine) Values(p *roundPoint) []float64 { return p.f }

// Refit returns p as the posterior of a refit in rounds that has ended, with its training
// examples x and their sites. last is the last pass, which expanded the likelihood at the mean
// of p, and end what Round.Next warned of. It takes no pass over x.
func (p *Projected) Refit(x linearize.Source, s *gp.Sites, last *Pass, end []error) (*Posterior, error) {
	if err := p.checkData(x); err != nil {
		return nil, err
	}
	local, err := sites.New(s, x.Len(), p.b.c)
	if err != nil {
		return nil, err
	}
	post := p.with(p.b, p.o.Approximation)
	post.refit = true
	q := &Posterior{Projected: post, x: x, sites: s, local: local}
	n := len(last.Step)
	// m = f − Φᵀw
	m := make([]float64, n)
	floats.SubTo(m, dense.Contiguous(last.Sites.F), last.Step)
	q.pseudo, q.alpha = make([]float64, n), make([]float64, n)
	local.PseudoTargets(q.pseudo, m)
	local.SubtractLambda(q.alpha, q.pseudo, last.Step)
	q.warnings = append(post.Warnings(), end...)
	if gap := floats.Distance(q.alpha, local.R, 2); !(gap <= newton.SmallGap) {
		q.warnings = append(q.warnings, &gp.GapWarning{Gap: gap})
	}
	return q, nil
}
