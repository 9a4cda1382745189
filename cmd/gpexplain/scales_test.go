package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// The probability of a row follows from its mean, covariance, scale and temperature: E σ(u), u ~ N(τ·mean, s·cov), here
// by the trapezoidal rule.
func TestProbabilityFollowsFromItsScales(t *testing.T) {
	ref := openReference(t, "two-moons")
	for _, calibrate := range []string{"loo", "none"} {
		for _, line := range strings.Split(strings.TrimSpace(ref.run(t, "predict", "--calibrate", calibrate, "--quiet")), "\n") {
			r := decode[result.Prediction](t, line)
			k := r.Calibration
			if calibrate == "none" {
				require.Equal(t, &result.Scales{Scale: 1, Temperature: 1, NoiseScale: 1}, k)
			}
			m, sd := float64(k.Temperature*r.Mean[0]), math.Sqrt(float64(k.Scale*r.Covariance[0][0]))
			const step = 1. / 2048
			p := 0.
			for z := -10.; z <= 10; z += step {
				p += step * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) / (1 + math.Exp(-m-sd*z))
			}
			require.InDelta(t, p, float64(r.Probability[1]), 1e-9)
		}
	}
}
