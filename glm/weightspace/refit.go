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
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Refit returns the posterior at the mode of the linearized model (E9), which maximizes Σ log p(y|f_lin(x;θ)) −
// ½(θ−μ₀)ᵀΣ₀⁻¹(θ−μ₀) over θ. It takes Newton steps with a line search, from θ* on. The sites, H
// and θ̂ of the result are those at the mode. The error is an error of gp.NewSites or Fit. Warnings tells whether
// the refit missed the mode.
//
// H is factored at θ* and at the mode. Steps between are solved by conjugate gradients with the last factor as
// preconditioner. Where conjugate gradients converge too slowly, H is factored there too.
func Refit(ctx context.Context, b *linearize.Batch, y *gp.Targets, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	s, err := gp.NewSites(y, b.F)
	if err != nil {
		return nil, err
	}
	w, err := newPosterior(b, s, prior, theta, o)
	if err != nil {
		return nil, err
	}
	return w, w.newton(ctx, y)
}

// Refit is the function Refit with the training examples, the prior and the options of w. It starts from the factor
// of w and does not change w. It needs the memory of another posterior, and returns a *gp.MemoryError where that is
// not free.
func (w *Posterior) Refit(ctx context.Context, y *gp.Targets) (*Posterior, error) {
	if err := w.checkBlocks(); err != nil {
		return nil, err
	}
	if _, err := gp.NewSites(y, w.x.F); err != nil { // checks y
		return nil, err
	}
	r := *w
	r.h = slices.Clone(w.h)
	r.h[0].shared = true
	return &r, r.newton(ctx, y)
}

// newton moves w to the mode and to the sites there. Steps far from the mode may be solved by conjugate gradients;
// the last step always uses the factor of H̃ at its sites.
func (w *Posterior) newton(ctx context.Context, y *gp.Targets) error {
	w.refit = true
	l, search := &newton.Objective{Y: y}, newton.New(y, w.o.MaxIter, false)
	at := w.pointAt(w.white.Of(w.theta))
	if w.start != nil {
		at = w.pointAt(w.white.Of(w.start))
		if origin := w.pointAt(make([]float64, len(w.theta))); l.Objective(origin) > l.Objective(at) {
			at = origin // under another prior the prior mean may be the better start
		}
	}
	if y.Scored() {
		l.Gradient = func(p *newton.Point) []float64 { // J̃ᵀr(f) − z
			r, c := make([]float64, len(p.F)), w.c
			for i := range w.n {
				y.Expand(i, r[i*c:(i+1)*c], nil, nil, p.F[i*c:(i+1)*c])
			}
			g := w.pullBack(r)
			floats.Sub(g, p.Weights)
			return g
		}
	}
	var d *direction // the last step
	for factor := false; d == nil || !d.factored; factor = true {
		// Where a refit ends by a step without a factor, solve for that step again, with one, and go on from there.
		var before newton.Search
		end, err := newton.Find(&search, l, at.F, at, func(f []float64, from *newton.Point) (*newton.Point, error) {
			at, before = from, search
			s, err := gp.NewSites(y, mat.NewDense(w.n, w.c, f))
			if err != nil {
				return nil, err
			}
			if d, err = w.direction(ctx, s, at, factor || search.Steps == search.MaxIter); err != nil {
				return nil, err
			}
			factor = false
			w.o.Show(gp.StageNewton, search.Steps+1, 0)
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			to := w.pointAt(floats.AddTo(make([]float64, len(d.step)), at.Weights, d.step))
			if dense.NotFinite(to.F) >= 0 {
				return nil, errors.New("weightspace: a Newton step of the refit is not finite; scale the targets or raise the prior precision")
			}
			return to, nil
		})
		if err != nil {
			return err
		}
		if !d.factored {
			search = before
			continue
		}
		w.setMean(end.Weights)
	}
	w.gradient = floats.Norm(d.gradient, 2)
	w.warnings = append(search.Warnings(), newton.GradientWarnings(w.gradient, floats.Dot(d.gradient, d.step)/2)...)
	return nil
}

// A direction is a Newton step of the refit.
type direction struct {
	gradient []float64 // J̃ᵀr − z
	step     []float64 // H̃⁻¹ times the gradient
	factored bool      // the step was solved with the factor of H̃ at its sites
}

// direction returns the Newton step from the point at, whose sites are s. Where w has a factor of H̃ at other
// sites, it solves for the step by conjugate gradients. It factors H̃ at s where these do not converge, and where
// factor is true.
func (w *Posterior) direction(ctx context.Context, s *gp.Sites, at *newton.Point, factor bool) (*direction, error) {
	d := &direction{gradient: w.pullBack(dense.Flat(s.Residual))}
	floats.Sub(d.gradient, at.Weights)
	if limit := w.iterations(); !factor && limit > 0 && w.conditioned != nil && !w.isOf(s) {
		cg := newton.ConjugateGradients{Residual: newton.StepResidual,
			Precondition: func(v *mat.Dense) error { w.h[0].solve(v.RawRowView(0)); return nil },
			Times: func(v *mat.Dense) (*mat.Dense, error) { // H̃v = v + J̃ᵀΛJ̃v
				f := make([]float64, w.n*w.c)
				w.x.MulVecTo(f, floats.MulTo(make([]float64, len(w.white.Root)), w.white.Root, v.RawRowView(0)))
				out := w.pullBack(sites.MulBlocks(s.Lambda, f))
				floats.Add(out, v.RawRowView(0))
				return dense.RowOf(out), nil
			}}
		step, settled, err := cg.Solve(ctx, dense.RowOf(d.gradient), limit)
		if err != nil {
			return nil, err
		}
		if settled {
			d.step = step.RawRowView(0)
			return d, nil
		}
	}
	if err := w.condition(ctx, s); err != nil {
		return nil, err
	}
	d.step, d.factored = slices.Clone(d.gradient), true
	w.h[0].solve(d.step)
	return d, nil
}

const (
	// fewParameters is the number of parameters below which every Newton step factors H̃, which then takes
	// milliseconds.
	fewParameters = 512
	// factorSpeed is how many times more operations per second a factorization does than products with vectors,
	// whose speed is limited by memory.
	factorSpeed = 25
)

// iterations returns the number of conjugate gradient steps that take about half the time of a factorization of H̃.
// A step takes 2·P² operations for two triangular solves, and a product with J and one with Jᵀ. A factorization
// takes N·C·P² + P³/3 operations.
func (w *Posterior) iterations() int {
	p := float64(len(w.theta))
	if p < fewParameters {
		return 0
	}
	n, c := w.x.Len(), w.x.Outputs()
	step := 2 * p * p
	for _, b := range w.x.Blocks {
		rows := n
		switch b := b.(type) {
		case *linearize.Full:
			rows *= c // other blocks multiply by their factors
		case *linearize.Conv:
			t, _, _ := b.Layout.Factors()
			rows *= t
		}
		step += 4 * float64(rows) * float64(linearize.Width(b))
	}
	factorization := float64(n*c)*p*p + p*p*p/3
	return int(factorization / (2 * factorSpeed * step))
}

func (w *Posterior) pointAt(z []float64) *newton.Point {
	return &newton.Point{Weights: z, F: w.functionAt(w.white.Theta(z))}
}
