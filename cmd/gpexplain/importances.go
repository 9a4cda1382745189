package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/internal/atomicfile"
)

type importancesFlags struct {
	top   int
	html  string
	refit bool
}

func importancesVerb() *cobra.Command {
	var e importancesFlags
	return verb("importances", "List the training examples that hold the function in place",
		`Importances lists the training examples with the largest dual vectors |α_i|: the
ones without which the function would be another, whatever the test row.`,
		func(c *cobra.Command) func() error {
			f := c.Flags()
			f.IntVar(&e.top, "top", 20, "number of training examples to list")
			f.StringVar(&e.html, "html", "", "write the list and the sorted curve as a page to `FILE`")
			f.BoolVar(&e.refit, "refit", true, "move to the optimum of the linearized model first")
			return func() error {
				if e.top < 1 {
					return usagef("--top %d must be at least 1", e.top)
				}
				return nil
			}
		},
		func(c *cobra.Command, s *shared) error { return e.run(c.Context(), c.OutOrStdout(), s) })
}

func (e *importancesFlags) run(ctx context.Context, stdout io.Writer, sh *shared) error {
	s, err := openSession(ctx, sh)
	if err != nil {
		return err
	}
	p, err := s.fit(ctx, e.refit)
	if err != nil {
		return err
	}
	r := explain.Rows{Index: p.train.Rows, Label: labels(p.train)}.Importances(explain.Importances(p.exact), e.top)
	r.Fit = p.report()
	s.watch.lap("predict")
	r.Timings = s.watch.timings()
	page := p.importancePage(r)
	if e.html != "" {
		if err := atomicfile.Write(e.html, page.WriteHTML); err != nil {
			return err
		}
		s.detail("wrote %s", e.html)
	}
	s.watch.lap("write")
	r.Timings = s.watch.timings()
	if s.json {
		return r.WriteJSON(stdout)
	}
	return page.WriteText(stdout, columns(stdout))
}

func (p *posterior) importancePage(r *explain.ImportanceReport) *explain.ImportancePage {
	page := p.page(explain.Picture{})
	return &explain.ImportancePage{Report: r, Train: page.Train, Invert: page.Invert, Model: page.Model, Data: page.Data, Command: page.Command}
}
