package main

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
)

// noisySine is a table in which the noise of a sine grows along the axis, in units in
// which targets must be standardized.
func noisySine(t *testing.T, path string, n int) (targets, sd []float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 1))
	x := mat.NewDense(n, 1, nil)
	for i := range n {
		a := 6 * rng.Float64()
		x.Set(i, 0, a)
		sd = append(sd, 20*math.Exp(a/2-2))
		targets = append(targets, 500+100*math.Sin(a)+sd[i]*rng.NormFloat64())
	}
	write(t, path, table(x, targets))
	split(t, path, n)
	return targets, sd
}

// A heteroscedastic regression in standardized targets, from training to explanation: its
// predictions are in the units of the data, and it predicts better than one noise variance.
func TestHeteroscedasticCSV(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "sine.csv")
	targets, noise := noisySine(t, data, 150)
	model := filepath.Join(dir, "net.onnx")
	run := func(verb string, args ...string) string {
		return succeed(t, append([]string{verb, "--data", data, "--split", "0", "--json"}, args...)...)
	}
	train := func(likelihood, arch, out string, more ...string) trainReport {
		return decode[trainReport](t, run("train", append([]string{"--likelihood", likelihood, "--arch", arch, "--activation", "tanh", "--epochs", "20", "--lbfgs", "3000", "--target-mean", "500", "--target-sd", "80", "--out", out}, more...)...))
	}
	trained := train("heteroscedastic", "mlp:12-2", model)
	require.Equal(t, 90, trained.Examples)
	rows, sum := predicted(t, run("predict", "--model", model, "--coverage", "0.9"))
	require.Len(t, rows, 30)
	require.InDelta(t, float64(trained.TestNLL), float64(sum.MAPNLL), 1e-9)
	off := 0.0
	for _, r := range rows {
		require.Equal(t, targets[r.Index], float64(r.Label))
		require.Len(t, r.Mean, 2)
		require.Len(t, r.ObservationMean, 1)
		require.Len(t, r.ObservationSD, 1)
		require.Len(t, r.FunctionSD, 1)
		require.Equal(t, r.Mean[0], r.ObservationMean[0])
		off += math.Abs(math.Log(float64(r.ObservationSD[0])/noise[r.Index])) / float64(len(rows))
		require.Less(t, float64(r.Interval[0]), float64(r.Interval[1]))
	}
	require.Less(t, off, .35, "the standard deviation of an observation follows the noise")
	require.InDelta(t, .9, float64(sum.Coverage.Measured), .15)
	plain := filepath.Join(dir, "plain.onnx")
	train("gaussian", "mlp:12-1", plain, "--noise-variance", "400")
	_, other := predicted(t, run("predict", "--model", plain))
	require.Less(t, float64(sum.NLL), float64(other.NLL)-.1)

	r := decode[result.Report](t, run("explain", "--model", model, "--top", "1", "--html", filepath.Join(dir, "page.html")))
	require.Len(t, r.Outputs, 2)
	for _, o := range r.Outputs {
		require.InDelta(t, float64(o.Network), float64(o.PriorMean+o.ContributionSum+o.Remainder), 1e-9*500)
	}
	page := read(t, filepath.Join(dir, "page.html"))
	require.Contains(t, page, "log noise variance of y")

	// A saved posterior, all methods, and the refit.
	saved := filepath.Join(dir, "net.posterior")
	succeed(t, "fit", "--model", model, "--data", data, "--split", "0", "--out", saved)
	again, _ := predicted(t, succeed(t, "predict", "--data", data, "--split", "0", "--model", model, "--posterior", saved, "--json"))
	for i := range rows {
		require.InEpsilon(t, float64(rows[i].ObservationSD[0]), float64(again[i].ObservationSD[0]), 1e-9)
	}
	_, refit := predicted(t, run("predict", "--model", model, "--refit"))
	require.Less(t, float64(refit.NLL), float64(other.NLL))
	for _, method := range []string{"cg", "nystrom"} {
		_, s := predicted(t, run("predict", "--model", model, "--method", method))
		require.InDelta(t, float64(sum.NLL), float64(s.NLL), .1, method)
	}
	require.Contains(t, run("predict", "--model", model, "--strict"), "is not concave")
	e := decode[evidenceReport](t, run("evidence", "--model", model))
	require.True(t, e.AtTheta.Finite() && e.Refit.Finite() && e.LinearGaussian.Finite())
	require.False(t, e.NoiseVariance.Finite())
	require.Contains(t, run("validate", "--model", model), `"ok":true`)
	table := filepath.Join(dir, "out.csv")
	run("predict", "--model", model, "--csv", table, "--html", filepath.Join(dir, "all.html"))
	require.Contains(t, read(t, table), "index,target,mean_0,mean_1,observation_sd,function_sd,expected,map_expected,novelty")
	require.Contains(t, run("predict", "--model", model, "--weight-decay", "0.011111111111111112"), "N·λ = 90 × 0.01111")
}

func TestHeteroscedasticRefusals(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "sine.csv")
	noisySine(t, data, 20)
	out := filepath.Join(dir, "net.onnx")
	for arch, want := range map[string]string{"mlp:4-3": "3 outputs", "mlp:4-4": "name 2 with --target"} {
		require.Contains(t, refuse(t, 1, "train", "--data", data, "--likelihood", "heteroscedastic", "--arch", arch, "--out", out), want)
	}
	require.Contains(t, refuse(t, 2, "train", "--data", data, "--likelihood", "heteroscedastic", "--noise-variance", "1", "--out", out), "--noise-variance is for --likelihood gaussian")
	require.Contains(t, refuse(t, 2, "predict", "--data", data, "--likelihood", "heteroscedastic", "--link", "probit"), "--link probit is not for")
}
