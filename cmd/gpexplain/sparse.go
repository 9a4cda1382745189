package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// fitSparse conditions on the training rows through inducing examples, or on
// those alone.
func (p *posterior) fitSparse(ctx context.Context) error {
	sites, err := p.sitesAtTheta(ctx)
	if err != nil {
		return err
	}
	if p.chosen, err = p.selectInducing(ctx, sites); err != nil {
		return err
	}
	z, err := p.inducingAt(ctx, p.chosen)
	if err != nil {
		return err
	}
	p.detail("%d inducing examples with %d outputs, chosen by --select %s", z.Len(), z.Len()*z.Batch.Outputs(), p.selection)
	var q *sparse.Posterior
	if p.method == "subset" {
		q, err = p.fitSubset(ctx, z, sites)
	} else {
		q, err = p.fitNystrom(ctx, z, sites)
	}
	if err != nil {
		return err
	}
	p.progress.clear()
	if err := p.lap(ctx, "kernel"); err != nil {
		return err
	}
	p.conditioned = q
	p.judge(q)
	return p.compare(ctx, q)
}

// selectInducing chooses the inducing examples.
func (p *posterior) selectInducing(ctx context.Context, sites *gp.Sites) ([]int, error) {
	var how sparse.Selector
	switch p.selection {
	case "uniform":
		how = sparse.Uniform{Seed: p.seed}
	case "stratified":
		how = sparse.Stratified{Labels: p.train.Class, Seed: p.seed}
	case "trace":
		how = sparse.Trace{Sites: sites}
	case "greedy":
		how = sparse.Greedy{}
	case "rpcholesky":
		how = sparse.RandomCholesky{Seed: p.seed}
	case "kmeans":
		how = sparse.KMeans{Seed: p.seed}
	}
	return how.Choose(ctx, p.kernel, p.source, p.inducing, p.sparseOptions())
}

// inducingAt linearizes the inducing examples by themselves, so that they are
// bit for bit the same where a saved posterior is loaded.
func (p *posterior) inducingAt(ctx context.Context, positions []int) (*sparse.Inducing, error) {
	b, err := p.net.Linearize(ctx, p.inputsOf(p.train, positions))
	if err != nil {
		return nil, err
	}
	return &sparse.Inducing{Rows: positions, Batch: b}, nil
}

func (p *posterior) sparseOptions() *sparse.Options {
	return &sparse.Options{Mean: p.mean, MaxMemory: p.bytes, Progress: p.progress.show}
}

// fitSubset conditions on the inducing examples alone.
func (p *posterior) fitSubset(ctx context.Context, z *sparse.Inducing, sites *gp.Sites) (*sparse.Posterior, error) {
	o := p.sparseOptions()
	if p.refit {
		return sparse.RefitSubset(ctx, p.kernel, p.source, rowsAt(p.y, z.Rows), p.lik, z, o)
	}
	own, err := gp.NewSites(rowsAt(p.y, z.Rows), rowsAt(sites.F, z.Rows), p.lik)
	if err != nil {
		return nil, err
	}
	q, err := sparse.FitSubset(ctx, p.kernel, p.source, own, z, o)
	if err != nil || !p.tune {
		return q, err
	}
	tuned, err := p.tunePrior(ctx, q.Projected)
	if err != nil || tuned.Factor == 1 {
		return q, err
	}
	prior, err := p.tuned(tuned.Factor)
	if err != nil {
		return nil, err
	}
	p.base = p.precision
	p.prior, p.kernel = prior, ntk.New(prior, p.theta, nil)
	return sparse.FitSubset(ctx, p.kernel, p.source, own, z, o)
}

func rowsAt(m *mat.Dense, rows []int) *mat.Dense {
	_, c := m.Dims()
	out := mat.NewDense(len(rows), c, nil)
	for i, r := range rows {
		out.SetRow(i, m.RawRowView(r))
	}
	return out
}

// fitNystrom conditions on all training rows through the inducing examples.
func (p *posterior) fitNystrom(ctx context.Context, z *sparse.Inducing, sites *gp.Sites) (*sparse.Posterior, error) {
	o := p.sparseOptions()
	p.useCheckpoint(o)
	q, err := p.passNystrom(ctx, z, sites, o)
	if e := (*sparse.ResumeError)(nil); errors.As(err, &e) {
		return nil, placedf("--checkpoint %s: it is of another fit, which differs in %s; name another file, or remove it to start anew", p.way.checkpoint, strings.TrimPrefix(e.What, "their "))
	}
	return q, err
}

func (p *posterior) passNystrom(ctx context.Context, z *sparse.Inducing, sites *gp.Sites, o *sparse.Options) (*sparse.Posterior, error) {
	if p.refit {
		return sparse.Refit(ctx, p.kernel, p.source, p.y, p.lik, z, o)
	}
	q, err := sparse.Fit(ctx, p.kernel, p.source, sites, z, o)
	if err != nil || !p.tune {
		return q, err
	}
	tuned, err := p.tunePrior(ctx, q.Projected)
	if err != nil {
		return nil, err
	}
	if _, err := p.tuned(tuned.Factor); err != nil {
		return nil, err
	}
	p.factor = tuned.Factor
	return tuned.Posterior.WithData(ctx, p.source, sites)
}

// tuned puts the factor on the prior variances, and returns the prior.
func (p *posterior) tuned(factor float64) (ntk.Prior, error) {
	p.precision = p.delta / factor
	prior, err := ntk.NewIsotropic(p.precision, nil)
	if err != nil {
		return nil, err
	}
	p.grad = gp.GradientNormOf(p.jr, prior, p.theta)
	return prior, nil
}

