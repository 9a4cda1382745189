package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/coder"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

type predictVerb struct {
	common    problem.Flags
	posterior inference.Flags
	coder     coder.Flags

	weights   inference.WeightFlags
	calibrate string
	coverage  inference.CoverageFlags

	which     problem.RowFlags
	link      string
	samples   int
	html, csv string
}

var links = []string{"exact", "qmc", "probit", "mc", "bridge"}

func predictCommand(con *console.Console) *cobra.Command {
	s := &predictVerb{}
	v := &verb{
		name:  "predict",
		short: "Predict rows with calibrated uncertainty",
		long: `Predict writes one JSON object a line for every test row asked for, in order, or
for every row of your own with --input, on a terminal a table instead unless --json
is given; and a summary: as text on standard error,
or with --json as the last line. The summary compares the network alone, the
calibrated predictions, and what leave-one-out predictions of the training rows
lead to expect.

The mean is the network's own output, and the covariance that of the refit, the
linearized model at its optimum for the training rows; --refit takes its mean too. The
prior precision is the match, at which the refit fits the training rows as the network
does, unless --at, --prior-precision, --prior or --tune-prior says another.

The covariance is shown as the prior gives it. Probabilities and intervals use it
times one scale, and for classes the mean times one temperature, under which the training
rows are likeliest if each is predicted without itself. Where the classes would then have
other shares than in the data, the mean is shifted. --calibrate none leaves all as it is.
The class is the most probable one.

Of an autoencoder the lines have scores of how little a row is like the training
rows, and its code: the sums of the standard deviations of pixels and of the code
over networks drawn from the posterior, the negative log likelihood, and its
distance from that of training rows (typicality).` + inference.StructureHelp + inference.CoverageHelp,
		example: `  gpexplain predict --index 24
  gpexplain predict --json > predictions.jsonl`,
		flags: s.add, check: s.check, run: s.run, writes: []string{"html", "csv"},
		rules: append([]flags.Rule{
			flags.AtLeast(1, "samples"),
			flags.OneOf("link", links),
			flags.For("link=mc predictive=bnn latent decoder", "", "samples"),
		}, flags.Parameters...),
		complete: map[string][]string{"link": links},
	}
	return v.command(con, &s.common)
}

func (s *predictVerb) add(c *cobra.Command) {
	f := c.Flags()
	flags.Rows(c, &s.which, "predict", "all")
	flags.Method(c, &s.posterior)
	flags.Answer(c, &s.posterior)
	flags.Tune(c, &s.posterior)
	flags.Posterior(c, &s.posterior)
	flags.Weights(c, &s.weights)
	flags.Calibration(c, &s.calibrate)
	flags.Coverage(c, &s.coverage)
	s.coder.Add(c, false)
	f.StringVar(&s.link, "link", "", "`METHOD` from outputs to probabilities: exact, qmc (quasi–Monte Carlo over the whole covariance of a softmax), probit, mc or bridge (default exact for one output, otherwise qmc)")
	f.StringVar(&s.html, "html", "", "write a page with reliability, scores and surprising rows to `FILE`")
	f.StringVar(&s.csv, "csv", "", "write the predictions as a table to `FILE`")
	f.IntVar(&s.samples, "samples", 1000, "`S` draws of --link mc and of --predictive bnn, and networks drawn of an autoencoder with --latent or --decoder (otherwise 100)")
}

func (s *predictVerb) check(c *cobra.Command) error {
	if err := s.which.Check(); err != nil {
		return err
	}
	samples := 0
	if c.Flags().Changed("samples") {
		samples = s.samples
	}
	s.coder.SetPosterior(s.posterior.File, samples)
	if err := s.coder.Check(c); err != nil {
		return err
	}
	if name := s.common.Task.Likelihood; name != "" {
		// Where it matters for the link that there is more than one output, the
		// likelihood is for more than one.
		if lik := problem.LikelihoodNamed(name); !linkSuits(s.link, lik, 2) {
			return job.Usagef("--link %s is not for --likelihood %s", s.link, name)
		}
	}
	return nil
}

// linkSuits tells whether a link can be computed for a likelihood of c
// outputs.
func linkSuits(link string, lik glm.Likelihood, c int) (ok bool) {
	switch link {
	case "exact":
		return predictive.HasExact(lik, c)
	case "qmc", "probit", "bridge":
		_, ok = lik.(glm.Logistic)
		return ok
	}
	return true
}

