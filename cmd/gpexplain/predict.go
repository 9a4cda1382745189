package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/coder"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
)

type predictVerb struct {
	common flags.Common
	coder  coder.Flags

	coverage *float64

	which     funcgp.Query
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
distance from that of training rows (typicality).

With --structure the answers come from a posterior over the parameters whose
precision has this structure, at the trained parameters and the stated precision or,
with --refit, at the optimum of the linearized model. It knows no predictions without a
training row, so that nothing is calibrated unless --calibrate heldout is given.

--predictive bnn draws parameters from that posterior, by default the full one, and
runs the network with them; mean and covariance are then those of its outputs over
the draws, and nothing is calibrated. --predictive linear linearizes the response too:
probabilities and rates are the network's, with their covariance to first order, and a
regression has the mean of the regression on the linearization.

With --coverage P, intervals and sets come from predictions without each training
row in turn. Where training rows and new ones are exchangeable, and all that was
fitted treats them alike, they hold the target with a probability of at least
1 − 2(1 − P), and usually close to P. Here the trained parameters have seen all
rows, so this is approximate: a network that fits its training rows too closely
gets intervals that are too narrow. The summary says what share they held. With
--calibrate heldout the rows that were not trained on take the place of the
training rows, and the probability is at least P, whatever was trained how.`,
		example: `  gpexplain predict --index 24
  gpexplain predict --json > predictions.jsonl`,
		flags: s.add, check: s.check, run: s.run, writes: []string{"html", "csv"},
		rules: append([]flags.Rule{
			flags.AtLeast(1, "samples"),
			flags.OneOf("link", links...),
			flags.For("link=mc predictive=bnn latent decoder", "", "samples"),
		}, flags.Parameters...),
		complete: map[string][]string{"link": links},
	}
	return v.command(con, &s.common)
}

func (s *predictVerb) add(c *cobra.Command) {
	f := c.Flags()
	flags.Rows(c, &s.which, "predict", "all")
	flags.Method(c, "at", "refit", "inference", "tune-prior", "posterior", "structure", "predictive", "calibrate")
	flags.OptionalFloat(c, &s.coverage, "coverage")
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
	s.coder.SetPosterior(s.common.File, samples)
	if err := s.coder.Check(c); err != nil {
		return err
	}
	if name := s.common.Fit.Likelihood; name != "" {
		// Where it matters for the link that there is more than one output, the
		// likelihood is for more than one.
		if err := (&funcgp.PredictOptions{Link: s.link}).CheckFor(name, 2); err != nil {
			return job.Usagef("%v", err)
		}
	}
	return nil
}

func (s *predictVerb) run(ctx context.Context, c *console.Console) error {
	m, o := s.common.Model, &s.common.Fit
	if s.coder.Asked() || funcgp.IsAutoencoder(ctx, m, o.Limits) {
		return coder.Predict(ctx, c, m, s.common.Data, o, &s.coder, &s.which)
	}
	session, err := s.common.Session(ctx)
	if err != nil {
		return err
	}
	rows, err := session.Select(ctx, &s.which, 0)
	if err != nil {
		return err
	}
	post, err := session.Posterior(ctx, rows)
	if err != nil {
		return err
	}
	return s.predict(ctx, c, post, rows)
}

// predict writes the predictions of rows, and their summary, in every form that was asked for.
func (s *predictVerb) predict(ctx context.Context, c *console.Console, post *funcgp.Posterior, rows *funcgp.Rows) error {
	o := &funcgp.PredictOptions{Link: s.link, Samples: s.samples}
	if s.coverage != nil {
		o.Coverage = *s.coverage
	}
	all, err := post.Summary(ctx, rows, o)
	if err != nil {
		return err
	}
	out, table := bufio.NewWriter(c.Out), !c.JSON && c.Out.Terminal()
	if err := tabulate(c, s.csv, report.PredictionColumns(all), func(add func(*funcgp.Prediction) error) error {
		for x, err := range post.Predictions(ctx, rows, o) {
			if err != nil {
				return err
			}
			all.Add(x)
			if err := add(x); err != nil {
				return err
			}
			if !table {
				if err := all.WriteRow(out, x); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	from, err := originOf(ctx, c, post, s.html != "")
	if err != nil {
		return err
	}
	all.Timings = c.TimingsSoFar()
	var unread error
	page := &report.PredictionPage{Predictions: all, Quantity: job.OneLine(job.Cut(post.Info().Target, 40)), Test: rows.Pictures(ctx, &unread), Train: post.Pictures(ctx, &unread), Origin: from}
	if err := writePage(c, s.html, page, &unread); err != nil {
		return err
	}
	if table {
		if err := page.WriteRows(c.Out, c.Out.Columns()); err != nil {
			return err
		}
	}
	if c.JSON {
		all.Timings = c.Timings()
		summary := all.Summary()
		summary.Record = &from.Record
		return summary.WriteJSON(c.Out)
	}
	if c.Quiet {
		return nil
	}
	noteTuning(c, &all.Fit)
	return page.WriteText(c.Stderr, 0)
}

// lineEncoder writes JSON as it is, one object a line.
func lineEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}
