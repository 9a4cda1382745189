package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

type validateVerb struct {
	common    commonFlags
	posterior posteriorFlags
	tolerance float64
}

func validateCommand(con *console) *cobra.Command {
	s := &validateVerb{}
	v := &verb{
		name:  "validate",
		short: "Compare weight space with function space",
		long: `Validate computes the same posterior twice, over the parameters (P×P) and over
the training outputs (N·C×N·C), at the trained parameters and after a refit,
and prints the largest differences on the test rows. It also checks that the
contributions of the training examples add up to the prediction, and compares
leave-one-out in closed form with real refits without the row, on up to 20
rows: for a gaussian likelihood both agree, otherwise the table shows how far one
Newton step is off. The exit status is 1 where a difference is above its
tolerance.`,
		example: `  gpexplain validate --train-count 400
  gpexplain validate --method nystrom --inducing 100`,
		flags: s.add, check: s.check, run: s.run,
		complete: methodValues(nil),
	}
	return v.command(con, &s.common)
}

func (s *validateVerb) add(c *cobra.Command) {
	s.posterior.add(c)
	c.Flags().Float64Var(&s.tolerance, "tolerance", weightspace.DefaultTolerance, "largest difference `X` allowed, relative to the largest entry")
}

func (s *validateVerb) check(c *cobra.Command) error {
	if !(s.tolerance > 0 && s.tolerance < 1) {
		return usagef("--tolerance %v must be between 0 and 1", s.tolerance)
	}
	return s.posterior.check(c)
}

// closureTolerance is the largest difference allowed between a prediction and
// the sum of its contributions (E12, E14), relative to the largest prediction.
const closureTolerance = 1e-9

// cgTolerance is what conjugate gradients may differ by, relative to the
// largest entry.
const cgTolerance = 1e-6

func (s *validateVerb) run(ctx context.Context, c *console) error {
	p, err := openProblem(ctx, c, &s.common, "")
	if err != nil {
		return err
	}
	test, err := p.examples.test(dataset.SelectOptions{})
	if err != nil {
		return err
	}
	if s.posterior.method == "cg" && !p.keepsJacobian() {
		return fmt.Errorf("--method cg is compared with weight space, which takes the Jacobian of all %d training rows, more than a quarter of the memory allowed or 1 GiB; give --train-count with fewer", p.examples.train.Len())
	}
	if !isSparse(s.posterior.method) {
		if err := planTests(p, test.Len()); err != nil {
			return err
		}
	}
	q, err := fitPosterior(ctx, c, p, &s.posterior, fitOptions{mean: gp.LinearGaussian})
	if err != nil {
		return err
	}
	v := &validation{con: c, problem: p, posterior: q, test: test, tolerance: s.tolerance}
	differs := "weight space and function space differ by more than the tolerance in the rows marked above"
	if dual, ok := q.dual.(*gp.Exact); ok {
		err = v.exact(ctx, dual)
	} else {
		differs = "the posterior differs by more than the tolerance in the rows marked above"
		err = v.approximate(ctx)
	}
	if err != nil {
		return err
	}
	c.bar.clear()
	if err := v.print(); err != nil {
		return err
	}
	switch {
	case !v.table.OK():
		return errors.New(differs)
	case !v.leftOut.ok():
		return errors.New("leave-one-out in closed form differs from the refits by more than rounding, although the likelihood is gaussian")
	}
	return nil
}

// A validation compares a posterior with that of weight space and with its own
// sums, and gathers the table.
type validation struct {
	con       *console
	problem   *problem
	posterior *posterior
	test      *dataset.Subset
	tolerance float64
	table     weightspace.Comparison
	leftOut   *leftOutComparison // nil where the method is not exact
}

// exact compares weight space and function space at θ* and at the mode of the
// linearized model, and checks that the contributions add up there.
func (v *validation) exact(ctx context.Context, dual *gp.Exact) error {
	x, err := v.tile(ctx, 0, v.test.Len())
	if err != nil {
		return err
	}
	w, err := v.weights(ctx)
	if err != nil {
		return err
	}
	if err := v.compare(ctx, dual, w, x); err != nil {
		return err
	}
	e, lik := v.problem.examples, v.problem.task.likelihood
	refit, err := dual.Refit(ctx, e.y, lik)
	if err != nil {
		return err
	}
	if w, err = w.Refit(ctx, e.y, lik); err != nil {
		return err
	}
	if err := v.compare(ctx, refit, w, x); err != nil {
		return err
	}
	if err := v.closure(ctx, refit, "refit ", closureTolerance, func(lo, hi int) (*linearize.Batch, error) { return x.Slice(lo, hi), nil }); err != nil {
		return err
	}
	if v.leftOut, err = v.leaveOut(ctx, refit); err != nil {
		return err
	}
	v.con.warn(refit.Warnings()...)
	for _, err := range w.Warnings() {
		v.con.warn(fmt.Errorf("weight space: %w", err))
	}
	return nil
}