func (s *predictVerb) run(ctx context.Context, c *console.Console) error {
	if s.coder.Asked() || problem.IsAutoencoder(ctx, &s.common) {
		return coder.Predict(ctx, c, &s.common, &s.coder, &s.which)
	}
	p, err := problem.Open(ctx, c.Job, &s.common, s.posterior.File)
	if err != nil {
		return err
	}
	asked, err := s.which.Select(ctx, c.Job, p, 0)
	if err != nil {
		return err
	}
	p, rows, err := p.GroupedFor(ctx, c.Job, asked.Subset)
	if err != nil {
		return err
	}
	// Choose the link for the likelihood and the model.
	link, lik := predictive.DefaultLink(p.Task.Likelihood, p.Model.Outputs), p.Task.Likelihood
	if !linkSuits(s.link, lik, p.Model.Outputs) {
		return fmt.Errorf("--link %s is not for the %s likelihood of %s; leave it out, or give --link mc", s.link, lik.Name(), p.Model.Name)
	}
	switch s.link {
	case "exact":
		link = predictive.Exact{}
	case "qmc":
		link = predictive.QMC{}
	case "probit":
		link = predictive.Probit{}
	case "bridge":
		link = predictive.Bridge{}
	case "mc":
		link = predictive.MonteCarlo{Samples: s.samples, Seed: p.Limits.Seed}
	}
	if s.weights.Predictive == "linear" {
		link = predictive.Linear{}
	}
	var y *mat.Dense // nil where the targets are unknown
	if rows.Set.Labelled() {
		if y, err = p.Targets(rows); err != nil {
			return err
		}
	}
	if err := s.coverage.Suits(p, p.Examples.Train.Len(), "training rows"); err != nil {
		return err
	}
	s.weights.Samples = s.samples
	q, err := s.weights.Answer(ctx, c.Job, p, &s.posterior, s.calibrate)
	if err != nil {
		return err
	}
	cover, err := s.coverage.Prepare(ctx, c.Job, p, q)
	if err != nil {
		return err
	}
	all, err := s.predict(ctx, c, p, q, link, rows, y, cover)
	if err != nil {
		return err
	}
	return s.write(ctx, c, p, q, all, rows, cover)
}

// predict writes the lines and the table, and returns all rows for the summary.
func (s *predictVerb) predict(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior, link predictive.Link, rows *dataset.Subset, y *mat.Dense, cover *inference.Coverage) (*report.Predictions, error) {
	all := &report.Predictions{Classes: p.Task.Labels(), ClassNames: p.Task.ClassNames(), Labels: p.Task.LabelNames}
	if cover != nil {
		all.Coverage = cover.Share
	}
	if q.Calibration != nil {
		for i := range q.Calibration.LeftOutRows {
			all.AddLeaveOneOut(&q.Calibration.LeftOutRows[i])
		}
	}
	out := bufio.NewWriter(c.Out)
	lines := lineEncoder(out)
	if !c.JSON && c.Out.Terminal() { // a table follows
		lines = lineEncoder(io.Discard)
	}
	layout := report.CSVLayout{Classes: p.Task.Labels(), ClassNames: p.Task.Names, Labels: p.Task.LabelNames, IDs: rows.IDs != nil, Outputs: p.Model.Outputs, Intervals: cover != nil && p.Task.Classes == nil, Sets: cover != nil && p.Task.Classes != nil}
	if p.Task.Classes == nil {
		layout.Targets = p.Task.Likelihood.Targets(p.Model.Outputs)
	}
	err := tabulate(c, s.csv, layout.Columns(), func(table func(*result.PredictedRow) error) error {
		err := q.Each(ctx, p, rows, y, nil, link, func(lo int, b *linearize.Batch, targets *mat.Dense, pred *inference.Predictions) error {
			// Pass on the predictions of a tile that begins at row lo, whose targets are nil where they are unknown.
			hi := lo + b.Len()
			regions, err := cover.Regions(ctx, b, targets)
			if err != nil {
				return problem.NamesOf(rows, lo, hi).ExplainError(err)
			}
			for i := range hi - lo {
				if err := ctx.Err(); err != nil {
					return err
				}
				r := pred.Row(p.Task, i, rows, lo+i)
				r.LogDensity, r.MAPLogDensity = result.Undefined(), result.Undefined()
				if targets != nil {
					r.LogDensity, r.MAPLogDensity = result.Float(pred.LogDensity[i]), result.Float(p.Task.Likelihood.LogProb(targets.RawRowView(i), b.F.RawRowView(i)))
					if q := p.Task.SoftLabel(rows, lo+i); q != nil {
						r.LogDensity, r.MAPLogDensity = result.CrossEntropy(q, r.Probability), result.CrossEntropy(q, r.MAPProbability)
					}
				}
				r.Covariance, r.Novelty.Rank = inference.CovarianceOf(pred.Cov, i), q.Rank(r.Novelty.Score)
				r.Interval, r.Set = regions[i].Interval, regions[i].Set
				r.ID, r.LabelName = problem.IDOf(rows, lo+i), p.LabelName(rows, lo+i)
				all.Add(r)
				if err := table(r); err != nil {
					return err
				}
				if err := lines.Encode(&prediction{"funcgp/predict-row/1", r, p.Task.Names, p.Task.LabelNames}); err != nil {
					return err
				}
			}
			c.Show("predict", hi, rows.Len())
			return nil
		})
		if err != nil {
			return err
		}
		c.Clear()
		return c.EndPart(ctx, "predict")
	})
	if err != nil {
		return nil, err
	}
	return all, out.Flush()
}

