package weightspace

import (
	"context"
	"errors"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// smallGradient is the norm of the gradient above which a refit warns.
const smallGradient = 1e-6

// Refit returns the posterior at the mode of the linearized model (E9), which is
// the maximum over θ of Σ log p(y|f_lin(x;θ)) − ½(θ−μ₀)ᵀΣ₀⁻¹(θ−μ₀). It takes
// Newton steps from θ*, each with a line search. y is N×Targets(C). Sites, H and
// θ̂ of the result all belong to the mode. The errors are those of gp.NewSites and
// Fit. Warnings tells whether the refit missed the mode.
//
// H is factored at θ* and at the mode. Conjugate gradients, with the last factor
// as preconditioner, solve for the steps between. Where they converge too slowly,
// H is factored there too.
func Refit(ctx context.Context, b *linearize.Batch, y *mat.Dense, lik gp.Likelihood, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	w, err := newPosterior(b, prior, theta, o)
	if err != nil {
		return nil, err
	}
	return w.newton(ctx, y, lik)
}

// Refit is the function Refit with the training examples, the prior and the
// options of w. It starts with the factor of w, which stays as it is, and takes
// the memory of another posterior. Where that is not there, it fails with a
// *gp.MemoryError.
func (w *Posterior) Refit(ctx context.Context, y *mat.Dense, lik gp.Likelihood) (*Posterior, error) {
	if err := checkMemory(len(w.theta), w.x.Outputs(), w.o.MaxMemory); err != nil {
		return nil, err
	}
	h := w.h
	h.shared = true
	r := &Posterior{x: w.x, prior: w.prior, o: w.o, theta: w.theta, mu0: w.mu0, root: w.root, h: h}
	return r.newton(ctx, y, lik)
}

// An iterate is a point of the refit.
type iterate struct {
	z, f      []float64 // whitened parameters, and f_lin there
	objective float64   // Σ log p(y|f) − ½‖z‖², 0 where it was not computed
	gradient  []float64 // J̃ᵀr(f) − z, nil where it was not computed
}

// A line is the objective of a refit.
type line struct {
	y   *mat.Dense
	lik gp.Likelihood
	// gradient, if not nil, returns J̃ᵀr(f) − z. The steps of Fisher scoring grow short so
	// slowly that their slopes must not be differences of large numbers.
	gradient func(p *iterate) []float64
}

var _ newton.Line[*iterate] = line{}

// Between returns the iterate t of the way from a to b; f is linear in z.
func (line) Between(a, b *iterate, t float64) *iterate {
	return &iterate{z: newton.Mix(a.z, b.z, t), f: newton.Mix(a.f, b.f, t)}
}

// Objective returns Σ log p(y|f) − ½‖z‖², −Inf where it is not finite.
func (l line) Objective(p *iterate) float64 {
	if p.objective == 0 {
		p.objective = newton.Finite(newton.LogLik(l.lik, l.y, p.f) - floats.Dot(p.z, p.z)/2)
	}
	return p.objective
}

// Slope returns r(f)ᵀ(f_b − f_a) − zᵀ(z_b − z_a), with f and z of p.
func (l line) Slope(p, a, b *iterate) float64 {
	if l.gradient != nil {
		if p.gradient == nil {
			p.gradient = l.gradient(p)
		}
		return floats.Dot(p.gradient, newton.Minus(b.z, a.z))
	}
	return newton.Slope(l.lik, l.y, p.f, nil, a.f, b.f) - floats.Dot(p.z, newton.Minus(b.z, a.z))
}

// Values returns f.
func (line) Values(p *iterate) []float64 { return p.f }

// newton leaves w conditioned on the sites at the mode. Conjugate gradients may
// solve for a step far from the mode, but the last step always uses the factor
// of H̃ at its sites.
func (w *Posterior) newton(ctx context.Context, y *mat.Dense, lik gp.Likelihood) (*Posterior, error) {
	w.refit = true
	if _, err := gp.NewSites(y, w.x.F, lik); err != nil { // checks y
		return nil, err
	}
	at := w.iterateAt(whitened(w.theta, w.mu0, w.root))
	l, search := line{y: y, lik: lik}, newton.New(lik, w.o.MaxIter, false)
	if _, ok := lik.(gp.Scored); ok {
		l.gradient = func(p *iterate) []float64 { return w.gradientAt(y, lik, p) }
	}
	factor := false // whether the next step must use a factor of H̃ at its sites
	for {
		s, err := gp.NewSites(y, matrixOf(at.f, w.x.Outputs()), lik)
		if err != nil {
			return nil, err
		}
		d, err := w.direction(ctx, s, at, factor || search.Steps == search.MaxIter)
		if err != nil {
			return nil, err
		}
		w.o.Progress(gp.StageNewton, search.Steps+1, 0)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		next, before := w.iterateAt(addScaled(at.z, 1, d.step)), search
		if dense.NotFinite(next.f) >= 0 {
			return nil, errors.New("weightspace: a Newton step of the refit is not finite; scale the targets or raise the prior precision")
		}
		to, end, err := newton.Next(&search, l, at.f, at, next)
		switch {
		case err != nil:
			return nil, err
		case end == newton.GoesOn:
			at, factor = to, false
			continue
		case !d.factored: // solve for the step again, with a factor
			search, factor = before, true
			continue
		}
		w.z, w.mean = next.z, w.thetaAt(next.z)
		w.gradient = floats.Norm(d.gradient, 2)
		w.warnings = append(search.Warnings(), gradientWarnings(w.gradient, d.gain)...)
		return w, nil
	}
}

// A direction is a Newton step of the refit.
type direction struct {
	gradient []float64 // J̃ᵀr − z
	step     []float64 // H̃⁻¹ times the gradient
	gain     float64   // ½ gradient·step, the increase of the quadratic model
	factored bool      // whether the factor of H̃ at the step's sites gave it
}

// direction returns the Newton step from at, whose sites are s. It solves for the
// step by conjugate gradients where w has a factor of H̃ at other sites. It
// factors H̃ at s where they do not converge and where factor is true.
func (w *Posterior) direction(ctx context.Context, s *gp.Sites, at *iterate, factor bool) (*direction, error) {
	d := &direction{gradient: w.pullBack(dense.Flat(s.Residual)), factored: true}
	floats.Sub(d.gradient, at.z)
	if limit := w.iterations(); !factor && limit > 0 && w.h.sites != nil && !w.h.isOf(s) {
		var err error
		if d.step, err = w.conjugate(ctx, s, d.gradient, limit); err != nil {
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

// gradientAt returns J̃ᵀr(f) − z.
func (w *Posterior) gradientAt(y *mat.Dense, lik gp.Likelihood, p *iterate) []float64 {
	r, c := make([]float64, len(p.f)), w.x.Outputs()
	for i := range w.x.Len() {
		lik.Expand(r[i*c:(i+1)*c], nil, nil, y.RawRowView(i), p.f[i*c:(i+1)*c])
	}
	g := w.pullBack(r)
	floats.Sub(g, p.z)
	return g
}

func (w *Posterior) iterateAt(z []float64) *iterate {
	return &iterate{z: z, f: w.functionAt(w.thetaAt(z))}
}

// whitened returns z = Σ₀^-½(θ − μ₀), 0 where the prior has no variance.
func whitened(theta, mu0, root []float64) []float64 {
	z := make([]float64, len(theta))
	for i, s := range root {
		if s > 0 {
			z[i] = (theta[i] - mu0[i]) / s
		}
	}
	return z
}

// addScaled returns a + t·b.
func addScaled(a []float64, t float64, b []float64) []float64 {
	return floats.AddScaledTo(make([]float64, len(a)), a, t, b)
}
