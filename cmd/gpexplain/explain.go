package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse/parts"
)

type explainVerb struct {
	common flags.Common

	which           problem.RowFlags
	change          changeFlags
	top             int
	byLayer         bool
	influence       bool
	terms, contrast string
	html, csv       string
	kernel          gp.Terms         // parsed from terms by check
	sources         []problem.Source // the networks, found by check

	part   partFlags
	merged [][]explain.Explanation // of all parts, in place of a pass over the data: the rows to come; nil for a pass

	half      gp.Dual            // of --influence, else nil
	explainer *explain.Explainer // of all rows, which keeps what it learns of training rows; nil before the first
}

// kernels are the values of --terms.
var kernels = []string{"posterior", "raw"}

func explainCommand(con *console.Console) *cobra.Command {
	s := &explainVerb{}
	v := &verb{
		name:  "explain",
		short: "Explain one prediction as a sum over the training examples",
		long: `Explain writes one prediction as prior mean plus a sum over all training
examples plus a remainder, which adds up exactly, and lists the largest terms with their
sign, an error bar, the effect of removing each example, and how similar it is. The error bar
is how much the term would vary had the example's label been drawn anew; a star marks
terms more than two of them from 0.

The terms are those of the refit, the linearized model at its optimum for the training
rows, at the prior precision at which it fits them as the network does (--at). The remainder
is what the network says beyond the refit, and no training example explains it. The terms
say which examples hold the prediction together; the removal is for single examples.

It explains the first test row, the test rows --index, or those of a file of your
own. Of several rows each has an explanation of its own; pages and pictures get
the number of the row in their names.

Of several networks, --model A,B,... or --posterior A,B,..., it explains the mean
output: the sum over training examples closes as that of one network does, and the
error bar of a term is its standard error over the networks, which were trained apart.`,
		example: `  gpexplain explain
  gpexplain explain --index 24 --html page.html
  gpexplain explain --index 6,24 --csv terms.csv
  gpexplain explain --without 1696,5838
  gpexplain explain --flip 1696=9
  gpexplain explain --by-layer
  gpexplain explain --train-count 300 --model a.onnx,b.onnx,c.onnx
  gpexplain explain --train-count 500 --index 6 --smallest-flip
  gpexplain explain --input digit.png
  gpexplain explain --json --top 100 --train-count 500`,
		flags: s.add, check: s.check, run: s.run, writes: []string{"html", "csv", "out"}, files: s.files,
		rules: append(s.part.rules("html", "csv", "by-layer", "influence", "without", "flip", "smallest-flip", "json"),
			flags.AtLeast(1, "top"),
			flags.OneOf("terms", kernels...),
			flags.For("smallest-flip", "", "flip-most", "flip-tries"),
			flags.AtLeast(1, "flip-most", "flip-tries"),
			flags.Apart("; ask one after the other", "smallest-flip", "without", "flip"),
		),
		complete: map[string][]string{"terms": kernels},
	}
	return v.command(con, &s.common)
}

func (s *explainVerb) add(c *cobra.Command) {
	f := c.Flags()
	flags.Rows(c, &s.which, "explain", "the first kept one")
	f.IntVar(&s.top, "top", 8, "list the `K` largest terms")
	flags.Method(c)
	flags.Answer(c)
	flags.Tune(c)
	flags.Posterior(c)
	flags.Calibration(c)
	s.change.add(c)
	f.StringVar(&s.terms, "terms", "posterior", "list the terms of this `KERNEL`: posterior or raw")
	f.StringVar(&s.contrast, "contrast", "", "for two classes `A,B`, explain why A rather than B (default the predicted class and the next most probable); for a regression, two outputs")
	f.BoolVar(&s.byLayer, "by-layer", false, "split every term and the sum by the layers of the network through whose parameters it comes")
	f.BoolVar(&s.influence, "influence", false, "tell for each listed row what it does together with many: the output with the row less without it, the other rows at half of their weight; it takes another factor of the kernel (--method exact or kept)")
	s.part.add(c, "write what part `I/N` of the training rows contributes, 0/N to N-1/N, for gpexplain merge")
	f.StringVar(&s.html, "html", "", "write a page to `FILE`")
	f.StringVar(&s.csv, "csv", "", "write the listed terms of all rows as a table to `FILE`: numbers but similarity are in the unit of the output, and a positive value raises it")
}