// write shows the scores in every form that was asked for.
func (s *predictVerb) write(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior, all *report.Predictions, rows *dataset.Subset, cover *inference.Coverage) error {
	e := p.Examples
	from, err := origin(ctx, c, p, s.html != "")
	if err != nil {
		return err
	}
	all.Fit, all.Timings = q.Report(p, c.Warnings), c.TimingsSoFar()
	var unread error
	page := &report.PredictionPage{Predictions: all, Quantity: job.OneLine(job.Cut(e.Data.Target, 40)), Test: e.Pictures(ctx, rows, &unread), Train: e.Pictures(ctx, e.Train, &unread), Origin: from}
	if err := writePage(c, s.html, page.WriteHTML, &unread); err != nil {
		return err
	}
	if !c.JSON && c.Out.Terminal() {
		if err := page.WriteRows(c.Out, c.Out.Columns()); err != nil {
			return err
		}
	}
	if c.JSON {
		network, calibrated, _ := all.Scores()
		return lineEncoder(c.Out).Encode(&predictSummary{Schema: "funcgp/predict-summary/1", Accuracy: calibrated.Accuracy, NLL: calibrated.NLL, MAPNLL: network.NLL, ECE: calibrated.ECE, ClasswiseECE: calibrated.Classes,
			Coverage: cover.Report(), Record: &from.Record, Fit: all.Fit, Timings: c.Timings(), Classes: p.Task.Names, Labels: p.Task.LabelNames})
	}
	if c.Quiet {
		return nil
	}
	console.NoteTuning(c.Job, &all.Fit)
	return page.WriteText(c.Stderr, 0)
}

// lineEncoder writes JSON as it is, one object a line.
func lineEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// A prediction is one line of output.
type prediction struct {
	Schema string `json:"schema"`
	*result.PredictedRow
	Classes []string `json:"classes,omitempty"` // where classes have names
	Labels  []string `json:"labels,omitempty"`  // of which a row has any number
}

// predictSummary is the last line with --json.
type predictSummary struct {
	Schema       string                    `json:"schema"`
	Accuracy     result.Float              `json:"accuracy"`
	NLL          result.Float              `json:"nll"`
	MAPNLL       result.Float              `json:"map_nll"`
	ECE          result.Float              `json:"ece"`
	ClasswiseECE result.Float              `json:"classwise_ece"`
	Coverage     *inference.CoverageReport `json:"coverage,omitempty"`
	Record       *result.Record            `json:"record"`
	Fit          result.Fit                `json:"fit"`
	Timings      result.Timings            `json:"timings"`
	Classes      []string                  `json:"classes,omitempty"` // where classes have names
	Labels       []string                  `json:"labels,omitempty"`  // of which a row has any number
}
