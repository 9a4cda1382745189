package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/console"
)

type evidenceVerb struct {
	common           flags.Common
	o                funcgp.EvidenceOptions
	optimize, gPrior bool
	form, html       string
}

func evidenceCommand(con *console.Console) *cobra.Command {
	s := &evidenceVerb{}
	v := &verb{
		name:  "evidence",
		short: "Print the log evidence of the model for its training data",
		long: `Evidence prints the log marginal likelihood of the training data: the Laplace
approximation at the trained parameters, that of the linear-Gaussian model
there, that at the optimum of the linearized model (refit), and the last with
the sites held, which is with the curvature of the likelihood at the trained
parameters. Higher is better; use it to compare prior precisions or noise
variances without validation data.

With --method nystrom it also prints a lower bound of the first two; that at the
trained parameters is itself an upper bound.

With --optimize it finds the prior variance, of each layer with --per-layer, and
the noise variance of a gaussian likelihood, under which the evidence is highest.
It writes them to -o FILE, which the other verbs take with --prior FILE. The page
of --html shows the evidence over the prior precision. With --posterior it is the
evidence of the network, rows, prior and method of that file.`,
		example: `  gpexplain evidence
  gpexplain evidence --json --prior-precision 100
  gpexplain evidence --train-count 300 --optimize --per-layer -o prior.json --html page.html
  gpexplain explain --train-count 300 --prior prior.json
  gpexplain fit --train-count 300 -o digits.gp
  gpexplain evidence --posterior digits.gp`,
		flags: s.add, run: s.run, writes: []string{"out", "html"},
		rules: []flags.Rule{
			flags.OneOf("form"),
			flags.For("optimize", "", "per-layer", "normalized-apart", "form", "keep-noise", "out"),
			flags.Apart(": both say which variances are found", "per-layer", "normalized-apart"),
			flags.Apart(": both say the prior", "g-prior", "prior"),
			flags.For("method=exact", "; {fit tune-prior=evidence} finds one precision by every method", "optimize"),
			flags.For("method=exact", "", "html"),
			flags.Not("posterior", ", whose prior is that of the file", "optimize", "g-prior", "html"),
			flags.Not("within", ", with which {method=exact} becomes kept", "optimize", "html"),
		},
	}
	return v.command(con, &s.common)
}

func (s *evidenceVerb) run(ctx context.Context, c *console.Console) error {
	post, err := s.common.Posterior(ctx, func(o *funcgp.FitOptions) { o.AtTheta, o.Prior.G = true, s.gPrior })
	if err != nil {
		return err
	}
	s.o.Gradient, s.o.Curve = c.JSON || s.html != "", s.html != ""
	if s.optimize {
		s.o.Maximize = s.form
	}
	e, err := post.Evidence(ctx, &s.o)
	if err != nil {
		return err
	}
	page := &report.EvidencePage{Evidence: e}
	if s.html != "" {
		if page.Origin, err = originOf(ctx, c, post, true); err != nil {
			return err
		}
	}
	return show(c, s.html, page, new(error), &e.Fit, &page.Timings, e)
}

func (s *evidenceVerb) add(c *cobra.Command) {
	f, o := c.Flags(), &s.o
	f.BoolVar(&s.optimize, "optimize", false, "find the prior variance, and the noise variance of the gaussian likelihood, under which the evidence is highest")
	f.BoolVar(&o.PerLayer, "per-layer", false, "with --optimize: find a variance for each layer")
	f.BoolVar(&o.NormalizedApart, "normalized-apart", false, "with --optimize: find one variance for the layers before a normalization and one for the others")
	f.BoolVar(&s.gPrior, "g-prior", false, "take the prior variance of each parameter from the data, g over its mean Fisher information, with g = 1, or the best with --optimize")
	f.StringVar(&s.form, "form", "refit", "the `EVIDENCE` that --optimize maximizes: refit, at the optimum of the linearized model, found anew for each prior; held-sites, there with the curvature of the likelihood at the trained parameters, for normalized networks; linear-gaussian, or at-theta, both at the trained parameters")
	f.BoolVar(&o.KeepNoise, "keep-noise", false, "with --optimize: keep the noise variance of the gaussian likelihood")
	f.StringVarP(&o.PriorFile, "out", "o", "", "with --optimize: write the prior that was found to `FILE`, for --prior")
	f.StringVar(&s.html, "html", "", "write the evidence over the prior precision as a page to `FILE`")
	flags.Method(c, "inference", "posterior")
}
