package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/sparse/shard"
)

type fitVerb struct {
	common flags.Common

	out, checkpoint string
	inputs, bundle  bool
	withoutInputs   bool

	selectOnly      bool
	inducing, shard string
	part            shard.Part // parsed from shard

	without, more, moreIndex string // changes of the rows of a saved posterior
}

func fitCommand(con *console.Console) *cobra.Command {
	s := &fitVerb{}
	v := &verb{
		name:  "fit",
		short: "Fit a posterior and write it to a file",
		long: `Fit computes the posterior of a model given its training rows and writes it to
a file, from which explain, predict and importances answer with --posterior.
With --method nystrom it takes data of any size, in passes over them through
inducing examples. It reports how far that is from exact.

Predictions are the network's own output with the covariance of the refit, the linearized
model at its optimum for the training rows. The prior precision is the match, at which the
refit fits these rows as the network does: that of the training where it ran to its end, and
another after training without weight decay or one that was stopped early. --at,
--prior-precision and --prior say one, and --tune-prior chooses one by the training rows or
by others; the network then may differ more from the refit.

With --posterior OLD.gp, --without and --append fit the posterior of that file again
with other training rows: by the same method, at the same prior, and calibrated anew. Its
mean is what it was plus what the refit changes by.

For data that take many processes or machines, --select-only finds the match and chooses
the inducing examples once, --shard I/N with --inducing-file computes one of N parts of the
one pass over the training rows, and gpexplain merge makes a posterior of all parts.

The file holds no training inputs unless --with-inputs asks for them; the model
and the data are needed again, and must be the same.`,
		example: `  gpexplain fit -o digits.gp
  gpexplain explain --posterior digits.gp --index 24
  gpexplain fit --posterior digits.gp --without wrong.txt -o fewer.gp
  gpexplain fit -o mnist.gp --model lenet.onnx --data mnist --method nystrom --tune-prior
  gpexplain fit --select-only --inducing 200 -o z.gp
  gpexplain fit --inducing-file z.gp --shard 0/2 -o part0.sums
  gpexplain fit --inducing-file z.gp --shard 1/2 -o part1.sums
  gpexplain merge part0.sums part1.sums -o all.gp`,
		flags: s.add, check: s.check, run: s.run, writes: []string{"out", "checkpoint"}, reads: []string{"without", "append", "append-index"},
		rules: []flags.Rule{
			flags.Needed("out", "where to write the posterior"),
			flags.For("bundle", "", "without-inputs"),
			flags.Apart("", "without-inputs", "with-inputs"),
			flags.Not("method=subset", "", "checkpoint"),
			flags.For("posterior", ", whose training rows it changes; give {posterior} FILE", "without", "append", "append-index"),
			flags.For("without append", ", which change its training rows; give one of them", "posterior"),
			flags.Apart("; do one after the other", "without", "append"),
			flags.For("append", "", "append-index"),
			flags.Not("posterior", "; leave it out", "checkpoint"),
			flags.Apart(": select once, then compute parts with {inducing-file}", "select-only", "shard"),
			flags.For("shard", " I/N; give it too", "inducing-file"),
			flags.Refuse("{select-only} is for {method=nystrom}, not <method>", "select-only", "method", "!method=nystrom"),
			flags.Refuse("{shard} is for {method=nystrom}, not <method>", "shard", "!inducing-file", "method", "!method=nystrom"),
			flags.Not("select-only shard", ": a pass over all rows through inducing examples has none; leave one of them out", "posterior", "without", "append", "checkpoint", "tune-prior", "within", "with-inputs"),
			flags.Not("select-only shard", ": give it to gpexplain merge, which has all parts", "calibrate"),
		},
	}
	return v.command(con, &s.common)
}

