package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
)

type cardVerb struct {
	common flags.Common
	out    string
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
	flags.Method(c, "at", "refit", "inference", "posterior")
}

func (s *cardVerb) run(ctx context.Context, c *console.Console) error {
	if c.JSON {
		return job.Usagef("card writes Markdown; what it says is in the JSON of gpexplain predict, as fit and record")
	}
	post, err := s.common.Posterior(ctx, nil)
	if err != nil {
		return err
	}
	card, err := post.Card(ctx)
	if err != nil {
		return err
	}
	card.Record.Version, card.Record.Command = "gpexplain "+programVersion(), job.CommandLine(c.Args)
	c.Clear()
	write := func(w io.Writer) error { return report.WriteCard(w, card) }
	if s.out == "" {
		return write(c.Out)
	}
	return writeFile(c, s.out, write)
}
