package main

import (
	"context"
	"time"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/linearize"
)

// exact conditions on all training rows. A refit moves to the mode of the
// linearized model (E9).
func (f *fit) exact(ctx context.Context) (*posterior, error) {
	if err := f.prepare(ctx, true); err != nil {
		return nil, err
	}
	batch := f.source.(*linearize.Batch)
	// What follows the kernel is counted as the factorization.
	formed := time.Now()
	o := &gp.Options{Mean: f.options.mean, MaxMemory: f.problem.limits.memory, Progress: func(stage string, done, total int) {
		if stage == gp.StageKernel && done == total {
			formed = time.Now()
		}
		f.con.show(stage, done, total)
	}}
	var dual *gp.Exact
	var err error
	if f.flags.refit {
		dual, err = gp.Refit(ctx, f.kernel, batch, f.problem.examples.y, f.problem.task.likelihood, o)
	} else {
		dual, err = gp.Fit(ctx, f.kernel, batch, f.sites, o)
	}
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.con.endPartAt("kernel", formed)
	q := f.posterior(dual)
	if f.flags.refit {
		q.evidence = dual.EvidenceRefit()
	} else {
		q.evidence = dual.EvidenceAtTheta(gp.Scatter(f.prior, f.theta))
	}
	return q, nil
}

// cg conditions on all training rows by conjugate gradients, without forming
// their kernel.
func (f *fit) cg(ctx context.Context) (*posterior, error) {
	if err := f.prepare(ctx, f.problem.keepsJacobian()); err != nil {
		return nil, err
	}
	o := &cg.Options{Mean: f.options.mean, MaxMemory: f.problem.limits.memory, Seed: f.problem.limits.seed, Progress: f.con.show}
	var dual *cg.Posterior
	var err error
	if f.flags.refit {
		dual, err = cg.Refit(ctx, f.kernel, f.source, f.problem.examples.y, f.problem.task.likelihood, o)
	} else {
		dual, err = cg.Fit(ctx, f.kernel, f.source, f.sites, o)
	}
	if err != nil {
		return nil, err
	}
	if err := f.con.endPart(ctx, "kernel"); err != nil {
		return nil, err
	}
	q := f.posterior(dual)
	if f.flags.refit {
		q.evidence, err = dual.EvidenceRefit(ctx)
	} else {
		q.evidence, err = dual.EvidenceAtTheta(ctx, gp.Scatter(f.prior, f.theta))
	}
	q.approximation = &report.Approximation{MeanError: number(dual.MeanError()), EvidenceSE: number(q.evidence.StdErr)}
	return q, err
}
