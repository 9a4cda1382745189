package main

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

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
		r := decode[evidenceReport](t, succeed(t, x.args("evidence", "--json", "--strict", "--standardize", "yes", "--weight-decay", x.decay())...))
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
	decayed := decode[evidenceReport](t, ref.run(t, "evidence", "--json", "--quiet", "--weight-decay", format(lambda), "--noise-variance", format(noise)))
	stated := decode[evidenceReport](t, ref.run(t, "evidence", "--json", "--quiet", "--prior-precision", format(delta), "--noise-variance", format(noise)))
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
