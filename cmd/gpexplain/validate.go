package main

import (
	"context"
	"encoding/json"
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
)

type validateFlags struct {
	tolerance float64
	way
}

func validateVerb(inv *invocation) *cobra.Command {
	var e validateFlags
	v := &verb{
		name:  "validate",
		short: "Compare weight space with function space",
		long: `Validate computes the same posterior twice, over the parameters (P×P) and over
the training outputs (N·C×N·C), at the trained parameters and after a refit,
and prints the largest differences on the test rows. It also checks that the
contributions of the training examples add up to the prediction. The exit
status is 1 where a difference is above its tolerance.`,
		example: `  gpexplain validate --train-count 400
  gpexplain validate --method nystrom --inducing 100`,
		flags: func(c *cobra.Command) {
			e.way.add(c)
			c.Flags().Float64Var(&e.tolerance, "tolerance", weightspace.DefaultTolerance, "largest difference `X` allowed, relative to the largest entry")
		},
		check: func(s *shared) error {
			if !(e.tolerance > 0 && e.tolerance < 1) {
				return usagef("--tolerance %v must be between 0 and 1", e.tolerance)
			}
			return e.way.check(s)
		},
		run:      e.run,
		complete: wayValues(nil),
	}
	return v.command(inv)
}

// closureTolerance is the largest difference allowed between a prediction and
// the sum of its contributions (E12, E14), relative to the largest prediction.
const closureTolerance = 1e-9

func (e *validateFlags) run(ctx context.Context, sh *shared) error {
	e.mean = gp.LinearGaussian
	s, err := openSession(ctx, sh, &e.way)
	if err != nil {
		return err
	}
	return e.compare(ctx, s)
}

// compare fits the posterior, compares it with that of weight space, and
// prints the table.
func (e *validateFlags) compare(ctx context.Context, s *session) error {
	test, err := s.selectTest(dataset.SelectOptions{})
	if err != nil {
		return err
	}
	if e.method == "cg" && !s.keeps() {
		return fmt.Errorf("--method cg is compared with weight space, which takes the Jacobian of all %d training rows, more than a quarter of the memory allowed or 1 GiB; give --train-count with fewer", s.train.Len())
	}
	if !e.sparse() {
		if err := s.planTests(test.Len()); err != nil {
			return err
		}
	}
	p, err := s.posterior(ctx, &e.way)
	if err != nil {
		return err
	}
	if e.method != "exact" {
		return e.approximate(ctx, p, test)
	}
	x, err := s.net.Linearize(ctx, s.inputs(test))
	if err != nil {
		return rowsOf(test, 0, test.Len()).fault(err)
	}
	wo := &weightspace.Options{Mean: gp.LinearGaussian, MaxMemory: s.bytes, Progress: s.progress.show}
	w, err := weightspace.Fit(ctx, p.batch, p.exact.Sites(), s.prior, p.theta, wo)
	if err != nil {
		return err
	}
	table, err := weightspace.Validate(ctx, p.exact, w, x, e.tolerance)
	if err != nil {
		return err
	}
	if err := e.refit(ctx, p, w, x, table); err != nil {
		return err
	}
	s.progress.clear()
	if err := printComparison(s, table); err != nil {
		return err
	}
	if !table.OK() {
		return fmt.Errorf("weight space and function space differ by more than the tolerance in the rows marked above")
	}
	return nil
}

// refit compares the two at the mode of the linearized model and checks that
// the contributions add up there.
func (e *validateFlags) refit(ctx context.Context, p *posterior, w *weightspace.Posterior, x *linearize.Batch, table *weightspace.Comparison) error {
	exact, err := p.exact.Refit(ctx, p.y, p.lik)
	if err != nil {
		return err
	}
	if w, err = w.Refit(ctx, p.y, p.lik); err != nil {
		return err
	}
	more, err := weightspace.Validate(ctx, exact, w, x, e.tolerance)
	if err != nil {
		return err
	}
	table.Rows = append(table.Rows, more.Rows...)
	closed, err := closure(ctx, exact, "refit ", closureTolerance, p, x.Len(), func(lo, hi int) (*linearize.Batch, error) { return x.Slice(lo, hi), nil })
	if err != nil {
		return err
	}
	table.Rows = append(table.Rows, closed...)
	p.warnAll(exact.Warnings())
	for _, err := range w.Warnings() {
		p.warn(fmt.Errorf("weight space: %w", err))
	}
	return nil
}

