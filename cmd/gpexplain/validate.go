package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/console"
)

type validateVerb struct {
	common    flags.Common
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
	flags.Method(c)
	c.Flags().Float64Var(&s.tolerance, "tolerance", 1e-8, "largest difference `X` allowed, relative to the largest entry")
}

func (s *validateVerb) run(ctx context.Context, c *console.Console) error {
	post, err := s.common.Posterior(ctx, func(o *funcgp.FitOptions) { o.AtTheta = true })
	if err != nil {
		return err
	}
	v, err := post.Validate(ctx, s.tolerance)
	if err != nil {
		return err
	}
	if c.JSON {
		err = json.NewEncoder(c.Out).Encode(v)
	} else {
		err = report.ValidationText(c.Out, v)
	}
	if err != nil {
		return err
	}
	return verdict(v)
}

// verdict returns an error if differences exceed the tolerance. The table marks these.
func verdict(v *funcgp.Validation) error {
	switch {
	case !v.OK && v.LeaveOneOut != nil:
		return errors.New("weight space and function space differ by more than the tolerance in the rows marked above")
	case !v.OK:
		return errors.New("the posterior differs by more than the tolerance in the rows marked above")
	case !v.LeaveOneOut.OK():
		return errors.New("leave-one-out in closed form differs from the refits by more than rounding, although the likelihood is gaussian")
	}
	return nil
}
