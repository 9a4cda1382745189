package funcgp

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// sparse conditions on the training rows through inducing examples, or on the inducing examples alone.
func (f *fit) sparse(ctx context.Context) (*solution, error) {
	if err := f.prepare(ctx, f.problem.KeepsJacobian(), f.settleMode); err != nil {
		return nil, err
	}
	z, err := f.inducing(ctx)
	if err != nil {
		return nil, err
	}
	var q *solution
	if f.asked.Method.Name == "subset" {
		q, err = f.subset(ctx, z)
	} else {
		q, err = f.nystrom(ctx, z)
	}
	if err != nil {
		return nil, err
	}
	f.con.Clear()
	if err := f.con.EndPart(ctx, "kernel"); err != nil {
		return nil, err
	}
	return q, f.compare(ctx, q)
}

// inducing chooses inducing examples or rows.
func (f *fit) inducing(ctx context.Context) (*sparse.Inducing, error) {
	if f.asked.Method.takesRows() {
		// Choose the rows (example, direction of Λ) that say most at θ* (E16).
		rows, err := gp.Keep(ctx, f.kernel, f.source, f.sites, &gp.KeepOptions{Most: f.asked.Method.Inducing, Progress: f.con.Show})
		if err != nil {
			return nil, err
		}
		if rows.Len() == 0 {
			return nil, job.FullErrorf("{select=%s}: Λ of every training row is 0, so that none says anything; give {select=stratified}", f.asked.Method.Select)
		}
		if rows.Len() < f.asked.Method.Inducing {
			f.con.Note("{select=%s}: only %d rows say anything, and all are taken", f.asked.Method.Select, rows.Len())
		}
		chosen, err := sparse.SelectKept(ctx, nil, f.kernel, f.source, rows, rows.Len(), f.sparseOptions())
		if err != nil {
			return nil, err
		}
		f.con.Detail("%d inducing rows of %d examples, with %.4g %% of tr Λ, chosen by {select=%s}", rows.Len(), len(slices.Compact(slices.Sorted(slices.Values(chosen.Rows)))), 100*rows.Trace/rows.Total, f.asked.Method.Select)
		// A posterior that is loaded linearizes them in this way.
		return f.problem.InducingRows(ctx, chosen.Rows, chosen.Directions)
	}
	// Choose inducing examples as Method.Select says.
	seed := f.problem.Seed
	chosen, err := map[string]sparse.Selector{
		"uniform":    sparse.Uniform{Seed: seed},
		"stratified": sparse.Stratified{Labels: f.problem.Examples.Train.Class, Seed: seed},
		"trace":      sparse.Trace{Sites: f.sites},
		"greedy":     sparse.Greedy{},
		"rpcholesky": sparse.RandomCholesky{Seed: seed},
		"kmeans":     sparse.KMeans{Seed: seed},
	}[f.asked.Method.Select].Choose(ctx, f.kernel, f.source, f.asked.Method.Inducing, f.sparseOptions())
	if err != nil {
		return nil, err
	}
	z, err := f.problem.Inducing(ctx, chosen)
	if err != nil {
		return nil, err
	}
	f.con.Detail("%d inducing examples with %d outputs, chosen by {select=%s}", z.Len(), z.Len()*z.Batch.Outputs(), f.asked.Method.Select)
	return z, nil
}

func (f *fit) sparseOptions() *sparse.Options {
	return &sparse.Options{Mean: f.mean(), Limits: f.problem.Bounds(f.con)}
}

// sparsePosterior returns the solution for a posterior with inducing examples. It records the evidence and how
// much of the prior variance the inducing examples leave out.
func (f *fit) sparsePosterior(dual *sparse.Posterior, z *sparse.Inducing) *solution {
	q := f.posterior(dual)
	q.induced, q.How.inducing = dual, z.Rows
	if !f.atTheta && !dual.Refitted() {
		q.Evidence = dual.Projected.EvidenceLinearGaussian()
	}
	q.traceError = dual.TraceError()
	return q
}

