package funcgp

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/variational"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// refinable are the methods whose posteriors variational inference refines.
var refinable = []string{"exact", "parameters"}

// checkInference refuses methods and likelihoods that variational inference does not have.
func (o *FitOptions) checkInference() error {
	m := &o.Method
	switch {
	case !o.variational():
		return nil
	case m.Within > 0:
		return job.Usagef("{inference=variational} takes all training rows; leave {within} out")
	case m.Name != "" && m.Name != methodAuto && !slices.Contains(refinable, m.Name):
		return job.Usagef("{inference=variational} is for {method} exact or parameters, not %s; give one of these, or leave {inference} out", m.Name)
	case o.Structure != "" && !slices.Contains([]string{"full", "block", "diag"}, o.Structure):
		return job.Usagef("{inference=variational} is for {structure} full, block or diag, not %s; give one of these, or leave {inference} out", o.Structure)
	case o.Predictive == "linear":
		return job.Usagef("{predictive=linear} predicts at the trained parameters, and {inference=variational} has another mean; leave one of them out")
	case o.Likelihood != "" && isLikelihood(o.Likelihood):
		return notConcave(likelihoodNamed(o.Likelihood))
	}
	return nil
}

// notConcave refuses variational inference of a likelihood whose Λ is the Fisher information.
func notConcave(lik interface{ Name() string }) error {
	if _, fisher := lik.(gp.Scored); !fisher {
		return nil
	}
	return job.Usagef("{inference=variational} needs a likelihood whose Λ is its curvature, and that of %s is the Fisher information; leave {inference} out", lik.Name())
}

// refine makes q, the refit at the precision of the answers, the Gaussian with the largest lower bound on the evidence
// there (E26), if the options ask for it.
func (f *fit) refine(ctx context.Context, q *solution) error {
	if !f.asked.variational() || f.atTheta {
		return nil
	}
	q.Dual, q.exact = nil, nil
	debug.FreeOSMemory() // so that the memory of the refit counts as free
	r, err := f.problem.refined(ctx, f.con, q.How.Name, f.source, f.prior)
	if err != nil {
		return err
	}
	if q.exact = r.Exact; q.exact != nil {
		q.Dual = q.exact
	} else {
		q.Dual = r.Posterior
	}
	q.setELBO(&r.Refinement, r.LogDet(), r.Scatter())
	return f.con.EndPart(ctx, "refine")
}

// refined is the variational posterior over functions of the training examples x, by a method of refinable.
func (p *problem) refined(ctx context.Context, c *job.Job, method string, x linearize.Source, prior ntk.Prior) (*variational.Posterior, error) {
	o := &variational.Options{Solver: variational.Rows, Limits: p.Bounds(c)}
	if method == "parameters" {
		o.Solver = variational.Parameters
	}
	r, err := variational.Refine(ctx, x, p.TrainTargets(), prior, p.Model.Net.Theta(), o)
	if err != nil {
		return nil, refinementError(err)
	}
	for _, w := range r.Warnings() {
		if linearize.WarningOf(w).Code == "sites-unsettled" { // the others are said with those of every posterior
			c.Warn(unsettled(w))
		}
	}
	return r, nil
}

// refineStructure makes q the variational posterior over the parameters with its structure.
func (f *fit) refineStructure(ctx context.Context, q *solution) error {
	r, err := variational.RefineStructure(ctx, q.structure, f.source, f.problem.TrainTargets(), f.prior, f.theta, &variational.Options{Limits: f.problem.Bounds(f.con)})
	if err != nil {
		return refinementError(err)
	}
	for _, w := range r.Warnings() {
		f.con.Warn(unsettled(w))
	}
	q.weights = r
	q.setELBO(&r.Refinement, r.LogDet(), gp.Scatter(f.prior, r.Center()))
	return nil
}

// setELBO sets the bound and its parts, which stand for the evidence.
func (q *solution) setELBO(r *variational.Refinement, logDet, scatter float64) {
	q.elbo = elboOf(r)
	q.Evidence = gp.Evidence{Value: r.ELBO.Value, LogLik: r.ELBO.ExpectedLogLik, LogDet: logDet, Scatter: scatter, Bound: gp.Lower}
}

func elboOf(r *variational.Refinement) *result.ELBO {
	return &result.ELBO{Value: result.Float(r.ELBO.Value), ExpectedLogLikelihood: result.Float(r.ELBO.ExpectedLogLik), KL: result.Float(r.ELBO.KL)}
}

// unsettled names options in the remedy of a warning that a refinement has not ended.
func unsettled(err error) error {
	w := linearize.WarningOf(err)
	if w.Code != "sites-unsettled" {
		return err
	}
	return job.NewWarning("sites-unsettled", w.Value, w.Limit, "Give a larger {prior-precision}, or leave {inference} out.", "%s", w.Text)
}

// refinementError names options in the remedy of a refinement that diverged.
func refinementError(err error) error {
	if e := (*variational.DivergedError)(nil); errors.As(err, &e) {
		return job.Full(option.Errorf("{inference=variational}: %v; give {target-mean} and {target-sd} of the targets, a larger {prior-precision}, or leave {inference} out", e.Err))
	}
	return err
}
