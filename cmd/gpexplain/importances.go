package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/console"
)

type importancesVerb struct {
	common flags.Common

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
	flags.Method(c, "at", "refit", "inference", "posterior")
}

func (s *importancesVerb) run(ctx context.Context, c *console.Console) error {
	post, err := s.common.Posterior(ctx, bare)
	if err != nil {
		return err
	}
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
	return show(c, s.html, page, &unread, &r.Fit, &r.Timings, r)
}
