package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/inference"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
)

type explainVerb struct {
	common    problem.Flags
	posterior inference.Flags

	calibration inference.CalibrationFlags

	index           *int // nil where not given
	input           string
	invert          bool
	top             int
	terms, contrast string
	html, png       string
	kernel          gp.Terms // parsed from terms by check
	classA, classB  int      // parsed from contrast by check
}

func explainCommand(con *console.Console) *cobra.Command {
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
		complete: inference.MethodValues(map[string][]string{"terms": {"posterior", "raw"}, "calibrate": inference.Calibrations}),
	}
	return v.command(con, &s.common)
}

func (s *explainVerb) add(c *cobra.Command) {
	f := c.Flags()
	problem.OptionalInt(c, &s.index, "index", "explain test row `I`, counted from 0 in the original file (default the first kept one)")
	f.StringVar(&s.input, "input", "", "explain a `FILE` of your own: a PNG picture, or a CSV file with one row")
	f.BoolVar(&s.invert, "invert", false, "the picture of --input is dark ink on light paper")
	f.IntVar(&s.top, "top", 8, "list the `K` largest terms")
	s.posterior.Add(c)
	s.posterior.AddRefit(c, true, "move to the optimum of the linearized model first, where the sum is complete")
	s.posterior.AddTune(c)
	s.posterior.AddFile(c)
	s.calibration.Add(c)
	f.StringVar(&s.terms, "terms", "posterior", "list the terms of this `KERNEL`: posterior or raw")
	f.StringVar(&s.contrast, "contrast", "", "for two classes `A,B`, explain as well why A rather than B; for a regression, two outputs")
	f.StringVar(&s.html, "html", "", "write a page to `FILE`")
	f.StringVar(&s.png, "png", "", "write a picture to `FILE`")
}

func (s *explainVerb) check(c *cobra.Command) error {
	switch {
	case s.index != nil && s.input != "":
		return console.Usagef("--index and --input exclude each other")
	case s.index != nil && *s.index < 0:
		return console.Usagef("--index %d must be 0 or more", *s.index)
	case s.top < 1:
		return console.Usagef("--top %d must be at least 1", s.top)
	case s.invert && s.input == "":
		return console.Usagef("--invert is for --input")
	}
	switch s.terms {
	case "posterior":
		s.kernel = gp.Posterior
	case "raw":
		s.kernel = gp.Raw
	default:
		return console.NotOneOf("terms", s.terms, []string{"posterior", "raw"})
	}
	if err := console.Distinct([]console.FlagPath{{Flag: "--html", Path: s.html}, {Flag: "--png", Path: s.png}}, append(s.common.Files(), console.FlagPath{Flag: "--input", Path: s.input}, console.FlagPath{Flag: "--posterior", Path: s.posterior.File})); err != nil {
		return err
	}
	if err := s.posterior.Check(c); err != nil {
		return err
	}
	if err := s.calibration.Check(c, s.posterior.File); err != nil {
		return err
	}
	return s.checkContrast()
}

func (s *explainVerb) checkContrast() error {
	if s.contrast == "" {
		return nil
	}
	ab, err := problem.ParseInts("--contrast", s.contrast)
	if err != nil {
		return err
	}
	if len(ab) != 2 || ab[0] == ab[1] {
		return console.Usagef("--contrast %q must be two different classes such as 4,9", s.contrast)
	}
	data := &s.common.Data
	for _, k := range ab {
		if data.Classes != nil && !slices.Contains(data.Classes, k) {
			return console.Usagef("--contrast %s: %d is not one of --classes %s", s.contrast, k, data.ClassText)
		}
	}
	s.classA, s.classB = ab[0], ab[1]
	return nil
}

func (s *explainVerb) run(ctx context.Context, c *console.Console) error {
	for _, path := range []string{s.html, s.png} {
		if err := console.Writable(path); err != nil {
			return err
		}
	}
	p, err := problem.Open(ctx, c, &s.common, s.posterior.File)
	if err != nil {
		return err
	}
	asked, err := s.contrasted(p)
	if err != nil {
		return err
	}
	x, err := s.example(ctx, c, p)
	if err != nil {
		return err
	}
	q, err := inference.Answer(ctx, c, p, &s.posterior, s.calibration.Method)
	if err != nil {
		return err
	}
	r, err := s.report(ctx, c, p, q, x, asked)
	if err != nil {
		return err
	}
	return s.write(ctx, c, p, x, r)
}

