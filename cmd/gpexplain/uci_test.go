package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// Tables as users have them, from training to a contrast of two classes. The
// accuracies are what any such network reaches, not what this one did.
func TestUCI(t *testing.T) {
	for _, x := range []struct {
		name, widths string
		classes      int
		accuracy     float64
	}{
		{"breast_cancer", "20-1", 2, 0.92},
		{"glass", "20-6", 6, 0.5},
		{"australian", "20-2", 2, 0.75},
	} {
		t.Run(x.name, func(t *testing.T) {
			data := sharedData(t, "uci", x.name+".csv")
			model := filepath.Join(t.TempDir(), "net.onnx")
			run := func(verb string, args ...string) string {
				return succeed(t, append([]string{verb, "--data", data, "--split", "0", "--json"}, args...)...)
			}
			trained := decode[trainReport](t, run("train", "--arch", "mlp:"+x.widths, "--activation", "tanh", "--epochs", "20", "--lbfgs", "100", "--out", model))
			require.Greater(t, float64(trained.TestAccuracy), x.accuracy)
			rows, sum := predicted(t, run("predict", "--model", model))
			require.Equal(t, trained.TestAccuracy, sum.Accuracy)
			require.Equal(t, trained.TestNLL, sum.MAPNLL)
			require.Len(t, rows[0].Probability, x.classes)
			require.Less(t, float64(sum.NLL), 1.5)
			require.Less(t, float64(sum.ECE), 0.35)
			args := []string{"--model", model, "--top", "5", "--calibrate", "none"}
			if x.widths != "20-1" {
				args = append(args, "--contrast", "0,1")
			}
			r := decode[result.Report](t, run("explain", args...))
			for _, o := range r.Outputs {
				require.Len(t, o.Contributions, 5)
				require.InDelta(t, float64(o.Network), float64(o.PriorMean+o.ContributionSum+o.Remainder), 1e-9*scale(o))
			}
			require.Contains(t, succeed(t, "explain", "--data", data, "--split", "0", "--model", model, "--calibrate", "none"), "predicted")
		})
	}
}

// The thesis' network on its own data, with rows of the files as they are.
func TestMNIST(t *testing.T) {
	data, ref := testref.MNIST(t), testref.Open(t, "thesis-cnn")
	dir := t.TempDir()
	net := testref.Must(network.ReadONNX(bytes.NewReader(ref.Model(t)), nil))(t)
	var b bytes.Buffer
	require.NoError(t, net.WithMetadata(map[string]string{keyPrecision: "10", keyClasses: "4,9"}).WriteONNX(&b))
	train, test := ref.Ints("train_index"), ref.Ints("test_index")
	args := []string{"--model", write(t, filepath.Join(dir, "net.onnx"), b.Bytes()), "--data", data, "--json", "--quiet",
		"--train-index", write(t, filepath.Join(dir, "train.txt"), lines(train[:250]))}
	rows, _ := predicted(t, succeed(t, append([]string{"predict", "--test-index", write(t, filepath.Join(dir, "test.txt"), lines(test[:40]))}, args...)...))
	f := ref.Floats("f_test")
	for i, r := range rows {
		require.EqualValues(t, test[i], r.Index)
		// float32 weights, pixels divided by 255: 1e-10 as for every network.
		require.InDelta(t, f[i], float64(r.Mean[0]), 1e-10*max(1, f[i], -f[i]))
	}
	r := decode[result.Report](t, succeed(t, append([]string{"explain", "--top", "250"}, args...)...))
	require.EqualValues(t, test[0], r.Input.Index, "the first 4 or 9 among the test rows")
	require.Equal(t, 250, r.Fit.Examples)
	for _, x := range r.Outputs[0].Contributions {
		require.Contains(t, train[:250], int(x.Index))
		require.Contains(t, []result.Float{4, 9}, x.Label)
	}
}
