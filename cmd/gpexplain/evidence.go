package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/sparse"
)

func evidenceVerb(inv *invocation) *cobra.Command {
	var e way
	v := &verb{
		name:  "evidence",
		short: "Print the log evidence of the model for its training data",
		long: `Evidence prints the log marginal likelihood of the training data: the Laplace
approximation at the trained parameters, that of the linear-Gaussian model
there, and that at the optimum of the linearized model. Higher is better; use
it to compare prior precisions or noise variances without validation data.

With --method nystrom it also prints a lower bound of the first two; that at the
trained parameters is itself an upper bound.`,
		example: `  gpexplain evidence
  gpexplain evidence --json --prior-precision 100`,
		flags: e.add, check: e.check,
		run:      func(ctx context.Context, sh *shared) error { return evidence(ctx, sh, &e) },
		complete: wayValues(nil),
	}
	return v.command(inv)
}

type evidenceReport struct {
	AtTheta        report.Float    `json:"at_theta"`
	LinearGaussian report.Float    `json:"linear_gaussian"`
	Refit          report.Float    `json:"refit"`
	LogLikelihood  report.Float    `json:"log_likelihood"`
	Scatter        report.Float    `json:"scatter"`
	LogDet         report.Float    `json:"log_det"`
	PriorPrecision report.Float    `json:"prior_precision"`
	NoiseVariance  report.Float    `json:"noise_variance"` // null where the likelihood has none
	Method         string          `json:"method"`
	Bound          string          `json:"bound"` // of at_theta
	Warnings       report.Warnings `json:"warnings"`

	// Never above the exact ones, of nystrom.
	AtThetaLower        *report.Float `json:"at_theta_lower,omitempty"`
	LinearGaussianLower *report.Float `json:"linear_gaussian_lower,omitempty"`
	SE                  *report.Float `json:"standard_error,omitempty"` // of cg
}

func evidence(ctx context.Context, sh *shared, w *way) error {
	w.brief = true
	s, err := openSession(ctx, sh, w)
	if err != nil {
		return err
	}
	p, err := s.posterior(ctx, w)
	if err != nil {
		return err
	}
	at := p.evidence
	r := evidenceReport{AtTheta: report.Float(at.Value), LogLikelihood: report.Float(at.LogLik), Scatter: report.Float(at.Scatter), LogDet: report.Float(at.LogDet),
		PriorPrecision: report.Float(s.delta), NoiseVariance: report.Undefined(), Method: p.method, Bound: p.bound.String()}
	if err := r.others(ctx, p); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.progress.clear()
	r.Warnings = s.warnings
	if s.lik.Name() == "gaussian" {
		r.NoiseVariance = report.Float(s.sigma2)
	}
	if s.json {
		return json.NewEncoder(s.out).Encode(r)
	}
	return r.text(s.out)
}

// others fills in the other two evidences: that of the linear-Gaussian model at
// θ*, and that at the optimum of the linearized model.
func (r *evidenceReport) others(ctx context.Context, p *posterior) error {
	switch q := p.conditioned.(type) {
	case *gp.Exact:
		r.LinearGaussian = report.Float(q.EvidenceLinearGaussian().Value)
		refit, err := q.Refit(ctx, p.y, p.lik)
		if err != nil {
			return err
		}
		p.warnAll(refit.Warnings())
		r.Refit = report.Float(refit.EvidenceRefit().Value)
		return nil
	case *sparse.Posterior:
		r.LinearGaussian = report.Float(q.EvidenceLinearGaussian().Value)
		if p.method == "nystrom" {
			r.AtThetaLower, r.LinearGaussianLower = number(q.EvidenceAtThetaLowerBound(p.evidence.Scatter).Value), number(q.EvidenceLowerBound().Value)
		}
	case *cg.Posterior:
		lg, err := q.EvidenceLinearGaussian(ctx)
		if err != nil {
			return err
		}
		r.LinearGaussian, r.SE = report.Float(lg.Value), number(lg.StdErr)
	}
	again, err := p.again(ctx)
	if err != nil {
		return err
	}
	r.Refit = report.Float(again.evidence.Value)
	return nil
}

// again fits a second posterior at the optimum of the linearized model.
func (p *posterior) again(ctx context.Context) (*posterior, error) {
	w := *p.way
	w.refit = true
	return p.session.posterior(ctx, &w)
}

func (r *evidenceReport) text(stdout io.Writer) error {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, row := range []struct {
		name string
		v    report.Float
	}{{"log evidence at θ*", r.AtTheta}, {"  log likelihood", r.LogLikelihood}, {"  scatter", r.Scatter}, {"  log det B", r.LogDet},
		{"log evidence, linear-Gaussian", r.LinearGaussian}, {"log evidence, refit", r.Refit}, {"prior precision", r.PriorPrecision}} {
		fmt.Fprintf(w, "%s\t%.6g\n", row.name, float64(row.v))
	}
	for _, row := range []struct {
		name string
		v    *report.Float
	}{{"lower bound of that at θ*", r.AtThetaLower}, {"lower bound, linear-Gaussian", r.LinearGaussianLower}, {"standard error", r.SE}} {
		if row.v != nil {
			fmt.Fprintf(w, "%s\t%.6g\n", row.name, float64(*row.v))
		}
	}
	if r.NoiseVariance.Finite() {
		fmt.Fprintf(w, "noise variance\t%.6g\n", float64(r.NoiseVariance))
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	return w.Flush()
}
