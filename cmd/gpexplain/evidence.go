package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/gp"
)

func evidenceVerb(inv *invocation) *cobra.Command {
	v := &verb{
		name:  "evidence",
		short: "Print the log evidence of the model for its training data",
		long: `Evidence prints the log marginal likelihood of the training data: the Laplace
approximation at the trained parameters, that of the linear-Gaussian model
there, and that at the optimum of the linearized model. Higher is better; use
it to compare prior precisions or noise variances without validation data.`,
		example: `  gpexplain evidence
  gpexplain evidence --json --prior-precision 100`,
		run: evidence,
	}
	return v.command(inv)
}

type evidenceReport struct {
	AtTheta        explain.Float    `json:"at_theta"`
	LinearGaussian explain.Float    `json:"linear_gaussian"`
	Refit          explain.Float    `json:"refit"`
	LogLikelihood  explain.Float    `json:"log_likelihood"`
	Scatter        explain.Float    `json:"scatter"`
	LogDet         explain.Float    `json:"log_det"`
	PriorPrecision explain.Float    `json:"prior_precision"`
	NoiseVariance  explain.Float    `json:"noise_variance"` // null where the likelihood has none
	Warnings       explain.Warnings `json:"warnings"`
}

func evidence(ctx context.Context, sh *shared) error {
	s, err := openSession(ctx, sh)
	if err != nil {
		return err
	}
	p, err := s.fit(ctx, false)
	if err != nil {
		return err
	}
	at := p.exact.EvidenceAtTheta(gp.Scatter(p.prior, p.theta))
	lg := p.exact.EvidenceLinearGaussian()
	refit, err := p.exact.Refit(ctx, s.y, s.lik)
	s.progress.clear()
	if err != nil {
		return err
	}
	for _, w := range refit.Warnings() {
		s.warn(w)
	}
	r := evidenceReport{AtTheta: explain.Float(at.Value), LinearGaussian: explain.Float(lg.Value), Refit: explain.Float(refit.EvidenceRefit().Value),
		LogLikelihood: explain.Float(at.LogLik), Scatter: explain.Float(at.Scatter), LogDet: explain.Float(at.LogDet),
		PriorPrecision: explain.Float(s.delta), NoiseVariance: explain.Undefined(), Warnings: s.warnings}
	if s.lik.Name() == "gaussian" {
		r.NoiseVariance = explain.Float(s.sigma2)
	}
	if s.json {
		return json.NewEncoder(s.out).Encode(r)
	}
	return r.text(s.out)
}

func (r *evidenceReport) text(stdout io.Writer) error {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, row := range []struct {
		name string
		v    explain.Float
	}{{"log evidence at θ*", r.AtTheta}, {"  log likelihood", r.LogLikelihood}, {"  scatter", r.Scatter}, {"  log det B", r.LogDet},
		{"log evidence, linear-Gaussian", r.LinearGaussian}, {"log evidence, refit", r.Refit}, {"prior precision", r.PriorPrecision}} {
		fmt.Fprintf(w, "%s\t%.6g\n", row.name, float64(row.v))
	}
	if r.NoiseVariance.Finite() {
		fmt.Fprintf(w, "noise variance\t%.6g\n", float64(r.NoiseVariance))
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	return w.Flush()
}
