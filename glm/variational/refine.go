package variational

import (
	"context"
	"errors"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

var errNotFinite = errors.New("variational: the lower bound is not finite at the posterior that the refinement starts from; scale the targets or raise the prior precision")

// A Refinement is what every refined posterior has.
type Refinement struct {
	ELBO       ELBO
	Mean       *mat.Dense // f̄ at the training examples, N×C
	Cov        *mat.Dense // their covariances V, N·C×C
	Iterations int
	Warnings   []error // *IterationWarning, and those of the posterior

	sites *gp.Sites
}

// Sites returns E r and E Λ at the refined posterior, with F = f̄ and LogLik = Σ E log p.
// They are the sites of a linear-Gaussian model whose posterior is the refined one, if
// its covariance is full.
func (r *Refinement) Sites() *gp.Sites { return r.sites }

// A Function is a refined posterior over function values.
type Function struct {
	Refinement
	*gp.Exact
}

var debug = func(k int, it *iterate, step float64, accelerated bool) {}

// start returns the solver's expectations and the sites at θ*.
func start(x *linearize.Batch, y *mat.Dense, lik gp.Likelihood, o *Options) (*solver, *gp.Sites, error) {
	s := &solver{y: y, c: x.Outputs(), o: o.withDefaults()}
	sites, err := gp.NewSites(y, x.F, lik)
	if err != nil {
		return nil, nil, err
	}
	s.terms, err = newExpectations(lik, x.Len(), s.c, s.o.Points, par.Workers(s.o.Workers))
	return s, sites, err
}

// refine runs the solver from the sites and returns the result.
func (s *solver) refine(ctx context.Context, sites *gp.Sites) (*Refinement, error) {
	m, f := s.space.prior(), dense.Flat(sites.F)
	n, c := len(m), s.c
	x := make([]float64, n*(1+c))
	copy(x[n:], sites.Lambda.RawMatrix().Data)
	copy(x, dense.Flat(sites.Residual))
	for i := range n {
		for j := range c {
			at := i/c*c + j
			x[i] += x[n+i*c+j] * (f[at] - m[at])
		}
	}
	it, steps, err := s.run(ctx, x)
	if err != nil {
		return nil, err
	}
	r := &Refinement{ELBO: it.elbo, Mean: mat.NewDense(n/c, c, it.f), Cov: it.cov, Iterations: steps}
	if !(it.size <= s.o.Tolerance) {
		r.Warnings = append(r.Warnings, &IterationWarning{Iterations: steps, Residual: it.size})
	}
	if r.sites, _ = s.sites(it.x, it.f); true {
		r.sites.LogLik = it.elbo.ExpectedLogLik
	}
	return r, s.space.condition(ctx, r.sites)
}

// RefineFunction returns the Gaussian variational approximation of the posterior of the
// linearized model over the function values.
func RefineFunction(ctx context.Context, k ntk.Kernel, x *linearize.Batch, y *mat.Dense, lik gp.Likelihood, o *Options) (*Function, error) {
	s, sites, err := start(x, y, lik, o)
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

var _ = weightspace.Fit
