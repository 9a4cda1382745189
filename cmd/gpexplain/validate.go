package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

type validateVerb struct {
	common    problem.Flags
	posterior inference.Flags
	tolerance float64
}

func validateCommand(con *console.Console) *cobra.Command {
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
		flags: s.add, run: s.run,
		rules: []flags.Rule{
			flags.Between(0, 1, false, "tolerance"),
		},
	}
	return v.command(con, &s.common)
}

func (s *validateVerb) add(c *cobra.Command) {
	flags.Method(c, &s.posterior)
	c.Flags().Float64Var(&s.tolerance, "tolerance", weightspace.DefaultTolerance, "largest difference `X` allowed, relative to the largest entry")
}

func (s *validateVerb) run(ctx context.Context, c *console.Console) error {
	p, err := problem.OpenGrouped(ctx, c.Job, &s.common, "")
	if err != nil {
		return err
	}
	v, err := inference.Validate(ctx, c.Job, p, &s.posterior, s.tolerance)
	if err != nil {
		return err
	}
	if err := s.print(c, p, v); err != nil {
		return err
	}
	return v.Verdict()
}

// print writes the table, and for a method that is not exact the report of the
// fit.
func (s *validateVerb) print(c *console.Console, p *problem.Problem, v *inference.Validation) error {
	exact, f := v.Posterior.How.Name == "exact", v.Posterior.Report(p, c.Warnings)
	if c.JSON {
		table := tableJSON{Schema: "funcgp/validate/1", OK: v.Table.OK(), Warnings: c.Warnings}
		for _, r := range v.Table.Rows {
			table.Rows = append(table.Rows, comparisonRow{r.Quantity, result.Float(r.WeightSpace), result.Float(r.FunctionSpace), result.Float(r.Difference), result.Float(r.Tolerance), r.OK})
		}
		if !exact {
			table.Fit = &f
		}
		table.LeaveOneOut, table.Preflight = v.LeftOut, f.Preflight
		return json.NewEncoder(c.Out).Encode(table)
	}
	return console.Text(c.Out, &f, func(w *tabwriter.Writer) {
		if !exact && f.Approximation != nil {
			console.ApproximationText(w, &f, f.Approximation)
			_ = w.Flush() // the columns of the table have widths of their own
		}
		fmt.Fprintln(w, "quantity\tweight space\tfunction space\tdifference\ttolerance\t")
		for _, r := range v.Table.Rows {
			verdict := "ok"
			if !r.OK {
				verdict = "DIFFERS"
			}
			fmt.Fprintf(w, "%s\t%.12g\t%.12g\t%.1e\t%.0e\t%s\n", r.Quantity, r.WeightSpace, r.FunctionSpace, r.Difference, r.Tolerance, verdict)
		}
		_ = w.Flush()
		v.LeftOut.Text(w)
	})
}

// tableJSON is the table of validate --json.
type tableJSON struct {
	Schema   string             `json:"schema"`
	OK       bool               `json:"ok"`
	Rows     []comparisonRow    `json:"rows"`
	Warnings linearize.Warnings `json:"warnings"`
	Fit      *result.Fit        `json:"fit,omitempty"` // nil for the exact method

	LeaveOneOut *inference.LeftOutComparison `json:"leave_one_out,omitempty"` // of the exact method
	Preflight   *result.Preflight            `json:"preflight"`
}

type comparisonRow struct {
	Quantity      string       `json:"quantity"`
	WeightSpace   result.Float `json:"weight_space"`
	FunctionSpace result.Float `json:"function_space"`
	Difference    result.Float `json:"difference"`
	Tolerance     result.Float `json:"tolerance"`
	OK            bool         `json:"ok"`
}