// subset conditions on the inducing examples alone.
func (f *fit) subset(ctx context.Context, z *sparse.Inducing) (*solution, error) {
	do := func(ctx context.Context, g *fit) (*solution, error) {
		o, y := g.sparseOptions(), g.problem.TrainTargets().Rows(z.Rows)
		var dual *sparse.Posterior
		var err error
		if !g.atTheta {
			dual, err = sparse.RefitSubset(ctx, g.kernel, g.source, y, z, o)
		} else if sites, e := gp.NewSites(y, rowsAt(g.sites.F, z.Rows)); e != nil {
			err = e
		} else {
			dual, err = sparse.FitSubset(ctx, g.kernel, g.source, sites, z, o)
		}
		if err != nil {
			return nil, err
		}
		return g.sparsePosterior(dual, z), nil
	}
	if err := f.tuneBy(ctx, do); err != nil {
		return nil, err
	}
	return do(ctx, f)
}

// nystrom conditions on all training rows through the inducing examples. It goes on from a checkpoint where there is
// one.
func (f *fit) nystrom(ctx context.Context, z *sparse.Inducing) (*solution, error) {
	o := f.sparseOptions()
	f.useCheckpoint(o)
	if err := f.tuneNystrom(ctx, z, o); err != nil {
		return nil, err
	}
	dual, err := f.fitNystrom(ctx, z, o)
	if e := (*store.Error)(nil); errors.As(err, &e) && f.resume != nil {
		return nil, badCheckpoint(f.asked.Checkpoint, err)
	}
	if err != nil {
		return nil, err
	}
	return f.sparsePosterior(dual, z), nil
}

// fitNystrom passes over all rows, or over those that Method.Within keeps.
func (f *fit) fitNystrom(ctx context.Context, z *sparse.Inducing, o *sparse.Options) (*sparse.Posterior, error) {
	if f.asked.Method.Within == 0 {
		return sparse.Fit(ctx, f.kernel, f.source, f.sites, z, o)
	}
	asked, err := f.askedRows(ctx)
	if err != nil {
		return nil, err
	}
	t, err := f.threshold(ctx, asked, f.sites, nil)
	if err != nil {
		return nil, err
	}
	keep := t.KeepOptions()
	keep.Progress = f.con.Show
	rows, err := gp.Keep(ctx, f.kernel, f.source, f.sites, keep)
	if err != nil {
		return nil, err
	}
	if t.Needed > t.Available {
		f.warnShort(rows.Len(), t)
	}
	f.con.Detail("%d rows are kept, with %.4g %% of tr Λ", rows.Len(), 100*rows.Trace/rows.Total)
	return sparse.FitKept(ctx, f.kernel, f.source, f.sites, rows, z, o)
}