func (s *explainVerb) check(c *cobra.Command) error {
	if err := s.which.Check(); err != nil {
		return err
	}
	if s.terms == "raw" {
		s.kernel = gp.RawTerms
	}
	var err error
	if s.sources, err = s.common.Several(s.common.File); err != nil {
		return err
	}
	if err := s.part.parse(); err != nil {
		return err
	}
	for _, name := range []string{"without", "flip", "smallest-flip", "by-layer", "influence", "shard"} {
		if len(s.sources) > 1 && c.Flags().Changed(name) {
			return job.Usagef("--%s is for one network, not for the mean of %d; give it with one of them", name, len(s.sources))
		}
	}
	if err := s.change.check(); err != nil {
		return err
	}
	_, _, err = s.common.Data.CheckContrast(s.contrast)
	return err
}

// files are the files of several networks.
func (s *explainVerb) files() (list []job.FlagPath) {
	for _, one := range s.sources {
		list = append(append(list, one.Flags.Files()...), job.FlagPath{Flag: "--posterior", Path: one.Posterior})
	}
	return list
}

func (s *explainVerb) run(ctx context.Context, c *console.Console) error {
	if len(s.sources) > 1 {
		return s.runSeveral(ctx, c)
	}
	if s.part.text != "" {
		// Write what a part of the training rows contributes to predictions.
		p, err := problem.Open(ctx, c.Job, &s.common.Flags, s.common.File)
		if err != nil {
			return err
		}
		q, err := inference.Answer(ctx, c.Job, p, s.common.Inference(), s.common.Calibrate())
		if err != nil {
			return err
		}
		asking, err := s.which.Absolute()
		if err != nil {
			return err
		}
		t, err := parts.NewTerms(ctx, inference.Front(c.Job, p, q).(*funcgp.Posterior), parts.Question{Rows: parts.Rows(asking), Top: s.top, Terms: s.terms, Contrast: s.contrast, Calibrate: s.common.Calibrate()})
		if err != nil {
			return err
		}
		done, err := t.Part(ctx, s.part.part)
		if err != nil {
			return err
		}
		if err := done.Write(s.part.out); err != nil {
			return err
		}
		lo, _ := s.part.part.Rows(t.Len())
		_, err = fmt.Fprintf(c.Out, "wrote %s: part %v, %d training rows from the %s, for %d explained rows\n", s.part.out, s.part.part, done.Len(), ordinal(lo), len(done.Explanations()))
		return err
	}
	p, err := problem.Open(ctx, c.Job, &s.common.Flags, s.common.File)
	if err != nil {
		return err
	}
	rows, err := s.which.Select(ctx, c.Job, p, 1)
	if err != nil {
		return err
	}
	if p, rows, err = p.GroupedFor(ctx, c.Job, rows); err != nil {
		return err
	}
	asked, err := inference.Contrasted(p, s.contrast)
	if err != nil {
		return err
	}
	other, err := s.change.find(p)
	if err != nil {
		return err
	}
	q, err := inference.Answer(ctx, c.Job, p, s.common.Inference(), s.common.Calibrate())
	if err != nil {
		return err
	}
	p = q.Problem
	if _, ok := q.Dual.(explain.Splitter); s.byLayer && !ok {
		return inference.NotOfAllRows("--by-layer", q.How.Name, p.Saved != nil)
	}
	if s.influence {
		if s.half, err = q.AtHalfWeights(ctx, c.Job, p); err != nil {
			return err
		}
	}
	if err := other.fit(ctx, c, p, q); err != nil {
		return err
	}
	return s.writeAll(ctx, c, []*problem.Problem{p}, rows, func(i int, x *explained) (*result.Report, error) {
		return s.report(ctx, c, p, q, other, x, asked)
	})
}

