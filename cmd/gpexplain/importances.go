package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/atomicfile"
)

type importancesFlags struct {
	top  int
	html string
	way
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
			e.way.add(c)
			e.addRefit(c, true, "move to the optimum of the linearized model first")
			e.addFile(c)
		},
		check: func(s *shared) error {
			if e.top < 1 {
				return usagef("--top %d must be at least 1", e.top)
			}
			if err := e.way.check(s); err != nil {
				return err
			}
			return distinct([]flagPath{{"--html", e.html}}, append(s.reads(), flagPath{"--posterior", e.file}))
		},
		run:      e.run,
		complete: wayValues(nil),
	}
	return v.command(inv)
}

func (e *importancesFlags) run(ctx context.Context, sh *shared) error {
	if err := writable(e.html); err != nil {
		return err
	}
	s, err := openSession(ctx, sh, &e.way)
	if err != nil {
		return err
	}
	p, err := s.posterior(ctx, &e.way)
	if err != nil {
		return err
	}
	r := report.Rows{Index: p.train.Rows, Label: labels(p.train)}.Importances(explain.Importances(p.conditioned), e.top)
	r.Fit = p.report()
	if err := s.lap(ctx, "predict"); err != nil {
		return err
	}
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
