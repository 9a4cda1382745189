package inference

import (
	"context"
	"math"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

const (
	compareTests   = 200  // most test rows in the error report
	compareOutputs = 2000 // most outputs of training rows that the exact posterior is computed of
)

// compare measures the error of a posterior with inducing examples on test
// rows, and on a sample of the training rows against their exact posterior. An
// error at a test row becomes a warning, because the posterior, which may have
// taken hours, does not depend on it.
func (f *fit) compare(ctx context.Context, q *Posterior) error {
	p, dual := f.problem, q.Dual.(*sparse.Posterior)
	c := p.Model.Outputs
	q.approximation = &result.Approximation{Select: q.How.selection, Rows: q.How.inducingOutputs(c), Rank: dual.Rank()}
	if f.options.NoReport || p.Examples.TestPart().Len() == 0 {
		return nil
	}
	test, err := p.Examples.Test(dataset.SelectOptions{})
	if err != nil {
		return nil // no test row of these classes
	}
	bytes := p.Model.Net.BatchBytes
	n := p.Within(min(compareTests, test.Len()), bytes)
	sample := p.Within(min(p.Examples.Train.Len(), max(1, compareOutputs/c)), func(n int) int64 { return bytes(n) + gp.Bytes(n, c) })
	x, err := p.Linearize(ctx, test, 0, n)
	var r *sparse.Report
	if err == nil {
		r, err = dual.Report(ctx, x, &sparse.ReportOptions{Sample: sample, Seed: p.Limits.Seed})
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		f.con.Warn(linearize.NewWarning("skipped", math.NaN(), math.NaN(), "", "There is no error report, as of this: %v. Answers are the same.", problem.NamesOf(test, 0, n).ExplainError(err)))
		return nil
	}
	a := q.approximation
	a.TestRows, a.ResidualMean, a.ResidualMax = n, problem.Number(r.ResidualMean), problem.Number(r.ResidualMax)
	if s := r.Sample; s != nil {
		a.Sample = &result.SampleError{Examples: s.Examples, ShiftRMS: result.Float(s.ShiftRMS), ShiftMax: result.Float(s.ShiftMax),
			VarianceRatioMin: result.Float(s.RatioMin), VarianceRatioMedian: result.Float(s.RatioMedian), VarianceRatioMax: result.Float(s.RatioMax)}
	}
	return nil
}
