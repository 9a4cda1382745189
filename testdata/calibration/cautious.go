package main

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
)

// A cautious scale is the one nearest to 1 under which the training rows are, by
// leave-one-out, within one standard error as likely as at the best scale. The
// error is that of the paired differences of their log densities.
type cautious struct {
	Scale      report.Float `json:"scale"`
	NoiseScale report.Float `json:"noise_scale"`
	LOO        report.Float `json:"loo_nll"`
	NLL        report.Float `json:"nll"`
	ECE        report.Float `json:"ece"`
}

// cautiousSteps is the number of scales tried between 1 and the best one.
const cautiousSteps = 12

// beCautious returns the cautious scale and what it gives on the test rows.
func (p *problem) beCautious(ctx context.Context, c *glm.Calibration, y, mean, cov, testMean, testCov *mat.Dense) (*cautious, error) {
	best, err := p.density(ctx, c.Scale, c.NoiseScale, y, mean, cov)
	if err != nil {
		return nil, err
	}
	out := &cautious{Scale: report.Float(c.Scale), NoiseScale: report.Float(c.NoiseScale), LOO: report.Float(best.NLL)}
	for k := range cautiousSteps {
		// s from 1 towards the best.
		s := math.Exp(math.Log(c.Scale) * float64(k) / cautiousSteps)
		t := p.noiseFor(ctx, s, y, mean, cov)
		score, err := p.density(ctx, s, t, y, mean, cov)
		if err != nil {
			return nil, err
		}
		var d []float64
		for i, v := range best.LogDensity {
			if !math.IsNaN(v) {
				d = append(d, v-score.LogDensity[i])
			}
		}
		if m, se := moments(d); m <= se {
			out.Scale, out.NoiseScale, out.LOO = report.Float(s), report.Float(t), report.Float(score.NLL)
			break
		}
	}
	s, err := p.density(ctx, float64(out.Scale), float64(out.NoiseScale), p.test.y, testMean, testCov)
	if err != nil {
		return nil, err
	}
	out.NLL, out.ECE = report.Float(s.NLL), report.Float(s.ECE)
	return out, nil
}

// density scores rows at a scale of the covariance and one of the noise.
func (p *problem) density(ctx context.Context, s, t float64, y, mean, cov *mat.Dense) (*glm.Score, error) {
	lik, scaled, err := (&glm.Calibration{Scale: s, NoiseScale: t}).Apply(p.lik, cov)
	if err != nil {
		return nil, err
	}
	return glm.ScoreOfContext(ctx, nil, lik, y, mean, scaled, 0)
}

// noiseFor returns the best scale of a Gaussian's noise with the covariance
// scaled by s, and 1 for other likelihoods.
func (p *problem) noiseFor(ctx context.Context, s float64, y, mean, cov *mat.Dense) float64 {
	if _, ok := p.lik.(*glm.Gaussian); !ok {
		return 1
	}
	return math.Exp(golden(func(logT float64) float64 {
		score, err := p.density(ctx, s, math.Exp(logT), y, mean, cov)
		if err != nil {
			return math.Inf(1)
		}
		return score.NLL
	}, math.Log(1e-4), math.Log(100)))
}
