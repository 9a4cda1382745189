package gp

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/ntk"
)

// Rescale returns the posterior of the same training examples under prior variances
// multiplied by factor; k is the kernel under these. For an isotropic prior of
// precision δ, the factor δ/δ' leads to the precision δ'. After a Refit the result
// is a refit too, of the targets y under lik, whose Newton steps start at e's mode;
// otherwise it has the sites of e, and y and lik are not used.
//
// K is scaled in its place and not formed again, so the result takes the memory of
// e, which must not be used after the call, whatever its error. The mean function
// must be the same under both priors. The errors are those of Fit and Refit.
// Rescale panics where factor is not positive and finite.
func (e *Exact) Rescale(ctx context.Context, k ntk.Kernel, factor float64, y *Targets) (*Exact, error) {
	if !(factor > 0) || math.IsInf(factor, 1) {
		panic("gp: a factor on the prior variance must be positive and finite")
	}
	r := e.s.with(e.s.g)
	r.k, e.s.g = k, gram{}
	err := par.Do(ctx, r.g.n, func(i int) error {
		floats.Scale(factor, r.g.data[i*(r.g.n+1):][:i+1])
		return nil
	})
	if err != nil {
		return nil, stopped("scaling the kernel", err)
	}
	if err := r.g.checkRows(0, r.g.n, e.s.outputs()); err != nil {
		return nil, err
	}
	if e.Refitted() {
		// The same function is m + Kα with α divided by the factor.
		alpha := make([]float64, len(e.s.alpha))
		floats.ScaleTo(alpha, 1/factor, e.s.alpha)
		return r.newton(ctx, y, r.point(alpha, e.s.kalpha), nil)
	}
	if err := r.settle(ctx, e.Sites()); err != nil {
		return nil, err
	}
	return r.exact(), nil
}

// Recondition returns the posterior of the same training examples and prior at other
// sites. Its mean is m + K_*n α. A Refit that reuses the posterior starts at the mode
// of e, if e was refitted.
//
// K is not formed again, so the result takes the memory of e, which must not be used
// after the call, whatever its error. The errors are those of Fit. Sites of another
// size panic.
func (e *Exact) Recondition(ctx context.Context, s *Sites) (*Exact, error) {
	if !s.fits(e.s.x.Len(), e.s.outputs()) {
		panic("gp: sites and examples differ in size")
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	r := e.s.with(e.s.g)
	r.o.Mean, r.mode = LinearGaussian, e.s.lastMode()
	e.s.g = gram{}
	if err := r.settle(ctx, s); err != nil {
		return nil, err
	}
	return r.exact(), nil
}

// Condition returns the posterior of the same training examples and prior at other sites, for its
// covariances: its mean is f(x;θ*), and it has no dual vector. It leaves e as it is: it copies K, and takes as much
// memory as e does for the result. Where so much is not free, it fails with a *MemoryError.
func (e *Exact) Condition(ctx context.Context, s *Sites) (*Exact, error) {
	g, err := e.s.copyGram(ctx, "a posterior at other sites")
	if err != nil {
		return nil, err
	}
	r := e.s.with(g)
	r.o.Mean = Network
	if err := r.factorAt(ctx, s); err != nil {
		return nil, err
	}
	return r.exact(), nil
}

// lastMode returns the function values at the mode of e, or at the mode of the posterior that e was conditioned
// from. It returns nil if there is no mode.
func (e *rowSolver) lastMode() []float64 {
	if e.refit {
		return dense.Flat(e.sites.F)
	}
	return e.mode
}
