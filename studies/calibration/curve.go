package calibration

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/score"
)

// A point is one scale of the covariance, with the best scale of the noise where
// there is one.
type point struct {
	Scale      result.Float `json:"scale"`
	NoiseScale result.Float `json:"noise_scale"`
	LOO        result.Float `json:"loo_nll"`
	Behind     result.Float `json:"behind_se"` // standard error of LOO less that of the chosen scale
	NLL        result.Float `json:"nll"`
}

// curve returns points over all scales, two to a factor of e.
func (p *problem) curve(ctx context.Context, c *score.Calibration, y, mean, cov, testMean, testCov *mat.Dense) ([]point, error) {
	best, err := p.density(ctx, c.Scale, c.NoiseScale, y, mean, cov)
	if err != nil {
		return nil, err
	}
	var points []point
	for logS := -9.0; logS <= 4.5; logS += .5 {
		s := math.Exp(logS)
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
		_, se := moments(d)
		test, err := p.density(ctx, s, t, p.test.y, testMean, testCov)
		if err != nil {
			return nil, err
		}
		points = append(points, point{result.Float(s), result.Float(t), result.Float(score.NLL), result.Float(se), result.Float(test.NLL)})
	}
	return points, nil
}

// density scores rows at a scale of the covariance and one of the noise.
func (p *problem) density(ctx context.Context, s, t float64, y, mean, cov *mat.Dense) (*score.Score, error) {
	lik, mean, scaled, err := (&score.Calibration{Scale: s, NoiseScale: t}).Apply(p.lik, mean, cov)
	if err != nil {
		return nil, err
	}
	return score.ScoreOfContext(ctx, p.link(), lik, y, mean, scaled)
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
