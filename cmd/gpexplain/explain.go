package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/atomicfile"
)

type explainFlags struct {
	index, top   int
	input, terms string
	contrast     string
	html, png    string
	invert       bool
	way

	row         bool     // --index was given
	kind        gp.Terms // parsed from terms
	plus, minus int      // parsed from contrast
}

func explainVerb(inv *invocation) *cobra.Command {
	var e explainFlags
	v := &verb{
		name:  "explain",
		short: "Explain one prediction as a sum over the training examples",
		long: `Explain writes one prediction as prior mean plus a sum over all training
examples that adds up exactly, and lists the largest terms with their sign,
the effect of removing each example, and how similar it is.

It explains the first test row, the test row --index, or a file of your own.`,
		example: `  gpexplain explain
  gpexplain explain --index 24 --html page.html
  gpexplain explain --input digit.png --invert
  gpexplain explain --json --top 100 --train-count 500`,
		flags: e.add, check: e.check, run: e.run,
		complete: wayValues(map[string][]string{"terms": {"posterior", "raw"}}),
	}
	return v.command(inv)
}

func (e *explainFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&e.index, "index", 0, "explain test row `I`, counted from 0 in the original file (default the first kept one)")
	f.StringVar(&e.input, "input", "", "explain a `FILE` of your own: a PNG picture, or a CSV file with one row")
	f.BoolVar(&e.invert, "invert", false, "the picture of --input is dark ink on light paper")
	f.IntVar(&e.top, "top", 8, "list the `K` largest terms")
	e.way.add(c)
	e.addRefit(c, true, "move to the optimum of the linearized model first, where the sum is complete")
	e.addFile(c)
	f.StringVar(&e.terms, "terms", "posterior", "list the terms of this `KERNEL`: posterior or raw")
	f.StringVar(&e.contrast, "contrast", "", "explain as well why class `A,B`: A rather than B; outputs for a regression")
	f.StringVar(&e.html, "html", "", "write a page to `FILE`")
	f.StringVar(&e.png, "png", "", "write a picture to `FILE`")
}

func (e *explainFlags) check(s *shared) error {
	e.row = s.cmd.Flags().Changed("index")
	switch {
	case e.row && e.input != "":
		return usagef("--index and --input exclude each other")
	case e.index < 0:
		return usagef("--index %d must be 0 or more", e.index)
	case e.top < 1:
		return usagef("--top %d must be at least 1", e.top)
	case e.invert && e.input == "":
		return usagef("--invert is for --input")
	}
	switch e.terms {
	case "posterior":
		e.kind = gp.Posterior
	case "raw":
		e.kind = gp.Raw
	default:
		return usagef("--terms %q must be posterior or raw", e.terms)
	}
	if err := distinct([]flagPath{{"--html", e.html}, {"--png", e.png}}, append(s.reads(), flagPath{"--input", e.input}, flagPath{"--posterior", e.file})); err != nil {
		return err
	}
	if err := e.way.check(s); err != nil {
		return err
	}
	return e.checkContrast(s)
}

func (e *explainFlags) checkContrast(s *shared) error {
	if e.contrast == "" {
		return nil
	}
	ab, err := parseInts("--contrast", e.contrast)
	if err != nil {
		return err
	}
	if len(ab) != 2 || ab[0] == ab[1] {
		return usagef("--contrast %q must be two different classes such as 4,9", e.contrast)
	}
	for _, k := range ab {
		if s.classList != nil && !slices.Contains(s.classList, k) {
			return usagef("--contrast %s: %d is not one of --classes %s", e.contrast, k, s.classes)
		}
	}
	e.plus, e.minus = ab[0], ab[1]
	return nil
}

func (e *explainFlags) run(ctx context.Context, sh *shared) error {
	for _, path := range []string{e.html, e.png} {
		if err := writable(path); err != nil {
			return err
		}
	}
	s, err := openSession(ctx, sh, &e.way)
	if err != nil {
		return err
	}
	targets, err := e.targets(s)
	if err != nil {
		return err
	}
	q, err := e.question(ctx, s)
	if err != nil {
		return err
	}
	p, err := s.posterior(ctx, &e.way)
	if err != nil {
		return err
	}
	r, err := e.report(ctx, p, q, targets)
	if err != nil {
		return err
	}
	return e.write(p, q, r)
}

