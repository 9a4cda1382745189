package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// optimizeFlags say which variances are looked for, and where the result goes.
type optimizeFlags struct {
	asked, perLayer, apart, gPrior, keepNoise bool
	form, out, html                           string
}

func (s *evidenceVerb) add(c *cobra.Command) {
	f, o := c.Flags(), &s.optimize
	f.BoolVar(&o.asked, "optimize", false, "find the prior variance, and the noise variance of the gaussian likelihood, under which the evidence is highest")
	f.BoolVar(&o.perLayer, "per-layer", false, "with --optimize: find a variance for each layer")
	f.BoolVar(&o.apart, "normalized-apart", false, "with --optimize: find one variance for the layers before a normalization and one for the others")
	f.BoolVar(&o.gPrior, "g-prior", false, "take the prior variance of each parameter from the data, g over its mean Fisher information, with g = 1, or the best with --optimize")
	f.StringVar(&o.form, "form", "refit", "the `EVIDENCE` that --optimize maximizes: refit, at the optimum of the linearized model, found anew for each prior; held-sites, there with the curvature of the likelihood at the trained parameters, for normalized networks; linear-gaussian, or at-theta, both at the trained parameters")
	f.BoolVar(&o.keepNoise, "keep-noise", false, "with --optimize: keep the noise variance of the gaussian likelihood")
	f.StringVarP(&o.out, "out", "o", "", "with --optimize: write the prior that was found to `FILE`, for --prior")
	f.StringVar(&o.html, "html", "", "write the evidence over the prior precision as a page to `FILE`")
	flags.Method(c, &s.posterior)
}

// A foundPrior is what --optimize found.
type foundPrior struct {
	result    *evidence.Result
	file      *problem.PriorFile
	prior     ntk.Prior
	precision float64 // that stands for it
	groups    []problem.PriorGroup
}

// study fills in the derivatives, the layers before a normalization, and the optimum.
func (s *evidenceVerb) study(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior, r *evidenceReport) (*foundPrior, error) {
	var err error
	if r.Normalized, err = p.Normalized(ctx, c.Job); err != nil {
		return nil, err
	}
	if len(r.Normalized) > 0 {
		c.Warn(linearize.NewWarning("scale-free-layers", math.NaN(), math.NaN(), "Choose a precision by --optimize --form held-sites.",
			"The outputs do not depend on the scale of %s, as before a normalization. The trained parameters are a mode for no Gaussian prior, and the evidence at them says nothing.", job.Cut(strings.Join(r.Normalized, ", "), 200)))
	}
	groups, common, err := s.optimize.groups(p, q, r.Normalized)
	if err != nil {
		return nil, err
	}
	if c.JSON || s.optimize.html != "" {
		by, _, err := (&optimizeFlags{perLayer: true}).groups(p, q, nil)
		if err != nil {
			return nil, err
		}
		if r.Groups, r.Gradient, err = inference.NewEvidenceStudy(c.Job, p, q, by, false).Gradient(ctx, q); err != nil {
			return nil, err
		}
	}
	if !s.optimize.asked {
		return nil, nil
	}
	study := inference.NewEvidenceStudy(c.Job, p, q, groups, common)
	noise := problem.HasNoise(p.Task.Likelihood) && !s.optimize.keepNoise
	f := &foundPrior{}
	if f.result, err = study.Maximize(ctx, s.optimize.form, noise); err != nil {
		return nil, err
	}
	c.Warn(f.result.Warnings...)
	r.Optimum, f.groups = study.Optimum(s.optimize.form, f.result)
	return f, f.priorFile(p, r.Optimum)
}

// groups are the parameters whose variances are looked for; common is one factor for all
// of them.
func (o *optimizeFlags) groups(p *problem.Problem, q *inference.Posterior, normalized []string) (groups []problem.PriorGroup, common bool, err error) {
	net, variance := p.Model.Net, 1/q.Precision()
	if own := p.Task.Prior; own != nil {
		groups = own.PriorGroups()
		variance = groups[0].Variance // of the only group
	}
	switch {
	case o.apart && len(groups) > 1:
		return nil, false, job.FullErrorf("--normalized-apart: the file of --prior has groups of its own; leave one of the two out")
	case o.apart && len(normalized) == 0:
		return nil, false, job.FullErrorf("--normalized-apart: the outputs of %s depend on the scale of every layer, so that none lies before a normalization; leave it out", p.Model.Name)
	case len(groups) > 1:
		return groups, !o.perLayer, nil
	case o.perLayer:
		return problem.LayerGroups(net, variance), false, nil
	case o.apart:
		return problem.Apart(net, normalized, variance), false, nil
	}
	return problem.OneGroup(net, variance), true, nil
}