// contrasted is the contrast that was asked for, nil for none.
func (s *explainVerb) contrasted(p *problem.Problem) (*explain.Target, error) {
	if s.contrast == "" {
		return nil, nil
	}
	if p.Model.Outputs == 1 {
		return nil, fmt.Errorf("--contrast %s: %s has one output, which already weighs its two classes against each other; leave --contrast out", s.contrast, p.Model.Name)
	}
	a, err := p.Task.OutputOf(s.classA, p.Model)
	if err != nil {
		return nil, err
	}
	b, err := p.Task.OutputOf(s.classB, p.Model)
	if err != nil {
		return nil, err
	}
	t := explain.Contrast(a, b)
	return &t, nil
}

// targets are all outputs, then the contrast that was asked for. Without one it is
// that of the predicted class and the runner-up, where each class has an output:
// a softmax compares outputs, and by itself none means anything.
func targets(p *problem.Problem, f []float64, pred *inference.Predictions, asked *explain.Target) []explain.Target {
	var list []explain.Target
	for k := range p.Model.Outputs {
		list = append(list, explain.Single(k))
	}
	switch {
	case asked != nil:
		list = append(list, *asked)
	case p.Task.Classes != nil && p.Model.Outputs > 1:
		predicted := problem.LargestClass(f)
		second, best := -1, math.Inf(-1)
		for k, v := range pred.Prob.RawRowView(0) {
			if k != predicted && v > best {
				second, best = k, v
			}
		}
		list = append(list, explain.Contrast(predicted, second))
	}
	return list
}

// explained is the example whose prediction is explained.
type explained struct {
	names   problem.RowNames
	x       *mat.Dense // 1×D
	input   report.Input
	picture report.Picture

	interval []float64 // where 95 % of new observations lie, set by report; nil for classes
}

// example finds the example that the flags ask for.
func (s *explainVerb) example(ctx context.Context, c *console.Console, p *problem.Problem) (*explained, error) {
	if s.input != "" {
		return s.inputFile(ctx, c, p.Examples)
	}
	o := dataset.SelectOptions{Count: 1}
	if s.index != nil {
		o = dataset.SelectOptions{Rows: []int{*s.index}, From: "--index"}
	}
	e := p.Examples
	rows, err := e.Test(o)
	if err != nil {
		return nil, err
	}
	label := report.Float(problem.Label(rows, 0))
	return &explained{names: problem.NamesOf(rows, 0, 1), x: e.Inputs(rows, 0, 1), picture: e.Picture(rows, 0),
		input: report.Input{Split: rows.Set.Part, Index: report.Index(rows.Rows[0]), Label: label, LabelName: nameOf(p, label), ID: idOf(rows, 0)}}, nil
}

// inputFile reads the example of --input.
func (s *explainVerb) inputFile(ctx context.Context, c *console.Console, e *problem.Examples) (*explained, error) {
	in, err := dataset.ReadInput(ctx, s.input, &dataset.InputOptions{Shape: e.Data.Shape, Columns: e.Data.Columns, Invert: s.invert})
	if err != nil {
		return nil, err
	}
	if in.Light && !s.invert {
		c.Warn(fmt.Errorf("%s has a light border, but the training pictures are light ink on black: add --invert if it is dark ink on paper", s.input))
	}
	x := &explained{names: problem.NamesOfFile(s.input), input: report.Input{Split: "file", Index: -1, Label: report.Undefined(), File: s.input}}
	if in.Pixels != nil {
		x.picture = problem.Gray(e.Data, in.Pixels)
	} else {
		x.picture = report.Picture{Names: e.Data.Columns, Values: slices.Clone(in.X)}
	}
	x.x = e.Scaled(mat.NewDense(1, len(in.X), in.X))
	return x, nil
}

