package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/atomicfile"
)

type importancesVerb struct {
	common    commonFlags
	posterior posteriorFlags

	top  int
	html string
}

func importancesCommand(con *console) *cobra.Command {
	s := &importancesVerb{}
	v := &verb{
		name:  "importances",
		short: "List the training examples that hold the function in place",
		long: `Importances lists the training examples with the largest dual vectors |α_i|: the
ones without which the function would be another, whatever the test row.`,
		example: "  gpexplain importances --top 12 --html page.html",
		flags:   s.add, check: s.check, run: s.run,
		complete: methodValues(nil),
	}
	return v.command(con, &s.common)
}

func (s *importancesVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&s.top, "top", 20, "list `K` training examples")
	f.StringVar(&s.html, "html", "", "write the list and the sorted curve as a page to `FILE`")
	s.posterior.add(c)
	s.posterior.addRefit(c, true, "move to the optimum of the linearized model first")
	s.posterior.addFile(c)
}

func (s *importancesVerb) check(c *cobra.Command) error {
	if s.top < 1 {
		return usagef("--top %d must be at least 1", s.top)
	}
	if err := s.posterior.check(c); err != nil {
		return err
	}
	return distinct([]flagPath{{"--html", s.html}}, append(s.common.files(), flagPath{"--posterior", s.posterior.file}))
}

func (s *importancesVerb) run(ctx context.Context, c *console) error {
	if err := writable(s.html); err != nil {
		return err
	}
	p, err := openProblem(ctx, c, &s.common, s.posterior.file)
	if err != nil {
		return err
	}
	q, err := answer(ctx, c, p, &s.posterior, "")
	if err != nil {
		return err
	}
	e := p.examples
	r := report.Rows{Index: e.train.Rows, Label: labels(e.train)}.Importances(explain.Importances(q.dual), s.top)
	r.Fit = q.report(p, c.warnings)
	if err := c.endPart(ctx, "predict"); err != nil {
		return err
	}
	page := &report.ImportancePage{Report: r, Train: e.pictures(e.train), Invert: e.data.Images(),
		Model: p.model.name, Data: e.data.Source, Command: commandLine(c.args)}
	if s.html != "" {
		// The page shows the time until it is written.
		r.Timings = c.watch.timings()
		if err := atomicfile.Write(s.html, page.WriteHTML); err != nil {
			return err
		}
		c.detail("wrote %s", s.html)
	}
	r.Timings = c.timings()
	if c.json {
		return r.WriteJSON(c.out)
	}
	return page.WriteText(c.out, c.out.columns())
}
