package inference

import (
	"context"
	"errors"
	"fmt"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/gp/kept/certificate"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/store"
)

// askedRows is the most test rows whose variances must be near those of all training
// rows, as --within says.
const askedRows = 200

// sampledRows is how many training examples, and as many of their rows, choose those of a pass
// through inducing examples.
const sampledRows = 6000

// kept conditions on the rows of all training data that say something (E16).
func (f *fit) kept(ctx context.Context) (*Posterior, error) {
	if err := f.prepare(ctx, f.problem.KeepsJacobian()); err != nil {
		return nil, err
	}
	if f.flags.tune == "" {
		if err := f.settle(ctx); err != nil {
			return nil, err
		}
	}
	products, err := f.products(ctx)
	if err != nil {
		return nil, err
	}
	asked, err := f.askedRows(ctx)
	if err != nil {
		return nil, err
	}
	if f.flags.tune != "" && !f.frozen {
		var near *kept.Posterior // of the precision before
		err := f.tune(ctx, func(ctx context.Context, precision float64) (*candidate, error) {
			g, err := f.at(precision)
			if err != nil {
				return nil, err
			}
			q, _, err := g.keptPosterior(ctx, asked, products, near, func(*kept.Options) {})
			if err != nil {
				return nil, err
			}
			if !f.options.AtTheta {
				near = q.Dual.(*kept.Posterior)
			}
			return f.candidateOf(q), nil
		})
		if err != nil {
			return nil, err
		}
	}
	// Only the refit at the precision that is settled goes through --checkpoint.
	q, threshold, err := f.keptPosterior(ctx, asked, products, nil, f.useKeptCheckpoint)
	if e := (*store.Error)(nil); errors.As(err, &e) && f.options.ResumeKept != nil {
		return nil, badCheckpoint(f.options.Checkpoint, err)
	}
	if err != nil {
		return nil, err
	}
	if err := f.con.EndPart(ctx, "kernel"); err != nil {
		return nil, err
	}
	return q, f.certify(ctx, q, threshold, products)
}

// products returns fast products with the Jacobian of training examples that are
// linearized anew in each pass, where their inputs fit; else nil.
func (f *fit) products(ctx context.Context) (linearize.Products, error) {
	e, n := f.problem.Examples, f.source.Len()
	d, _, _ := f.problem.Model.Net.Dims()
	if _, ok := f.source.(*linearize.Batch); ok || 8*float64(n)*float64(d) > float64(gp.MemoryBudget(f.problem.Limits.Memory))/8 {
		return nil, nil
	}
	x, err := e.Inputs(ctx, e.Train, 0, n)
	if err != nil {
		return nil, err
	}
	return f.problem.Model.Net.Products(x)
}

// askedRows linearizes the test rows on which --within is measured, or where there are
// none the first training rows.
func (f *fit) askedRows(ctx context.Context) (*linearize.Batch, error) {
	rows := f.problem.Examples.Train
	if f.problem.Examples.TestPart().Len() > 0 {
		if test, err := f.problem.Examples.Test(dataset.SelectOptions{}); err == nil {
			rows = test
		}
	}
	n := f.problem.Within(min(askedRows, rows.Len()), f.problem.Model.Net.BatchBytes)
	x, err := f.problem.Linearize(ctx, rows, 0, n)
	return x, problem.NamesOf(rows, 0, n).ExplainError(err)
}

// threshold finds τ for --within at θ*.
func (f *fit) threshold(ctx context.Context, asked *linearize.Batch) (*kept.Threshold, error) {
	o := &kept.ThresholdOptions{Within: f.flags.within, MaxMemory: f.problem.Limits.Memory, Seed: f.problem.Limits.Seed, Progress: f.con.Show}
	if f.flags.Method == "nystrom" {
		// A pass through inducing examples is not to wait for a factor of many rows.
		o.Examples, o.Most = sampledRows, sampledRows
	}
	t, err := kept.FindThreshold(ctx, f.kernel, f.source, f.sites, asked, o)
	if err != nil {
		return nil, err
	}
	f.con.ClearBar()
	if t.Ratio > 1+f.flags.within {
		f.con.Warn(fmt.Errorf("--within %v: the rows that fit into memory leave variances up to %.3g times those of all rows; raise --max-memory", f.flags.within, t.Ratio))
	}
	f.con.Detail("rows with s > %.3g are kept: %d, which give variances up to %.4g times those of all rows, by the %d strongest", t.Strength, t.Rows, t.Ratio, t.Of)
	return t, nil
}

// keptPosterior fits or refits with the rows above the threshold of --within. near, if not
// nil, is a refit at another precision. set makes the last choices among the options.
func (f *fit) keptPosterior(ctx context.Context, asked *linearize.Batch, products linearize.Products, near *kept.Posterior, set func(o *kept.Options)) (*Posterior, *kept.Threshold, error) {
	t, err := f.threshold(ctx, asked)
	if err != nil {
		return nil, nil, err
	}
	o := &kept.Options{Mean: f.options.mean, Strength: t.Strength, PriorVariance: t.PriorVariance, Products: products, Outputs: f.outputs, Near: near, Start: f.near, MaxMemory: f.problem.Limits.Memory, Progress: f.con.Show}
	var dual *kept.Posterior
	if !f.options.AtTheta {
		set(o)
		dual, err = kept.Refit(ctx, f.source, f.problem.Examples.Y, f.problem.Task.Likelihood, f.prior, f.theta, o)
	} else {
		dual, err = kept.Fit(ctx, f.source, f.sites, f.prior, f.theta, o)
	}
	if err != nil {
		return nil, nil, err
	}
	q := f.posterior(dual)
	if !f.options.AtTheta {
		q.Evidence = dual.EvidenceRefit()
	} else {
		q.Evidence = dual.EvidenceAtTheta(gp.Scatter(f.prior, f.theta))
	}
	return q, t, nil
}

// certify says how much the rows that were left out could change.
func (f *fit) certify(ctx context.Context, q *Posterior, t *kept.Threshold, products linearize.Products) error {
	dual := q.Dual.(*kept.Posterior)
	k, err := certificate.Certify(ctx, dual.Thinned(), f.source, dual.Sites(), f.prior, f.theta, &certificate.Options{
		All: f.flags.certify, Seed: f.problem.Limits.Seed, MaxMemory: f.problem.Limits.Memory, Products: products, Progress: f.con.Show})
	if err != nil {
		return err
	}
	f.con.ClearBar()
	q.certificate = &report.Certificate{Within: report.Float(f.flags.within), Threshold: report.Float(t.Strength), Against: t.Of, Ratio: report.Float(t.Ratio),
		Kept: k.Kept, Dropped: k.Dropped, Trace: report.Float(k.Trace), DroppedTrace: report.Float(k.TraceM), DroppedTraceError: report.Float(k.TraceMError),
		VarianceAtMost: report.Float(k.VarianceAtMost), Failure: report.Float(k.Failure), Sampled: k.Sampled, Rows: k.Rows}
	for i := range k.Norm {
		q.certificate.Norm[i], q.certificate.LogDet[i] = report.Float(k.Norm[i]), report.Float(k.LogDet[i])
	}
	f.con.Detail("%s", q.certificate.Text())
	return nil
}