// weights fits the posterior over the parameters to the same training examples.
func (v *validation) weights(ctx context.Context) (*weightspace.Posterior, error) {
	q, net := v.posterior, v.problem.model.net
	prior, err := ntk.NewIsotropic(q.precision, nil)
	if err != nil {
		return nil, err
	}
	// The training examples are in memory: see keepsJacobian for conjugate
	// gradients.
	train := q.dual.Data().(*linearize.Batch)
	return weightspace.Fit(ctx, train, q.dual.Sites(), prior, net.Theta(), &weightspace.Options{Mean: q.how.mean, MaxMemory: v.problem.limits.memory, Progress: v.con.show})
}

// compare adds the differences between the two spaces to the table.
func (v *validation) compare(ctx context.Context, dual *gp.Exact, w *weightspace.Posterior, x *linearize.Batch) error {
	table, err := weightspace.Validate(ctx, dual, w, x, v.tolerance)
	if err != nil {
		return err
	}
	v.table.Rows = append(v.table.Rows, table.Rows...)
	return nil
}

// approximate checks that the contributions add up, and compares conjugate
// gradients with weight space.
func (v *validation) approximate(ctx context.Context) error {
	tile := func(lo, hi int) (*linearize.Batch, error) { return v.tile(ctx, lo, hi) }
	if err := v.closure(ctx, v.posterior.dual, "", v.tolerance, tile); err != nil {
		return err
	}
	if v.posterior.how.name != "cg" {
		return nil
	}
	x, err := v.tile(ctx, 0, v.test.Len())
	if err != nil {
		return err
	}
	rows, err := v.againstWeights(ctx, x)
	v.table.Rows = append(rows, v.table.Rows...)
	return err
}

// tile linearizes the test examples [lo, hi).
func (v *validation) tile(ctx context.Context, lo, hi int) (*linearize.Batch, error) {
	x, err := v.problem.linearize(ctx, v.test, lo, hi)
	return x, namesOf(v.test, lo, hi).explainError(err)
}

// againstWeights compares mean, covariance and log determinant with those of
// weight space.
func (v *validation) againstWeights(ctx context.Context, x *linearize.Batch) ([]weightspace.ComparisonRow, error) {
	w, err := v.weights(ctx)
	if err != nil {
		return nil, err
	}
	var mean, cov, wMean, wCov mat.Dense
	if err := v.posterior.dual.PredictTo(ctx, &mean, &cov, x); err != nil {
		return nil, err
	}
	if err := w.PredictTo(ctx, &wMean, &wCov, x); err != nil {
		return nil, err
	}
	logDet := weightspace.ComparisonRow{Quantity: "log det (stochastic)", WeightSpace: w.EvidenceLinearGaussian().LogDet, FunctionSpace: v.posterior.evidence.LogDet}
	size := math.Max(1, math.Abs(logDet.WeightSpace))
	// Twice the standard error of the evidence is that of log det.
	logDet.Difference, logDet.Tolerance = math.Abs(logDet.WeightSpace-logDet.FunctionSpace)/size, 5*2*v.posterior.evidence.StdErr/size+cgTolerance
	logDet.OK = logDet.Difference <= logDet.Tolerance
	return []weightspace.ComparisonRow{differenceRow("mean", &wMean, &mean), differenceRow("covariance", &wCov, &cov), logDet}, nil
}

