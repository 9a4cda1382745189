package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
)

type explainVerb struct {
	common    commonFlags
	posterior posteriorFlags

	calibration calibrationFlags

	index           *int // nil where not given
	input           string
	invert          bool
	top             int
	terms, contrast string
	html, png       string
	kernel          gp.Terms // parsed from terms by check
	classA, classB  int      // parsed from contrast by check
}

func explainCommand(con *console) *cobra.Command {
	s := &explainVerb{}
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
		flags: s.add, check: s.check, run: s.run,
		complete: methodValues(map[string][]string{"terms": {"posterior", "raw"}, "calibrate": calibrations}),
	}
	return v.command(con, &s.common)
}

func (s *explainVerb) add(c *cobra.Command) {
	f := c.Flags()
	optionalInt(c, &s.index, "index", "explain test row `I`, counted from 0 in the original file (default the first kept one)")
	f.StringVar(&s.input, "input", "", "explain a `FILE` of your own: a PNG picture, or a CSV file with one row")
	f.BoolVar(&s.invert, "invert", false, "the picture of --input is dark ink on light paper")
	f.IntVar(&s.top, "top", 8, "list the `K` largest terms")
	s.posterior.add(c)
	s.posterior.addRefit(c, true, "move to the optimum of the linearized model first, where the sum is complete")
	s.posterior.addTune(c)
	s.posterior.addFile(c)
	s.calibration.add(c)
	f.StringVar(&s.terms, "terms", "posterior", "list the terms of this `KERNEL`: posterior or raw")
	f.StringVar(&s.contrast, "contrast", "", "for two classes `A,B`, explain as well why A rather than B; for a regression, two outputs")
	f.StringVar(&s.html, "html", "", "write a page to `FILE`")
	f.StringVar(&s.png, "png", "", "write a picture to `FILE`")
}

func (s *explainVerb) check(c *cobra.Command) error {
	switch {
	case s.index != nil && s.input != "":
		return usagef("--index and --input exclude each other")
	case s.index != nil && *s.index < 0:
		return usagef("--index %d must be 0 or more", *s.index)
	case s.top < 1:
		return usagef("--top %d must be at least 1", s.top)
	case s.invert && s.input == "":
		return usagef("--invert is for --input")
	}
	switch s.terms {
	case "posterior":
		s.kernel = gp.Posterior
	case "raw":
		s.kernel = gp.Raw
	default:
		return usagef("--terms %q must be posterior or raw", s.terms)
	}
	if err := distinct([]flagPath{{"--html", s.html}, {"--png", s.png}}, append(s.common.files(), flagPath{"--input", s.input}, flagPath{"--posterior", s.posterior.file})); err != nil {
		return err
	}
	if err := s.posterior.check(c); err != nil {
		return err
	}
	if err := s.calibration.check(c, s.posterior.file); err != nil {
		return err
	}
	return s.checkContrast()
}

func (s *explainVerb) checkContrast() error {
	if s.contrast == "" {
		return nil
	}
	ab, err := parseInts("--contrast", s.contrast)
	if err != nil {
		return err
	}
	if len(ab) != 2 || ab[0] == ab[1] {
		return usagef("--contrast %q must be two different classes such as 4,9", s.contrast)
	}
	data := &s.common.data
	for _, k := range ab {
		if data.classes != nil && !slices.Contains(data.classes, k) {
			return usagef("--contrast %s: %d is not one of --classes %s", s.contrast, k, data.classText)
		}
	}
	s.classA, s.classB = ab[0], ab[1]
	return nil
}

func (s *explainVerb) run(ctx context.Context, c *console) error {
	for _, path := range []string{s.html, s.png} {
		if err := writable(path); err != nil {
			return err
		}
	}
	p, err := openProblem(ctx, c, &s.common, s.posterior.file)
	if err != nil {
		return err
	}
	targets, err := s.targets(p)
	if err != nil {
		return err
	}
	x, err := s.example(ctx, c, p)
	if err != nil {
		return err
	}
	q, err := answer(ctx, c, p, &s.posterior, s.calibration.method)
	if err != nil {
		return err
	}
	r, err := s.report(ctx, c, p, q, x, targets)
	if err != nil {
		return err
	}
	return s.write(c, p, x, r)
}

// targets are all outputs, then the contrast.
func (s *explainVerb) targets(p *problem) ([]explain.Target, error) {
	var out []explain.Target
	for k := range p.model.outputs {
		out = append(out, explain.Single(k))
	}
	if s.contrast == "" {
		return out, nil
	}
	if p.model.outputs == 1 {
		return nil, fmt.Errorf("--contrast %s: %s has one output, which already weighs its two classes against each other; leave --contrast out", s.contrast, p.model.name)
	}
	a, err := p.task.outputOf(s.classA, p.model)
	if err != nil {
		return nil, err
	}
	b, err := p.task.outputOf(s.classB, p.model)
	if err != nil {
		return nil, err
	}
	return append(out, explain.Contrast(a, b)), nil
}

// explained is the example whose prediction is explained.
type explained struct {
	names   rowNames
	x       *mat.Dense // 1×D
	input   report.Input
	picture report.Picture
}

// example finds the example that the flags ask for.
func (s *explainVerb) example(ctx context.Context, c *console, p *problem) (*explained, error) {
	if s.input != "" {
		return s.inputFile(ctx, c, p.examples)
	}
	o := dataset.SelectOptions{Count: 1}
	if s.index != nil {
		o = dataset.SelectOptions{Rows: []int{*s.index}, From: "--index"}
	}
	e := p.examples
	rows, err := e.test(o)
	if err != nil {
		return nil, err
	}
	return &explained{names: namesOf(rows, 0, 1), x: e.inputs(rows, 0, 1), picture: e.picture(rows, 0),
		input: report.Input{Split: rows.Set.Part, Index: report.Index(rows.Rows[0]), Label: report.Float(label(rows, 0))}}, nil
}