// judge notes the evidence and what the inducing examples leave out.
func (p *posterior) judge(q *sparse.Posterior) {
	var e gp.Evidence
	if p.refit {
		e = q.EvidenceRefit()
	} else {
		// Scatter is proportional to the precision.
		e = q.EvidenceAtTheta(gp.Scatter(p.prior, p.theta) / p.factor)
	}
	p.evidence, p.bound, p.traceError = e, e.Bound, q.TraceError()
}

const (
	compareTests = 200  // test rows that the error report is of
	compareRows  = 2000 // outputs of the training rows that are solved for exactly
)

// compare measures the error on test rows, and on a sample of the training
// rows against their exact posterior. What goes wrong with a test row is a
// warning: the posterior, which may have taken hours, does not depend on it.
func (p *posterior) compare(ctx context.Context, q *sparse.Posterior) error {
	_, c, _ := p.net.Dims()
	p.approximate = &report.Approximation{Select: p.selection, Rows: p.inducing * c, Rank: q.Rank()}
	if p.brief || p.testPart().Len() == 0 {
		return nil
	}
	test, err := p.selectTest(dataset.SelectOptions{})
	if err != nil {
		return nil // no test row of these classes
	}
	n := p.fewer(min(compareTests, test.Len()), p.net.BatchBytes)
	sample := p.fewer(min(p.train.Len(), max(1, compareRows/c)), func(n int) int64 { return p.net.BatchBytes(n) + gp.Bytes(n, c) })
	x, err := p.net.Linearize(ctx, p.inputsAt(test, 0, n))
	var r *sparse.Report
	if err == nil {
		r, err = q.Report(ctx, x, &sparse.ReportOptions{Sample: sample, Seed: p.seed})
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		p.warn(fmt.Errorf("there is no error report: %w", rowsOf(test, 0, n).fault(err)))
		return nil
	}
	a := p.approximate
	a.TestRows, a.ResidualMean, a.ResidualMax = n, number(r.ResidualMean), number(r.ResidualMax)
	if s := r.Sample; s != nil {
		a.Sample = &report.SampleError{Examples: s.Examples, ShiftRMS: report.Float(s.ShiftRMS), ShiftMax: report.Float(s.ShiftMax),
			VarianceRatioMin: report.Float(s.RatioMin), VarianceRatioMedian: report.Float(s.RatioMedian), VarianceRatioMax: report.Float(s.RatioMax)}
	}
	return nil
}

// fewer is how many of n examples the error report takes, so that what they
// need stays within a quarter of the memory allowed.
func (p *posterior) fewer(n int, need func(n int) int64) int {
	quarter := gp.MemoryBudget(p.bytes) / 4
	return max(1, sort.Search(n, func(i int) bool { return need(i+1) > quarter }))
}

// heldOut is the most rows that --tune-prior uses.
const heldOut = 5000

// tunePrior chooses the prior variances on rows that the network was not
// trained on: validation rows, or the last of the training rows that are left.
func (p *posterior) tunePrior(ctx context.Context, q *sparse.Projected) (*sparse.Tuned, error) {
	sub := p.held
	_, c, _ := p.net.Dims()
	y, err := p.targets(sub, c)
	if err != nil {
		return nil, err
	}
	p.detail("prior precision chosen on %d rows: %s", sub.Len(), rowsOf(sub, 0, sub.Len()).all)
	prepared, err := q.Prepare(ctx, p.sourceOf(sub))
	if err != nil {
		return nil, &placedError{rowsOf(sub, 0, sub.Len()).fault(err)}
	}
	link := glm.DefaultLink(p.lik, c)
	logp := make([]float64, sub.Len())
	tuned, err := q.Tune(ctx, prepared, func(mean, cov *mat.Dense) (float64, error) {
		err := link.LogPredictiveTo(logp, p.lik, y, mean, cov)
		return glm.NLL(logp), err
	})
	if err != nil {
		return nil, err
	}
	for _, t := range tuned.Trials {
		p.trials = append(p.trials, fitTrial{report.Float(p.delta / t.Factor), report.Float(t.Score)})
	}
	if math.Abs(math.Log10(tuned.Factor)) > 5.9 {
		p.warn(fmt.Errorf("--tune-prior: the held-out rows are predicted best at the end of the range of precisions searched, %.3g", p.delta/tuned.Factor))
	}
	return tuned, nil
}

// heldOut are the rows that choose the prior precision: neither those of the
// posterior nor those that the model records.
func (s *session) heldOut() (*dataset.Subset, error) {
	part, o := s.opened.Train, &dataset.SelectOptions{Classes: s.classed}
	used := slices.Clone(s.train.Rows)
	if s.opened.Valid.Len() > 0 {
		part, used = s.opened.Valid, nil
	} else if s.meta.rows != "" && s.meta.data == fingerprint(part) {
		recorded, _ := parseRows(s.meta.rows, part.Len())
		used = append(used, recorded...)
	}
	all, err := part.Select(o)
	if err != nil {
		return nil, err
	}
	slices.Sort(used)
	for _, r := range all.Rows {
		if _, ok := slices.BinarySearch(used, r); !ok {
			o.Rows = append(o.Rows, r)
		}
	}
	if len(o.Rows) == 0 {
		return nil, placedf("--tune-prior: all %d training rows of %s were trained on, none is left to choose the precision on; train and fit with --train-count %d", all.Len(), s.opened.Source, max(1, all.Len()*9/10))
	}
	o.Rows, o.From = o.Rows[max(0, len(o.Rows)-heldOut):], "--tune-prior"
	return part.Select(o)
}
