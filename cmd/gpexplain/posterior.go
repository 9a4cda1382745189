package main

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/store"
)

// fitted is implemented by the posteriors of all methods.
type fitted interface {
	gp.Dual
	Refitted() bool
	Warnings() []error
	Save(w *store.Writer) error
}

var (
	_ fitted = (*gp.Exact)(nil)
	_ fitted = (*sparse.Posterior)(nil)
	_ fitted = (*cg.Posterior)(nil)
)

// A posterior is the answer of a fit, by whatever method.
type posterior struct {
	dual   fitted
	kernel *ntk.NTK
	how    method

	precision       float64 // of the posterior's prior
	kernelPrecision float64 // of the prior that the kernel is made with
	factor          float64 // kernelPrecision / precision, which scales the variances of the kernel's prior

	gradient      float64 // norm of the gradient of the MAP objective at θ*
	evidence      gp.Evidence
	traceError    float64
	trials        []trial // of --tune-prior
	approximation *report.Approximation
}

// A method says how a posterior was computed.
type method struct {
	name, selection string
	inducing        []int   // positions among the training rows
	mean            gp.Mean // of a posterior without a refit
}

// fitOptions are what verbs ask of a fit beside its method. The zero value is
// the default.
type fitOptions struct {
	mean       gp.Mean
	tune       bool               // choose the prior precision on held-out rows
	checkpoint string             // file to keep the state of a pass in; "" for none
	resume     *sparse.Checkpoint // state to go on from; nil starts anew
	noReport   bool               // no error report is needed

	leavesOneOut bool // predictions are calibrated by leave-one-out
}

// A fit holds what the methods compute a posterior from.
type fit struct {
	con     *console
	problem *problem
	flags   posteriorFlags // with their defaults filled in
	options fitOptions
	heldOut *dataset.Subset // rows that choose the prior precision; nil without fitOptions.tune
	theta   []float64       // θ*

	precision float64 // of the prior that the kernel is made with
	prior     ntk.Prior
	kernel    *ntk.NTK
	trials    []trial // of --tune-prior

	source   linearize.Source // training examples
	sites    *gp.Sites        // at θ*
	gradient []float64        // Jᵀr at θ*
}

// answer loads the posterior of the problem's file, or fits one.
func answer(ctx context.Context, c *console, p *problem, f *posteriorFlags) (*posterior, error) {
	if p.saved != nil {
		return loadPosterior(ctx, c, p)
	}
	return fitPosterior(ctx, c, p, f, fitOptions{})
}

// fitPosterior computes the posterior that the flags ask for.
func fitPosterior(ctx context.Context, c *console, p *problem, flags *posteriorFlags, o fitOptions) (*posterior, error) {
	f, err := newFit(c, p, flags, o)
	if err != nil {
		return nil, err
	}
	var q *posterior
	switch f.flags.method {
	case "exact":
		q, err = f.exact(ctx)
	case "cg":
		q, err = f.cg(ctx)
	default:
		q, err = f.sparse(ctx)
	}
	c.bar.clear()
	if err != nil {
		return nil, p.trainNames().explainError(err)
	}
	c.warn(q.dual.Warnings()...)
	return q, c.endPart(ctx, "factorize")
}

// newFit fills in defaults and refuses what cannot work or fit into memory.
func newFit(c *console, p *problem, flags *posteriorFlags, o fitOptions) (*fit, error) {
	f := &fit{con: c, problem: p, options: o}
	var err error
	if f.flags, err = flags.withDefaults(p); err != nil {
		return nil, err
	}
	d, outputs, params := p.model.net.Dims()
	c.detail("%d training examples, %d inputs, %d outputs, %d parameters, prior precision %g, %s likelihood", p.examples.train.Len(), d, outputs, params, p.task.precision, p.task.likelihood.Name())
	if o.tune {
		if f.heldOut, err = p.heldOut(); err != nil {
			return nil, err
		}
	}
	if err := planPosterior(c, p, &f.flags, f.heldOut); err != nil {
		return nil, err
	}
	f.theta, f.precision = p.model.net.Theta(), p.task.precision
	if f.prior, err = ntk.NewIsotropic(f.precision, nil); err != nil {
		return nil, err
	}
	f.kernel = ntk.New(f.prior, f.theta, nil)
	return f, nil
}

