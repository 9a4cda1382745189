package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
)

type explainFlags struct {
	index, top      int
	input, terms    string
	contrast        string
	html, png       string
	refit, invert   bool
	kind            gp.Terms
	plus, minus     int
	contrasted, row bool
}

func explainVerb() *cobra.Command {
	var e explainFlags
	return verb("explain", "Explain one prediction as a sum over the training examples",
		`Explain writes one prediction as prior mean plus a sum over all training
examples that adds up exactly, and lists the largest terms with their sign,
the effect of removing each example, and how similar it is.`,
		func(c *cobra.Command) func() error {
			f := c.Flags()
			f.IntVar(&e.index, "index", 0, "test `ROW` of the original file to explain (default the first kept row)")
			f.StringVar(&e.input, "input", "", "explain a `FILE` of your own: a PNG picture, or a CSV file with one row")
			f.BoolVar(&e.invert, "invert", false, "the picture of --input is dark ink on light paper")
			f.IntVar(&e.top, "top", 8, "number of training examples to list")
			f.BoolVar(&e.refit, "refit", true, "move to the optimum of the linearized model first, where the sum is complete")
			f.StringVar(&e.terms, "terms", "posterior", "kernel whose terms are listed: posterior or raw")
			f.StringVar(&e.contrast, "contrast", "", "also explain why class `A,B`: A rather than B (outputs, for a regression)")
			f.StringVar(&e.html, "html", "", "write the explanation as a page to `FILE`")
			f.StringVar(&e.png, "png", "", "write the explanation as a picture to `FILE`")
			return func() error { return e.check(c) }
		},
		func(c *cobra.Command, s *shared) error { return e.run(c.Context(), c.OutOrStdout(), s) })
}

func (e *explainFlags) check(c *cobra.Command) error {
	f := c.Flags()
	e.row = f.Changed("index")
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
	e.contrasted, e.plus, e.minus = true, ab[0], ab[1]
	return nil
}

// question is the row that is explained.
type question struct {
	x       *mat.Dense // 1×D
	input   explain.Input
	picture explain.Picture
}

func (e *explainFlags) run(ctx context.Context, stdout io.Writer, sh *shared) error {
	s, err := openSession(ctx, sh)
	if err != nil {
		return err
	}
	targets, err := e.targets(s)
	if err != nil {
		return err
	}
	q, err := e.question(s)
	if err != nil {
		return err
	}
	p, err := s.fit(ctx, e.refit)
	if err != nil {
		return err
	}
	x, err := p.net.Linearize(ctx, q.x)
	if err != nil {
		return err
	}
	pred, err := p.predict(x, glm.DefaultLink(p.lik))
	if err != nil {
		return err
	}
	o := &explain.Options{Terms: e.kind, Top: e.top, Targets: targets}
	if e.html != "" || e.png != "" {
		o.Similar = 8
	}
	ex, err := explain.New(p.exact, p.kernel, o)
	if err != nil {
		return err
	}
	rows, err := ex.Explain(ctx, x)
	if err != nil {
		return err
	}
	r := &explain.Report{Input: q.input, Fit: p.report()}
	r.Prediction = explain.Prediction{Class: explain.Float(p.class(x.F.RawRowView(0))), Probability: rowOf(pred.prob, 0), ProbabilitySD: rowOf(pred.sd, 0),
		MAPProbability: rowOf(pred.map0, 0), Mean: rowOf(pred.mean, 0), Covariance: block(pred.cov, 0)}
	names := explain.Rows{Index: p.train.Rows, Label: labels(p.train)}
	for _, one := range rows[0] {
		r.Outputs = append(r.Outputs, names.Output(one))
	}
	p.watch.lap("predict")
	r.Timings = p.watch.timings()
	return e.write(p, q, r, stdout)
}

// targets are all outputs, then the contrast.
func (e *explainFlags) targets(s *session) ([]explain.Target, error) {
	_, c, _ := s.net.Dims()
	var out []explain.Target
	for k := range c {
		out = append(out, explain.Single(k))
	}
	if !e.contrasted {
		return out, nil
	}
	if c == 1 {
		return nil, fmt.Errorf("--contrast %s: the %s has one output, which already weighs its two classes against each other", e.contrast, s.name)
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
			return 0, fmt.Errorf("--contrast: there is no output %d, the %s has %d", k, s.name, c)
		}
		return k, nil
	}
	for i, class := range s.classed {
		if class == k {
			return i, nil
		}
	}
	return 0, fmt.Errorf("--contrast: %d is not one of the classes %s", k, formatClasses(s.classed))
}

func (e *explainFlags) question(s *session) (*question, error) {
	if e.input != "" {
		return e.ownInput(s)
	}
	var sub *dataset.Subset
	var err error
	if e.row {
		sub, err = s.selectTest([]int{e.index}, "--index")
	} else {
		sub, err = s.testPart().Select(&dataset.SelectOptions{Classes: s.classed, Count: 1})
	}
	if err != nil {
		return nil, err
	}
	return &question{x: s.inputs(sub), picture: s.picture(sub, 0),
		input: explain.Input{Split: sub.Set.Part, Index: explain.Index(sub.Rows[0]), Label: explain.Float(label(sub, 0))}}, nil
}

func (e *explainFlags) ownInput(s *session) (*question, error) {
	in, err := dataset.ReadInput(e.input, &dataset.InputOptions{Shape: s.opened.Shape, Columns: s.opened.Columns, Invert: e.invert})
	if err != nil {
		return nil, err
	}
	if in.Light && !e.invert {
		s.warn(fmt.Errorf("%s has a light border, the training pictures are light ink on black: add --invert if it is dark ink on paper", e.input))
	}
	q := &question{input: explain.Input{Split: "file", Index: -1, Label: explain.Undefined(), File: e.input}}
	if in.Pixels != nil {
		q.picture = s.gray(in.Pixels)
	} else {
		q.picture = explain.Picture{Names: s.opened.Columns, Values: append([]float64(nil), in.X...)}
	}
	q.x = mat.NewDense(1, len(in.X), in.X)
	s.scaling.Apply(q.x)
	return q, nil
}

// picture shows row i of a subset: its pixels, or its features as they are in
// the file.
func (s *session) picture(sub *dataset.Subset, i int) explain.Picture {
	if s.opened.Images() {
		return s.gray(sub.Image(i))
	}
	return explain.Picture{Names: s.opened.Columns, Values: sub.Set.Matrix([]int{sub.Pos[i]}).RawRowView(0)}
}

func (s *session) gray(pix []byte) explain.Picture {
	shape := s.opened.Shape
	return explain.Gray(pix, shape[len(shape)-1], shape[len(shape)-2])
}

// write shows the report in every form that was asked for; the JSON last, so
// that its timings cover the rest.
func (e *explainFlags) write(p *posterior, q *question, r *explain.Report, stdout io.Writer) error {
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
		return r.WriteJSON(stdout)
	}
	return page.WriteText(stdout, columns(stdout))
}

// page is a page about one test row or none.
func (p *posterior) page(test explain.Picture) *explain.Page {
	page := &explain.Page{Test: test, Invert: p.opened.Images(), Model: p.name, Data: p.opened.Source, Command: "gpexplain " + strings.Join(os.Args[1:], " ")}
	for _, k := range p.classed {
		page.Classes = append(page.Classes, strconv.Itoa(k))
	}
	at := make(map[int]int, p.train.Len())
	for i, r := range p.train.Rows {
		at[r] = i
	}
	page.Train = func(row explain.Index) explain.Picture { return p.picture(p.train, at[int(row)]) }
	return page
}
