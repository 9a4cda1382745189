package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/coder"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/internal/console"
)

// A reconstructVerb shows what an autoencoder makes of rows.
type reconstructVerb struct {
	common flags.Common
	coder  coder.Flags
	which  funcgp.Query
	shown  coder.Shown
}

func reconstructCommand(con *console.Console) *cobra.Command {
	s := &reconstructVerb{}
	v := &verb{
		name:  "reconstruct",
		short: "Show rows reconstructed by an autoencoder, with their uncertainty",
		long: `Reconstruct shows what an autoencoder makes of rows: the mean and the standard
deviation of each pixel over networks drawn from the posterior over the weights,
some of these reconstructions, and the code with its covariance. --html shows
pictures side by side; without it, and with --json, one JSON object a line has the
numbers.

The posterior is that of the training where the model was trained with --online.
Else it is fitted to the training rows, from the diagonal of the generalized
Gauss–Newton matrix, as for an autoencoder that was trained elsewhere, and
--tune-prior evidence chooses the precision of its prior. With --missing the pixels
that are named are filled in first, and the rest is of the row with these.`,
		example: `  gpexplain reconstruct --model net.onnx --data digits --index 3 --html page.html
  gpexplain reconstruct --model net.onnx --data digits --index 3 --missing 0-391 --html page.html
  gpexplain reconstruct --model encoder.onnx --decoder decoder.onnx --data digits --index 3`,
		flags: s.add, check: s.check, run: s.run, writes: []string{"html"}, reads: []string{"decoder"},
		rules: []flags.Rule{
			flags.AtLeast(0, "pictures"),
			flags.OneOf("tune-prior", []string{"evidence"}...),
			flags.Apart(": both say the prior precision", "tune-prior", "prior-precision"),
			flags.Apart(": the precision of a saved posterior is not tuned", "tune-prior", "posterior"),
		},
		complete: map[string][]string{"curvature": autoencoder.CurvatureNames(), "tune-prior": {"evidence"}},
	}
	return v.command(con, &s.common)
}

func (s *reconstructVerb) add(c *cobra.Command) {
	f := c.Flags()
	flags.Rows(c, &s.which, "show", "the first test row")
	s.coder.Add(c, true)
	f.StringVar(&s.shown.HTML, "html", "", "write a page with the pictures to `FILE`")
	f.IntVar(&s.shown.Pictures, "pictures", 5, "show the reconstructions by `N` drawn networks")
	f.StringVar(&s.shown.Missing, "missing", "", "fill in these `PIXELS` of each row, numbers and ranges such as 0-391 counted from 0 along its lines, from the others, by ten drawn networks or --samples; what is there is not looked at")
	f.BoolVar(&s.shown.Linearized, "linearized", false, "take means and standard deviations from the linearized network, at a backward pass for each pixel, in place of draws: better where the posterior is wide")
}

func (s *reconstructVerb) check(c *cobra.Command) error {
	if err := s.which.Check(); err != nil {
		return err
	}
	return s.coder.Check(c)
}

func (s *reconstructVerb) run(ctx context.Context, c *console.Console) error {
	return coder.Reconstruct(ctx, c, s.common.Model, s.common.Data, &s.common.Fit, &s.coder, &s.which, &s.shown)
}
