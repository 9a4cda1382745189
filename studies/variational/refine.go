package variational

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

var errNotFinite = errors.New("variational: the lower bound is not finite at the posterior that the refinement starts from; scale the targets or raise the prior precision")

// A Refinement is what every refined posterior q has besides its predictions.
type Refinement struct {
	ELBO       ELBO
	TrainMean  *mat.Dense // E f at the training examples, N×C
	TrainCov   *mat.Dense // their covariances, N·C×C
	Iterations int

	warnings []error
}

// A Function is a refined posterior over functions. Its sites are E r and E Λ at
// the training examples: as q is the posterior of a linear-Gaussian model with these
// sites, it predicts, explains and is saved like any gp.Exact. Of the evidences, only
// ELBO means something.
type Function struct {
	Refinement
	*gp.Exact
}

// Warnings holds a warning of sites-unsettled where the bound is not at its largest, and the
// warnings of the posterior.
func (f *Function) Warnings() []error { return slices.Concat(f.warnings, f.Exact.Warnings()) }

var _ gp.Dual = (*Function)(nil)

// A Weights is a refined posterior over all parameters. It is the Function of the
// same model in weight space. Of the evidences, only ELBO means something.
type Weights struct {
	Refinement
	*weightspace.Posterior
}

// Warnings is as in Function.
func (w *Weights) Warnings() []error { return slices.Concat(w.warnings, w.Posterior.Warnings()) }

var _ weightspace.Weights = (*Weights)(nil)

// A Diagonal is a refined posterior with independent parameters, the mean-field
// approximation of the linearized model. Of the evidences, only ELBO means something.
type Diagonal struct {
	Refinement
	*weightspace.DiagonalPosterior
}

// Warnings is as in Function.
func (d *Diagonal) Warnings() []error {
	return slices.Concat(d.warnings, d.DiagonalPosterior.Warnings())
}

var _ weightspace.Weights = (*Diagonal)(nil)

// RefineFunction returns the Gaussian q over functions with the largest lower bound on
// the evidence of the linearized model [glm 3.2], [thesis eq. 2.13]. k is the kernel
// at the training examples x, and y has their targets, N rows. It takes the memory of
// gp.Fit, and each iteration takes the time of a fit and of all leave-one-outs.
//
// The errors are those of gp.NewSites and gp.Fit, and a *FisherError.
func RefineFunction(ctx context.Context, k ntk.Kernel, x *linearize.Batch, y *mat.Dense, lik gp.Likelihood, o *Options) (*Function, error) {
	s, sites, err := newSolver(x, y, lik, o)
	if err != nil {
		return nil, err
	}
	space, err := newFunctionSpace(ctx, k, x, sites, &s.o)
	if err != nil {
		return nil, err
	}
	s.space = space
	r, err := s.refine(ctx, sites)
	if err != nil {
		return nil, err
	}
	return &Function{Refinement: *r, Exact: space.e}, nil
}

// RefineWeights returns the same q as RefineFunction, over the parameters. It
// takes the memory of weightspace.Fit, which is less where P < N·C. x is linearized at
// theta = θ*.
func RefineWeights(ctx context.Context, x *linearize.Batch, y *mat.Dense, lik gp.Likelihood, prior ntk.Prior, theta []float64, o *Options) (*Weights, error) {
	s, sites, err := newSolver(x, y, lik, o)
	if err != nil {
		return nil, err
	}
	space, err := newWeightSpace(ctx, x, sites, prior, theta, &s.o)
	if err != nil {
		return nil, err
	}
	s.space = space
	r, err := s.refine(ctx, sites)
	if err != nil {
		return nil, err
	}
	return &Weights{Refinement: *r, Posterior: space.w}, nil
}