// report predicts the example and explains the prediction.
func (s *explainVerb) report(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior, x *explained, asked *explain.Target) (*report.Report, error) {
	batch, err := p.Model.Net.Linearize(ctx, x.x)
	if err != nil {
		return nil, x.names.ExplainError(err)
	}
	pred, err := q.Predict(ctx, p.Task, batch, glm.DefaultLink(p.Task.Likelihood, p.Model.Outputs))
	if err != nil {
		return nil, x.names.ExplainError(err)
	}
	if x.interval, err = interval(ctx, p, pred); err != nil {
		return nil, x.names.ExplainError(err)
	}
	names := trainRows(p)
	o := &explain.Options{Terms: s.kernel, Top: s.top, Targets: targets(p, batch.F.RawRowView(0), pred, asked), Groups: names.Groups()}
	if s.html != "" || s.png != "" {
		o.Sides, o.Similar, o.Curve = true, mostSimilar(p), true
	}
	ex, err := explain.New(q.Dual, q.Kernel, o)
	if err != nil {
		return nil, err
	}
	rows, err := ex.Explain(ctx, batch)
	if err != nil {
		return nil, x.names.ExplainError(err)
	}
	r := &report.Report{Input: x.input, Classes: classNames(p), Fit: q.Report(p, c.Warnings)}
	novelty := report.Novelty{Score: report.Float(pred.Novelty.Score[0]), MutualInformation: report.Float(pred.Novelty.Mutual[0])}
	novelty.Rank = q.Rank(novelty.Score)
	r.Prediction = report.Prediction{Class: p.Task.Class(batch.F.RawRowView(0)), Probability: inference.RowOf(pred.Prob, 0), ProbabilitySD: inference.RowOf(pred.SD, 0),
		MAPProbability: inference.RowOf(pred.MAPProb, 0), Mean: inference.RowOf(pred.Mean, 0), Covariance: inference.CovarianceOf(pred.Cov, 0),
		ObservationMean: inference.RowOf(pred.Response, 0), ObservationSD: inference.RowOf(pred.ObservationSD, 0), FunctionSD: inference.RowOf(pred.FunctionSD, 0), Novelty: &novelty}
	r.Prediction.ClassName = nameOf(p, r.Prediction.Class)
	for _, one := range rows[0] {
		r.Outputs = append(r.Outputs, names.Output(one))
	}
	return r, c.EndPart(ctx, "predict")
}

// write shows the report in every form that was asked for; that on standard
// output last, so that its timings cover the rest.
func (s *explainVerb) write(ctx context.Context, c *console.Console, p *problem.Problem, x *explained, r *report.Report) error {
	e := p.Examples
	page := &report.Page{Report: r, Terms: s.kernel, Test: x.picture, Train: e.Pictures(e.Train), Quantity: p.Task.Quantity(e.Data.Target), Invert: e.Data.Images(),
		Model: p.Model.Name, Data: e.Data.Source, Command: console.CommandLine(c.Args), Classes: r.Classes, Interval: x.interval}
	if s.html != "" || s.png != "" {
		var err error
		if page.Record, err = record(ctx, p); err != nil {
			return err
		}
		if page.Spread, err = spread(ctx, p); err != nil {
			return err
		}
	}
	r.Timings = c.TimingsSoFar()
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
		c.Detail("wrote %s", f.path)
	}
	r.Timings = c.Timings()
	if c.JSON {
		return r.WriteJSON(c.Out)
	}
	inference.NoteTuning(c, &r.Fit)
	return page.WriteText(c.Out, c.Out.Columns())
}

// interval is the central 95 % interval of a new observation, nil but for a regression
// of one output.
func interval(ctx context.Context, p *problem.Problem, pred *inference.Predictions) ([]float64, error) {
	if p.Task.Classes != nil || p.Model.Outputs > 1 {
		return nil, nil
	}
	var lo, hi mat.Dense
	if err := glm.IntervalTo(ctx, &lo, &hi, 0.95, pred.Likelihood, pred.Mean, pred.Scaled, 0); err != nil {
		return nil, err
	}
	return []float64{lo.At(0, 0), hi.At(0, 0)}, nil
}

// mostSimilarTo is the number of outputs of training rows above which a page
// lists no most similar ones: they take the posterior variance of each.
const mostSimilarTo = 40_000

// mostSimilar is how many of the most similar training rows a page lists.
func mostSimilar(p *problem.Problem) int {
	if p.Examples.Train.Len()*p.Model.Outputs > mostSimilarTo {
		return 0
	}
	return 8
}
