package weightspace

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

const (
	// A refit ends after a Newton step that moves no entry of f̂ by more than
	// smallMove of its largest entry. It warns where it ends after one that
	// moves an entry by more than looseMove.
	smallMove, looseMove = 1e-12, 1e-6
	// smallStep is the shortest part of a Newton step that is tried.
	smallStep = 1e-8
	// smallGradient is the largest ‖gradient‖ at the end that is not warned of.
	smallGradient = 1e-6
	// objectiveNoise bounds the relative rounding error of the objective, which
	// sums a few thousand terms, each right to 1e-16.
	objectiveNoise = 1e-13
)

// Refit returns the posterior at the mode of the linearized model
// (E9): the maximum over θ of Σ log p(y|f_lin(x;θ)) − ½(θ−μ₀)ᵀΣ₀⁻¹(θ−μ₀),
// found by Newton steps from θ*, each with a line search. y has N rows. Sites,
// H and θ̂ of the result all belong to the mode. The errors are those of
// gp.NewSites and FitWeights; Warnings tells where it is not at the mode.
//
// H is factored at θ* and at the mode. The steps between are solved for by
// conjugate gradients, with the last factor as preconditioner. Where those
// converge too slowly, H is factored there too.
func Refit(ctx context.Context, b *linearize.Batch, y *mat.Dense, lik gp.Likelihood, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	w, err := newPosterior(b, prior, theta, o)
	if err != nil {
		return nil, err
	}
	return w.newton(ctx, y, lik)
}

// Refit is RefitWeights for the training examples, the prior and the options of
// w. It takes over the memory of w, which must not be used afterwards, and
// starts with the factor of w.
func (w *Posterior) Refit(ctx context.Context, y *mat.Dense, lik gp.Likelihood) (*Posterior, error) {
	r := &Posterior{x: w.x, prior: w.prior, o: w.o, theta: w.theta, mu0: w.mu0, root: w.root, h: w.h}
	*w = Posterior{}
	return r.newton(ctx, y, lik)
}

// An iterate is a point of the refit.
type iterate struct {
	z, f            []float64 // whitened parameters, and f_lin there
	logLik, scatter float64
}

// objective is Σ log p(y|f) − ½‖z‖², −Inf where it is not finite.
func (p *iterate) objective() float64 {
	v := p.logLik - p.scatter/2
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.Inf(-1)
	}
	return v
}

// newton leaves w conditioned on the sites at the mode. A step far from the
// mode may take its direction from conjugate gradients; the last one is always
// a solve with the factor of H̃ at its own sites.
func (w *Posterior) newton(ctx context.Context, y *mat.Dense, lik gp.Likelihood) (*Posterior, error) {
	w.refit = true
	if _, err := gp.NewSites(y, w.x.F, lik); err != nil { // checks y
		return nil, err
	}
	at := w.iterateAt(w.whitened(w.theta), y, lik)
	last := math.Inf(1) // relative move of the step before, where it was quiet
	factor := false     // whether the next step must be solved for with a factor
	for step := 0; ; step++ {
		s, err := gp.NewSites(y, matrixOf(at.f, w.x.Outputs()), lik)
		if err != nil {
			return nil, err
		}
		d, err := w.direction(ctx, s, at, factor || step == w.o.MaxIter)
		if err != nil {
			return nil, err
		}
		w.o.Progress(gp.StageNewton, step+1, 0)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		next := w.iterateAt(addScaled(at.z, 1, d.step), y, lik)
		if dense.NotFinite(next.f) >= 0 {
			return nil, errors.New("weightspace: a Newton step of the refit is not finite; scale the targets or raise the prior precision")
		}
		move := relativeMove(at.f, next.f)
		// A quiet step promises a gain below the rounding error of the objective,
		// so that no search can see it. Such steps go on while each moves f̂ by at
		// most half as much as the one before.
		quiet := d.gain < objectiveNoise*(math.Abs(at.logLik)+at.scatter/2)
		converged := move < smallMove || quiet && move > last/2
		var to *iterate // where the next step starts; nil ends the refit
		switch {
		case converged || step == w.o.MaxIter:
		case quiet:
			to, last = next, move
		default:
			to, last = w.search(at, next, d.step, y, lik), math.Inf(1)
		}
		switch {
		case to != nil:
			at, factor = to, false
		case !d.factored:
			factor = true
		default:
			w.z, w.mean = next.z, w.thetaAt(next.z)
			w.gradient = floats.Norm(d.gradient, 2)
			if step == w.o.MaxIter && !converged || !(move <= looseMove) {
				w.warnings = append(w.warnings, &gp.IterationWarning{Steps: step, Move: move})
			}
			if !(w.gradient <= smallGradient) {
				w.warnings = append(w.warnings, &GradientWarning{Norm: w.gradient, Gain: d.gain})
			}
			return w, nil
		}
	}
}

