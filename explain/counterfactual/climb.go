package counterfactual

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
)

const (
	// settled is the length of a step, relative to the largest entry of f, that ends Fit.
	settled = 1e-10
	// settledScore is the length for Fisher scoring, whose steps shorten more slowly.
	settledScore = 1e-13
	// nearMode is the distance from the mode, in prior standard deviations, up to which Fit
	// does not warn of long last steps.
	nearMode = 1e-8
	// contracts is the part of the step before from which on the preconditioner alone is
	// not good enough for the next one.
	contracts = .1
)

// StageNewton and StageFlip are the stages that Options.Progress is told of.
const (
	StageNewton = "newton" // steps of Fit
	StageFlip   = "flip"   // sets of examples that SmallestFlip tried
)

// A line is the objective along a step, for the search of all refits.
type line struct{ p *problem }

var _ newton.Line[*point] = line{}

// Between returns the point t of the way from a to b; f is linear in α.
func (l line) Between(a, b *point, t float64) *point {
	return l.p.at(newton.Mix(a.alpha, b.alpha, t), newton.Mix(a.f, b.f, t))
}

// Objective returns Σ log p(y|f) − ½ αᵀKα.
func (l line) Objective(p *point) float64 { return p.objective }

// Slope returns (r(f) − α)ᵀ(f_b − f_a), with f and α of p.
func (l line) Slope(p, a, b *point) float64 {
	sum := 0.0
	for i, r := range p.residual {
		sum += (r - p.alpha[i]) * (b.f[i] - a.f[i])
	}
	return sum
}

// Values returns f.
func (l line) Values(p *point) []float64 { return p.f }

// step returns the end of the Newton step from a point.
func (p *problem) step(ctx context.Context, from *point, e effort) (*point, error) {
	// (I + ΛK) (α' − α) = r − α (E5)
	open := floats.SubTo(make([]float64, len(from.f)), from.residual, from.alpha)
	if i := dense.NotFinite(open); i >= 0 {
		return nil, &gp.NotFiniteError{What: "residual", Row: i / p.m.c, Output: i % p.m.c, Value: open[i]}
	}
	x, kx, err := p.solve(ctx, row(open), from.lambda, e)
	if err != nil {
		return nil, err
	}
	alpha, f := x.RawRowView(0), kx.RawRowView(0)
	floats.Add(alpha, from.alpha)
	floats.Add(f, from.f)
	return p.at(alpha, f), nil
}

// climb returns the posterior at the mode. It starts at a posterior after a change that is
// nearly the same, where there is one, and adds no examples.
func (p *problem) climb(ctx context.Context, near *Posterior) (*Posterior, error) {
	from, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	how, last := chordStep, math.Inf(1)
	if near != nil {
		from, how = p.at(slices.Clone(near.alpha), slices.Clone(near.f)), newtonStep
	}
	s := newton.New(p.y, p.m.o.MaxIter, false)
	if s.Short = settled; p.y.Scored() {
		s.Short = settledScore
	}
	from, err = newton.Find(&s, line{p}, from.f, from, func(_ []float64, from *point) (*point, error) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("counterfactual: stopped while refitting: %w", err)
		}
		to, err := p.step(ctx, from, how)
		if err != nil {
			return nil, err
		}
		p.m.o.Show(StageNewton, s.Steps+1, 0)
		move := newton.RelativeMove(from.f, to.f)
		if how == chordStep && !(move < contracts*last) && s.Steps > 0 {
			how = newtonStep
		}
		last = move
		return to, nil
	})
	if err != nil {
		return nil, err
	}
	// Compute f = m + Kα anew and how far α is from the mode.
	c := p.m.c
	for i := range p.y.Len() {
		if p.gone(i) {
			clear(from.alpha[i*c : (i+1)*c]) // zero but for rounding
		}
	}
	var f mat.Dense
	if err := p.mulKernelTo(ctx, &f, row(from.alpha)); err != nil {
		return nil, err
	}
	floats.Add(f.RawRowView(0), p.prior)
	from = p.at(from.alpha, f.RawRowView(0))
	q := &Posterior{p: p, alpha: from.alpha, f: from.f, lambda: from.lambda, steps: s.Steps + 1}
	open, distance, err := p.open(ctx, from)
	if err != nil {
		return nil, err
	}
	q.distance = distance
	if p.moves(&s, q.distance) {
		q.warnings = s.Warnings()
	}
	q.warnings = append(q.warnings, newton.GapWarnings(floats.Norm(open, 2))...)
	return q, nil
}

// moves tells whether the last step of a search, at this distance from the mode, was too long.
// Where rounding keeps steps long, the distance tells that they lead nowhere.
func (p *problem) moves(s *newton.Search, distance float64) bool {
	return s.Moves() && (p.y.Scored() || !(distance <= nearMode))
}

// open returns α − r, and √((α−r)ᵀK(α−r)) (E19).
func (p *problem) open(ctx context.Context, at *point) (open []float64, distance float64, err error) {
	open = floats.SubTo(make([]float64, len(at.f)), at.alpha, at.residual)
	var kopen mat.Dense
	if err := p.mulKernelTo(ctx, &kopen, row(open)); err != nil {
		return nil, 0, err
	}
	return open, math.Sqrt(math.Max(0, floats.Dot(open, kopen.RawRowView(0)))), nil
}
