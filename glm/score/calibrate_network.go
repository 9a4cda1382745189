package score

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/linearize"
)

// ForNetwork returns the calibration of predictions whose mean is the output f of a network, where c was found for
// predictions by the mean f̂ of a refit (E24). projection is φ = ⟨f̂,f̂⟩/⟨f̂,f⟩ and remainder is
// ρ = rms(f − f̂)/rms f, both over the training rows and of outputs less their mean over classes, which a softmax
// ignores. For φ = 1 and ρ = 0 the result is c.
//
// The refit is the network seen through noise: f̂ = f/φ + e. Noise attenuates the slope of the truth on f̂, which is
// the temperature τ of c. By errors in variables the slope on f is τφ, where e is independent of the truth given f.
// A close refit is not like that: its e says something of the truth. The other rule lets a refit choose less of the
// temperature the more it leaves unexplained, τ^(1/(1+ρ²)). Each rule is far off on some networks. Their geometric
// mean is better than both on balance, and the scale s of the covariance becomes s/(1+ρ²), because s covers e as
// well. doc/calibration.md has the networks and the figures.
//
// Only a Logistic likelihood has a temperature. For others, and where φ and ρ are not finite, the result is c.
func (c *Calibration) ForNetwork(lik glm.Likelihood, projection, remainder float64) *Calibration {
	if _, ok := lik.(glm.Logistic); !ok || !(remainder < math.Inf(1)) || math.IsNaN(projection) {
		return c
	}
	weight := 1 / (1 + remainder*remainder)
	tau, seen := orOne(c.Temperature), 1.
	if projection > 0 { // else the refit says nothing of the slope
		seen = min(1, tau*projection)
	}
	to := *c
	to.Temperature = max(minTemperature, math.Sqrt(seen*math.Pow(tau, weight)))
	to.Scale = orOne(c.Scale) * weight
	return &to
}

// JudgeNetwork returns c with the warning worse-than-constant if, and only if, its predictions of the rows are worse
// than those of a constant, by the outputs of a network as they would be without the row (E24):
//
//	network + (leftOut − network)/(1 + remainder²)
//
// leftOut is f + (f̂₋ᵢ − f̂), the output of the network moved as the refit moves without the row. The refit knows how
// the network would move only as far as it explains the network. network, leftOut and cov are T×C, T×C and T·C×C, and
// c is that of the answers. Weights are as in CalibrateOptions. The error is one of ScoreOf.
func (c *Calibration) JudgeNetwork(ctx context.Context, link predictive.Link, lik glm.Likelihood, y, network, leftOut, cov *mat.Dense, weights []float64, remainder float64) (*Calibration, error) {
	var mean mat.Dense
	mean.Sub(leftOut, network)
	mean.Scale(1/(1+remainder*remainder), &mean)
	mean.Add(&mean, network)
	rows, err := newScoredRows(lik, y, &mean, cov, weights)
	if err != nil {
		return nil, err
	}
	lik = rows.lik
	logp, err := c.logDensities(ctx, link, lik, rows)
	if err != nil {
		return nil, err
	}
	to := *c
	to.Warnings = slices.DeleteFunc(slices.Clone(c.Warnings), func(w error) bool { return linearize.WarningOf(w).Code == "worse-than-constant" })
	if w := worseThanConstant(rows.nll(logp), constantNLL(lik, rows.y, rows.c, rows.weights)); w != nil {
		to.Warnings = slices.Insert(to.Warnings, 0, w)
	}
	return &to, nil
}
