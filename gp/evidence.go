package gp

import (
	"math"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Bound states the sign of an approximate evidence's error.
type Bound int

const (
	None  Bound = iota // exact, or of either sign
	Lower              // never above the exact evidence
	Upper              // never below it
)

// String returns "none", "lower" or "upper".
func (b Bound) String() string { return [...]string{"none", "lower", "upper"}[b] }

// Evidence is a log marginal likelihood and its three parts,
// Value = LogLik − ½ Scatter − ½ LogDet. Bound compares it with the evidence of
// the exact posterior of all training examples at the same sites.
type Evidence struct {
	Value   float64
	LogLik  float64 // of the data at the posterior's function values
	Scatter float64 // squared distance from the prior mean, in Σ₀⁻¹ or K⁻¹
	LogDet  float64 // log det B
	Bound   Bound   // sign of the error of Value
}

// NewEvidence returns the evidence with these parts.
func NewEvidence(logLik, scatter, logDet float64) Evidence {
	return Evidence{LogLik: logLik, Scatter: scatter, LogDet: logDet, Value: logLik - scatter/2 - logDet/2}
}

// Scatter returns (θ−μ₀)ᵀΣ₀⁻¹(θ−μ₀). A parameter of variance 0 contributes nothing
// where it is at its prior mean, and makes the sum +Inf elsewhere.
func Scatter(prior ntk.Prior, theta []float64) float64 {
	mean, variance := moments(prior, len(theta))
	sum := 0.0
	for i, v := range theta {
		if d := v - mean[i]; d != 0 {
			sum += d * d / variance[i]
		}
	}
	return sum
}

// GradientNorm returns the norm of the gradient of the MAP objective,
// ‖Jᵀr − Σ₀⁻¹(θ−μ₀)‖, for the examples of b with the sites s. It is zero where θ
// is a mode.
func GradientNorm(b *linearize.Batch, s *Sites, prior ntk.Prior, theta []float64) float64 {
	grad := make([]float64, len(theta))
	b.MulTransVecTo(grad, dense.Flat(s.Residual))
	return GradientNormOf(grad, prior, theta)
}

// GradientNormOf returns what GradientNorm returns, computed from Jᵀr, length P, for training examples that are
// not in one batch. A parameter that has variance 0 and is at its prior mean is fixed, and has no part in the
// gradient.
func GradientNormOf(jr []float64, prior ntk.Prior, theta []float64) float64 {
	mean, variance := moments(prior, len(theta))
	sum := 0.0
	for i, g := range jr {
		if d := theta[i] - mean[i]; d != 0 || variance[i] != 0 {
			g -= d / variance[i]
		} else {
			g = 0
		}
		sum += g * g
	}
	return math.Sqrt(sum)
}

// moments returns the prior mean and variance of p parameters.
func moments(prior ntk.Prior, p int) (mean, variance []float64) {
	mean, variance = make([]float64, p), make([]float64, p)
	prior.MeanTo(mean)
	prior.VarianceTo(variance)
	return mean, variance
}
