package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
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
	for _, method := range []string{"parameters", "nystrom"} {
		_, s := predicted(t, run("predict", "--model", model, "--method", method))
		require.InDelta(t, float64(sum.NLL), float64(s.NLL), .1, method)
	}
	require.Contains(t, run("predict", "--model", model, "--strict"), "is not concave")
	e := decode[result.Evidence](t, run("evidence", "--model", model))
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

// An exported is a network that PyTorch exported: a folder of testdata/corpus.
type exported struct {
	dir, model, train, test string
	Likelihood              string  `json:"likelihood"`
	WeightDecay             float64 `json:"weight_decay"`
	PriorPrecision          float64 `json:"prior_precision"`
	TrainRows               int     `json:"train_rows"`
	TrainNLL                float64 `json:"train_nll"`
	TrainAccuracy           float64 `json:"train_accuracy"`
	GradientNorm            float64 `json:"gradient_norm"`
	LogEvidence             float64 `json:"log_evidence"`
}

func openExported(t *testing.T, name string) *exported {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "testdata", "corpus", name))
	require.NoError(t, err)
	x := &exported{dir: dir, model: filepath.Join(dir, "model.onnx"), train: filepath.Join(dir, "train.csv"), test: filepath.Join(dir, "test.csv")}
	require.NoError(t, json.Unmarshal([]byte(read(t, filepath.Join(dir, "expected.json"))), x))
	return x
}

// args is a command line on the network and its tables.
func (x *exported) args(verb string, more ...string) []string {
	return append([]string{verb, "--model", x.model, "--data", x.train, "--test-data", x.test}, more...)
}

// decay is the weight decay of the training as a flag takes it.
func (x *exported) decay() string { return strconv.FormatFloat(x.WeightDecay, 'g', -1, 64) }

// With the weight decay of the training θ* is the optimum that PyTorch found, and the
// evidence there is PyTorch's: nothing is to be warned of.
func TestWeightDecay(t *testing.T) {
	for _, name := range []string{"standardized-outside", "two-logits"} {
		x := openExported(t, name)
		r := decode[result.Evidence](t, succeed(t, x.args("evidence", "--json", "--strict", "--standardize", "yes", "--weight-decay", x.decay())...))
		require.InEpsilon(t, x.PriorPrecision, float64(r.PriorPrecision), 1e-12, name)
		require.Equal(t, "N·λ = "+strconv.Itoa(x.TrainRows)+" × "+x.decay()+", from --weight-decay", r.PriorPrecisionOrigin)
		require.InEpsilon(t, x.LogEvidence, float64(r.AtTheta), 1e-6, name)
		require.Equal(t, "ok", r.Preflight.Verdict)
		require.InEpsilon(t, x.TrainNLL, float64(r.Preflight.TrainNLL), 1e-6, name)
		require.InDelta(t, x.TrainAccuracy, float64(*r.Preflight.TrainAccuracy), 1e-12, name)
		require.InDelta(t, x.GradientNorm, float64(r.Preflight.GradientNorm), 1e-4, name)
		require.Empty(t, r.Warnings)
	}
}

// The mean of squares has neither the ½ nor the σ² of the likelihood: δ = N·λ/(2σ²).
// Without --noise-variance σ² is the mean squared error of the network.
func TestWeightDecayOfSquares(t *testing.T) {
	ref := openReference(t, "snelson")
	const lambda, noise = 1e-3, .2
	delta := float64(ref.n) * lambda / (2 * noise)
	format := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	decayed := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--weight-decay", format(lambda), "--noise-variance", format(noise)))
	stated := decode[result.Evidence](t, ref.run(t, "evidence", "--json", "--quiet", "--prior-precision", format(delta), "--noise-variance", format(noise)))
	require.Equal(t, stated.AtTheta, decayed.AtTheta)
	require.Contains(t, decayed.PriorPrecisionOrigin, "N·λ/(2σ²) = ")
	decayed.PriorPrecisionOrigin = stated.PriorPrecisionOrigin
	require.Equal(t, stated, decayed)
}

// Wrong values of the flag are found before any file is opened.
func TestWeightDecayUsage(t *testing.T) {
	require.Contains(t, refuse(t, 2, "explain", "--weight-decay", "0"), "training without decay has none that would be known")
	require.Contains(t, refuse(t, 2, "explain", "--weight-decay", "-1"), "must be a positive number")
	require.Contains(t, refuse(t, 2, "explain", "--weight-decay", "1e-3", "--prior-precision", "2"), "exclude each other")
}