// posterior returns what is the same for all methods.
func (f *fit) posterior(dual fitted) *posterior {
	return &posterior{dual: dual, kernel: f.kernel, how: method{name: f.flags.method, selection: f.flags.selection, mean: f.options.mean},
		precision: f.precision, kernelPrecision: f.precision, factor: 1, gradient: gp.GradientNormOf(f.gradient, f.prior, f.theta), trials: f.trials}
}

// prepare linearizes the training examples, or makes them a source that does
// so in each pass, and computes the sites and the gradient at θ*.
func (f *fit) prepare(ctx context.Context, keep bool) error {
	if err := f.con.endPart(ctx, "load"); err != nil {
		return err
	}
	var err error
	if f.source, err = f.problem.trainingExamples(ctx, keep); err != nil {
		return err
	}
	if f.sites, err = gp.SitesFrom(ctx, f.source, f.problem.examples.y, f.problem.task.likelihood); err != nil {
		return err
	}
	if f.gradient, err = f.residualGradient(ctx); err != nil {
		return err
	}
	f.refitOrNot()
	return f.con.endPart(ctx, "linearize")
}

// trainingExamples are linearized once, or anew in each pass.
func (p *problem) trainingExamples(ctx context.Context, keep bool) (linearize.Source, error) {
	if !keep {
		return p.examples.source(p.model, p.examples.train), nil
	}
	return p.linearize(ctx, p.examples.train, 0, p.examples.train.Len())
}

// gradientRows is how many rows Jᵀr is summed over at a time.
const gradientRows = 1024

// residualGradient returns Jᵀr over the training rows, length P.
func (f *fit) residualGradient(ctx context.Context) ([]float64, error) {
	m, e := f.problem.model, f.problem.examples
	sum := make([]float64, len(f.theta))
	if b, ok := f.source.(*linearize.Batch); ok {
		b.MulTransVecTo(sum, mat.DenseCopyOf(f.sites.Residual).RawMatrix().Data)
		return sum, nil
	}
	n := e.train.Len()
	part := make([]float64, len(f.theta))
	for lo := 0; lo < n; lo += gradientRows {
		hi := min(lo+gradientRows, n)
		if err := m.net.VJP(ctx, part, e.inputs(e.train, lo, hi), f.sites.Residual.Slice(lo, hi, 0, m.outputs).(*mat.Dense)); err != nil {
			return nil, err
		}
		for i, g := range part {
			sum[i] += g
		}
		f.con.show("gradient", hi, n)
	}
	return sum, nil
}

// report is the fit as JSON shows it.
func (q *posterior) report(p *problem, warnings []string) report.Fit {
	inducing := report.Index(-1)
	if isSparse(q.how.name) {
		inducing = report.Index(len(q.how.inducing))
	}
	return report.Fit{Examples: p.examples.train.Len(), Outputs: p.model.outputs, Parameters: p.model.parameters(), PriorPrecision: report.Float(q.precision), Refit: q.dual.Refitted(),
		Method: q.how.name, Inducing: inducing, TraceError: report.Float(q.traceError),
		GradientNorm: report.Float(q.gradient), LogEvidence: report.Float(q.evidence.Value), Bound: q.evidence.Bound.String(), LogDet: report.Float(q.evidence.LogDet),
		LogLikelihood: report.Float(q.evidence.LogLik), Scatter: report.Float(q.evidence.Scatter), Approximation: q.approximation, Warnings: warnings}
}

func number(v float64) *report.Float {
	f := report.Float(v)
	return &f
}
