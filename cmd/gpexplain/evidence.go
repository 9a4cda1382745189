package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

type evidenceVerb struct {
	common    problem.Flags
	posterior inference.Flags
	optimize  optimizeFlags
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
			flags.OneOf("form", inference.Forms),
			flags.For("optimize", "", "per-layer", "normalized-apart", "form", "keep-noise", "out"),
			flags.Apart(": both say which variances are found", "per-layer", "normalized-apart"),
			flags.Apart(": both say the prior", "g-prior", "prior"),
			flags.For("method=exact", "; gpexplain fit --tune-prior evidence finds one precision by every method", "optimize"),
			flags.For("method=exact", "", "html"),
			flags.Not("posterior", ", whose prior is that of the file", "optimize", "g-prior", "html"),
			flags.Not("within", ", with which --method exact becomes kept", "optimize", "html"),
		},
		complete: map[string][]string{"form": inference.Forms},
	}
	return v.command(con, &s.common)
}

type evidenceReport struct {
	Schema string `json:"schema"`
	result.EvidenceValues
	LogLikelihood  result.Float       `json:"log_likelihood"`
	Scatter        result.Float       `json:"scatter"`
	LogDet         result.Float       `json:"log_det"`
	PriorPrecision result.Float       `json:"prior_precision"`
	NoiseVariance  result.Float       `json:"noise_variance"` // null where the likelihood has none
	Method         string             `json:"method"`
	Bound          string             `json:"bound"` // of at_theta
	Warnings       linearize.Warnings `json:"warnings"`
	Remarks        linearize.Warnings `json:"remarks,omitempty"`

	PriorPrecisionOrigin string                `json:"prior_precision_origin"`
	Prior                *result.Prior         `json:"prior,omitempty"` // nil where all parameters have PriorPrecision
	NoiseVarianceOrigin  string                `json:"noise_variance_origin,omitempty"`
	Preprocessing        *result.Preprocessing `json:"preprocessing"`
	Grouped              *result.Grouped       `json:"grouped,omitempty"`
	Preflight            *result.Preflight     `json:"preflight"`

	Gradient   result.EvidenceGradient `json:"gradient"`
	Groups     []result.EvidenceGroup  `json:"groups"`
	Normalized []string                `json:"normalized_layers"`
	Optimum    *result.EvidenceOptimum `json:"optimum,omitempty"` // of --optimize

	// Never above the exact ones, of nystrom.
	AtThetaLower        *result.Float `json:"at_theta_lower,omitempty"`
	LinearGaussianLower *result.Float `json:"linear_gaussian_lower,omitempty"`

	Certificate *result.Certificate `json:"certificate,omitempty"` // of kept
}

func (s *evidenceVerb) run(ctx context.Context, c *console.Console) error {
	p, err := problem.OpenGrouped(ctx, c.Job, &s.common, s.posterior.File)
	if err != nil {
		return err
	}
	if p.Saved != nil {
		if err := s.posterior.OfSaved(p); err != nil {
			return err
		}
	}
	if s.optimize.gPrior {
		if p, err = inference.WithGPrior(ctx, c.Job, p); err != nil {
			return err
		}
	}
	q, err := inference.Fit(ctx, c.Job, p, &s.posterior, inference.Options{NoReport: true, AtTheta: true})
	if err != nil {
		return err
	}
	at := q.Evidence
	r := &evidenceReport{Schema: "funcgp/evidence/1", EvidenceValues: result.EvidenceValues{AtTheta: result.Float(at.Value)}, LogLikelihood: result.Float(at.LogLik), Scatter: result.Float(at.Scatter), LogDet: result.Float(at.LogDet),
		NoiseVariance: result.Undefined(), Method: q.How.Name, Bound: at.Bound.String()}
	if err := s.others(ctx, c, p, q, r); err != nil {
		return err
	}
	found, err := s.study(ctx, c, p, q, r)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.Clear()
	f := q.Report(p, c.Warnings)
	r.Warnings, r.Remarks = f.Warnings, f.Remarks
	r.PriorPrecision, r.Prior = f.PriorPrecision, f.Prior
	r.PriorPrecisionOrigin, r.NoiseVarianceOrigin, r.Preprocessing, r.Preflight, r.Grouped = f.PriorPrecisionOrigin, f.NoiseVarianceOrigin, f.Preprocessing, f.Preflight, f.Grouped
	if p.Task.Noise > 0 {
		r.NoiseVariance = result.Float(p.Task.Noise)
	}
	if err := s.write(ctx, c, p, q, r, found, f); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(r)
	}
	return console.Text(c.Out, &f, r.text)
}

