package mode

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Mode is the mode v* of the linearized model (E9), the maximum over v of Σ log p(y|f_lin(x;v)) −
// ½(v−μ₀)ᵀΣ₀⁻¹(v−μ₀). In a network with normalization, the trained parameters θ* are not the mode of their own
// linearization, and v* replaces them in the evidence [gprior eq. 9].
type Mode struct {
	Theta        []float64 // v*, P numbers
	Sites        *gp.Sites // at f_lin(x;v*)
	Scatter      float64   // (v*−μ₀)ᵀΣ₀⁻¹(v*−μ₀)
	GradientNorm float64   // Σ₀ norm of the objective's gradient; bounds the distance to the mode if log p is concave
	Newton       int       // number of Newton steps
	Products     int       // number of H̃v in these steps, each one J v and one Jᵀu
	Warnings     []error   // refit-steps and refit-gap of internal/newton
}

// Options are options of Find, and of FindMatch as it says.
type Options struct {
	// Products multiplies vectors within a Newton step, and computes its gradient; nil means the products of the
	// source. Jᵀu must be exact. J v need not be, as in network.Network.Products, because the last steps start from
	// exact function values.
	Products linearize.Products
	// Outputs are f(x;θ*), N×C, if known; nil takes a pass over the source.
	Outputs *mat.Dense
	// Start has the weights v, P numbers, at which the search starts; nil means θ*. A start near the mode, such as
	// the mode under another prior, takes fewer steps.
	Start []float64
	// Gradient is the norm of the gradient (Mode.GradientNorm) at which the search ends; 0 means that it ends when
	// steps no longer move or gain anything.
	Gradient float64
	// Precondition, if not nil, is called with the sites of each Newton step, and returns a function that replaces z, P
	// numbers, by an approximation of (I + J̃ᵀΛJ̃)⁻¹z with J̃ = JΣ₀^½. The function must be linear, symmetric and
	// positive definite. If it is nil, z stays unchanged.
	Precondition func(ctx context.Context, s *gp.Sites) (func(z []float64), error)
	// State, if not nil, is called before each Newton step with a state from which Resume can go on. It must not
	// change or keep the state. An error ends the search. It is not called for a gp.Scored likelihood, whose steps
	// depend on earlier steps.
	State func(s *State) error
	// Resume, if not nil, is the state of an interrupted search for the same mode. The search goes on from it to
	// the same result. Start is then ignored.
	Resume *State
	// MaxProducts is the most conjugate gradient steps in one Newton step; 0 means 1000.
	MaxProducts int
	// MaxIter is the most Newton steps; 0 means 100.
	MaxIter int
	// Limits.Progress gets gp.StageNewton before each Newton step, and StageMatch. Limits.Memory is for FindMatch.
	linearize.Limits
}

func (o *Options) withDefaults(src linearize.Source, p int) Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.MaxIter < 0 || d.MaxProducts < 0 || d.Gradient < 0 || d.Memory < 0 || d.Start != nil && len(d.Start) != p {
		panic("mode: invalid options")
	}
	d.MaxIter, d.MaxProducts = cmp.Or(d.MaxIter, 100), cmp.Or(d.MaxProducts, 1000)
	if d.Products == nil {
		d.Products = linearize.ProductsOf(src)
	}
	return d
}

// Close is the norm of the gradient (Options.Gradient) at which a refit ends: 1e-9, which bounds how far the mean is from
// the mode, in prior standard deviations (E19). For a gp.Scored likelihood, whose log p is not concave, it is 0.
func Close(y *gp.Targets) float64 {
	if y.Scored() {
		return 0
	}
	return 1e-9
}

// A State is a search for a mode between two Newton steps.
type State struct {
	Z               []float64 // Σ₀^−½ (v − μ₀), P numbers
	F               []float64 // f_lin(x;v), N·C numbers
	Steps, Products int       // so far
	Move, Last      float64   // length of the last step, and norm of the gradient before it
	Rough           bool      // products with J need not be exact yet
}