// RefineDiagonal returns the Gaussian with independent parameters and the largest lower
// bound. Its mean is found by Newton steps, for which it takes the memory and the time
// of RefineFunction or RefineWeights, whichever is less.
func RefineDiagonal(ctx context.Context, x *linearize.Batch, y *mat.Dense, lik gp.Likelihood, prior ntk.Prior, theta []float64, o *Options) (*Diagonal, error) {
	s, sites, err := newSolver(x, y, lik, o)
	if err != nil {
		return nil, err
	}
	d := &meanField{x: x, p: prior, theta: theta, o: &s.o, variance: make([]float64, len(theta))}
	prior.VarianceTo(d.variance)
	if x.Len()*s.c <= len(theta) {
		f, err := newFunctionSpace(ctx, ntk.New(prior, theta), x, sites, &s.o)
		if err != nil {
			return nil, err
		}
		d.space = f
		d.center = func() []float64 { return pulledBack(x, prior, d.variance, f.e.Alpha()) }
	} else {
		w, err := newWeightSpace(ctx, x, sites, prior, theta, &s.o)
		if err != nil {
			return nil, err
		}
		d.space = w
		d.center = func() []float64 { return w.w.Mean() }
	}
	s.space = d
	r, err := s.refine(ctx, sites)
	if err != nil {
		return nil, err
	}
	return &Diagonal{Refinement: *r, DiagonalPosterior: d.w}, nil
}

// pulledBack returns θ̄ = μ₀ + Σ₀Jᵀα.
func pulledBack(x *linearize.Batch, prior ntk.Prior, variance, alpha []float64) []float64 {
	theta, mu0 := make([]float64, len(variance)), make([]float64, len(variance))
	x.MulTransVecTo(theta, alpha)
	floats.Mul(theta, variance)
	prior.MeanTo(mu0)
	floats.Add(theta, mu0)
	return theta
}

// newSolver returns a solver without a space, and the sites at θ*, from which it
// starts.
func newSolver(x *linearize.Batch, y *mat.Dense, lik gp.Likelihood, o *Options) (*solver, *gp.Sites, error) {
	s := &solver{y: y, c: x.Outputs(), o: o.withDefaults()}
	sites, err := gp.NewSites(gp.NewTargets(y, lik), x.F)
	if err != nil {
		return nil, nil, err
	}
	if s.terms, err = newExpectations(lik, x.Len(), s.c, s.o.Points, runtime.GOMAXPROCS(0)); err != nil {
		return nil, nil, err
	}
	const quasi = 1e-5 // relative error of the bound by quasi–Monte Carlo
	switch s.terms[0].(type) {
	case *softmaxExpectation:
		if s.c > 2 {
			s.noise = quasi
		}
	case *numericExpectation:
		if s.c > 1 {
			s.noise = quasi
		}
	}
	return s, sites, nil
}

// refine runs the solver from the sites, and leaves its space conditioned on those of
// the result.
func (s *solver) refine(ctx context.Context, sites *gp.Sites) (*Refinement, error) {
	m := s.space.prior()
	n := len(m)
	x := slices.Concat(dense.Flat(sites.Residual), sites.Lambda.RawMatrix().Data)
	// b = r + Λ(f − m)
	s.addShift(x[:n], x[n:], newton.Minus(dense.Flat(sites.F), m), 1)
	it, steps, err := s.run(ctx, x)
	if err != nil {
		return nil, err
	}
	r := &Refinement{ELBO: it.elbo, TrainMean: mat.NewDense(n/s.c, s.c, it.f), TrainCov: it.cov, Iterations: steps}
	if !(it.size <= s.o.Tolerance) {
		r.warnings = append(r.warnings, linearize.NewWarning("sites-unsettled", it.size, s.o.Tolerance, "Raise Options.MaxIter or the prior precision.",
			"After %d iterations a site is still %.3g posterior standard deviations from its condition. The bound is not at its largest, and means are off by about as much.", steps, it.size))
	}
	last, _ := s.sites(it.x, it.f)
	last.LogLik = it.elbo.ExpectedLogLik
	return r, s.space.condition(ctx, last)
}