// inputFile reads the example of --input.
func (s *explainVerb) inputFile(ctx context.Context, c *console, e *examples) (*explained, error) {
	in, err := dataset.ReadInput(ctx, s.input, &dataset.InputOptions{Shape: e.data.Shape, Columns: e.data.Columns, Invert: s.invert})
	if err != nil {
		return nil, err
	}
	if in.Light && !s.invert {
		c.warn(fmt.Errorf("%s has a light border, but the training pictures are light ink on black: add --invert if it is dark ink on paper", s.input))
	}
	x := &explained{names: namesOfFile(s.input), input: report.Input{Split: "file", Index: -1, Label: report.Undefined(), File: s.input}}
	if in.Pixels != nil {
		x.picture = gray(e.data, in.Pixels)
	} else {
		x.picture = report.Picture{Names: e.data.Columns, Values: slices.Clone(in.X)}
	}
	x.x = e.scaled(mat.NewDense(1, len(in.X), in.X))
	return x, nil
}

// report predicts the example and explains the prediction.
func (s *explainVerb) report(ctx context.Context, c *console, p *problem, q *posterior, x *explained, targets []explain.Target) (*report.Report, error) {
	batch, err := p.model.net.Linearize(ctx, x.x)
	if err != nil {
		return nil, x.names.explainError(err)
	}
	pred, err := q.predict(ctx, p.task, batch, glm.DefaultLink(p.task.likelihood, p.model.outputs))
	if err != nil {
		return nil, x.names.explainError(err)
	}
	o := &explain.Options{Terms: s.kernel, Top: s.top, Targets: targets}
	if s.html != "" || s.png != "" {
		o.Sides, o.Similar = true, p.mostSimilar()
	}
	ex, err := explain.New(q.dual, q.kernel, o)
	if err != nil {
		return nil, err
	}
	rows, err := ex.Explain(ctx, batch)
	if err != nil {
		return nil, x.names.explainError(err)
	}
	r := &report.Report{Input: x.input, Fit: q.report(p, c.warnings)}
	novelty := report.Novelty{Score: report.Float(pred.novelty.Score[0]), MutualInformation: report.Float(pred.novelty.Mutual[0])}
	novelty.Rank = q.rank(novelty.Score)
	r.Prediction = report.Prediction{Class: p.task.class(batch.F.RawRowView(0)), Probability: rowOf(pred.prob, 0), ProbabilitySD: rowOf(pred.sd, 0),
		MAPProbability: rowOf(pred.mapProb, 0), Mean: rowOf(pred.mean, 0), Covariance: covarianceOf(pred.cov, 0),
		ObservationMean: rowOf(pred.response, 0), ObservationSD: rowOf(pred.observationSD, 0), FunctionSD: rowOf(pred.functionSD, 0), Novelty: &novelty}
	names := report.Rows{Index: p.examples.train.Rows, Label: labels(p.examples.train)}
	for _, one := range rows[0] {
		r.Outputs = append(r.Outputs, names.Output(one))
	}
	return r, c.endPart(ctx, "predict")
}

// mostSimilarTo is the number of outputs of training rows above which a page
// lists no most similar ones: they take the posterior variance of each.
const mostSimilarTo = 40_000

// mostSimilar is how many of the most similar training rows a page lists.
func (p *problem) mostSimilar() int {
	if p.examples.train.Len()*p.model.outputs > mostSimilarTo {
		return 0
	}
	return 8
}

// write shows the report in every form that was asked for; that on standard
// output last, so that its timings cover the rest.
func (s *explainVerb) write(c *console, p *problem, x *explained, r *report.Report) error {
	e := p.examples
	page := &report.Page{Report: r, Terms: s.kernel, Test: x.picture, Train: e.pictures(e.train), Quantity: p.task.quantity(e.data.Target), Invert: e.data.Images(),
		Model: p.model.name, Data: e.data.Source, Command: commandLine(c.args)}
	for _, k := range p.task.classes {
		page.Classes = append(page.Classes, strconv.Itoa(k))
	}
	for _, f := range []struct {
		path  string
		write func(io.Writer) error
	}{{s.html, page.WriteHTML}, {s.png, page.WritePNG}} {
		if f.path == "" {
			continue
		}
		if err := atomicfile.Write(f.path, f.write); err != nil {
			return err
		}
		c.detail("wrote %s", f.path)
	}
	r.Timings = c.timings()
	if c.json {
		return r.WriteJSON(c.out)
	}
	c.noteTuning(&r.Fit)
	return page.WriteText(c.out, c.out.columns())
}

// pictures finds the pictures of rows by their numbers.
func (e *examples) pictures(rows *dataset.Subset) func(row report.Index) report.Picture {
	at := make(map[int]int, rows.Len())
	for i, r := range rows.Rows {
		at[r] = i
	}
	return func(row report.Index) report.Picture { return e.picture(rows, at[int(row)]) }
}

// picture shows row i of a subset: its pixels, or its features as they are in
// the file.
func (e *examples) picture(rows *dataset.Subset, i int) report.Picture {
	if e.data.Images() {
		return gray(e.data, rows.Image(i))
	}
	return report.Picture{Names: e.data.Columns, Values: rows.Set.Matrix([]int{rows.Pos[i]}).RawRowView(0)}
}

// gray is a picture of the size of the data.
func gray(d *dataset.Data, pixels []byte) report.Picture {
	return report.Gray(pixels, d.Shape[len(d.Shape)-1], d.Shape[len(d.Shape)-2])
}