// Find returns the mode of the linearized model for the training examples src, without forming J, H or K. It takes
// Newton steps with a line search from θ* or Options.Start, each solved by conjugate gradients. Besides src it
// holds a few vectors of P and of N·C numbers. The error is an error of gp.NewSites or of src,
// or gp.ErrNoExamples.
//
// Each Newton step takes one product with Jᵀ and up to MaxProducts products with both. If Options.Products are not
// products with src itself, products with src are still used for f(x;θ*), for the exact function values once the
// gradient is small, and for J d in the steps after that.
func Find(ctx context.Context, src linearize.Source, y *gp.Targets, prior ntk.Prior, theta []float64, o *Options) (*Mode, error) {
	d := o.withDefaults(src, len(theta))
	jacobian, outputs, err := newJacobian(ctx, src, prior, theta, d.Outputs)
	if err != nil {
		return nil, err
	}
	if len(outputs) == 0 {
		return nil, gp.ErrNoExamples
	}
	m := &modeSearch{o: d, y: y, exact: linearize.ProductsOf(src), theta: theta, outputs: outputs, jacobian: jacobian}
	m.differ = o != nil && o.Products != nil
	m.rough = m.differ
	if s := m.o.Resume; s != nil {
		if len(s.Z) != len(theta) || len(s.F) != len(m.outputs) {
			panic("mode: a state of another search")
		}
		m.rough, m.products = s.Rough, s.Products
		return m.from(ctx, &newton.Point{Weights: slices.Clone(s.Z), F: slices.Clone(s.F)})
	}
	start := slices.Clone(theta)
	if m.o.Start != nil {
		copy(start, m.o.Start)
	}
	for i, v := range m.white.Root {
		if v == 0 {
			start[i] = m.white.Mean[i]
		}
	}
	products := m.exact
	if m.rough {
		products = m.o.Products
	}
	f, err := m.values(ctx, products, start)
	if err != nil {
		return nil, err
	}
	return m.from(ctx, &newton.Point{Weights: m.white.Of(start), F: f})
}

// values returns f_lin = f + J(v − θ*) at the weights v, N·C numbers.
func (m *modeSearch) values(ctx context.Context, products linearize.Products, v []float64) ([]float64, error) {
	f := make([]float64, len(m.outputs))
	if moved := newton.Minus(v, m.theta); floats.Norm(moved, 1) > 0 {
		if err := products.MulVecTo(ctx, f, moved); err != nil {
			return nil, err
		}
	}
	floats.Add(f, m.outputs)
	return f, nil
}

// A modeSearch looks for whitened parameters z, θ = μ₀ + Σ₀^½ z, in the same way as the refit of a Posterior.
type modeSearch struct {
	o       Options
	y       *gp.Targets
	exact   linearize.Products
	differ  bool      // Options.Products are not those of the source
	rough   bool      // function values are by Options.Products, which need not be exact
	theta   []float64 // θ*
	outputs []float64 // f(x;θ*), N·C
	jacobian
	products int // number of H̃v so far
}

// roughGradient is the norm of the gradient below which products with J are exact. Below it, the error of products
// by differences of the network may be as large as the gradient. Where Options.Gradient ends the search, and steps
// still halve the gradient, it goes on by differences to half of that, as each exact product takes C backward passes.
const roughGradient = 1e-3

