package variational

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// An ELBO is the evidence lower bound, Value = ExpectedLogLik − KL ≤ log p(y), of the
// linearized model (E26).
type ELBO struct {
	Value          float64
	ExpectedLogLik float64 // Σ w_i E log p(y_i|f_i), f ~ q
	KL             float64 // KL(q‖p), where p is the prior
}

// A Refinement has the bound and the training moments of a refined posterior q.
type Refinement struct {
	ELBO       ELBO
	TrainMean  *mat.Dense // E f at the training examples, N×C
	TrainCov   *mat.Dense // their covariances, N·C×C
	Iterations int

	warnings []error
}

// A Posterior is a refined posterior over functions. Its sites are E r and E Λ at
// the training examples (E26). As q is the posterior of a linear-Gaussian model with these
// sites, it predicts and explains like any gp.Posterior. Its evidence is ELBO; the evidence
// methods of gp.Posterior have no meaning here.
type Posterior struct {
	Refinement
	*gp.Posterior
	Exact *gp.Exact // the same posterior where the solver is Rows; otherwise nil
}

var _ gp.Dual = (*Posterior)(nil)

// Warnings holds a warning of sites-unsettled where the bound is not at its largest, and the
// warnings of the posterior.
func (q *Posterior) Warnings() []error {
	return slices.Concat(q.warnings, q.Posterior.Warnings())
}

// Weights is a refined posterior over the parameters. Its evidence is ELBO; the evidence
// methods of weightspace.Weights have no meaning here.
type Weights struct {
	Refinement
	weightspace.Weights
}

var _ weightspace.Weights = (*Weights)(nil)

// Warnings is as in Posterior.
func (q *Weights) Warnings() []error { return slices.Concat(q.warnings, q.Weights.Warnings()) }

// Refine returns the Gaussian q over functions with the largest lower bound on the evidence of
// the linearized model (E26) [glm 3.2], [thesis eq. 2.13]. The training examples x are linearized
// at theta = θ*. It takes the memory of gp.Fit or of weightspace.FitSums, and each iteration takes
// the time of such a fit and of the covariances of all training examples. The solver Parameters
// reads x as a stream, and Rows holds all of it.
//
// The errors are those of gp.NewSites and of the fit, a *FisherError, and a *DivergedError where
// the bound is not finite at the posterior from which the search starts.
func Refine(ctx context.Context, x linearize.Source, y *gp.Targets, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	s, r, err := refine(ctx, weightspace.Full, x, y, prior, theta, o)
	if err != nil {
		return nil, err
	}
	return &Posterior{Refinement: *r, Posterior: s.q, Exact: s.exact}, nil
}

// RefineStructure returns the Gaussian over the parameters with the largest lower bound among
// those whose precision has a structure (E26): Full, whose function values are those of Refine,
// Block, or Diagonal, which is the mean-field approximation of the linearized model. The mean is
// found by Newton steps with all of the precision, in the memory and the time of Refine.
func RefineStructure(ctx context.Context, structure weightspace.Structure, x linearize.Source, y *gp.Targets, prior ntk.Prior, theta []float64, o *Options) (*Weights, error) {
	if structure != weightspace.Full && structure != weightspace.Block && structure != weightspace.Diagonal {
		return nil, fmt.Errorf("variational: a precision of structure %v cannot be refined; take %v, %v or %v", structure, weightspace.Full, weightspace.Block, weightspace.Diagonal)
	}
	s, r, err := refine(ctx, structure, x, y, prior, theta, o)
	if err != nil {
		return nil, err
	}
	if structure == weightspace.Full {
		if err := s.conditionWeights(ctx, s.q.Sites()); err != nil {
			return nil, err
		}
	}
	return &Weights{Refinement: *r, Weights: s.w}, nil
}

// refine returns a solver that is conditioned on the sites at which the bound is largest.
func refine(ctx context.Context, structure weightspace.Structure, x linearize.Source, y *gp.Targets, prior ntk.Prior, theta []float64, o *Options) (*solver, *Refinement, error) {
	s, start, err := newSolver(ctx, structure, x, y, prior, theta, o)
	if err != nil {
		return nil, nil, err
	}
	it, steps, err := s.run(ctx, start)
	if err != nil {
		return nil, nil, err
	}
	n := len(it.f)
	r := &Refinement{ELBO: it.elbo, TrainMean: mat.NewDense(n/s.c, s.c, it.f), TrainCov: it.cov, Iterations: steps}
	if !(it.size <= s.o.Tolerance) {
		r.warnings = append(r.warnings, linearize.NewWarning("sites-unsettled", it.size, s.o.Tolerance, "Raise Options.MaxIter or the prior precision.",
			"After %d iterations a site is still %.3g posterior standard deviations from its condition. The bound is not at its largest, and means are off by about as much.", steps, it.size))
	}
	last, _ := s.sites(it.x, it.f)
	last.LogLik = it.elbo.ExpectedLogLik
	return s, r, s.condition(ctx, last)
}
