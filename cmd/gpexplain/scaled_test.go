package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The probabilities of three classes follow from mean, covariance and calibration of the row alone: they are the mean of the
// softmax of f ~ N(τ·mean, s·covariance), here a sum over a grid of f = τ·mean + L·z.
func TestProbabilityFromScales(t *testing.T) {
	dir := "../../testdata/corpus/standardized-in-graph/"
	rows, _ := predicted(t, succeed(t, "predict", "--json", "--quiet", "--model", dir+"model.onnx", "--data", dir+"train.csv",
		"--test-data", dir+"test.csv", "--index", "0,18,44"))
	require.Len(t, rows, 3)
	const half, step = 24, 0.25
	for _, r := range rows {
		s, tau := float64(r.Calibration.Scale), float64(r.Calibration.Temperature)
		require.Less(t, tau, 1.0)
		var l [3][3]float64 // the Cholesky factor of s·covariance
		for i := range 3 {
			for j := range i + 1 {
				sum := s * float64(r.Covariance[i][j])
				for k := range j {
					sum -= l[i][k] * l[j][k]
				}
				if i == j {
					l[i][i] = math.Sqrt(sum)
				} else {
					l[i][j] = sum / l[j][j]
				}
			}
		}
		var sums [3]float64
		total := 0.0
		for a := -half; a <= half; a++ {
			for b := -half; b <= half; b++ {
				for c := -half; c <= half; c++ {
					z := [3]float64{float64(a) * step, float64(b) * step, float64(c) * step}
					w := math.Exp(-(z[0]*z[0] + z[1]*z[1] + z[2]*z[2]) / 2)
					var e [3]float64
					all := 0.0
					for i := range 3 {
						f := tau * float64(r.Mean[i])
						for k := range i + 1 {
							f += l[i][k] * z[k]
						}
						e[i] = math.Exp(f)
						all += e[i]
					}
					for i := range 3 {
						sums[i] += w * e[i] / all
					}
					total += w
				}
			}
		}
		for i, p := range r.Probability {
			require.InDelta(t, sums[i]/total, float64(p), 1e-8, "row %d, class %d", r.Index, i)
		}
	}
}

// The variance of an observation follows from covariance and calibration of the row and the noise variance of the fit.
func TestObservationFromScales(t *testing.T) {
	dir := "../../testdata/corpus/house-prices/"
	rows, summary := predicted(t, succeed(t, "predict", "--json", "--quiet", "--model", dir+"model.onnx", "--data", dir+"train.csv",
		"--test-data", dir+"test.csv", "--id", "id", "--index", "0-4"))
	require.Len(t, rows, 5)
	for _, r := range rows {
		scale := float64(r.Calibration.NoiseScale)
		require.NotEqual(t, 1.0, scale)
		function := float64(r.Calibration.Scale) * float64(r.Covariance[0][0])
		require.InEpsilon(t, math.Sqrt(function), float64(r.FunctionSD[0]), 1e-9)
		require.InEpsilon(t, math.Sqrt(function+scale*float64(*summary.Fit.NoiseVariance)), float64(r.ObservationSD[0]), 1e-9)
	}
}
