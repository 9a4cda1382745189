package inference

import (
	"context"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Audit ranks the training rows by their leave-one-out predictions: all rows of an exact posterior, or a random
// sample, which it says.
func (q *Posterior) Audit(ctx context.Context, c *job.Job, p *problem.Problem, top int) (*audit.Audit, error) {
	rows, n := q.leftOut(p), p.Examples.Train.Len()
	if len(rows) < n {
		c.Warn(linearize.NewWarning("rows-sampled", float64(len(rows)), float64(n), "Give --shard to audit all in parts, or --method exact.", "%d of %d training rows are audited, drawn by --seed, as leaving out each takes too long by --method %s. The others are not ranked.", len(rows), n, q.How.Name))
	}
	return q.audit(ctx, c, p, top, func(o *audit.Options) (*audit.Audit, error) {
		o.Rows = rows
		return audit.Of(ctx, q.Dual, p.Task.Likelihood, p.Examples.Y, o)
	})
}

// AuditPart scores the training rows [lo, hi) by their leave-one-out predictions.
func (q *Posterior) AuditPart(ctx context.Context, c *job.Job, p *problem.Problem, lo, hi int) (*audit.Audit, error) {
	return q.audit(ctx, c, p, 0, func(o *audit.Options) (*audit.Audit, error) {
		o.Rows = dense.Range(hi)[lo:]
		if given := q.given(); given != nil { // of other rows the posterior knows nothing
			o.Rows = slices.DeleteFunc(o.Rows, func(i int) bool { _, ok := slices.BinarySearch(given, i); return !ok })
		}
		if len(o.Rows) == 0 {
			return &audit.Audit{}, nil
		}
		return audit.Scores(ctx, q.Dual, p.Task.Likelihood, p.Examples.Y, o)
	})
}

// AuditOf ranks training rows that AuditPart has scored.
func (q *Posterior) AuditOf(ctx context.Context, c *job.Job, p *problem.Problem, top int, scored []audit.Example) (*audit.Audit, error) {
	return q.audit(ctx, c, p, top, func(o *audit.Options) (*audit.Audit, error) {
		return audit.List(ctx, q.Dual, p.Task.Likelihood, p.Examples.Y, scored, o)
	})
}

// audit calls do with the options of an audit.
func (q *Posterior) audit(ctx context.Context, c *job.Job, p *problem.Problem, top int, do func(o *audit.Options) (*audit.Audit, error)) (*audit.Audit, error) {
	leave, warning, err := q.leaver(ctx, c, p)
	if err != nil {
		return nil, p.TrainNames().ExplainError(err)
	}
	if warning != nil {
		c.Warn(warning)
	}
	found, err := do(&audit.Options{Calibration: q.Calibration.RefitScales(), Link: ScoringLink(p.Task.Likelihood, p.Model.Outputs), Top: top, MaxMemory: p.Limits.Memory, Progress: c.Show, LeaveOneOut: leave})
	c.Clear()
	if err != nil {
		return nil, p.TrainNames().ExplainError(err)
	}
	c.Warn(found.Warnings...)
	return found, nil
}

// shuffles is how many random permutations of the parameters AuditLabels takes.
const shuffles = 4

// AuditLabels ranks all training rows by a regression of their labels on the Jacobian at shuffled parameters. It needs
// no posterior; of the prior, only the ratios of its variances matter.
func AuditLabels(ctx context.Context, c *job.Job, p *problem.Problem, top int) (*audit.LabelAudit, error) {
	n, net := p.Examples.Train.Len(), p.Model.Net
	if p.Task.Classes == nil {
		return nil, fmt.Errorf("--by labels is for classes, but %s has the %s likelihood; leave it out", p.Model.Name, p.Task.Likelihood.Name())
	}
	prior, err := p.Task.PriorAt(1)
	if err != nil {
		return nil, err
	}
	need := func(n int) int64 { return 3*8*int64(n)*int64(n) + net.BatchBytes(n) }
	if err := gp.CheckMemory("--by labels", gp.TrainingExamples, n, p.Limits.Memory, need); err != nil {
		return nil, err
	}
	labels := make([]int, n)
	for i := range labels {
		labels[i] = int(p.Examples.Y.At(i, 0))
	}
	draws := audit.Shuffles(net.Theta(), net.Params(), shuffles, 0, func(theta []float64) (*linearize.Batch, error) {
		moved, err := net.WithTheta(theta)
		if err != nil {
			return nil, err
		}
		x, err := p.Examples.Inputs(ctx, p.Examples.Train, 0, n)
		if err != nil {
			return nil, err
		}
		return moved.Linearize(ctx, x)
	})
	found, err := audit.OfLabels(ctx, ntk.New(prior, net.Theta(), nil), draws, labels, &audit.Options{Top: top, MaxMemory: p.Limits.Memory, Progress: c.Show})
	c.Clear()
	if err != nil {
		return nil, p.TrainNames().ExplainError(err)
	}
	c.Warn(found.Warnings...)
	return found, nil
}

// LabelsReport describes a result of AuditLabels, which rests on no posterior.
func LabelsReport(p *problem.Problem, warnings linearize.Warnings) result.Fit {
	none := result.Undefined()
	r := result.Fit{Examples: p.Examples.Train.Len(), Outputs: p.Model.Outputs, Parameters: p.Model.Parameters(), Method: result.MethodLabels, Inducing: -1, Bound: gp.None.String(),
		PriorPrecision: none, TraceError: none, GradientNorm: none, LogEvidence: none, LogDet: none, LogLikelihood: none, Scatter: none,
		Warnings: warnings, Preprocessing: p.Preprocessing(), Grouped: p.Task.Grouping.Report()}
	if prior := p.Task.Prior; prior != nil {
		r.Prior, r.PriorPrecisionOrigin = prior.Report(), string(prior.From)
	}
	return r
}

// Acquire ranks the rows of a pool by what their labels would tell, and chooses a batch of them; names name the rows
// in errors.
func (q *Posterior) Acquire(ctx context.Context, c *job.Job, p *problem.Problem, pool linearize.Source, batch int, names problem.RowNames) (*audit.Acquisition, error) {
	o := &audit.AcquireOptions{Batch: batch, Link: ScoringLink(p.Task.Likelihood, p.Model.Outputs), MaxMemory: p.Limits.Memory, Progress: c.Show}
	found, err := audit.Acquire(ctx, q.latent(), p.Task.Likelihood, pool, o)
	c.Clear()
	if err != nil {
		return nil, names.ExplainError(err)
	}
	c.Warn(found.Warnings...)
	return found, nil
}