// closure compares the means of a posterior at the test examples with the sums
// of the prior mean and the contributions, for the posterior kernel C and for
// the prior kernel κ. The names of the rows begin with prefix; tile linearizes
// the test examples [lo, hi).
func (v *validation) closure(ctx context.Context, dual gp.Dual, prefix string, tolerance float64, tile func(lo, hi int) (*linearize.Batch, error)) error {
	ex, err := explain.New(dual, v.posterior.kernel, &explain.Options{Top: 1})
	if err != nil {
		return err
	}
	posterior := weightspace.ComparisonRow{Quantity: prefix + "mean against m + Σ C(x,x_i) b_i", Tolerance: tolerance}
	raw := weightspace.ComparisonRow{Quantity: prefix + "mean against m + Σ κ(x,x_i) α_i", Tolerance: tolerance}
	scale, n := 0.0, v.test.Len()
	step := v.problem.within(min(n, predictRows), func(t int) int64 { return v.posterior.explainBytes(v.problem, t) })
	for lo := 0; lo < n; lo += step {
		part, err := tile(lo, min(lo+step, n))
		if err != nil {
			return err
		}
		mean := mat.NewDense(part.Len(), part.Outputs(), nil)
		if err := dual.PredictTo(ctx, mean, nil, part); err != nil {
			return err
		}
		rows, err := ex.Explain(ctx, part)
		if err != nil {
			return err
		}
		for t, outputs := range rows {
			for c, one := range outputs {
				f := mean.At(t, c)
				scale = math.Max(scale, math.Abs(f))
				widen(&posterior, f, one.PriorMean+one.Sum)
				widen(&raw, f, one.PriorMean+one.RawSum)
			}
		}
		v.con.show("contributions", lo+part.Len(), n)
	}
	judge(&posterior, scale)
	judge(&raw, scale)
	v.table.Rows = append(v.table.Rows, posterior, raw)
	return ctx.Err()
}

// judge divides the row's difference by scale, the size of the largest entry,
// and compares it with the tolerance.
func judge(r *weightspace.ComparisonRow, scale float64) {
	if scale > 0 {
		r.Difference /= scale
	}
	r.OK = r.Difference <= r.Tolerance
}

// widen puts mean and sum into the row where they differ by more than the pair
// that is in it.
func widen(r *weightspace.ComparisonRow, mean, sum float64) {
	if d := math.Abs(mean - sum); d >= r.Difference || math.IsNaN(d) {
		r.WeightSpace, r.FunctionSpace, r.Difference = mean, sum, d
	}
}

// differenceRow compares two matrices, relative to the largest entry.
func differenceRow(name string, weight, function *mat.Dense) weightspace.ComparisonRow {
	r := weightspace.ComparisonRow{Quantity: name, Tolerance: cgTolerance}
	scale, n := 0.0, weight.RawMatrix().Rows
	for i := range n {
		for j, v := range weight.RawRowView(i) {
			scale = math.Max(scale, math.Abs(v))
			widen(&r, v, function.At(i, j))
		}
	}
	judge(&r, scale)
	return r
}

// print writes the table, and for a method that is not exact the report of the
// fit.
func (v *validation) print() error {
	c, exact := v.con, v.posterior.how.name == "exact"
	f := v.posterior.report(v.problem, c.warnings)
	if c.json {
		table := tableJSON{Schema: "funcgp/validate/1", OK: v.table.OK(), Warnings: c.warnings}
		for _, r := range v.table.Rows {
			table.Rows = append(table.Rows, comparisonRow{r.Quantity, report.Float(r.WeightSpace), report.Float(r.FunctionSpace), report.Float(r.Difference), report.Float(r.Tolerance), r.OK})
		}
		if !exact {
			table.Fit = &f
		}
		table.LeaveOneOut = v.leftOut
		return json.NewEncoder(c.out).Encode(table)
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	if !exact && f.Approximation != nil {
		approximationText(w, &f, f.Approximation)
		// The columns of the table have widths of their own.
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "quantity\tweight space\tfunction space\tdifference\ttolerance\t")
	for _, r := range v.table.Rows {
		verdict := "ok"
		if !r.OK {
			verdict = "DIFFERS"
		}
		fmt.Fprintf(w, "%s\t%.12g\t%.12g\t%.1e\t%.0e\t%s\n", r.Quantity, r.WeightSpace, r.FunctionSpace, r.Difference, r.Tolerance, verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	v.leftOut.text(w)
	for _, warning := range c.warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	return w.Flush()
}

// tableJSON is the table of validate --json.
type tableJSON struct {
	Schema   string          `json:"schema"`
	OK       bool            `json:"ok"`
	Rows     []comparisonRow `json:"rows"`
	Warnings report.Warnings `json:"warnings"`
	Fit      *report.Fit     `json:"fit,omitempty"` // nil for the exact method

	LeaveOneOut *leftOutComparison `json:"leave_one_out,omitempty"` // of the exact method
}

type comparisonRow struct {
	Quantity      string       `json:"quantity"`
	WeightSpace   report.Float `json:"weight_space"`
	FunctionSpace report.Float `json:"function_space"`
	Difference    report.Float `json:"difference"`
	Tolerance     report.Float `json:"tolerance"`
	OK            bool         `json:"ok"`
}
