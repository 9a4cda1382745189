package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
)

type importancesVerb struct {
	common    flags.Common
	posterior inference.Flags

	top  int
	html string
}

func importancesCommand(con *console.Console) *cobra.Command {
	s := &importancesVerb{}
	v := &verb{
		name:  "importances",
		short: "List the training examples that hold the function in place",
		long: `Importances lists the training examples with the largest dual vectors |α_i| of the refit,
the linearized model at its optimum: the ones without which the function would be another,
whatever the test row.`,
		example: "  gpexplain importances --top 12 --html page.html",
		flags:   s.add, run: s.run, writes: []string{"html"},
		rules: []flags.Rule{
			flags.AtLeast(1, "top"),
		},
	}
	return v.command(con, &s.common)
}

func (s *importancesVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&s.top, "top", 20, "list `K` training examples")
	f.StringVar(&s.html, "html", "", "write the list and the sorted curve as a page to `FILE`")
	flags.Method(c, &s.posterior)
	flags.Answer(c, &s.posterior)
	flags.Posterior(c, &s.posterior)
}

func (s *importancesVerb) run(ctx context.Context, c *console.Console) error {
	p, err := problem.OpenGrouped(ctx, c.Job, &s.common.Flags, s.posterior.File)
	if err != nil {
		return err
	}
	q, err := inference.Answer(ctx, c.Job, p, &s.posterior, "")
	if err != nil {
		return err
	}
	post := inference.Front(c.Job, p, q).(*funcgp.Posterior)
	r, err := post.Importances(ctx, s.top)
	if err != nil {
		return err
	}
	from, err := originOf(ctx, c, post, s.html != "")
	if err != nil {
		return err
	}
	r.Record = &from.Record
	var unread error
	page := report.ImportancePage(r)
	page.Picture, page.Origin = post.Pictures(ctx, &unread), from
	if err := writePage(c, s.html, page.WriteHTML, &unread); err != nil {
		return err
	}
	r.Timings = c.Timings()
	if c.JSON {
		return r.WriteJSON(c.Out)
	}
	return page.WriteText(c.Out, c.Out.Columns())
}
