package inference

import (
	"context"
	"fmt"
	"math"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
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
	q.approximation = &report.Approximation{Select: q.How.selection, Rows: q.How.inducingOutputs(c), Rank: dual.Rank()}
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
		f.con.Warn(fmt.Errorf("there is no error report: %w", problem.NamesOf(test, 0, n).ExplainError(err)))
		return nil
	}
	a := q.approximation
	a.TestRows, a.ResidualMean, a.ResidualMax = n, problem.Number(r.ResidualMean), problem.Number(r.ResidualMax)
	if s := r.Sample; s != nil {
		a.Sample = &report.SampleError{Examples: s.Examples, ShiftRMS: report.Float(s.ShiftRMS), ShiftMax: report.Float(s.ShiftMax),
			VarianceRatioMin: report.Float(s.RatioMin), VarianceRatioMedian: report.Float(s.RatioMedian), VarianceRatioMax: report.Float(s.RatioMax)}
	}
	return nil
}

// refitOrNot decides for the verbs that leave it open whether the posterior is
// that of a refit: where θ* is no mode, leave-one-out there misleads (E18). A
// network that records other training rows than the posterior's is left as it is,
// as it knows more than a refit to these rows would.
func (f *fit) refitOrNot() {
	meta, e := f.problem.Model.Meta, f.problem.Examples
	other := meta.Rows != "" && meta.Data == problem.Fingerprint(e.Data.Train) && meta.Rows != problem.FormatRows(e.Train.Rows)
	if f.flags.Refit {
		return
	}
	n := float64(f.source.Len())
	gradient := problem.MAPGradient(f.prior, f.gradient, f.theta)
	g, rise := gradient.Norm, gradient.Rise/n
	if rise <= problem.ModeRise {
		return
	}
	at := fmt.Sprintf("the trained parameters are no optimum at %s (gradient norm %.3g, up to %.2g nats for each training row)", problem.PriorText(f.problem.Task.Prior, f.precision), g, rise)
	if math.IsInf(rise, 1) {
		at = fmt.Sprintf("%s holds parameters at 0, where the trained ones are not", problem.PriorText(f.problem.Task.Prior, f.precision))
	}
	if other {
		f.noMode = fmt.Sprintf("the network was trained on other rows than these %d, which it does not fit as an optimum would (gradient norm %.3g): leave-one-out misleads; calibrate on held-out rows, or keep the training rows of the network", f.source.Len(), g)
		return
	}
	if !f.flags.choosesRefit || f.flags.refitGiven {
		f.noMode = at + ", where leave-one-out misleads: calibrate on held-out rows, or leave --refit=false out"
		return
	}
	refit := f.flags
	refit.Refit = true
	if err := planPosterior(f.con, f.problem, &refit, f.heldOut); err != nil {
		f.noMode = at + ", where leave-one-out misleads, but there is no memory for a refit; raise --max-memory, or give --method nystrom"
		return
	}
	f.flags = refit
	if len(f.preflight.Warnings) > 0 {
		f.con.WarnText("mean and covariance are those of a refit, since the trained parameters are no optimum; --refit=false stays there")
		return
	}
	hint := ""
	if meta.Precision == 0 && f.flags.tune == "" {
		hint = "; the model records no precision of its own, and --tune-prior loo chooses one"
	}
	f.con.Warn(fmt.Errorf("%s: mean and covariance are those of a refit; --refit=false stays at the trained parameters%s", at, hint))
}