// closure compares the means at n test examples with the sums of the prior mean
// and the contributions, for the posterior kernel C and for the prior kernel κ.
// tile linearizes the test examples [lo, hi).
func closure(ctx context.Context, exact gp.Dual, name string, tolerance float64, p *posterior, n int, tile func(lo, hi int) (*linearize.Batch, error)) ([]weightspace.ComparisonRow, error) {
	ex, err := explain.New(exact, p.kernel, &explain.Options{Top: 1})
	if err != nil {
		return nil, err
	}
	posterior := weightspace.ComparisonRow{Quantity: name + "mean against m + Σ C(x,x_i) b_i", Tolerance: tolerance}
	raw := weightspace.ComparisonRow{Quantity: name + "mean against m + Σ κ(x,x_i) α_i", Tolerance: tolerance}
	scale := 0.0
	step := p.fewer(min(n, predictTile), p.explainBytes)
	for lo := 0; lo < n; lo += step {
		part, err := tile(lo, min(lo+step, n))
		if err != nil {
			return nil, err
		}
		mean := mat.NewDense(part.Len(), part.Outputs(), nil)
		if err := exact.PredictTo(ctx, mean, nil, part); err != nil {
			return nil, err
		}
		rows, err := ex.Explain(ctx, part)
		if err != nil {
			return nil, err
		}
		for t, outputs := range rows {
			for c, one := range outputs {
				f := mean.At(t, c)
				scale = math.Max(scale, math.Abs(f))
				widen(&posterior, f, one.PriorMean+one.Sum)
				widen(&raw, f, one.PriorMean+one.RawSum)
			}
		}
		p.progress.show("contributions", lo+part.Len(), n)
	}
	for _, r := range []*weightspace.ComparisonRow{&posterior, &raw} {
		settle(r, scale)
	}
	return []weightspace.ComparisonRow{posterior, raw}, ctx.Err()
}

// settle divides the row's difference by scale, the size of the largest entry,
// and compares it with the tolerance.
func settle(r *weightspace.ComparisonRow, scale float64) {
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

func printComparison(s *session, table *weightspace.Comparison) error {
	if s.json {
		return json.NewEncoder(s.out).Encode(comparisonOf(s, table))
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "quantity\tweight space\tfunction space\tdifference\ttolerance\t")
	for _, r := range table.Rows {
		verdict := "ok"
		if !r.OK {
			verdict = "DIFFERS"
		}
		fmt.Fprintf(w, "%s\t%.12g\t%.12g\t%.1e\t%.0e\t%s\n", r.Quantity, r.WeightSpace, r.FunctionSpace, r.Difference, r.Tolerance, verdict)
	}
	for _, warning := range s.warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	return w.Flush()
}

// comparisonJSON is the table of validate --json.
type comparisonJSON struct {
	OK       bool            `json:"ok"`
	Rows     []comparisonRow `json:"rows"`
	Warnings report.Warnings `json:"warnings"`
}

type comparisonRow struct {
	Quantity      string       `json:"quantity"`
	WeightSpace   report.Float `json:"weight_space"`
	FunctionSpace report.Float `json:"function_space"`
	Difference    report.Float `json:"difference"`
	Tolerance     report.Float `json:"tolerance"`
	OK            bool         `json:"ok"`
}

func comparisonOf(s *session, table *weightspace.Comparison) comparisonJSON {
	out := comparisonJSON{OK: table.OK(), Warnings: s.warnings}
	for _, r := range table.Rows {
		out.Rows = append(out.Rows, comparisonRow{r.Quantity, report.Float(r.WeightSpace), report.Float(r.FunctionSpace), report.Float(r.Difference), report.Float(r.Tolerance), r.OK})
	}
	return out
}