// writeAll shows the report of each row in every form that was asked for.
func (s *explainVerb) writeAll(ctx context.Context, c *console.Console, list []*problem.Problem, rows *dataset.Rows, of func(i int, x *explained) (*result.Report, error)) error {
	p := list[0]
	about, err := s.about(ctx, c, list)
	if err != nil {
		return err
	}
	return tabulate(c, s.csv, termColumns, func(add func(*term) error) error {
		for i := range rows.Len() {
			// Row i of those asked for.
			e, label := p.Examples, result.Float(problem.Label(rows, i))
			inputs, err := e.Inputs(ctx, rows, i, i+1)
			if err != nil {
				return err
			}
			shown, err := e.Picture(ctx, rows, i)
			if err != nil {
				return err
			}
			x := &explained{row: rows.Slice(i, i+1), x: inputs, picture: shown,
				input: result.Input{Split: rows.Part, Index: result.Index(rows.Index[i]), Label: label, LabelName: p.LabelName(rows, i), ID: problem.IDOf(rows, i), Targets: problem.SeveralOf(rows, i)}}
			if rows.Own() {
				x.input.File = rows.File
			}
			if rows.Own() && rows.Len() == 1 {
				x.input.Index, x.input.Notes = -1, rows.Notes
			}
			r, err := of(i, x)
			if err != nil {
				return err
			}
			if err := terms(p, r, add); err != nil {
				return err
			}
			if i > 0 && !c.JSON {
				fmt.Fprintln(c.Out)
			}
			if err := s.write(ctx, c, p, about, rows, i, x, r); err != nil {
				return err
			}
			if rows.Len() > 1 {
				c.Show("explain", i+1, rows.Len())
			}
		}
		c.Clear()
		return nil
	})
}

// about is what pages say of where they come from; empty where there are none.
type about struct {
	result.Origin
	spread []float64
}

func (s *explainVerb) about(ctx context.Context, c *console.Console, list []*problem.Problem) (a about, err error) {
	p := list[0]
	if a.Origin, err = origin(ctx, c, p, s.html != ""); err != nil {
		return a, err
	}
	a.Record.Says = result.NoCause
	if len(list) > 1 { // scores on test rows, which one network alone has, are left out
		a.Model, a.Record.ModelSHA256, a.Record.Test = fmt.Sprintf("mean of %d networks", len(list)), "", nil
		for _, p := range list {
			sum, err := p.Model.Sum(ctx)
			if err != nil {
				return a, err
			}
			a.Record.Networks = append(a.Record.Networks, result.FileSum{Name: p.Model.Name, SHA256: sum})
		}
	}
	if s.html != "" {
		a.spread, err = p.Spread(ctx)
	}
	return a, err
}

// explained is the example whose prediction is explained.
type explained struct {
	row     *dataset.Rows // one
	x       *mat.Dense    // 1×D
	input   result.Input
	picture result.Picture

	interval []float64 // where 95 % of new observations lie, set by report; nil for classes
}

// report predicts the example by q and explains the prediction.
func (s *explainVerb) report(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior, other *changedData, x *explained, asked *explain.Target) (*result.Report, error) {
	batch, err := p.Model.Net.Linearize(ctx, x.x)
	if err != nil {
		return nil, problem.ExplainError(x.row, err)
	}
	link := predictive.DefaultLink(p.Task.Likelihood, p.Model.Outputs)
	pred, err := q.Predict(ctx, p.Task, batch, link)
	if err != nil {
		return nil, problem.ExplainError(x.row, err)
	}
	if x.interval, err = pred.Interval(ctx, p); err != nil {
		return nil, problem.ExplainError(x.row, err)
	}
	names := p.TrainingRows()
	o := s.options(p, inference.Targets(p, pred, 0, asked), names.Groups())
	names.ErrorBars = true
	if s.byLayer {
		names.Layers, o.Layers = layers(p, q, batch)
	}
	if s.html != "" {
		o.Sides, o.Similar, o.Curve = true, mostSimilar(p), true
	}
	list, err := s.explanations(ctx, q, o, batch)
	if err != nil {
		return nil, problem.ExplainError(x.row, err)
	}
	r := &result.Report{Input: x.input, Classes: p.Task.ClassNames(), Labels: p.Task.LabelNames, Meanings: s.meanings(p), Fit: q.Report(p, c.Warnings)}
	r.Prediction = q.Prediction(p.Task, pred, 0)
	for _, one := range list {
		one.Remainder = one.Target.Of(pred.Mean.RawRowView(0)) - one.PriorMean - one.Sum
		r.Outputs = append(r.Outputs, names.Output(one))
	}
	// What would be predicted from other training rows
	switch {
	case other == nil:
	case other.search != nil:
		flip, _, warnings, err := inference.SmallestFlip(ctx, p, q, other.model, batch, *other.search, link)
		c.Clear()
		c.Warn(warnings...)
		if err != nil {
			return nil, problem.ExplainError(x.row, err)
		}
		r.SmallestFlip = flip
	default:
		says := other.says
		if _, err := q.ChangeTo(ctx, p, &says, other.posterior, batch, link); err != nil {
			return nil, problem.ExplainError(x.row, err)
		}
		if says.Labels != nil {
			r.Flip = &says
		} else {
			r.Without = &says
		}
	}
	return r, c.EndPart(ctx, "predict")
}