// A direction is a Newton step of the refit.
type direction struct {
	gradient []float64 // J̃ᵀr − z
	step     []float64 // H̃⁻¹ times the gradient
	gain     float64   // ½ gradient·step, by how much the quadratic model rises
	factored bool      // the step is a solve with the factor of H̃ at its sites
}

// direction returns the Newton step from at, whose sites are s. Where there is a
// factor of H̃ at other sites, it solves for the step by conjugate gradients.
// Where they do not converge, and where factor is set, it factors H̃ at s.
func (w *Posterior) direction(ctx context.Context, s *gp.Sites, at *iterate, factor bool) (*direction, error) {
	d := &direction{gradient: w.pullBack(dense.Flat(s.Residual)), factored: true}
	floats.Sub(d.gradient, at.z)
	if most := w.iterations(); !factor && most > 0 && w.h.sites != nil && !w.h.isOf(s) {
		var err error
		if d.step, err = w.conjugate(ctx, s, d.gradient, most); err != nil {
			return nil, err
		}
		d.factored = d.step == nil
	}
	if d.factored {
		if err := w.condition(ctx, s); err != nil {
			return nil, err
		}
		d.step = slices.Clone(d.gradient)
		w.h.solve(d.step)
	}
	d.gain = floats.Dot(d.gradient, d.step) / 2
	return d, nil
}

// search returns the first of the points 1, ½, ¼, … of the way to next whose
// objective is above that at from, or nil.
func (w *Posterior) search(from, next *iterate, dir []float64, y *mat.Dense, lik gp.Likelihood) *iterate {
	for t := 1.0; t > smallStep; t /= 2 {
		p := next
		if t < 1 {
			p = w.iterateAt(addScaled(from.z, t, dir), y, lik)
		}
		if p.objective() > from.objective() {
			return p
		}
	}
	return nil
}

func (w *Posterior) iterateAt(z []float64, y *mat.Dense, lik gp.Likelihood) *iterate {
	p := &iterate{z: z, f: w.functionAt(w.thetaAt(z)), scatter: floats.Dot(z, z)}
	c := w.x.Outputs()
	for i := range w.x.Len() {
		p.logLik += lik.Expand(nil, nil, nil, y.RawRowView(i), p.f[i*c:(i+1)*c])
	}
	return p
}

// whitened returns z = Σ₀^-½(θ − μ₀), 0 where the prior has no variance.
func (w *Posterior) whitened(theta []float64) []float64 {
	z := make([]float64, len(theta))
	for i, s := range w.root {
		if s > 0 {
			z[i] = (theta[i] - w.mu0[i]) / s
		}
	}
	return z
}

// addScaled returns a + t·b.
func addScaled(a []float64, t float64, b []float64) []float64 {
	return floats.AddScaledTo(make([]float64, len(a)), a, t, b)
}

// relativeMove returns the largest change from a to b over b's largest entry.
func relativeMove(a, b []float64) float64 {
	move := floats.Distance(a, b, math.Inf(1))
	if move == 0 {
		return 0
	}
	return move / floats.Norm(b, math.Inf(1))
}
