package main

import (
	"context"
	"fmt"
	"io"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
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
func (f *fit) compare(ctx context.Context, q *posterior) error {
	p, dual := f.problem, q.dual.(*sparse.Posterior)
	c := p.model.outputs
	q.approximation = &report.Approximation{Select: q.how.selection, Rows: len(q.how.inducing) * c, Rank: dual.Rank()}
	if f.options.noReport || p.examples.testPart().Len() == 0 {
		return nil
	}
	test, err := p.examples.test(dataset.SelectOptions{})
	if err != nil {
		return nil // no test row of these classes
	}
	bytes := p.model.net.BatchBytes
	n := p.within(min(compareTests, test.Len()), bytes)
	sample := p.within(min(p.examples.train.Len(), max(1, compareOutputs/c)), func(n int) int64 { return bytes(n) + gp.Bytes(n, c) })
	x, err := p.linearize(ctx, test, 0, n)
	var r *sparse.Report
	if err == nil {
		r, err = dual.Report(ctx, x, &sparse.ReportOptions{Sample: sample, Seed: p.limits.seed})
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		f.con.warn(fmt.Errorf("there is no error report: %w", namesOf(test, 0, n).explainError(err)))
		return nil
	}
	a := q.approximation
	a.TestRows, a.ResidualMean, a.ResidualMax = n, number(r.ResidualMean), number(r.ResidualMax)
	if s := r.Sample; s != nil {
		a.Sample = &report.SampleError{Examples: s.Examples, ShiftRMS: report.Float(s.ShiftRMS), ShiftMax: report.Float(s.ShiftMax),
			VarianceRatioMin: report.Float(s.RatioMin), VarianceRatioMedian: report.Float(s.RatioMedian), VarianceRatioMax: report.Float(s.RatioMax)}
	}
	return nil
}

// modeRise is the rise of the MAP objective, in nats a training example, up to
// which θ* counts as a mode. The objective of the linearized model rises from θ* by
// at most ‖g‖²/2δ, g its gradient there, as its curvature is at least δ. Measured
// per example, at the precision of training: thesis-cnn 1.0e-4, mnist10-mlp 7.5e-5,
// the toys 1.1e-3 at most, the built-in network 5.0e-4, other networks trained by
// L-BFGS to the end 1.4e-3 at most, LeNet-5 on 55,000 digits .020. Trained without
// decay: 784-64-1 on 1,000 fours and nines .69, .21, .16, .43 at δ = .3, 1, 3, 10,
// 784-64-10 on 2,000 digits 2.8, .74, .27, .52, 2×50 tanh on tables of UCI .041 to
// 1.4 at δ = .3 and .16 to 3.2 at δ ≥ 1. Trained with decay, but by Adam alone: .016
// to .93, and 83 after three passes.
const modeRise = .03

// refitOrNot decides for the verbs that leave it open whether the posterior is
// that of a refit: where θ* is no mode, leave-one-out there misleads (E18). A
// network that records other training rows than the posterior's is left as it is,
// as it knows more than a refit to these rows would.
func (f *fit) refitOrNot() {
	meta, e := f.problem.model.meta, f.problem.examples
	other := meta.rows != "" && meta.data == fingerprint(e.data.Train) && meta.rows != formatRows(e.train.Rows)
	if f.flags.refit {
		return
	}
	n := float64(f.source.Len())
	g := gp.GradientNormOf(f.gradient, f.prior, f.theta)
	rise := g * g / (2 * f.precision) / n
	if rise <= modeRise {
		return
	}
	at := fmt.Sprintf("the trained parameters are no optimum at prior precision %.4g (gradient norm %.3g, up to %.2g nats for each training row)", f.precision, g, rise)
	if other {
		f.noMode = fmt.Sprintf("the network was trained on other rows than these %d, which it does not fit as an optimum would (gradient norm %.3g): leave-one-out misleads; calibrate on held-out rows, or keep the training rows of the network", f.source.Len(), g)
		return
	}
	if !f.flags.choosesRefit || f.flags.refitGiven {
		f.noMode = at + ", where leave-one-out misleads: calibrate on held-out rows, or leave --refit=false out"
		return
	}
	refit := f.flags
	refit.refit = true
	if err := planPosterior(f.con, f.problem, &refit, f.heldOut); err != nil {
		f.noMode = at + ", where leave-one-out misleads, but there is no memory for a refit; raise --max-memory, or give --method nystrom"
		return
	}
	f.flags = refit
	hint := ""
	if meta.precision == 0 && f.flags.tune == "" {
		hint = "; the model records no precision of its own, and --tune-prior loo chooses one"
	}
	f.con.warn(fmt.Errorf("%s: mean and covariance are those of a refit; --refit=false stays at the trained parameters%s", at, hint))
}

const (
	mostLeftOutRefits = 20   // most training rows that are left out by a refit
	leftOutWork       = 1e12 // most (N·C)³ of all these refits together
	leftOutTolerance  = 1e-8 // of a Gaussian likelihood, where the closed form is exact
)

// A leftOutComparison compares leave-one-out in closed form (E17) with refits
// without the row.
type leftOutComparison struct {
	Rows   []int           `json:"rows"`
	Values []leftOutValues `json:"values"`
}

// leftOutValues are those of the entry that differs most. Difference is relative to
// the largest entry, and absolute for the log density. Tolerance is null where the
// closed form is one Newton step and not exact.
type leftOutValues struct {
	Quantity   string       `json:"quantity"`
	Refit      report.Float `json:"refit"`
	FirstOrder report.Float `json:"first_order"`
	Difference report.Float `json:"difference"`
	Tolerance  report.Float `json:"tolerance"`
	OK         bool         `json:"ok"`
}

// leaveOut compares some training rows, spread evenly, at the mode.
func (v *validation) leaveOut(ctx context.Context, refit *gp.Exact) (*leftOutComparison, error) {
	e, lik, c := v.problem.examples, v.problem.task.likelihood, v.problem.model.outputs
	n := e.train.Len()
	size := float64(n * c)
	count := max(1, min(mostLeftOutRefits, n, int(leftOutWork/(size*size*size))))
	at, out := make([]int, count), &leftOutComparison{}
	for i := range at {
		at[i] = i * n / count
		out.Rows = append(out.Rows, e.train.Rows[at[i]])
	}
	batch := refit.Data().(*linearize.Batch)
	closed, refitted := newMoments(rowsAt(e.y, at), c), newMoments(rowsAt(e.y, at), c)
	x, err := batch.Gather(ctx, at)
	if err != nil {
		return nil, err
	}
	if err := refit.LeaveOneOutTo(ctx, closed.mean, closed.cov, at, x); err != nil {
		return nil, err
	}
	// A column of the targets marks the row that is left out.
	y := mat.NewDense(n, e.y.RawMatrix().Cols+1, nil)
	y.Slice(0, n, 0, e.y.RawMatrix().Cols).(*mat.Dense).Copy(e.y)
	for i, row := range at {
		y.Set(row, e.y.RawMatrix().Cols, 1)
		without, err := refit.Refit(ctx, y, leavingOut{lik})
		if err != nil {
			return nil, err
		}
		mean, cov := refitted.tile(i, i+1)
		if err := without.PredictTo(ctx, mean, cov, batch.Slice(row, row+1)); err != nil {
			return nil, err
		}
		y.Set(row, e.y.RawMatrix().Cols, 0)
		v.con.show("leave one out", i+1, count)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tolerance := report.Undefined()
	if hasNoise(lik) {
		tolerance = leftOutTolerance
	}
	densities := func(m *moments) (*mat.Dense, error) {
		logp := make([]float64, count)
		err := glm.DefaultLink(lik, c).LogPredictiveTo(logp, lik, m.y, m.mean, m.cov)
		return mat.NewDense(count, 1, logp), err
	}
	refitLog, err := densities(refitted)
	if err != nil {
		return nil, err
	}
	closedLog, err := densities(closed)
	if err != nil {
		return nil, err
	}
	out.add("mean", refitted.mean, closed.mean, largestEntry(refitted.mean), tolerance)
	out.add("covariance", refitted.cov, closed.cov, largestEntry(refitted.cov), tolerance)
	out.add("log density", refitLog, closedLog, 1, tolerance)
	return out, nil
}

// add compares two matrices, relative to scale.
func (l *leftOutComparison) add(name string, refit, closed *mat.Dense, scale float64, tolerance report.Float) {
	r := leftOutValues{Quantity: name, Tolerance: tolerance}
	worst := -1.0
	for i := range refit.RawMatrix().Rows {
		for j, a := range refit.RawRowView(i) {
			b := closed.At(i, j)
			if d := math.Abs(a - b); d > worst || math.IsNaN(d) {
				worst, r.Refit, r.FirstOrder = d, report.Float(a), report.Float(b)
			}
		}
	}
	if scale > 0 {
		worst /= scale
	}
	r.Difference = report.Float(worst)
	r.OK = !tolerance.Finite() || worst <= float64(tolerance)
	l.Values = append(l.Values, r)
}

// largestEntry returns the largest absolute value.
func largestEntry(m *mat.Dense) float64 {
	return math.Max(mat.Max(m), -mat.Min(m))
}

// ok tells whether all differences are within their tolerance; there are none in a
// nil comparison.
func (l *leftOutComparison) ok() bool {
	if l == nil {
		return true
	}
	for _, r := range l.Values {
		if !r.OK {
			return false
		}
	}
	return true
}

func (l *leftOutComparison) text(w io.Writer) {
	if l == nil {
		fmt.Fprintln(w, "leave-one-out is compared with refits for --method exact alone")
		return
	}
	fmt.Fprintf(w, "leave-one-out, %d rows\trefit without the row\tone step in closed form\tdifference\ttolerance\t\n", len(l.Rows))
	for _, r := range l.Values {
		tolerance, verdict := "-", "not exact"
		if r.Tolerance.Finite() {
			tolerance, verdict = fmt.Sprintf("%.0e", float64(r.Tolerance)), "ok"
		}
		if !r.OK {
			verdict = "DIFFERS"
		}
		fmt.Fprintf(w, "%s\t%.12g\t%.12g\t%.1e\t%s\t%s\n", r.Quantity, float64(r.Refit), float64(r.FirstOrder), float64(r.Difference), tolerance, verdict)
	}
}

// leavingOut is a likelihood whose targets have one more column. A row that is not
// 0 there has no part in it.
type leavingOut struct{ glm.Likelihood }

// Expand implements gp.Likelihood.
func (l leavingOut) Expand(residual, lambda, root, y, f []float64) float64 {
	last := len(y) - 1
	if y[last] == 0 {
		return l.Likelihood.Expand(residual, lambda, root, y[:last], f)
	}
	clear(residual)
	clear(lambda)
	clear(root)
	return 0
}

// CheckY checks all columns but the last.
func (l leavingOut) CheckY(y []float64, c int) error { return l.Likelihood.CheckY(y[:len(y)-1], c) }