// tuneNystrom chooses the prior precision where Prior.Tune asks for it, and goes to the mode there.
func (f *fit) tuneNystrom(ctx context.Context, z *sparse.Inducing, o *sparse.Options) error {
	if f.asked.Prior.Tune == "" {
		return nil
	}
	if f.asked.tunesByRefits() {
		// Make the candidates of a refit through inducing examples, from the features of all training rows, which it
		// computes in one pass.
		p, start := f.problem, f.precision
		b, err := sparse.NewBuilder(ctx, f.kernel, z, f.sparseOptions())
		if err != nil {
			return err
		}
		prior, err := b.Posterior(ctx)
		if err != nil {
			return err
		}
		train, err := prior.Prepare(ctx, f.source)
		if err != nil {
			return err
		}
		var heldOut *sparse.Prepared
		if f.heldOut != nil {
			if heldOut, err = f.prepareHeldOut(ctx, prior); err != nil {
				return err
			}
		}
		rows := (&solution{How: methodUsed{Name: "nystrom"}}).leftOut(p)
		var last *sparse.Mode
		try := func(ctx context.Context, precision float64) (*tuneCandidate, error) {
			m, err := prior.Mode(ctx, train, start/precision, p.TrainTargets(), last)
			if err != nil {
				return nil, err
			}
			last = m
			return &tuneCandidate{
				evidence: m.Evidence(),
				f:        m.F(),
				leaveOneOut: func(ctx context.Context) (*moments, error) {
					to := trainMoments(p, rows)
					return to, m.LeaveOneOutTo(ctx, to.mean, to.cov, rows)
				},
				heldOut: func(ctx context.Context) (*moments, error) {
					y, err := p.Targets(f.heldOut)
					if err != nil {
						return nil, &job.FullError{Err: err}
					}
					to := newScored(p, f.heldOut, y)
					to.weights = f.heldOut.Weights
					return to, m.PredictPreparedTo(ctx, to.mean, to.cov, heldOut)
				},
			}, nil
		}
		if err := f.tune(ctx, try); err != nil {
			return err
		}
		return f.settleMode(ctx)
	}
	dual, err := f.fitNystrom(ctx, z, o)
	if err != nil {
		return err
	}
	// Choose the factor on the prior variances with the least negative log likelihood of the held-out rows, at θ*.
	rows, lik := f.heldOut, f.problem.Task.Likelihood
	y, err := f.problem.Targets(rows)
	if err != nil {
		return err
	}
	prepared, err := f.prepareHeldOut(ctx, dual.Projected)
	if err != nil {
		return err
	}
	link := predictive.DefaultLink(lik, f.problem.Model.Outputs)
	logp := make([]float64, rows.Len())
	tuned, err := dual.Tune(ctx, prepared, func(mean, cov *mat.Dense) (float64, error) {
		m := (&moments{mean: mean}).shifted(f.problem.WeightShift())
		err := link.LogPredictiveTo(logp, lik, y, m.mean, cov)
		return score.NLL(logp), err
	})
	if err != nil {
		return err
	}
	t := &result.Tuning{Method: f.asked.Prior.Tune, Start: result.Float(f.precision), Edge: math.Abs(math.Log10(tuned.Factor)) > 5.9}
	for _, one := range tuned.Trials {
		t.Trials = append(t.Trials, f.trial(f.precision/one.Factor, one.Score))
	}
	if err := f.choose(t, f.precision/tuned.Factor); err != nil {
		return err
	}
	return f.settleMode(ctx)
}

const (
	compareTests   = 200  // most test rows in the error report
	compareOutputs = 2000 // most outputs of training rows that the exact posterior is computed of
)

// compare measures the error of a posterior with inducing examples on test rows, and on a sample of the training rows
// against their exact posterior. An error at a test row becomes a warning, because the posterior, which may have taken
// hours, does not depend on it.
func (f *fit) compare(ctx context.Context, q *solution) error {
	p, dual := f.problem, q.induced
	c := p.Model.Outputs
	q.approximation = &result.Approximation{Select: q.How.selection, Rows: q.How.inducingOutputs(c), Rank: dual.Rank()}
	if f.quiet || p.Examples.TestPart().Len() == 0 {
		return nil
	}
	test, err := p.Examples.Test(0, nil, "")
	if err != nil {
		return nil // no test row of these classes
	}
	bytes := p.Model.Net.BatchBytes
	n := p.Within(min(compareTests, test.Len()), bytes)
	sample := p.Within(min(p.Examples.Train.Len(), max(1, compareOutputs/c)), func(n int) int64 { return bytes(n) + gp.Bytes(n, c) })
	x, err := p.Linearize(ctx, test, 0, n)
	var r *sparse.Report
	if err == nil {
		r, err = dual.Report(ctx, x, sample, p.Seed)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		f.con.Warn(linearize.NewWarning("skipped", math.NaN(), math.NaN(), "", "There is no error report, as of this: %v. Answers are the same.", explainError(test.Slice(0, n), err)))
		return nil
	}
	a := q.approximation
	a.TestRows, a.ResidualMean, a.ResidualMax = n, numberPointer(r.ResidualMean), numberPointer(r.ResidualMax)
	if s := r.Sample; s != nil {
		a.Sample = &result.SampleError{Examples: s.Examples, ShiftRMS: result.Float(s.ShiftRMS), ShiftMax: result.Float(s.ShiftMax),
			VarianceRatioMin: result.Float(s.RatioMin), VarianceRatioMedian: result.Float(s.RatioMedian), VarianceRatioMax: result.Float(s.RatioMax)}
	}
	return nil
}
