package main

import (
	"context"
	"time"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// posterior is a fitted session.
type posterior struct {
	*session
	theta  []float64
	kernel *ntk.NTK
	batch  *linearize.Batch // training examples
	exact  *gp.Exact        // the posterior to answer from
	grad   float64          // gradient norm of the MAP objective at θ*
}

// fit linearizes the training rows and conditions on them; refit moves to the
// mode of the linearized model (E9).
func (s *session) fit(ctx context.Context, refit bool) (*posterior, error) {
	p := &posterior{session: s, theta: s.net.Theta(), kernel: ntk.New(s.prior, s.net.Theta(), nil)}
	d, c, params := s.net.Dims()
	n := s.train.Len()
	s.detail("%d training examples, %d inputs, %d outputs, %d parameters, prior precision %g, %s likelihood", n, d, c, params, s.delta, s.lik.Name())
	const mib = 1 << 20
	s.detail("memory: %.1f MiB of %.0f MiB allowed: kernel and factor %.1f MiB, Jacobian %.1f MiB", s.posteriorBytes(n)/mib, float64(gp.MemoryBudget(s.bytes))/mib,
		float64(gp.Bytes(n, c))/mib, float64(s.net.BatchBytes(n))/mib)
	s.watch.lap("load")
	var err error
	here := rowsOf(s.train, 0, n)
	if p.batch, err = s.net.Linearize(ctx, s.x); err != nil {
		return nil, here.fault(err)
	}
	s.watch.lap("linearize")
	sites, err := gp.NewSites(s.y, p.batch.F, s.lik)
	if err != nil {
		return nil, here.fault(err)
	}
	formed := time.Now()
	o := &gp.Options{Mean: s.mean, MaxMemory: s.bytes, Progress: func(stage string, done, total int) {
		if stage == gp.StageKernel && done == total {
			formed = time.Now()
		}
		s.progress.show(stage, done, total)
	}}
	if refit {
		p.exact, err = gp.Refit(ctx, p.kernel, p.batch, s.y, s.lik, o)
	} else {
		p.exact, err = gp.Fit(ctx, p.kernel, p.batch, sites, o)
	}
	s.progress.clear()
	if err != nil {
		return nil, here.fault(err)
	}
	s.watch.lapAt("kernel", formed)
	p.grad = gp.GradientNorm(p.batch, sites, s.prior, p.theta)
	for _, w := range p.exact.Warnings() {
		s.warn(w)
	}
	s.watch.lap("factorize")
	return p, nil
}

// report is the fit as JSON shows it.
func (p *posterior) report() explain.Fit {
	_, c, params := p.net.Dims()
	var e gp.Evidence
	if p.exact.Refitted() {
		e = p.exact.EvidenceRefit()
	} else {
		e = p.exact.EvidenceAtTheta(gp.Scatter(p.prior, p.theta))
	}
	return explain.Fit{Examples: p.train.Len(), Outputs: c, Parameters: params, PriorPrecision: explain.Float(p.delta), Refit: p.exact.Refitted(),
		GradientNorm: explain.Float(p.grad), LogEvidence: explain.Float(e.Value), LogDet: explain.Float(e.LogDet),
		LogLikelihood: explain.Float(e.LogLik), Scatter: explain.Float(e.Scatter), Warnings: p.warnings}
}