// from returns the mode to which Newton steps from the point at lead. Where Options.Products are not exact, the refit
// by them is followed by one with exact function values, from the weights at which it ends.
func (m *modeSearch) from(ctx context.Context, at *newton.Point) (*Mode, error) {
	l, search := &newton.Objective{Y: m.y}, newton.New(m.y, m.o.MaxIter, false)
	last := 0.0 // norm of the previous gradient; 0 for none
	if s := m.o.Resume; s != nil {
		search.Steps, search.Move, last = s.Steps, s.Move, s.Last
	}
	for {
		var r *Mode // at the start of the last step, whose end moves nothing
		_, err := newton.Find(&search, l, at.F, at, func(f []float64, from *newton.Point) (*newton.Point, error) {
			at = from
			if m.o.State != nil && search.Resumable() {
				if err := m.o.State(&State{Z: at.Weights, F: f, Steps: search.Steps, Products: m.products, Move: search.Move, Last: last, Rough: m.rough}); err != nil {
					return nil, err
				}
			}
			s, err := gp.NewSites(m.y, mat.NewDense(len(f)/m.c, m.c, f))
			if err != nil {
				return nil, err
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			m.o.Show(gp.StageNewton, search.Steps+1, 0)
			gradient, err := m.pull(ctx, m.o.Products, dense.Flat(s.Residual))
			if err != nil {
				return nil, err
			}
			floats.Sub(gradient, at.Weights)
			norm := floats.Norm(gradient, 2)
			r = &Mode{Theta: m.white.Theta(at.Weights), Sites: s, Scatter: floats.Dot(at.Weights, at.Weights), GradientNorm: norm, Newton: search.Steps}
			near := norm <= m.o.Gradient
			if m.rough {
				near = norm <= roughGradient && (norm <= m.o.Gradient/2 || m.o.Gradient == 0 || norm > last/2)
			}
			if near {
				return at, nil
			}
			to, err := m.step(ctx, s, at, gradient, norm, last)
			if err != nil {
				return nil, err
			}
			r.Warnings = newton.GradientWarnings(norm, floats.Dot(gradient, newton.Minus(to.Weights, at.Weights))/2)
			last = norm
			return to, nil
		})
		if err != nil {
			return nil, err
		}
		if !m.rough {
			r.Products, r.Warnings = m.products, append(search.Warnings(), r.Warnings...)
			return r, nil
		}
		f, err := m.values(ctx, m.exact, r.Theta)
		if err != nil {
			return nil, err
		}
		steps := search.Steps
		search, m.rough, last = newton.New(m.y, m.o.MaxIter, false), false, 0
		at, search.Steps = &newton.Point{Weights: at.Weights, F: f}, steps
	}
}

// loosest is the largest relative residual of a Newton step, where newton.StepResidual is the smallest.
const loosest = .1

// step returns the end of the Newton step from the point at, whose sites are s. last is the norm of the previous
// gradient.
//
// Where Options.Gradient ends the search, earlier steps need not be solved as well as the last one. The less the
// gradient fell in the last step, the looser the next one is solved (Eisenstat and Walker, "Choosing the forcing
// terms in an inexact Newton method", SIAM J. Sci. Comput. 17, 1996), and none better than the end of the search needs.
func (m *modeSearch) step(ctx context.Context, s *gp.Sites, at *newton.Point, gradient []float64, norm, last float64) (*newton.Point, error) {
	precondition := func([]float64) {}
	if m.o.Precondition != nil {
		own, err := m.o.Precondition(ctx, s)
		if err != nil {
			return nil, err
		}
		if own != nil {
			precondition = own
		}
	}
	var f []float64
	moved := make([]float64, len(at.F)) // J̃d, from the products of the steps
	cg := newton.ConjugateGradients{
		Residual: newton.StepResidual,
		Times: func(v *mat.Dense) (_ *mat.Dense, err error) { // H̃v = v + J̃ᵀΛJ̃v
			m.products++
			if f, err = m.push(ctx, m.o.Products, v.RawRowView(0)); err != nil {
				return nil, err
			}
			out, err := m.pull(ctx, m.o.Products, sites.MulBlocks(s.Lambda, f))
			if err != nil {
				return nil, err
			}
			floats.Add(out, v.RawRowView(0))
			return dense.RowOf(out), nil
		},
		Precondition: func(v *mat.Dense) error { precondition(v.RawRowView(0)); return nil },
		Took:         func(t float64) { floats.AddScaled(moved, t, f) },
	}
	if m.o.Gradient > 0 {
		fell, enough := norm/last, m.o.Gradient/norm/2
		cg.Residual = min(max(fell*fell, newton.StepResidual, enough), loosest)
	}
	x, _, err := cg.Solve(ctx, dense.RowOf(gradient), m.o.MaxProducts)
	if err != nil {
		return nil, err
	}
	d := x.RawRowView(0)
	if !m.rough && m.differ {
		if moved, err = m.push(ctx, m.exact, d); err != nil {
			return nil, err
		}
	}
	floats.Add(moved, at.F)
	if dense.NotFinite(moved) >= 0 {
		return nil, errors.New("mode: a Newton step towards the mode is not finite; scale the targets or raise the prior precision")
	}
	return &newton.Point{Weights: floats.AddTo(d, d, at.Weights), F: moved}, nil
}

// A jacobian is J̃ = JΣ₀^½ at N examples of C outputs, by one kind of products or another.
type jacobian struct {
	white newton.Whitened
	n, c  int
}

// newJacobian returns J̃ and f(x;θ*), N·C numbers, which takes a pass over src where outputs is nil.
func newJacobian(ctx context.Context, src linearize.Source, prior ntk.Prior, theta []float64, outputs *mat.Dense) (jacobian, []float64, error) {
	if outputs == nil {
		var err error
		if outputs, err = linearize.Outputs(ctx, src); err != nil {
			return jacobian{}, nil, err
		}
	}
	n, c := outputs.Dims()
	if n != src.Len() {
		panic("mode: outputs and examples differ in number")
	}
	return jacobian{newton.NewWhitened(prior, len(theta)), n, c}, dense.Flat(outputs), nil
}

// push returns J̃ v, N·C numbers.
func (j *jacobian) push(ctx context.Context, by linearize.Products, v []float64) ([]float64, error) {
	f := make([]float64, j.n*j.c)
	return f, by.MulVecTo(ctx, f, floats.MulTo(make([]float64, len(v)), j.white.Root, v))
}

// pull returns J̃ᵀ u, P numbers.
func (j *jacobian) pull(ctx context.Context, by linearize.Products, u []float64) ([]float64, error) {
	g := make([]float64, len(j.white.Root))
	if err := by.MulTransVecTo(ctx, g, u); err != nil {
		return nil, err
	}
	floats.Mul(g, j.white.Root)
	return g, nil
}
