package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/sparse/parts"
)

type explainVerb struct {
	common flags.Common

	which           funcgp.Query
	o               funcgp.ExplainOptions // Merged where all parts take the place of a pass over the data
	without, flip   string
	terms, contrast string
	html, csv       string
	sources         []funcgp.Source // the networks, found by check
	part            partFlags
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
	f.IntVar(&s.o.Top, "top", result.DefaultTop, "list the `K` largest terms")
	flags.Method(c, "at", "refit", "inference", "tune-prior", "posterior", "calibrate")
	s.addChange(c)
	f.StringVar(&s.terms, "terms", "posterior", "list the terms of this `KERNEL`: posterior or raw")
	f.StringVar(&s.contrast, "contrast", "", "for two classes `A,B`, explain why A rather than B (default the predicted class and the next most probable); for a regression, two outputs")
	f.BoolVar(&s.o.ByLayer, "by-layer", false, "split every term and the sum by the layers of the network through whose parameters it comes")
	f.BoolVar(&s.o.Influence, "influence", false, "tell for each listed row what it does together with many: the output with the row less without it, the other rows at half of their weight; it takes another factor of the kernel (--method exact or kept)")
	s.part.add(c, "write what part `I/N` of the training rows contributes, 0/N to N-1/N, for gpexplain merge")
	f.StringVar(&s.html, "html", "", "write a page to `FILE`")
	f.StringVar(&s.csv, "csv", "", "write the listed terms of all rows as a table to `FILE`: numbers but similarity are in the unit of the output, and a positive value raises it")
}

func (s *explainVerb) check(c *cobra.Command) error {
	if err := s.which.Check(); err != nil {
		return err
	}
	var err error
	if s.sources, err = s.common.Several(); err != nil {
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
	if err := s.checkChange(); err != nil {
		return err
	}
	return funcgp.CheckContrast(s.common.Data, s.common.File, s.contrast)
}

// files returns the paths of the files of several networks.
func (s *explainVerb) files() (list []job.FlagPath) {
	for _, one := range s.sources {
		list = append(list, job.FlagPath{Flag: "{model}", Path: one.Model.File}, job.FlagPath{Flag: "{posterior}", Path: one.File})
	}
	return list
}

func (s *explainVerb) run(ctx context.Context, c *console.Console) error {
	ctx = job.NewContext(ctx, c.Job)
	s.o.Raw, s.o.Page = s.terms == "raw", s.html != ""
	if err := s.o.Contrast(s.contrast); err != nil {
		return err
	}
	if len(s.sources) > 1 {
		return s.runSeveral(ctx, c)
	}
	if s.part.text != "" {
		return s.writePart(ctx, c)
	}
	session, err := s.common.Session(ctx)
	if err != nil {
		return err
	}
	rows, err := session.Select(ctx, &s.which, 1)
	if err != nil {
		return err
	}
	post, err := session.Deferred(ctx, rows)
	if err != nil {
		return err
	}
	return s.tabulate(ctx, c, []*funcgp.Posterior{post}, rows, func(show func(i int, x *funcgp.Explanation) error) error {
		return post.EachExplanation(ctx, rows, &s.o, show)
	})
}

// writePart writes the contributions of a part of the training rows to predictions.
func (s *explainVerb) writePart(ctx context.Context, c *console.Console) error {
	post, err := s.common.Posterior(ctx, nil)
	if err != nil {
		return err
	}
	asking, err := s.which.Absolute()
	if err != nil {
		return err
	}
	t, err := parts.NewTerms(ctx, post, parts.Question{Rows: parts.Rows(asking), Top: s.o.Top, Terms: s.terms, Contrast: s.contrast, Calibrate: s.common.Calibrate()})
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

// tabulate writes each explanation of the rows in every form that was asked for.
func (s *explainVerb) tabulate(ctx context.Context, c *console.Console, list []*funcgp.Posterior, rows *funcgp.Rows, each func(show func(i int, x *funcgp.Explanation) error) error) error {
	post := list[0]
	about, err := s.about(ctx, c, list)
	if err != nil {
		return err
	}
	return tabulate(c, s.csv, termColumns, func(add func(*term) error) error {
		return each(func(i int, x *funcgp.Explanation) error {
			if err := terms(x, add); err != nil {
				return err
			}
			if i > 0 && !c.JSON {
				fmt.Fprintln(c.Out)
			}
			return s.write(ctx, c, post, about, rows, i, x)
		})
	})
}

// about is the origin that pages show. It is empty if no page is written.
type about struct {
	result.Origin
	spread []float64
}

func (s *explainVerb) about(ctx context.Context, c *console.Console, list []*funcgp.Posterior) (a about, err error) {
	post := list[0]
	if a.Origin, err = originOf(ctx, c, post, s.html != ""); err != nil {
		return a, err
	}
	a.Record.Says = result.NoCause
	if len(list) > 1 { // scores on test rows, which one network alone has, are left out
		a.Model, a.Record.ModelSHA256, a.Record.Test = fmt.Sprintf("mean of %d networks", len(list)), "", nil
		for _, p := range list {
			sum, err := p.ModelSum(ctx)
			if err != nil {
				return a, err
			}
			a.Record.Networks = append(a.Record.Networks, sum)
		}
	}
	if s.html != "" {
		a.spread, err = post.Spread(ctx)
	}
	return a, err
}

// write writes the explanation of row i in every form that was asked for. Standard output comes last, so that
// its timings include the other forms.
func (s *explainVerb) write(ctx context.Context, c *console.Console, post *funcgp.Posterior, a about, rows *funcgp.Rows, i int, x *funcgp.Explanation) error {
	var err error
	if a.Record.Scored, err = rows.Scored(ctx, i, &x.Prediction); err != nil {
		return err
	}
	shown, err := rows.Shown(ctx, i)
	if err != nil {
		return err
	}
	var unread error
	page := &report.Page{Report: x, Test: shown, Train: post.Pictures(ctx, &unread), Quantity: post.Quantity(), Origin: a.Origin,
		Classes: x.Classes, Columns: post.OutputNames(), Spread: a.spread, Interval: x.Interval}
	if s.o.Raw {
		page.Terms = gp.RawTerms
	}
	x.Record = &a.Record
	return show(c, numbered(s.html, rows, x), page, &unread, &x.Fit, &x.Timings, x)
}

// numbered returns the path of a file about one row. If there are several rows, the row's number stands before
// the ending.
func numbered(path string, rows *funcgp.Rows, x *funcgp.Explanation) string {
	if rows.Len() == 1 || path == "" {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(path, ext), x.Input.Index, ext)
}
