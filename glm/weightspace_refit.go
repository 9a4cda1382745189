package glm

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

const (
	smallMove     = 1e-12 // a Newton step below this, relative to the largest entry of f̂, ends the refit
	smallStep     = 1e-8  // the shortest part of a Newton step that is tried
	smallGradient = 1e-6  // ‖gradient‖ above which there is a warning
	// objectiveNoise is the part of the objective below which a gain is lost
	// in its rounding: a sum of a few thousand terms, each right to 1e-16.
	objectiveNoise = 1e-13
)

// RefitWeights returns the posterior at the mode of the linearized model
// (E9): the maximum over θ of Σ log p(y|f_lin(x;θ)) − ½(θ−μ₀)ᵀΣ₀⁻¹(θ−μ₀),
// found by Newton steps from θ*, each with a line search and a factorization
// of H. y has N rows. Sites, H and θ̂ of the result all belong to the mode. The
// errors are those of gp.NewSites and FitWeights.
func RefitWeights(ctx context.Context, b *linearize.Batch, y *mat.Dense, lik gp.Likelihood, prior ntk.Prior, theta []float64, o *WeightOptions) (*Weights, error) {
	w, err := newWeights(b, prior, theta, o)
	if err != nil {
		return nil, err
	}
	return w.newton(ctx, y, lik)
}

// Refit is RefitWeights for the training examples of w. It takes over the
// memory of w, which must not be used afterwards, and its options.
func (w *Weights) Refit(ctx context.Context, y *mat.Dense, lik gp.Likelihood) (*Weights, error) {
	r := &Weights{x: w.x, prior: w.prior, o: w.o, theta: w.theta, mu0: w.mu0, root: w.root, h: w.own()}
	*w = Weights{}
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

// newton leaves w conditioned on the sites at the mode.
func (w *Weights) newton(ctx context.Context, y *mat.Dense, lik gp.Likelihood) (*Weights, error) {
	w.refit = true
	if _, err := gp.NewSites(y, w.x.F, lik); err != nil { // checks y
		return nil, err
	}
	at := w.iterateAt(w.whitened(w.theta), y, lik)
	last := math.Inf(1) // how far the step before moved f̂, where it was quiet
	for step := 0; at != nil; step++ {
		s, err := gp.NewSites(y, matrixOf(at.f, w.x.Outputs()), lik)
		if err != nil {
			return nil, err
		}
		if err := w.condition(ctx, s); err != nil {
			return nil, err
		}
		w.o.Progress(gp.StageNewton, step+1, 0)
		grad, dir := w.newtonStep(at)
		next := w.iterateAt(addScaled(at.z, 1, dir), y, lik)
		if firstNotFinite(next.f) >= 0 {
			return nil, errors.New("glm: a Newton step of the refit is not finite; scale the targets or raise the prior precision")
		}
		w.z, w.gradient = next.z, floats.Norm(grad, 2)
		move := relativeMove(at.f, next.f)
		// Where the gain that the step promises is lost in the rounding of the
		// objective, steps are taken as long as they contract.
		quiet := floats.Dot(grad, dir)/2 < objectiveNoise*(math.Abs(at.logLik)+at.scatter/2)
		switch {
		case move < smallMove || quiet && move > last/2:
			at = nil
		case step == w.o.MaxIter:
			w.warnings = append(w.warnings, &gp.IterationWarning{Steps: step, Move: move})
			at = nil
		case quiet:
			at, last = next, move
		default:
			at, last = w.search(at, next, dir, y, lik), math.Inf(1)
		}
	}
	w.mean = w.thetaAt(w.z)
	if w.gradient > smallGradient {
		w.warnings = append(w.warnings, &GradientWarning{Norm: w.gradient})
	}
	return w, ctx.Err()
}

// newtonStep returns the gradient J̃ᵀr − z of the objective and H̃⁻¹ times it,
// at the sites of w.
func (w *Weights) newtonStep(at *iterate) (grad, dir []float64) {
	grad = w.pullBack(flat(w.sites.Residual))
	floats.Sub(grad, at.z)
	dir = append(dir, grad...)
	w.h.solve(dir)
	return grad, dir
}

// search returns the first of the points 1, ½, ¼, … of the way to next whose
// objective is above that at from, or nil.
func (w *Weights) search(from, next *iterate, dir []float64, y *mat.Dense, lik gp.Likelihood) *iterate {
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

func (w *Weights) iterateAt(z []float64, y *mat.Dense, lik gp.Likelihood) *iterate {
	p := &iterate{z: z, f: w.functionAt(w.thetaAt(z)), scatter: floats.Dot(z, z)}
	c := w.x.Outputs()
	for i := range w.x.Len() {
		p.logLik += lik.Expand(nil, nil, nil, y.RawRowView(i), p.f[i*c:(i+1)*c])
	}
	return p
}

// whitened returns z = Σ₀^-½(θ − μ₀), 0 where the prior has no variance.
func (w *Weights) whitened(theta []float64) []float64 {
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