// options are the options of an explanation without a page.
func (s *explainVerb) options(p *problem.Problem, targets []explain.Target, groups []int) *explain.Options {
	return &explain.Options{Terms: s.kernel, Top: s.top, Targets: targets, Groups: groups, ErrorBars: true, Limits: linearize.Limits{Memory: p.Limits.Memory}}
}

// explanations explains one row, by a pass over the data or from the parts of one.
func (s *explainVerb) explanations(ctx context.Context, q *inference.Posterior, o *explain.Options, batch *linearize.Batch) ([]explain.Explanation, error) {
	if s.merged != nil {
		if len(s.merged) == 0 || len(s.merged[0]) != len(o.Targets) {
			return nil, errors.New("the parts are of other rows than those explained; compute them again")
		}
		list := s.merged[0]
		s.merged = s.merged[1:]
		for k, target := range o.Targets {
			list[k].Target = target
		}
		return list, nil
	}
	if s.explainer == nil {
		var err error
		if s.explainer, err = explain.New(q.Dual, q.Kernel, o); err != nil {
			return nil, err
		}
	}
	rows, err := s.explainer.ExplainTargets(ctx, batch, nil, o.Targets)
	if err != nil {
		return nil, err
	}
	if s.half != nil {
		err = explain.AddInfluence(ctx, s.half, batch, rows[0])
	}
	return rows[0], err
}

// write shows the report of row i in every form that was asked for; that on
// standard output last, so that its timings cover the rest.
func (s *explainVerb) write(ctx context.Context, c *console.Console, p *problem.Problem, a about, rows *dataset.Rows, i int, x *explained, r *result.Report) error {
	e := p.Examples
	a.Record.Scored = result.NewScored(x.x.RawRowView(0), &r.Prediction)
	var unread error
	page := &report.Page{Report: r, Terms: s.kernel, Test: x.picture, Train: e.Pictures(ctx, e.Train, &unread), Quantity: p.Task.Quantity(e.Data.Target), Origin: a.Origin,
		Classes: r.Classes, Columns: p.OutputNames(), Spread: a.spread, Interval: x.interval}
	r.Record, r.Timings = &a.Record, c.TimingsSoFar()
	if err := writePage(c, numbered(s.html, rows, i), page.WriteHTML, &unread); err != nil {
		return err
	}
	r.Timings = c.Timings()
	if c.JSON {
		return r.WriteJSON(c.Out)
	}
	console.NoteTuning(c.Job, &r.Fit)
	return page.WriteText(c.Out, c.Out.Columns())
}

// numbered is the path of a file about row i: with its number before the ending
// where there are several rows.
func numbered(path string, rows *dataset.Rows, i int) string {
	if rows.Len() == 1 || path == "" {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(path, ext), rows.Index[i], ext)
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

// layered is a prior with the parameters of each layer as a group.
type layered struct {
	ntk.Prior
	groups []ntk.Group
}

// Groups implements ntk.Grouped.
func (l layered) Groups() []ntk.Group { return l.groups }

// layers are the layers of the network by name, and the kernels of their parameters under
// the prior of q. They add up to its kernel.
func layers(p *problem.Problem, q *inference.Posterior, batch *linearize.Batch) (names []string, kernels []ntk.Kernel) {
	// The precision of the groups is not used: the prior gives the variances.
	groups := ntk.ByLayer(ntk.Spans(batch), 1)
	k := ntk.New(layered{q.Prior(), groups}, p.Model.Net.Theta())
	for g := range groups {
		names = append(names, groups[g].Name)
		kernels = append(kernels, k.GroupKernel(g))
	}
	return names, kernels
}
