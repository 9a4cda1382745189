package funcgp

import (
	"context"
	"slices"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// An audited has the scores of the training rows.
type audited struct {
	*audit.Audit // by the posterior without each row
	// Labels ranks wrong labels by a regression of the labels, and is used in place of Audit for them. It is
	// nil where such a regression does not suit the task.
	Labels *audit.LabelAudit
}

// Wrong returns the audit that ranks rows by how wrong their labels look.
func (a *audited) Wrong() *audit.Audit {
	if a.Labels != nil {
		return &a.Labels.Audit
	}
	return a.Audit
}

// Of returns the scores of the training example at a position under the posterior without it, or nil if the
// example was not left out.
func (a *audited) Of(position int) *audit.Example {
	k, ok := slices.BinarySearchFunc(a.Examples, position, func(x audit.Example, i int) int { return x.Index - i })
	if !ok {
		return nil
	}
	return &a.Examples[k]
}

// Audit ranks the training rows by their leave-one-out predictions. It takes the rows that AuditPart has scored
// if scored is not nil. Otherwise it takes all rows of an exact posterior, or for other methods a random
// sample, and warns that it is one. Wrong labels are found by a regression of the labels of all rows, if the
// rows are few enough for it.
func (q *solution) Audit(ctx context.Context, c *job.Job, p *problem, top int, scored []audit.Example) (*audited, error) {
	rows, n := q.leftOut(p), p.Examples.Train.Len()
	if scored == nil && len(rows) < n {
		c.Warn(job.NewWarning("rows-sampled", float64(len(rows)), float64(n), "Give {shard} to audit all in parts, or {method=exact}.", "%d of %d training rows are left out of the posterior, drawn by {seed}, as leaving out each takes too long by {method=%s}. The others have no entropy, margin or leverage.", len(rows), n, q.How.Name))
	}
	found, err := q.audit(ctx, c, p, top, func(o *audit.Options) (*audit.Audit, error) {
		if scored != nil {
			return audit.List(ctx, q.Dual, p.Task.Likelihood, p.Examples.Y, scored, o)
		}
		o.Rows = rows
		return audit.Of(ctx, q.Dual, p.Task.Likelihood, p.Examples.Y, o)
	})
	if err != nil {
		return nil, err
	}
	a := &audited{Audit: found}
	a.Labels, err = auditLabels(ctx, c, p, top)
	return a, err
}

// AuditPart scores the training rows [lo, hi) by their leave-one-out predictions.
func (q *solution) AuditPart(ctx context.Context, c *job.Job, p *problem, lo, hi int) (*audit.Audit, error) {
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

// audit calls do with the options of an audit.
func (q *solution) audit(ctx context.Context, c *job.Job, p *problem, top int, do func(o *audit.Options) (*audit.Audit, error)) (*audit.Audit, error) {
	leave, warning, err := q.leaver(ctx, c, p)
	if err != nil {
		return nil, explainError(p.Examples.Train, err)
	}
	if warning != nil {
		c.Warn(warning)
	}
	found, err := do(&audit.Options{Calibration: q.Calibration.RefitScales(), Link: predictive.ScoringLink(p.Task.Likelihood, p.Model.Outputs), Top: top, Limits: p.Bounds(c), LeaveOneOut: leave})
	c.Clear()
	if err != nil {
		return nil, explainError(p.Examples.Train, err)
	}
	c.Warn(found.Warnings...)
	return found, nil
}

// shuffles is how many random permutations of the parameters auditLabels takes, and mostRegressed the most training
// rows that it regresses.
const (
	shuffles      = 4
	mostRegressed = 12_000
)

// auditLabels ranks all training rows by a regression of their labels on the Jacobian at shuffled parameters. It needs
// no posterior; of the prior, only the ratios of its variances matter. It is nil for counts, whose noise is not that of a
// regression, and where the rows are too many for its matrices.
func auditLabels(ctx context.Context, c *job.Job, p *problem, top int) (*audit.LabelAudit, error) {
	n, net := p.Examples.Train.Len(), p.Model.Net
	if _, counts := p.Task.Likelihood.(glm.Poisson); counts || n > mostRegressed {
		return nil, nil
	}
	prior, err := p.Task.PriorAt(1)
	if err != nil {
		return nil, err
	}
	need := func(n int) int64 { return 3*8*int64(n)*int64(n) + net.BatchBytes(n) }
	if gp.CheckMemory("an audit of labels", gp.TrainingExamples, n, p.Memory, need) != nil {
		return nil, nil
	}
	classes := 0
	if p.Task.Classes != nil {
		classes = max(2, p.Model.Outputs)
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
	o := &audit.Options{Top: top, MostPaired: -1, Limits: p.Bounds(c)}
	found, err := audit.OfLabels(ctx, ntk.New(prior, net.Theta()), draws, p.Examples.Y, classes, o)
	c.Clear()
	if err != nil {
		return nil, explainError(p.Examples.Train, err)
	}
	c.Warn(found.Warnings...)
	return found, nil
}
