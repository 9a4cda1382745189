package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// A network that was trained with class weights answers for classes as frequent as in the data: the mean is shifted
// (E25), the probability follows from mean, covariance and scales, a saved posterior and the exported graph have the
// shift, and the refit has none.
func TestShift(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "class-weights")
	data := []string{"--model", filepath.Join(dir, "weighted.onnx"), "--data", filepath.Join(dir, "train.csv"), "--standardize", "no"}
	rows := func(args ...string) (list []result.Prediction, said string) {
		ran := gpexplain(t.Context(), append([]string{"predict", "--test-data", filepath.Join(dir, "test.csv")}, args...)...)
		require.Equal(t, 0, ran.code, ran.stderr)
		for _, line := range strings.Split(strings.TrimSpace(ran.stdout), "\n") {
			list = append(list, decode[result.Prediction](t, line))
		}
		return list, ran.stderr
	}
	share := func(list []result.Prediction) (predicted, true_ float64) {
		for _, r := range list {
			predicted += float64(r.Probability[1]) / float64(len(list))
			true_ += float64(r.Label) / float64(len(list))
		}
		return predicted, true_
	}
	shifted, said := rows(data...)
	require.Contains(t, said, "pos_weight")
	p, y := share(shifted)
	require.InDelta(t, y, p, .03) // two standard errors of 300 rows are .045
	for _, r := range shifted {
		k := r.Calibration
		require.Len(t, k.Shift, 2)
		m := float64(k.Temperature * (r.Mean[1] + k.Shift[1] - r.Mean[0] - k.Shift[0]))
		c := r.Covariance
		sd, e := math.Sqrt(float64(k.Scale*(c[0][0]+c[1][1]-c[0][1]-c[1][0]))), 0.
		const step = 1. / 2048
		for z := -10.; z <= 10; z += step {
			e += step * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) / (1 + math.Exp(-m-sd*z))
		}
		require.InDelta(t, e, float64(r.Probability[1]), 1e-9)
	}

	file := filepath.Join(t.TempDir(), "posterior.gp")
	require.Equal(t, 0, gpexplain(t.Context(), append([]string{"fit", "-o", file}, data...)...).code)
	saved, _ := rows("--posterior", file)
	for i := range saved {
		require.Equal(t, shifted[i].Calibration, saved[i].Calibration)
		require.InDelta(t, float64(shifted[i].Probability[1]), float64(saved[i].Probability[1]), 1e-9)
	}
	exported, _ := exportedFile(t, data...)
	require.LessOrEqual(t, float64(exported.Errors["probability"]), 1e-9)

	refit, _ := rows(append(data, "--refit")...)
	require.Nil(t, refit[0].Calibration.Shift)
	plain, _ := rows(append(data, "--calibrate", "none")...)
	require.Nil(t, plain[0].Calibration.Shift)
	p, _ = share(plain)
	require.Greater(t, p, y+.1)
}