func (s *fitVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&s.out, "out", "o", "", "write the posterior to `FILE`; needed")
	flags.Method(c, "at", "refit", "inference", "calibrate", "tune-prior")
	f.StringVar(&s.checkpoint, "checkpoint", "", "keep the state of --method nystrom in `FILE` while it passes over the data, or the choice of rows and the refit of --method kept, and go on from there where it exists; where memory was short of the rows that --within takes, it stays for a fit with more")
	f.BoolVar(&s.inputs, "with-inputs", false, "put the training inputs into the file, so that the training data are not needed again")
	f.BoolVar(&s.bundle, "bundle", false, "put the network and the training inputs into the file, so that it answers on a machine that has nothing else; it then holds personal data if the training rows do, but no paths")
	f.BoolVar(&s.withoutInputs, "without-inputs", false, "of the training inputs put those of the inducing rows alone into the file of --bundle: it predicts, without scores of novelty, and names all rows by number and ID, but explains with --data alone")
	f.String("posterior", "", "with --without or --append: fit the posterior of `FILE` again with other training rows")
	s.addShard(c)
	f.StringVar(&s.without, "without", "", "leave out the training rows listed in `FILE`, one row number a line, of the posterior of --posterior")
	f.StringVar(&s.more, "append", "", "train on the training rows of `DATA` too, with the columns or shape of those of --posterior; of other data than those the file then holds all training inputs")
	f.StringVar(&s.moreIndex, "append-index", "", "append the rows of --append listed in `FILE`, one row number a line (default all of the classes)")
}

func (s *fitVerb) check(c *cobra.Command) error {
	if s.common.File == "" {
		if err := (&funcgp.SaveOptions{WithoutInputs: s.withoutInputs}).CheckFor(s.common.Fit.Method); err != nil {
			return job.Usagef("%v", err)
		}
	}
	if s.shard != "" {
		var err error
		if s.part, err = parsePart(s.shard); err != nil {
			return err
		}
	}
	return flags.Check(c.Flags(), []flags.Rule{flags.Needs("shard", "inducing-file", ", which fit --select-only writes once for all parts")})
}

func (s *fitVerb) run(ctx context.Context, c *console.Console) error {
	if s.selectOnly || s.shard != "" {
		return s.pass(ctx, c)
	}
	post, err := s.fit(ctx, c)
	if err != nil {
		return err
	}
	defer post.Close()
	r := &result.Saved{Schema: "funcgp/fit/1", File: s.out, Fit: post.Report(ctx)}
	c.Warn(r.Fit.Warnings...)
	if err := post.Save(ctx, s.out, &funcgp.SaveOptions{Inputs: s.inputs, Bundle: s.bundle, WithoutInputs: s.withoutInputs}); err != nil {
		return err
	}
	return printSaved(c, r)
}

// fit fits a posterior, or fits the posterior of a file again with other training rows.
func (s *fitVerb) fit(ctx context.Context, c *console.Console) (*funcgp.Posterior, error) {
	if s.common.File == "" {
		return s.common.Posterior(ctx, func(o *funcgp.FitOptions) { o.Checkpoint = s.checkpoint })
	}
	old, err := s.common.Posterior(job.NewContext(ctx, c.Next()), nil) // whose warnings are of the file that was read
	if err != nil {
		return nil, err
	}
	defer old.Close()
	if s.more != "" {
		return old.Append(ctx, s.more, s.moreIndex)
	}
	rows, err := funcgp.ReadRowNumbers(ctx, s.without)
	if err != nil {
		return nil, err
	}
	return old.WithoutRows(ctx, rows)
}

// printSaved prints the report of a posterior that was written.
func printSaved(c *console.Console, r *result.Saved) error {
	if t := r.Fit.Tuning; t != nil {
		r.Trials = t.Trials
	}
	r.Bytes, r.Timings = result.FileSize(r.File), c.Timings()
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(r)
	}
	f := &r.Fit
	return report.WriteFit(c.Out, f, func(w *tabwriter.Writer) {
		report.FitText(w, f)
		size := ""
		if r.Bytes > 0 {
			size = ", " + job.SizeText(r.Bytes)
		}
		fmt.Fprintf(w, "wrote\t%s%s, in %.3g s\n", r.File, size, float64(r.Timings.Total))
	})
}
