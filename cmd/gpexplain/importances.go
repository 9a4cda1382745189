package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/internal/atomicfile"
)

type importancesFlags struct {
	top   int
	html  string
	refit bool
}

func importancesVerb(inv *invocation) *cobra.Command {
	var e importancesFlags
	v := &verb{
		name:  "importances",
		short: "List the training examples that hold the function in place",
		long: `Importances lists the training examples with the largest dual vectors |α_i|: the
ones without which the function would be another, whatever the test row.`,
		example: "  gpexplain importances --top 12 --html page.html",
		flags: func(c *cobra.Command) {
			f := c.Flags()
			f.IntVar(&e.top, "top", 20, "list `K` training examples")
			f.StringVar(&e.html, "html", "", "write the list and the sorted curve as a page to `FILE`")
			f.BoolVar(&e.refit, "refit", true, "move to the optimum of the linearized model first")
		},
		check: func(s *shared) error {
			if e.top < 1 {
				return usagef("--top %d must be at least 1", e.top)
			}
			return distinct([]flagPath{{"--html", e.html}}, s.reads())
		},
		run: e.run,
	}
	return v.command(inv)
}

func (e *importancesFlags) run(ctx context.Context, sh *shared) error {
	if err := writable(e.html); err != nil {
		return err
	}
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
		return r.WriteJSON(s.out)
	}
	return page.WriteText(s.out, s.out.columns())
}
