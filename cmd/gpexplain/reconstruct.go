package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/coder"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/problem"
)

// A reconstructVerb shows what an autoencoder makes of rows.
type reconstructVerb struct {
	common problem.Flags
	coder  coder.Flags
	which  problem.RowFlags
	shown  coder.Shown
}

func reconstructCommand(con *console.Console) *cobra.Command {
	s := &reconstructVerb{}
	v := &verb{
		name:  "reconstruct",
		short: "Show rows reconstructed by an autoencoder, with their uncertainty",
		long: `Reconstruct shows what an autoencoder makes of rows: the mean and the standard
deviation of each pixel over networks drawn from the posterior over the weights,
some of these reconstructions, and the code with its covariance. --html and
--png show pictures side by side; without them, and with --json, one JSON object a
line has the numbers.

The posterior is that of the training where the model was trained with --online.
Else it is fitted to the training rows, from the diagonal of the generalized
Gauss–Newton matrix, as for an autoencoder that was trained elsewhere.

--hide takes half of a picture away, and fills it in by sampling. --generate makes
new pictures.`,
		example: `  gpexplain reconstruct --model net.onnx --data digits --index 3 --html page.html --png page.png
  gpexplain reconstruct --model net.onnx --data digits --index 0-4 --hide upper --png half.png
  gpexplain reconstruct --model encoder.onnx --decoder decoder.onnx --data digits --index 3`,
		flags: s.add, check: s.check, run: s.run, writes: []string{"html", "png"}, reads: []string{"decoder"},
		rules: []flags.Rule{
			flags.OneOf("hide", coder.Halves),
			flags.AtLeast(0, "pictures", "generate"),
			flags.Not("hide generate", "; it is for reconstructions", "linearized"),
			flags.Not("generate", ", which makes pictures of no row; leave one of them out", "hide", "index", "input", "test-index", "all"),
		},
		complete: map[string][]string{"hide": coder.Halves, "curvature": coder.Curvatures()},
	}
	return v.command(con, &s.common)
}

func (s *reconstructVerb) add(c *cobra.Command) {
	f := c.Flags()
	flags.Rows(c, &s.which, "show", "the first test row")
	s.coder.Add(c, true)
	f.StringVar(&s.shown.HTML, "html", "", "write a page with the pictures to `FILE`")
	f.StringVar(&s.shown.PNG, "png", "", "write a picture of them to `FILE`")
	f.StringVar(&s.shown.Hide, "hide", "", "take the `HALF` of each picture away and fill it in: upper, lower, left or right")
	f.IntVar(&s.shown.Pictures, "pictures", 5, "show the reconstructions by `N` drawn networks")
	f.BoolVar(&s.shown.Linearized, "linearized", false, "take means and standard deviations from the linearized network, at a backward pass for each pixel, in place of draws: better where the posterior is wide")
	f.IntVar(&s.shown.Generate, "generate", 0, "make `N` new pictures, in place of rows")
}

func (s *reconstructVerb) check(c *cobra.Command) error {
	if err := s.which.Check(); err != nil {
		return err
	}
	return s.coder.Check(c)
}

func (s *reconstructVerb) run(ctx context.Context, c *console.Console) error {
	return coder.Reconstruct(ctx, c, &s.common, &s.coder, &s.which, &s.shown)
}