// priorFile makes the prior that was found a file.
func (f *foundPrior) priorFile(p *problem.Problem, o *result.EvidenceOptimum) error {
	kind, scale := problem.PriorIsotropic, []float64(nil)
	if len(f.groups) > 1 {
		kind = problem.PriorGroups
	}
	if own := p.Task.Prior; own != nil && own.Kind == problem.PriorG {
		kind, scale = problem.PriorG, own.Scale()
	}
	noise := 0.0
	if o.Best.Noise != nil {
		noise = float64(*o.Best.Noise)
	}
	o.Kind = kind
	if kind == problem.PriorIsotropic {
		if f.groups[0].Variance == 0 {
			return job.FullErrorf("--optimize: the evidence is highest with all parameters held at 0, under no prior: the network says nothing of the targets; check model and data")
		}
		f.precision = 1 / f.groups[0].Variance
		var err error
		if f.prior, err = ntk.NewIsotropic(f.precision, nil); err != nil {
			return err
		}
	} else {
		prior := problem.NewPrior(kind, f.groups, scale, p.Model.Net, "")
		f.prior, f.precision = prior, prior.Precision
	}
	f.file = problem.NewPriorFile(kind, f.groups, scale, p.Model.Net, p.Task, noise, &problem.PriorFind{Form: o.Form, Evidence: float64(o.Best.LogEvidence), Examples: p.Examples.Train.Len()})
	return nil
}

// write writes the prior and the page.
func (s *evidenceVerb) write(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior, r *evidenceReport, found *foundPrior, fit result.Fit) error {
	if s.optimize.html != "" {
		page := &report.EvidencePage{Fit: fit, Groups: r.Groups, Optimum: r.Optimum, Normalized: r.Normalized, Several: p.Task.Prior != nil,
			Values: r.EvidenceValues, At: result.Float(q.Precision())}
		study := inference.NewEvidenceStudy(c.Job, p, q, problem.OneGroup(p.Model.Net, 1), true)
		var err error
		if found != nil {
			page.At, page.Several = result.Float(found.precision), len(found.groups) > 1 || page.Several
			if page.Curve, page.Values, err = study.Curve(ctx, found.prior, found.result.Likelihood, found.precision); err != nil {
				return err
			}
		} else if page.Curve, _, err = study.Curve(ctx, q.Prior(), p.Task.Likelihood, q.Precision()); err != nil {
			return err
		}
		if page.Origin, err = origin(ctx, c, p, true); err != nil {
			return err
		}
		page.Timings = c.TimingsSoFar()
		if err := writeFile(c, s.optimize.html, page.WriteHTML); err != nil {
			return err
		}
	}
	if s.optimize.out == "" {
		return nil
	}
	r.Optimum.File = s.optimize.out
	return found.file.Write(s.optimize.out)
}

// mostGroups is how many groups are listed in text.
const mostGroups = 40

// optimumText prints what was found.
func optimumText(w io.Writer, o *result.EvidenceOptimum) {
	fmt.Fprintf(w, "\nlog evidence (%s) %.6g at the optimum, %.6g at the start, after %d steps and %d evaluations\n", o.Form, float64(o.Best.LogEvidence), float64(o.Start.LogEvidence), o.Iterations, len(o.Trajectory))
	table := report.OptimumTable(o)
	for i, line := range table {
		if i == mostGroups+1 && len(o.Groups) > mostGroups+1 {
			fmt.Fprintf(w, "and %d more, which --json lists\n", len(table)-i)
			break
		}
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	if o.Held > 0 {
		fmt.Fprintf(w, "%d parameters are held at their trained values: no training output depends on them\n", o.Held)
	}
	if o.File != "" {
		fmt.Fprintf(w, "wrote %s: give --prior %s to fit, predict, explain and others\n", o.File, o.File)
	}
}
