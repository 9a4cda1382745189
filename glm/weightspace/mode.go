package weightspace

import (
	"context"
	"errors"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Mode is the mode v* of the linearized model (E9), the maximum over v of
// Σ log p(y|f_lin(x;v)) − ½(v−μ₀)ᵀΣ₀⁻¹(v−μ₀). Where a network is normalized, its
// trained parameters θ* are not the mode of their own linearization, and v* takes
// their place in the evidence [gprior eq. 9].
type Mode struct {
	Theta        []float64 // v*, P
	Sites        *gp.Sites // at f_lin(x;v*)
	Scatter      float64   // (v*−μ₀)ᵀΣ₀⁻¹(v*−μ₀)
	GradientNorm float64   // of the objective, in the Σ₀ norm: for a likelihood that is concave in f it bounds what v* lacks
	Newton       int       // steps
	Products     int       // H̃v, each a J v and a Jᵀu, that the steps took
	Warnings     []error   // a *gp.IterationWarning and a *GradientWarning, as in Posterior.Warnings
}

// Evidence returns the evidence (E9) with logDet = log det B at the Sites, from any
// structure fitted to them: Σ log p(y|f̂) − ½(v*−μ₀)ᵀΣ₀⁻¹(v*−μ₀) − ½ log det B.
func (m *Mode) Evidence(logDet float64) gp.Evidence {
	return gp.NewEvidence(m.Sites.LogLik, m.Scatter, logDet)
}

// ModeOptions are the options of FindMode.
type ModeOptions struct {
	// Products multiply vectors within a Newton step and give its gradient; nil takes
	// those of the source. Jᵀu must be exact. J v need not be, as that of
	// network.Network.Products: the function values between steps are exact.
	Products linearize.Products
	// Curvature is an approximation of the diagonal of JᵀΛJ, P numbers, from which
	// a preconditioner is made; nil takes none.
	Curvature []float64
	// Precondition, if not nil, is called with the sites of each Newton step and takes
	// the place of Curvature. It returns a function that replaces z, P numbers, by an
	// approximation of (I + J̃ᵀΛJ̃)⁻¹z with J̃ = JΣ₀^½. The function must be linear,
	// symmetric and positive definite; a nil one changes nothing.
	Precondition func(ctx context.Context, s *gp.Sites) (func(z []float64), error)
	// MaxProducts bounds the conjugate gradients of one Newton step; 0 means 1000.
	MaxProducts int
	// MaxIter bounds the Newton steps; 0 means 100.
	MaxIter int
	// Progress, if not nil, is called with gp.StageNewton before each Newton step.
	Progress func(stage string, done, total int)
}

// FindMode returns the mode of the linearized model of the training examples src
// without forming J, H or K. It takes Newton steps from θ*, each solved by conjugate
// gradients, with a line search. Besides src it holds a few vectors of length P and
// of length N·C. y is N×Targets(C). Its errors are those of Refit.
//
// Each Newton step takes two passes over src, one for J d and one for the gradient,
// and up to MaxProducts products.
func FindMode(ctx context.Context, src linearize.Source, y *mat.Dense, lik gp.Likelihood, prior ntk.Prior, theta []float64, o *ModeOptions) (*Mode, error) {
	m := &modeSearch{o: o.withDefaults(src, len(theta)), y: y, lik: lik, exact: linearize.ProductsOf(src)}
	m.mu0, m.root = moments(prior, len(theta))
	f, err := m.outputs(ctx, src, len(theta))
	if err != nil {
		return nil, err
	}
	z := whitened(theta, m.mu0, m.root)
	// Where the prior has no variance, θ is μ₀: f_lin moves by J(μ₀ − θ*) there.
	start := floats.SubTo(make([]float64, len(theta)), unwhitened(z, m.mu0, m.root), theta)
	if floats.Norm(start, 1) > 0 {
		moved := make([]float64, len(f))
		if err := m.exact.MulVecTo(ctx, moved, start); err != nil {
			return nil, err
		}
		floats.Add(f, moved)
	}
	return m.from(ctx, &iterate{z: z, f: f})
}

func (o *ModeOptions) withDefaults(src linearize.Source, p int) ModeOptions {
	var d ModeOptions
	if o != nil {
		d = *o
	}
	if d.MaxIter < 0 || d.MaxProducts < 0 || d.Curvature != nil && len(d.Curvature) != p {
		panic("weightspace: invalid options of FindMode")
	}
	if d.MaxIter == 0 {
		d.MaxIter = 100
	}
	if d.MaxProducts == 0 {
		d.MaxProducts = 1000
	}
	if d.Products == nil {
		d.Products = linearize.ProductsOf(src)
	}
	if d.Progress == nil {
		d.Progress = func(string, int, int) {}
	}
	return d
}

// A modeSearch looks for z, where θ = μ₀ + Σ₀^½ z, like the refit of a Posterior.
type modeSearch struct {
	o         ModeOptions
	y         *mat.Dense
	lik       gp.Likelihood
	exact     linearize.Products
	mu0, root []float64 // μ₀ and the diagonal of Σ₀^½
	c         int       // outputs
	products  int       // H̃v so far
}

// outputs returns f(x;θ*), N·C.
func (m *modeSearch) outputs(ctx context.Context, src linearize.Source, p int) ([]float64, error) {
	var f []float64
	err := src.Batches(ctx, func(_ int, b *linearize.Batch) error {
		if b.P != p {
			panic("weightspace: the length of theta is not the batch's number of parameters")
		}
		m.c = b.Outputs()
		f = append(f, dense.Flat(b.F)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(f) == 0 {
		return nil, gp.ErrNoExamples
	}
	return f, nil
}

// from returns the mode that Newton steps from at lead to.
func (m *modeSearch) from(ctx context.Context, at *iterate) (*Mode, error) {
	l, search := line{y: m.y, lik: m.lik}, newton.New(m.lik, m.o.MaxIter, false)
	for {
		s, err := gp.NewSites(m.y, matrixOf(at.f, m.c), m.lik)
		if err != nil {
			return nil, err
		}
		m.o.Progress(gp.StageNewton, search.Steps+1, 0)
		gradient, err := m.pullBack(ctx, m.o.Products, dense.Flat(s.Residual))
		if err != nil {
			return nil, err
		}
		floats.Sub(gradient, at.z)
		next, err := m.step(ctx, s, at, gradient)
		if err != nil {
			return nil, err
		}
		before := search.Steps
		to, end, err := newton.Next(&search, l, at.f, at, next)
		if err != nil {
			return nil, err
		}
		if end == newton.GoesOn {
			at = to
			continue
		}
		// The step that ends the search moves nothing; sites and v* are those before it.
		r := &Mode{Theta: unwhitened(at.z, m.mu0, m.root), Sites: s, Scatter: floats.Dot(at.z, at.z), GradientNorm: floats.Norm(gradient, 2), Newton: before, Products: m.products}
		if search.Moves() {
			r.Warnings = append(r.Warnings, &gp.IterationWarning{Steps: search.Steps, Move: search.Move})
		}
		if !(r.GradientNorm <= smallGradient) {
			r.Warnings = append(r.Warnings, &GradientWarning{Norm: r.GradientNorm, Gain: floats.Dot(gradient, newton.Minus(next.z, at.z)) / 2})
		}
		return r, nil
	}
}

// step returns the end of the Newton step from at, whose sites are s.
func (m *modeSearch) step(ctx context.Context, s *gp.Sites, at *iterate, gradient []float64) (*iterate, error) {
	precondition, err := m.preconditioner(ctx, s)
	if err != nil {
		return nil, err
	}
	cg := conjugateGradients{
		times:        func(v []float64) ([]float64, error) { return m.precisionTimes(ctx, s, v) },
		precondition: precondition,
	}
	d, _, _, err := cg.solve(ctx, gradient, m.o.MaxProducts)
	if err != nil {
		return nil, err
	}
	moved, err := m.push(ctx, m.exact, d)
	if err != nil {
		return nil, err
	}
	floats.Add(moved, at.f)
	if dense.NotFinite(moved) >= 0 {
		return nil, errors.New("weightspace: a Newton step towards the mode is not finite; scale the targets or raise the prior precision")
	}
	return &iterate{z: addScaled(at.z, 1, d), f: moved}, nil
}

// preconditioner returns the function that replaces v by an approximation of H̃⁻¹v at
// the sites s.
func (m *modeSearch) preconditioner(ctx context.Context, s *gp.Sites) (func(v []float64), error) {
	if m.o.Precondition != nil {
		f, err := m.o.Precondition(ctx, s)
		if f == nil {
			f = func([]float64) {}
		}
		return f, err
	}
	return func(v []float64) {
		for i, h := range m.o.Curvature {
			v[i] /= 1 + m.root[i]*m.root[i]*h
		}
	}, nil
}

// precisionTimes returns H̃v = v + J̃ᵀΛJ̃v at the sites s.
func (m *modeSearch) precisionTimes(ctx context.Context, s *gp.Sites, v []float64) ([]float64, error) {
	m.products++
	f, err := m.push(ctx, m.o.Products, v)
	if err != nil {
		return nil, err
	}
	out, err := m.pullBack(ctx, m.o.Products, mulBlocks(s.Lambda, f))
	if err != nil {
		return nil, err
	}
	floats.Add(out, v)
	return out, nil
}

// push returns J̃ v.
func (m *modeSearch) push(ctx context.Context, j linearize.Products, v []float64) ([]float64, error) {
	scaled := floats.MulTo(make([]float64, len(v)), m.root, v)
	f := make([]float64, m.c*dense.Count(m.y))
	return f, j.MulVecTo(ctx, f, scaled)
}

// pullBack returns J̃ᵀ u.
func (m *modeSearch) pullBack(ctx context.Context, j linearize.Products, u []float64) ([]float64, error) {
	g := make([]float64, len(m.root))
	if err := j.MulTransVecTo(ctx, g, u); err != nil {
		return nil, err
	}
	floats.Mul(g, m.root)
	return g, nil
}
