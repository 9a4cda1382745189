package main

import (
	"context"
	"time"

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

// conditioned is implemented by the posteriors of all methods.
type conditioned interface {
	gp.Dual
	Refitted() bool
	Warnings() []error
	Save(w *store.Writer) error
}

var (
	_ conditioned = (*gp.Exact)(nil)
	_ conditioned = (*sparse.Posterior)(nil)
	_ conditioned = (*cg.Posterior)(nil)
)

// posterior is a fitted session.
type posterior struct {
	*session
	*way
	conditioned // the posterior to answer from
	theta       []float64
	kernel      *ntk.NTK
	source      linearize.Source // training examples
	batch       *linearize.Batch // the same where they are all in memory, else nil
	exact       *gp.Exact        // the posterior where the method is exact

	precision   float64   // of the posterior's prior
	base        float64   // of the prior that the kernel is made with
	factor      float64   // base / precision, which scales the variances of the kernel's prior
	jr          []float64 // Jᵀr at θ*
	grad        float64   // gradient norm of the MAP objective at θ*
	evidence    gp.Evidence
	evidenceSE  float64 // standard error of the evidence, where it is estimated
	bound       gp.Bound
	traceError  float64
	chosen      []int // positions of the inducing examples
	trials      []fitTrial
	approximate *report.Approximation
}

// newPosterior prepares a fit.
func (s *session) newPosterior(w *way) *posterior {
	return &posterior{session: s, way: w, theta: s.net.Theta(), kernel: ntk.New(s.prior, s.net.Theta(), nil), precision: s.delta, base: s.delta, factor: 1}
}

// posterior reads or fits the posterior, and ends the laps up to it.
func (s *session) posterior(ctx context.Context, w *way) (*posterior, error) {
	if s.saved != nil {
		return s.load(ctx, w)
	}
	if err := w.choose(s); err != nil {
		return nil, err
	}
	d, c, params := s.net.Dims()
	s.detail("%d training examples, %d inputs, %d outputs, %d parameters, prior precision %g, %s likelihood", s.train.Len(), d, c, params, s.delta, s.lik.Name())
	if w.tune {
		var err error
		if s.held, err = s.heldOut(); err != nil {
			return nil, err
		}
	}
	if err := s.planPosterior(w); err != nil {
		return nil, err
	}
	p := s.newPosterior(w)
	fit := map[string]func(context.Context) error{"exact": p.fitExact, "subset": p.fitSparse, "nystrom": p.fitSparse, "cg": p.fitCG}[w.method]
	if err := fit(ctx); err != nil {
		s.progress.clear()
		return nil, rowsOf(s.train, 0, s.train.Len()).fault(err)
	}
	s.progress.clear()
	s.warnAll(p.Warnings())
	return p, s.lap(ctx, "factorize")
}

// fitExact linearizes the training rows and conditions on them; refit moves
// to the mode of the linearized model (E9).
func (p *posterior) fitExact(ctx context.Context) error {
	if err := p.lap(ctx, "load"); err != nil {
		return err
	}
	var err error
	if p.batch, err = p.net.Linearize(ctx, p.inputs(p.train)); err != nil {
		return err
	}
	p.source = p.batch
	if err := p.lap(ctx, "linearize"); err != nil {
		return err
	}
	sites, err := gp.NewSites(p.y, p.batch.F, p.lik)
	if err != nil {
		return err
	}
	formed := time.Now()
	o := &gp.Options{Mean: p.mean, MaxMemory: p.bytes, Progress: func(stage string, done, total int) {
		if stage == gp.StageKernel && done == total {
			formed = time.Now()
		}
		p.progress.show(stage, done, total)
	}}
	if p.refit {
		p.exact, err = gp.Refit(ctx, p.kernel, p.batch, p.y, p.lik, o)
	} else {
		p.exact, err = gp.Fit(ctx, p.kernel, p.batch, sites, o)
	}
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p.watch.lapAt("kernel", formed)
	p.grad = gp.GradientNorm(p.batch, sites, p.prior, p.theta)
	if p.refit {
		p.evidence = p.exact.EvidenceRefit()
	} else {
		p.evidence = p.exact.EvidenceAtTheta(gp.Scatter(p.prior, p.theta))
	}
	p.conditioned = p.exact
	return nil
}

// fitCG conditions on the training rows without forming their kernel.
func (p *posterior) fitCG(ctx context.Context) error {
	sites, err := p.sitesAtTheta(ctx)
	if err != nil {
		return err
	}
	o := &cg.Options{Mean: p.mean, MaxMemory: p.bytes, Seed: p.seed, Progress: p.progress.show}
	var q *cg.Posterior
	if p.refit {
		q, err = cg.Refit(ctx, p.kernel, p.source, p.y, p.lik, o)
	} else {
		q, err = cg.Fit(ctx, p.kernel, p.source, sites, o)
	}
	if err != nil {
		return err
	}
	if err := p.lap(ctx, "kernel"); err != nil {
		return err
	}
	var e gp.Evidence
	if p.refit {
		e, err = q.EvidenceRefit(ctx)
	} else {
		e, err = q.EvidenceAtTheta(ctx, gp.Scatter(p.prior, p.theta))
	}
	p.conditioned, p.evidence, p.evidenceSE = q, e, e.StdErr
	p.approximate = &report.Approximation{MeanError: number(q.MeanError()), EvidenceSE: number(e.StdErr)}
	return err
}

func number(v float64) *report.Float {
	f := report.Float(v)
	return &f
}

// sitesAtTheta prepares the training examples as a source, computes the gradient
// of the MAP objective at θ*, and returns the sites there.
func (p *posterior) sitesAtTheta(ctx context.Context) (*gp.Sites, error) {
	if err := p.lap(ctx, "load"); err != nil {
		return nil, err
	}
	if err := p.openSource(ctx); err != nil {
		return nil, err
	}
	sites, err := gp.SitesFrom(ctx, p.source, p.y, p.lik)
	if err != nil {
		return nil, err
	}
	if p.jr, err = p.residualGradient(ctx, sites); err != nil {
		return nil, err
	}
	p.grad = gp.GradientNormOf(p.jr, p.prior, p.theta)
	return sites, p.lap(ctx, "linearize")
}

// keepBytes bounds the Jacobian of training examples that are linearized once
// and kept, rather than anew in each pass, and of rows that are predicted at a
// time.
const keepBytes = 1 << 30

// keeps tells whether the training examples are linearized once.
func (s *session) keeps() bool {
	need := s.net.BatchBytes(s.train.Len())
	return need <= keepBytes && need <= gp.MemoryBudget(s.bytes)/4
}

// openSource prepares the training examples: linearized and kept where they
// are few.
func (p *posterior) openSource(ctx context.Context) error {
	if !p.keeps() {
		p.source = p.sourceOf(p.train)
		return nil
	}
	var err error
	p.batch, err = p.net.Linearize(ctx, p.inputs(p.train))
	p.source = p.batch
	return err
}

// sourceOf gives a subset's rows, linearized anew in each pass.
func (s *session) sourceOf(sub *dataset.Subset) linearize.Source {
	_, c, _ := s.net.Dims()
	return linearize.NewSource(s.net, sub.Len(), linearize.Tile(c), func(lo, hi int) (*mat.Dense, error) { return s.inputsAt(sub, lo, hi), nil })
}

// outputsTile is how many rows are evaluated at a time.
const outputsTile = 1024

// residualGradient returns Jᵀr over the training rows, length P.
func (p *posterior) residualGradient(ctx context.Context, s *gp.Sites) ([]float64, error) {
	_, c, _ := p.net.Dims()
	n := p.train.Len()
	jr := make([]float64, len(p.theta))
	if p.batch != nil {
		p.batch.MulTransVecTo(jr, mat.DenseCopyOf(s.Residual).RawMatrix().Data)
		return jr, nil
	}
	part := make([]float64, len(p.theta))
	for lo := 0; lo < n; lo += outputsTile {
		hi := min(lo+outputsTile, n)
		if err := p.net.VJP(ctx, part, p.inputsAt(p.train, lo, hi), s.Residual.Slice(lo, hi, 0, c).(*mat.Dense)); err != nil {
			return nil, err
		}
		for i, g := range part {
			jr[i] += g
		}
		p.progress.show("gradient", hi, n)
	}
	return jr, nil
}

// report is the fit as JSON shows it.
func (p *posterior) report() report.Fit {
	_, c, params := p.net.Dims()
	m := report.Index(-1)
	if p.sparse() {
		m = report.Index(p.inducing)
	}
	return report.Fit{Examples: p.train.Len(), Outputs: c, Parameters: params, PriorPrecision: report.Float(p.precision), Refit: p.Refitted(),
		Method: p.method, Inducing: m, TraceError: report.Float(p.traceError),
		GradientNorm: report.Float(p.grad), LogEvidence: report.Float(p.evidence.Value), Bound: p.bound.String(), LogDet: report.Float(p.evidence.LogDet),
		LogLikelihood: report.Float(p.evidence.LogLik), Scatter: report.Float(p.evidence.Scatter), Approximation: p.approximate, Warnings: p.warnings}
}
