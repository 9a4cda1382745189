package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/coder"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
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
for every row of your own with --input, and a summary: as text on standard error,
or with --json as the last line. The summary compares the network alone, the
calibrated predictions, and what leave-one-out predictions of the training rows
lead to expect.

The mean is the network's own output, and the covariance that of the refit, the
linearized model at its optimum for the training rows; --refit takes its mean too. The
prior precision is the match, at which the refit fits the training rows as the network
does, unless --at, --prior-precision, --prior or --tune-prior says another.

The covariance is shown as the prior gives it. Probabilities and intervals use it
times one scale, and for classes the mean times one temperature, under which the training
rows are likeliest if each is predicted without itself; --calibrate none leaves both as
they are. The class is the most probable one.

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
		complete: inference.MethodValues(map[string][]string{"link": links, "calibrate": inference.Calibrations, "structure": inference.Structures, "predictive": inference.Predictives}),
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

// chooseLink returns the link for the likelihood and the model.
func (s *predictVerb) chooseLink(p *problem.Problem) (predictive.Link, error) {
	lik := p.Task.Likelihood
	if !linkSuits(s.link, lik, p.Model.Outputs) {
		return nil, fmt.Errorf("--link %s is not for the %s likelihood of %s; leave it out or use mc", s.link, lik.Name(), p.Model.Name)
	}
	switch s.link {
	case "exact":
		return predictive.Exact{}, nil
	case "qmc":
		return predictive.QMC{}, nil
	case "probit":
		return predictive.Probit{}, nil
	case "bridge":
		return predictive.Bridge{}, nil
	case "mc":
		return predictive.MonteCarlo{Samples: s.samples, Seed: p.Limits.Seed}, nil
	}
	return predictive.DefaultLink(lik, p.Model.Outputs), nil
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
	link, err := s.chooseLink(p)
	if err != nil {
		return err
	}
	var y *mat.Dense // nil where the targets are unknown
	if rows.Set.Labelled() {
		if y, err = p.Targets(rows); err != nil {
			return err
		}
	}
	if err := s.coverage.Suits(p.Examples.Train.Len(), "training rows"); err != nil {
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
	r, err := s.predict(ctx, c, p, q, link, rows, y, cover)
	if err != nil {
		return err
	}
	return s.write(ctx, c, p, q, r, rows)
}

// predict writes the lines and the table, and returns the scores.
func (s *predictVerb) predict(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior, link predictive.Link, rows *dataset.Subset, y *mat.Dense, cover *inference.Coverage) (*rowScores, error) {
	n := rows.Len()
	total := &rowScores{logp: slices.Repeat([]float64{math.NaN()}, n), mapLogp: slices.Repeat([]float64{math.NaN()}, n), all: &report.Predictions{Classes: p.Task.Labels(), ClassNames: classNames(p)}, classes: classWords(p), coverage: cover}
	if cover != nil {
		total.all.Coverage = cover.Share
	}
	if k := len(p.Task.Classes); k > 0 {
		total.prob = mat.NewDense(n, k, nil)
	}
	if q.Calibration != nil {
		for i := range q.Calibration.LeftOutRows {
			total.all.AddLeaveOneOut(&q.Calibration.LeftOutRows[i])
		}
	}
	out := bufio.NewWriter(c.Out)
	lines := lineEncoder(out)
	all := func(take func(*prediction) error) error {
		err := q.Each(ctx, p, rows, y, nil, link, func(lo int, b *linearize.Batch, targets *mat.Dense, pred *inference.Predictions) error {
			// Take up the predictions of a tile that begins at row lo, whose targets are nil where they are
			// unknown, and pass on a line for each.
			hi, lik := lo+b.Len(), p.Task.Likelihood
			copy(total.logp[lo:hi], pred.LogDensity)
			regions, err := total.coverage.Regions(ctx, b, targets)
			if err != nil {
				return problem.NamesOf(rows, lo, hi).ExplainError(err)
			}
			for i := range hi - lo {
				if err := ctx.Err(); err != nil {
					return err
				}
				f := b.F.RawRowView(i)
				if targets != nil {
					total.mapLogp[lo+i] = lik.LogProb(targets.RawRowView(i), f)
				}
				if pred.Prob != nil {
					copy(total.prob.RawRowView(lo+i), pred.Prob.RawRowView(i))
					if rows.Class != nil && pred.Best(i) == rows.Class[lo+i] {
						total.right++
					}
				}
				r := pred.Row(p.Task, i, rows, lo+i)
				r.LogDensity, r.MAPLogDensity = result.Float(total.logp[lo+i]), result.Float(total.mapLogp[lo+i])
				r.Novelty.Rank = q.Rank(r.Novelty.Score)
				r.Interval, r.Set, r.ID = regions[i].Interval, regions[i].Set, problem.IDOf(rows, lo+i)
				line := &prediction{Schema: "funcgp/predict-row/1", Index: rows.Rows[lo+i], Label: r.Label, Class: r.Class, NetworkClass: r.NetworkClass, Probability: r.Probability, MAPProbability: r.MAPProbability,
					Mean: r.Mean, Covariance: inference.CovarianceOf(pred.Cov, i), ObservationMean: inference.RowOf(pred.Response, i), ObservationSD: r.ObservationSD, FunctionSD: r.FunctionSD, Novelty: r.Novelty, Interval: r.Interval, Set: r.Set,
					Targets: severalOf(rows, lo+i), ID: r.ID, LabelName: p.LabelName(rows, lo+i), ClassName: p.NameOf(r.Class), Classes: total.classes, row: r}
				total.all.Add(r)
				if err := take(line); err != nil {
					return err
				}
			}
			c.Show("predict", lo+b.Len(), rows.Len())
			return nil
		})
		if err != nil {
			return err
		}
		c.Clear()
		return c.EndPart(ctx, "predict")
	}
	layout := report.CSVLayout{Classes: p.Task.Labels(), ClassNames: classWords(p), IDs: rows.IDs != nil, Outputs: p.Model.Outputs, Targets: targetsOf(p), Intervals: s.coverage.Share != nil && p.Task.Classes == nil, Sets: s.coverage.Share != nil && p.Task.Classes != nil}
	err := tabulate(c, s.csv, layout.Columns(), func(table func(*result.PredictedRow) error) error {
		return all(func(r *prediction) error {
			if err := table(r.row); err != nil {
				return err
			}
			return lines.Encode(r)
		})
	})
	if err != nil {
		return nil, err
	}
	return total, out.Flush()
}

// targetsOf is the number of targets of a row in a regression, 0 for classes.
func targetsOf(p *problem.Problem) int {
	if p.Task.Classes != nil {
		return 0
	}
	return p.Task.Likelihood.Targets(p.Model.Outputs)
}

// write shows the scores in every form that was asked for.
func (s *predictVerb) write(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior, total *rowScores, rows *dataset.Subset) error {
	sum := total.summary(rows, q.Report(p, c.Warnings))
	e := p.Examples
	from, err := origin(ctx, c, p, s.html != "")
	if err != nil {
		return err
	}
	sum.Record, total.all.Fit, total.all.Timings = &from.Record, sum.Fit, c.TimingsSoFar()
	var unread error
	page := &report.PredictionPage{Predictions: total.all, Quantity: job.OneLine(job.Cut(e.Data.Target, 40)), Test: e.Pictures(ctx, rows, &unread), Train: e.Pictures(ctx, e.Train, &unread), Origin: from}
	if err := writePage(c, s.html, page.WriteHTML, &unread); err != nil {
		return err
	}
	sum.Timings = c.Timings()
	if c.JSON {
		return lineEncoder(c.Out).Encode(sum)
	}
	if c.Quiet {
		return nil
	}
	console.NoteTuning(c.Job, &sum.Fit)
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
	Schema         string           `json:"schema"`
	Index          int              `json:"index"`
	Label          result.Float     `json:"label"`
	Class          result.Float     `json:"class"`
	NetworkClass   *result.Float    `json:"network_class,omitempty"` // where the network's largest output is of another class
	Probability    []result.Float   `json:"probability"`
	MAPProbability []result.Float   `json:"map_probability"`
	Mean           []result.Float   `json:"mean"`
	Covariance     [][]result.Float `json:"covariance"` // not scaled by the calibration

	// Of a regression: the expected value and the standard deviation of a new
	// observation, and the standard deviation of the function, calibrated.
	ObservationMean []result.Float `json:"observation_mean,omitempty"`
	ObservationSD   []result.Float `json:"observation_sd,omitempty"`
	FunctionSD      []result.Float `json:"function_sd,omitempty"`

	Novelty result.Novelty `json:"novelty"`

	Targets []result.Float `json:"targets,omitempty"` // where a row has several

	// Where classes or rows have names.
	ID        string   `json:"id,omitempty"`
	LabelName string   `json:"label_name,omitempty"`
	ClassName string   `json:"class_name,omitempty"`
	Classes   []string `json:"classes,omitempty"`

	// Of --coverage: the ends of an interval for a new observation, or the labels of a
	// set of classes, which may be empty.
	Interval []result.Float `json:"interval,omitzero"`
	Set      []result.Float `json:"set,omitzero"`

	row *result.PredictedRow // the same for pages and tables
}

// rowScores are what the summary of predictions needs.
type rowScores struct {
	logp, mapLogp []float64
	prob          *mat.Dense // N×classes, nil for a regression
	right         int
	all           *report.Predictions
	classes       []string            // names of the classes; nil where they have none
	coverage      *inference.Coverage // nil where none was asked for
}

// predictSummary is the last line with --json.
type predictSummary struct {
	Schema   string                    `json:"schema"`
	Accuracy result.Float              `json:"accuracy"`
	NLL      result.Float              `json:"nll"`
	MAPNLL   result.Float              `json:"map_nll"`
	ECE      result.Float              `json:"ece"`
	Coverage *inference.CoverageReport `json:"coverage,omitempty"`
	Record   *result.Record            `json:"record"`
	Fit      result.Fit                `json:"fit"`
	Timings  result.Timings            `json:"timings"`
	Classes  []string                  `json:"classes,omitempty"` // where classes have names
}

func (s *rowScores) summary(rows *dataset.Subset, fit result.Fit) *predictSummary {
	sum := &predictSummary{Schema: "funcgp/predict-summary/1", Accuracy: result.Undefined(), ECE: result.Undefined(), NLL: result.Float(score.NLL(s.logp)), MAPNLL: result.Float(score.NLL(s.mapLogp)), Coverage: s.coverage.Report(), Fit: fit, Classes: s.classes}
	if s.prob != nil && rows.Class != nil {
		sum.Accuracy = result.Float(float64(s.right) / float64(len(s.logp)))
		sum.ECE = result.Float(score.ECE(s.prob, rows.Class))
	}
	return sum
}
