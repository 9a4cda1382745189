package cg

import (
	"context"
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// A Posterior is the exact posterior of all N training examples, without the
// matrix K. Where gp.Exact uses a Cholesky factor of B = I + RᵀKR (E4), it uses
// conjugate gradients, with products K v = J Σ₀ (Jᵀv). Its memory grows with N·C,
// and so does the time of each step for each right-hand side.
//
// # Errors
//
// A solve of B x = v ends with the residual ρ = v − Bx. B ⪰ I, and B ⪰ P, the
// preconditioner, so ‖x − B⁻¹v‖ ≤ ‖ρ‖ and ρᵀB⁻¹ρ ≤ ρᵀP⁻¹ρ ≤ ‖ρ‖². From this:
//
//   - The mean. With the residual ρ of the dual vector's solve,
//     b − (I+ΛK)α = −Rρ, so the error of the mean at x* is C_*n Rρ, where C is
//     the posterior covariance. By Cauchy and Schwarz, and
//     RᵀC_nnR = I − B⁻¹ ⪯ I, it is at most ‖ρ‖ posterior standard deviations of
//     f(x*).
//   - The covariance. With v = RᵀK_n*, vᵀB⁻¹v = xᵀv + ρᵀx + ρᵀB⁻¹ρ. The last
//     term is left out, so the covariance is too large by ρᵀB⁻¹ρ ⪰ 0, which is
//     quadratic in the residual. A variance is too large by at most ρᵀP⁻¹ρ.
//   - The error of the cross-covariance of Cross with a training example x_i is
//     at most ‖ρ‖ posterior standard deviations of f(x_i).
//
// The bounds hold in exact arithmetic. Where they are below the rounding error,
// the rounding error remains.
//
// A Posterior is safe for concurrent use. Its results are bit-identical for any
// GOMAXPROCS and for any batches of the same examples. They change,
// within the tolerance, with the rank of the preconditioner and with whether the
// Jacobian is kept, both of which depend on Options.MaxMemory.
type Posterior struct {
	data     *data
	o        Options
	refit    bool
	columns  int // right-hand sides solved for at once
	features *features

	sites         *gp.Sites
	local         sites.Arrays
	sys           *system
	prior, pseudo []float64        // m and b, N·C
	alpha, kalpha []float64        // α and K α, N·C
	jacobianAlpha *linearize.Batch // one example with the Jacobian αᵀJ

	solve     Solve   // of the dual vector
	meanBound float64 // ‖ρ‖ of the dual vector's solve
	warnings  []error

	mu        sync.Mutex
	predicted Solve   // the worst of predictions
	det       *LogDet // nil until asked for
}

var _ gp.Dual = (*Posterior)(nil)

// Fit returns the posterior given the sites s of the training examples x
// (E5), (E6). Where x is a *linearize.Batch, k multiplies with its kernel. The
// Jacobian of another x is kept in memory where it fits; otherwise each step of
// conjugate gradients linearizes x twice.
//
// It fails with a *gp.MemoryError before anything large is allocated, with a
// *gp.NotFiniteError where a number given is NaN or Inf, with a *RangeError where
// a number becomes so in a solve, and with ctx.Err(), which it checks in every
// step. The dual vector takes at most 2·MaxSteps steps. Warnings holds a
// warning of solve-residual where it did not reach the tolerance.
func Fit(ctx context.Context, k MulKernel, x linearize.Source, s *gp.Sites, o *Options) (*Posterior, error) {
	d := o.withDefaults()
	p, start, err := newPosterior(ctx, k, x, &d)
	if err != nil {
		return nil, err
	}
	if d.Mean == gp.Network {
		var u gp.Untrained
		u.Add(start.f, p.prior)
		p.warnings = u.Warnings(s)
	}
	if err := p.condition(ctx, s); err != nil {
		return nil, err
	}
	alpha, kalpha := make([]float64, len(p.prior)), make([]float64, len(p.prior))
	if err := p.dual(ctx, alpha, kalpha, d.Tolerance, d.MaxSteps); err != nil {
		return nil, err
	}
	// The next solves remove the rounding error of the first, as gp.Exact does:
	// b − (I+ΛK)α is known to more digits than RᵀKb − Bx. Together they take at most
	// MaxSteps steps.
	most := p.solve.Steps + d.MaxSteps
	for last := math.Inf(1); p.meanBound > d.Tolerance && p.meanBound < last/2 && p.solve.Steps < most; {
		last = p.meanBound
		if err := p.dual(ctx, alpha, kalpha, math.Max(d.Tolerance, polish), most-p.solve.Steps); err != nil {
			return nil, err
		}
	}
	return p, p.finish(ctx)
}

// polish is the relative tolerance of a solve for what an earlier solve left.
const polish = 1e-4

// newPosterior passes over the examples once.
func newPosterior(ctx context.Context, k MulKernel, x linearize.Source, o *Options) (*Posterior, *firstPass, error) {
	data, start, plan, err := newData(ctx, k, x, o)
	if err != nil {
		return nil, nil, err
	}
	p := &Posterior{data: data, o: *o, columns: plan.columns, prior: start.prior}
	p.features = newFeatures(data, start.diag, plan.rank, o.Seed)
	return p, start, nil
}

// condition sets up B at the sites s, and b.
func (p *Posterior) condition(ctx context.Context, s *gp.Sites) error {
	var err error
	p.sites = s
	if p.local, err = sites.New(s, p.data.n, p.data.c); err != nil {
		return err
	}
	if err := p.features.grow(ctx, p.local.Lambda, &p.o); err != nil {
		return err
	}
	root := newSiteBlocks(p.local.Root, p.data.c)
	pre, err := newPreconditioner(ctx, root, p.features.phi)
	if err != nil {
		return err
	}
	p.sys = &system{data: p.data, root: root, pre: pre, o: &p.o}
	// b = r + Λ(f − m) (E5)
	p.pseudo = make([]float64, len(p.prior))
	p.local.PseudoTargets(p.pseudo, p.prior)
	return nil
}

// dual improves alpha as a solution of (I + ΛK)α = b (E5), in at most the given
// number of steps. It solves for b − (I + ΛK)α, to which tol is relative, and
// overwrites alpha and kalpha, which is K alpha.
func (p *Posterior) dual(ctx context.Context, alpha, kalpha []float64, tol float64, most int) error {
	s := p.sys.solver(1)
	s.most = min(s.most, most)
	step := make([]float64, len(alpha))
	// b − α − ΛKα
	p.local.SubtractLambda(step, p.pseudo, kalpha)
	floats.Sub(step, alpha)
	out, err := s.solveDual(ctx, column(step), tol)
	if err != nil {
		return err
	}
	p.solve.Steps += out.Steps
	p.meanBound = floats.Norm(s.res.Data, 2)
	floats.Add(alpha, step)
	if err := p.data.mulTo(ctx, column(kalpha), column(alpha), &s.sum); err != nil {
		return err
	}
	p.alpha, p.kalpha = alpha, kalpha
	return sites.NotFinite("dual vector", alpha, 0, p.data.c)
}

// finish computes αᵀJ and the relative residual of the dual vector, and warns
// where that is above the tolerance.
func (p *Posterior) finish(ctx context.Context) error {
	// ‖ρ‖/‖RᵀKb‖
	sum, g := jacobian.Sum{}, make([]float64, len(p.prior))
	if err := p.data.mulTo(ctx, column(g), column(p.pseudo), &sum); err != nil {
		return err
	}
	p.sys.root.mul(column(g), 0, true)
	norm := floats.Norm(g, 2)
	if !finite(norm) {
		return &RangeError{What: "the norm of RᵀKb", Value: norm, Steps: p.solve.Steps, Residual: 1}
	}
	if norm > 0 {
		p.solve.Residual = p.meanBound / norm
	}
	if !(p.solve.Residual <= p.o.Tolerance) {
		p.warnings = append(p.warnings, p.solve.warning("the dual vector", p.o.Tolerance))
	}
	var err error
	p.jacobianAlpha, err = p.data.jacobianOf(ctx, &sum, column(p.alpha))
	return err
}

// Data returns the training examples. Predictions may be made while passing
// over them.
func (p *Posterior) Data() linearize.Source {
	// These are the examples for callers to pass over. Only one pass at a time may linearize them, and a
	// caller may ask for a prediction, which is another pass, in the middle of its own. Examples that
	// are not in memory are therefore gathered chunk by chunk, as copies.
	d := p.data
	if d.whole != nil {
		return d.x
	}
	return gathered{d}
}

// Sites returns the sites that the posterior is built on.
func (p *Posterior) Sites() *gp.Sites { return p.sites }

// Alpha returns the dual vector α (E5), N·C; it must not be changed.
func (p *Posterior) Alpha() []float64 { return p.alpha }

// PseudoTargets returns b = r + Λ(f − m) (E5), N·C; it must not be changed.
func (p *Posterior) PseudoTargets() []float64 { return p.pseudo }

// PriorMean returns m at the training examples, N·C; it must not be changed.
func (p *Posterior) PriorMean() []float64 { return p.prior }

// Refitted tells whether the posterior came from a refit (E9).
func (p *Posterior) Refitted() bool { return p.refit }

// Rank returns the number of features of the preconditioner.
func (p *Posterior) Rank() int { return p.features.phi.Cols }

// Unexplained returns tr Rᵀ(K−Q)R, where Q is the preconditioner's approximation
// of K. The eigenvalues of the preconditioned matrix lie between 1 and
// 1 + Unexplained.
func (p *Posterior) Unexplained() float64 {
	_, sum := p.features.left(p.local.Lambda)
	return sum
}

// Solved tells how well the dual vector was solved for. Residual is ‖ρ‖/‖RᵀKb‖,
// and Steps counts those of all its solves, over all Newton steps of a refit.
func (p *Posterior) Solved() Solve { return p.solve }

// MeanError bounds the error of every predictive mean m + K_*n α, in posterior
// standard deviations of the function value there.
func (p *Posterior) MeanError() float64 { return p.meanBound }

// Warnings says where results are less accurate than they should be. It holds
// *linearize.Warning of solve-residual for the dual vector and for the worst prediction so
// far, of log-det, of untrained, and after a refit of refit-gap, refit-steps and sums-open.
func (p *Posterior) Warnings() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := append([]error(nil), p.warnings...)
	if s := p.predicted; s.Residual > p.o.Tolerance {
		w = append(w, s.warning("predictions", p.o.Tolerance))
	}
	return w
}

// hasDualMean tells whether the predictive mean is m + K_*n α rather than x.F.
func (p *Posterior) hasDualMean() bool { return p.refit || p.o.Mean == gp.LinearGaussian }