// others fills in the other evidences: of the linear-Gaussian model at θ*, and at the
// optimum of the linearized model.
func (s *evidenceVerb) others(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior, r *evidenceReport) error {
	if k := q.Report(p, nil).Certificate; k != nil {
		r.LinearGaussian, r.Certificate = result.Undefined(), k
	} else {
		lg, err := q.Dual.EvidenceLinearGaussian(ctx)
		if err != nil {
			return err
		}
		r.LinearGaussian = result.Float(lg.Value)
	}
	if q.How.Name == "nystrom" {
		at, linear := q.EvidenceLowerBounds()
		r.AtThetaLower, r.LinearGaussianLower = problem.Number(at.Value), problem.Number(linear.Value)
	}
	refit, err := q.EvidenceAtMode(ctx, c.Job, p, s.posterior)
	if err != nil {
		return err
	}
	r.atMode(refit, q.Evidence)
	return nil
}

// atMode fills in the evidences at the optimum of the linearized model. One has the log
// determinant at θ*.
func (r *evidenceReport) atMode(refit, theta gp.Evidence) {
	r.Refit = result.Float(refit.Value)
	r.HeldSites = result.Float(gp.NewEvidence(refit.LogLik, refit.Scatter, theta.LogDet).Value)
}

// text prints the evidences.
func (r *evidenceReport) text(w *tabwriter.Writer) {
	for _, row := range []struct {
		name string
		v    result.Float
	}{{"log evidence at θ*", r.AtTheta}, {"  log likelihood", r.LogLikelihood}, {"  scatter", r.Scatter}, {"  log det B", r.LogDet},
		{"log evidence, linear-Gaussian", r.LinearGaussian}, {"log evidence, refit", r.Refit}, {"log evidence, refit, sites held", r.HeldSites}} {
		if !math.IsNaN(float64(row.v)) {
			fmt.Fprintf(w, "%s\t%.6g\n", row.name, float64(row.v))
		}
	}
	if r.Prior != nil {
		fmt.Fprintf(w, "prior variances\t%s\n", job.OneLine(report.PriorText(r.Prior)))
	} else {
		fmt.Fprintf(w, "prior precision\t%.6g\n", float64(r.PriorPrecision))
	}
	for _, row := range []struct {
		name string
		v    *result.Float
	}{{"lower bound of that at θ*", r.AtThetaLower}, {"lower bound, linear-Gaussian", r.LinearGaussianLower}} {
		if row.v != nil {
			fmt.Fprintf(w, "%s\t%.6g\n", row.name, float64(*row.v))
		}
	}
	if k := r.Certificate; k != nil && k.Dropped > 0 {
		// The evidences have log det B of the kept rows.
		of := func(logDet result.Float) float64 { return float64(r.AtTheta) - float64(logDet-r.LogDet)/2 }
		fmt.Fprintf(w, "that at θ* of all rows\t%.6g to %.6g\n", of(k.LogDet[1]), of(k.LogDet[0]))
	}
	if r.NoiseVariance.Finite() {
		fmt.Fprintf(w, "noise variance\t%.6g\n", float64(r.NoiseVariance))
	}
	if o := r.Optimum; o != nil {
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
}

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
	flags.Posterior(c, &s.posterior)
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
	f := &foundPrior{}
	if f.result, err = study.Maximize(ctx, s.optimize.form, problem.HasNoise(p.Task.Likelihood) && !s.optimize.keepNoise); err != nil {
		return nil, err
	}
	c.Warn(f.result.Warnings...)
	r.Optimum, f.groups = study.Optimum(s.optimize.form, f.result)
	// Make the prior that was found a file.
	o := r.Optimum
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
			return nil, job.FullErrorf("--optimize: the evidence is highest with all parameters held at 0, under no prior: the network says nothing of the targets; check model and data")
		}
		f.precision = 1 / f.groups[0].Variance
		if f.prior, err = ntk.NewIsotropic(f.precision, nil); err != nil {
			return nil, err
		}
	} else {
		prior := problem.NewPrior(kind, f.groups, scale, p.Model.Net, "")
		f.prior, f.precision = prior, prior.Precision
	}
	f.file = problem.NewPriorFile(kind, f.groups, scale, p.Model.Net, p.Task, noise, &problem.PriorFind{Form: o.Form, Evidence: float64(o.Best.LogEvidence), Examples: p.Examples.Train.Len()})
	return f, nil
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
