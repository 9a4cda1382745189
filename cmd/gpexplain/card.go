package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
)

type cardVerb struct {
	common    problem.Flags
	posterior inference.Flags
	out       string
}

func cardCommand(con *console.Console) *cobra.Command {
	s := &cardVerb{}
	v := &verb{
		name:  "card",
		short: "Write a model card: what a network predicts, from what, and how far to trust it",
		long: `Card writes in Markdown what the posterior's file, the model and the data know of themselves:
what is predicted and from what, with checksums; what was assumed, what was checked, how well the
test rows are predicted, and the warnings; which training rows the file holds. What it is to be
used for, and by whom, is for its authors to add.`,
		example: `  gpexplain card --train-count 500
  gpexplain fit --train-count 500 -o digits.gp
  gpexplain card --posterior digits.gp -o card.md`,
		flags: s.add, run: s.run, writes: []string{"out"},
	}
	return v.command(con, &s.common)
}

func (s *cardVerb) add(c *cobra.Command) {
	c.Flags().StringVarP(&s.out, "out", "o", "", "write to `FILE` instead of standard output")
	flags.Method(c, &s.posterior)
	flags.Answer(c, &s.posterior)
	flags.Posterior(c, &s.posterior)
}

func (s *cardVerb) run(ctx context.Context, c *console.Console) error {
	if c.JSON {
		return job.Usagef("card writes Markdown; what it says is in the JSON of gpexplain predict, as fit and record")
	}
	p, err := problem.OpenGrouped(ctx, c.Job, &s.common, s.posterior.File)
	if err != nil {
		return err
	}
	q, err := inference.Answer(ctx, c.Job, p, &s.posterior, "loo")
	if err != nil {
		return err
	}
	fit, d := q.Report(p, c.Warnings), p.Examples.Data
	card := &report.Card{Fit: &fit, Classes: p.Task.ClassNames(), Holds: "No file of a posterior was written."}
	if card.Origin, err = origin(ctx, c, p, true); err != nil {
		return err
	}
	what := "It predicts " + cmp.Or(p.Task.Quantity(d.Target), "a number")
	if card.Classes != nil {
		what = fmt.Sprintf("It predicts which of %d classes a row is of", len(card.Classes))
	}
	if labels := p.Task.LabelNames; labels != nil {
		what = fmt.Sprintf("It predicts which of the labels %s a row has", problem.JoinNames(labels))
	}
	from := fmt.Sprintf("%d numbers", problem.Elements(d.Shape))
	if d.Images() {
		from = fmt.Sprintf("a picture of shape %v", d.Shape)
	} else if d.Columns != nil {
		from = "the columns " + problem.JoinNames(d.Columns)
	}
	card.Predicts = what + ", from " + from + "."
	if p.Saved != nil {
		card.Holds = "The posterior's file holds no training inputs; it names training rows by their number, identifier and label."
		if p.Saved.Header.Without {
			card.Holds = "The posterior's file holds the inputs of the inducing rows, which may be personal data, and number, identifier and label of all training rows."
		} else if p.Saved.Header.Inputs {
			card.Holds = "The posterior's file holds the training inputs, which may be personal data."
		}
	}
	c.Clear()
	if s.out == "" {
		return card.WriteMarkdown(c.Out)
	}
	return writeFile(c, s.out, card.WriteMarkdown)
}