// report answers the question.
func (e *explainFlags) report(ctx context.Context, p *posterior, q *question, targets []explain.Target) (*report.Report, error) {
	x, err := p.net.Linearize(ctx, q.x)
	if err != nil {
		return nil, q.place.fault(err)
	}
	pred, err := p.predict(ctx, x, glm.DefaultLink(p.lik, x.Outputs()))
	if err != nil {
		return nil, q.place.fault(err)
	}
	o := &explain.Options{Terms: e.kind, Top: e.top, Targets: targets}
	if e.html != "" || e.png != "" {
		o.Sides, o.Similar = true, p.similar()
	}
	ex, err := explain.New(p.conditioned, p.kernel, o)
	if err != nil {
		return nil, err
	}
	rows, err := ex.Explain(ctx, x)
	if err != nil {
		return nil, q.place.fault(err)
	}
	r := &report.Report{Input: q.input, Fit: p.report()}
	r.Prediction = report.Prediction{Class: report.Float(p.class(x.F.RawRowView(0))), Probability: rowOf(pred.prob, 0), ProbabilitySD: rowOf(pred.sd, 0),
		MAPProbability: rowOf(pred.map0, 0), Mean: rowOf(pred.mean, 0), Covariance: block(pred.cov, 0)}
	names := report.Rows{Index: p.train.Rows, Label: labels(p.train)}
	for _, one := range rows[0] {
		r.Outputs = append(r.Outputs, names.Output(one))
	}
	return r, p.lap(ctx, "predict")
}

// mostSimilarTo is the number of outputs of training rows above which a page
// lists no most similar ones: they take the posterior variance of each.
const mostSimilarTo = 40_000

// similar is how many of the most similar training rows a page lists.
func (p *posterior) similar() int {
	if _, c, _ := p.net.Dims(); p.train.Len()*c > mostSimilarTo {
		return 0
	}
	return 8
}

// targets are all outputs, then the contrast.
func (e *explainFlags) targets(s *session) ([]explain.Target, error) {
	_, c, _ := s.net.Dims()
	var out []explain.Target
	for k := range c {
		out = append(out, explain.Single(k))
	}
	if e.contrast == "" {
		return out, nil
	}
	if c == 1 {
		return nil, fmt.Errorf("--contrast %s: %s has one output, which already weighs its two classes against each other; leave --contrast out", e.contrast, s.name)
	}
	a, err := s.outputOf(e.plus, c)
	if err != nil {
		return nil, err
	}
	b, err := s.outputOf(e.minus, c)
	if err != nil {
		return nil, err
	}
	return append(out, explain.Contrast(a, b)), nil
}

// outputOf is the output of a class, or for a regression the output itself.
func (s *session) outputOf(k, c int) (int, error) {
	if s.classed == nil {
		if k < 0 || k >= c {
			return 0, fmt.Errorf("--contrast: there is no output %d; %s has 0 to %d", k, s.name, c-1)
		}
		return k, nil
	}
	if i := slices.Index(s.classed, k); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("--contrast: %d is not one of the classes %s; choose two of them", k, cut(formatInts(s.classed), 60))
}

// write shows the report in every form that was asked for; that on standard
// output last, so that its timings cover the rest.
func (e *explainFlags) write(p *posterior, q *question, r *report.Report) error {
	page := p.page(q.picture)
	page.Report, page.Terms = r, e.kind
	for _, f := range []struct {
		path  string
		write func(io.Writer) error
	}{{e.html, page.WriteHTML}, {e.png, page.WritePNG}} {
		if f.path == "" {
			continue
		}
		if err := atomicfile.Write(f.path, f.write); err != nil {
			return err
		}
		p.detail("wrote %s", f.path)
	}
	p.watch.lap("write")
	r.Timings = p.watch.timings()
	if p.json {
		return r.WriteJSON(p.out)
	}
	return page.WriteText(p.out, p.out.columns())
}
