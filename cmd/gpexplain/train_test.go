package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// What train writes, the other verbs understand without a flag.
func TestTrainMetadata(t *testing.T) {
	dir := t.TempDir()
	model, page := filepath.Join(dir, "net.onnx"), filepath.Join(dir, "page.html")
	data := []string{"--data", "digits:600,100"}
	args := append([]string{"train", "--classes", "9,4", "--train-count", "100", "--prior-precision", "3", "--epochs", "3", "--lbfgs", "20", "--seed", "7", "--out", model}, data...)
	text := succeed(t, append(args, "--json")...)
	requireSchema(t, "train", text)
	r := decode[trainReport](t, text)
	require.Equal(t, 4587, r.Parameters)
	require.Equal(t, 100, r.Examples)
	require.GreaterOrEqual(t, float64(r.TrainAccuracy), 0.5)

	meta := decode[result.Inspection](t, succeed(t, "inspect", "--json", "--model", model)).Metadata
	require.Equal(t, "9,4", meta["funcgp.classes"])
	require.Equal(t, "3", meta["funcgp.prior_precision"])
	require.Equal(t, "bernoulli", meta["funcgp.likelihood"])
	named := strings.Join(append(args, "--json"), " ")
	require.Equal(t, "gpexplain "+strings.Replace(named, model, "net.onnx", 1), meta["funcgp.command"], "without the folders of this machine")

	explained := decode[result.Report](t, succeed(t, append([]string{"explain", "--json", "--calibrate", "none", "--model", model, "--html", page}, data...)...))
	require.Equal(t, 100, explained.Fit.Examples, "the rows it was trained on")
	require.EqualValues(t, 3, explained.Fit.PriorPrecision)
	f := float64(explained.Outputs[0].Network)
	require.InDelta(t, sigmoid(f), float64(explained.Prediction.MAPProbability[1]), 1e-15, "the second class is 4")
	// The objective's gradient is the one train stopped at.
	require.InEpsilon(t, float64(r.GradientNorm), float64(explained.Fit.GradientNorm), 1e-6)
	require.InEpsilon(t, float64(r.LogLikelihood), float64(decode[result.Evidence](t, succeed(t, append([]string{"evidence", "--json", "--model", model}, data...)...)).LogLikelihood), 1e-9)

	// Other data: the recorded rows mean nothing there.
	other := decode[result.Report](t, succeed(t, "explain", "--json", "--calibrate", "none", "--model", model, "--data", "digits:300,100"))
	require.NotNil(t, linearize.FindWarning(other.Fit.Warnings, "other-data"))
	require.Equal(t, 60, other.Fit.Examples)
}

func TestTrainIsDeterministic(t *testing.T) {
	dir := t.TempDir()
	train := func(name string, args ...string) []byte {
		path := filepath.Join(dir, name)
		succeed(t, append([]string{"train", "--data", "digits:200,50", "--arch", "mlp:8-10", "--epochs", "2", "--lbfgs", "3", "--out", path}, args...)...)
		b := testref.Must(os.ReadFile(path))(t)
		// The command is part of the file; it names the file and the flags.
		return b[:len(b)/2]
	}
	want := train("a.onnx", "--workers", "1")
	require.Equal(t, want, train("b.onnx", "--workers", "2"))
	require.NotEqual(t, want, train("c.onnx", "--seed", "1"))
}

// A regression in a CSV file, from training to explanation.
func TestRegressionCSV(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 1))
	x, y, rate := mat.NewDense(120, 2, nil), make([]float64, 120), make([]float64, 120)
	for i := range y {
		a, b := 10*rng.Float64(), 100+5*rng.NormFloat64()
		x.SetRow(i, []float64{a, b})
		y[i] = math.Sin(a) + 0.1*(b-100) + 0.1*rng.NormFloat64()
		rate[i] = math.Round(math.Exp(1 + math.Sin(a)))
	}
	for name, targets := range map[string][]float64{"gaussian": y, "poisson": rate, "negative-binomial:50": rate} {
		file, _, _ := strings.Cut(name, ":")
		data := write(t, filepath.Join(dir, file+".csv"), table(x, targets))
		split(t, data, 120)
		model := filepath.Join(dir, file+".onnx")
		run := func(verb string, args ...string) string {
			return succeed(t, append([]string{verb, "--data", data, "--split", "0", "--json"}, args...)...)
		}
		args := []string{"--likelihood", name, "--arch", "mlp:12-1", "--activation", "tanh", "--epochs", "20", "--lbfgs", "300", "--out", model}
		if name == "gaussian" {
			args = append(args, "--noise-variance", "0.05")
		}
		trained := decode[trainReport](t, run("train", args...))
		require.Equal(t, 72, trained.Examples)
		require.False(t, trained.TrainAccuracy.Finite())

		rows, sum := predicted(t, run("predict", "--model", model))
		require.Len(t, rows, 24)
		require.Equal(t, trained.TestNLL, sum.MAPNLL)
		// A constant, the best one without features, does far worse.
		require.Less(t, float64(sum.NLL), constantNLL(name, targets)-0.2)
		for _, r := range rows {
			require.EqualValues(t, 4, r.Index%5, "test rows of the split")
			require.Equal(t, targets[r.Index], float64(r.Label))
		}
		r := decode[result.Report](t, run("explain", "--model", model, "--top", "100"))
		require.EqualValues(t, 4, r.Input.Index)
		require.Len(t, r.Outputs[0].Contributions, 72)
		for _, x := range r.Outputs[0].Contributions {
			require.Contains(t, []int{0, 1, 3}, int(x.Index)%5, "training rows of the split")
		}
	}
}

// constantNLL is the mean negative log likelihood of the best constant.
func constantNLL(likelihood string, y []float64) float64 {
	mean, nll := sum(y)/float64(len(y)), 0.0
	for _, v := range y {
		if likelihood == "gaussian" {
			nll += (v - mean) * (v - mean) / float64(len(y))
			continue
		}
		lg, _ := math.Lgamma(v + 1)
		nll += (mean - v*math.Log(mean) + lg) / float64(len(y))
	}
	if likelihood == "gaussian" {
		return 0.5 * (1 + math.Log(2*math.Pi*nll))
	}
	return nll
}

// split writes a split 0 beside a CSV file of n rows: of every five rows three
// for training, one for validation and one for testing.
func split(t *testing.T, data string, n int) {
	t.Helper()
	var b strings.Builder
	b.WriteString("split,row,part\n")
	for i := range n {
		b.WriteString("0," + strconv.Itoa(i) + "," + []string{"train", "train", "valid", "train", "test"}[i%5] + "\n")
	}
	write(t, strings.TrimSuffix(data, ".csv")+".splits.csv", []byte(b.String()))
}

// A network with dropout and batch normalization is trained on a table until its
// validation rows say stop, and goes on from its file.
func TestTrainFlags(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "net.onnx")
	run := func(out string, args ...string) *trainReport {
		text := succeed(t, append([]string{"train", "--data", "digits:300,100", "--json", "--out", filepath.Join(dir, out)}, args...)...)
		requireSchema(t, "train", text)
		r := decode[trainReport](t, text)
		return &r
	}
	cnn := []string{"--arch", "bn-cnn", "--dropout", "0.1", "--batch", "50", "--train-count", "250"}
	r := run("net.onnx", append(cnn, "--optimizer", "sgd", "--momentum", "0.5", "--lr", "0.02", "--schedule", "plateau", "--early-stopping", "2", "--epochs", "6", "--no-decay", "normalized,Dense1.bias")...)
	require.Equal(t, 200+16+3200+32+257*64+65*10, r.Parameters)
	require.Greater(t, float64(r.TestAccuracy), 0.5)
	require.NotNil(t, r.ValidationNLL)
	require.LessOrEqual(t, r.BestEpoch, r.Epochs)
	require.Equal(t, 5*r.Epochs, r.Steps)

	// What the file holds is the network that was scored.
	kept := run("same.onnx", append(cnn, "--init", model, "--epochs", "0", "--lbfgs", "0")...)
	require.Equal(t, r.TestNLL, kept.TestNLL)
	require.Nil(t, kept.ValidationNLL)
	require.Zero(t, kept.Steps)
	more := run("more.onnx", append(cnn, "--init", model, "--steps", "7", "--lbfgs", "0", "--schedule", "step", "--schedule-factor", "0.5")...)
	require.Equal(t, 7, more.Steps)
	require.Equal(t, 2, more.Epochs)
	require.Less(t, float64(more.TrainNLL), float64(kept.TrainNLL))

	for _, x := range []struct {
		status int
		want   string
		args   []string
	}{
		{1, "no tensor", []string{"--init", model, "--arch", "lenet5"}},
		{1, "has no parameter", []string{"--no-decay", "weight"}},
		{1, "none is left to stop by", []string{"--early-stopping", "3"}},
		{1, "takes about", []string{"--arch", "bn-cnn", "--batch", "100000000"}},
		{2, "--epochs and --steps", []string{"--epochs", "3", "--steps", "3"}},
		{2, "--momentum is for --optimizer sgd", []string{"--momentum", "0.5"}},
		{2, "--momentum 1 must be", []string{"--optimizer", "sgd", "--momentum", "1"}},
		{2, "--schedule-factor is for --schedule step or plateau", []string{"--schedule-factor", "0.5"}},
		{2, "--schedule-factor 2 must", []string{"--schedule", "step", "--schedule-factor", "2"}},
		{2, "--dropout 1", []string{"--dropout", "1"}},
		{2, "--dropout is not for --optimizer voggn, lgva or oggn", []string{"--optimizer", "lgva", "--dropout", ".1"}},
		{2, "--no-decay is not for --optimizer voggn", []string{"--optimizer", "oggn", "--no-decay", "all"}},
		{2, "--momentum is for --optimizer sgd, not oggn", []string{"--optimizer", "oggn", "--momentum", ".1"}},
		{2, "--draws is for --optimizer voggn or lgva, not oggn", []string{"--optimizer", "oggn", "--draws", "2"}},
		{2, "--draws 0 must be at least 1", []string{"--optimizer", "voggn", "--draws", "0"}},
		{2, "or give --schedule constant", []string{"--optimizer", "voggn", "--schedule", "cosine"}},
		{2, "--lr 1.5 of --optimizer voggn must be at most 1", []string{"--optimizer", "voggn", "--lr", "1.5"}},
		{2, "choose another --arch", []string{"--optimizer", "voggn", "--arch", "bn-cnn"}},
		{2, "--optimizer voggn is not for --arch autoencoder:2", []string{"--optimizer", "voggn", "--arch", "autoencoder:2"}},
		{1, "choose --optimizer adam or a smaller network, or raise --max-memory", []string{"--optimizer", "oggn", "--arch", "lenet5", "--max-memory", "1GiB"}},
		{2, "optimizer", []string{"--optimizer", "ada"}},
		{2, "--early-stopping -1 must be at least 0", []string{"--early-stopping", "-1"}},
		{2, "--batch 0 must be at least", []string{"--batch", "0"}},
	} {
		args := append([]string{"train", "--data", "digits:60,20", "--out", filepath.Join(dir, "x.onnx")}, x.args...)
		require.Contains(t, refuse(t, x.status, args...), x.want)
	}
}

// Each optimizer by natural gradients trains a table, under weights of rows and classes too. The rows are in two batches, and
// the held-out rows decide which epoch is kept. What is written, predict reads.
func TestTrainByNaturalGradients(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 1))
	text := "a,b,w,class\n"
	for i := range 120 {
		a, b := rng.NormFloat64(), rng.NormFloat64()
		class := "no"
		if math.Sin(2*a)+b+.3*rng.NormFloat64() > 0 {
			class = "yes"
		}
		text += fmt.Sprintf("%.4f,%.4f,%d,%s\n", a, b, 1+i%2, class)
	}
	data := write(t, filepath.Join(dir, "a.csv"), []byte(text))
	split(t, data, 120)
	for _, optimizer := range naturalNames {
		model := filepath.Join(dir, optimizer+".onnx")
		train := func(args ...string) trainReport {
			text := succeed(t, append([]string{"train", "--json", "--data", data, "--split", "0", "--row-weights", "w", "--optimizer", optimizer, "--out", model}, args...)...)
			requireSchema(t, "train", text)
			return decode[trainReport](t, text)
		}
		r := train("--arch", "mlp:6-1", "--batch", "36", "--steps", "60", "--class-weights", "no=1,yes=2")
		require.Equal(t, 60, r.Steps)
		require.Equal(t, 30, r.Epochs)
		require.Greater(t, float64(r.TestAccuracy), 0.7, optimizer)
		rows, sum := predicted(t, succeed(t, "predict", "--json", "--model", model, "--data", data, "--split", "0"))
		require.Len(t, rows, 24)
		require.Equal(t, r.TestNLL, sum.MAPNLL)
		r = train("--arch", "mlp:6-1", "--early-stopping", "5")
		require.NotNil(t, r.ValidationNLL)
		require.Equal(t, min(r.BestEpoch+5, naturalUpdates), r.Epochs)
		r = train("--arch", "mlp:6-1", "--activation", "tanh", "--steps", "30", "--lbfgs", "500")
		require.Less(t, float64(r.GradientNorm), 1e-4)
		r = train("--arch", "mlp:6-1", "--epochs", "0")
		require.Zero(t, r.Steps)
	}
	// OGGN goes to the optimum of the weighted loss of a linear model.
	one := []string{"train", "--json", "--data", data, "--split", "0", "--arch", "mlp:1", "--optimizer", "oggn", "--out", filepath.Join(dir, "one.onnx")}
	r := decode[trainReport](t, succeed(t, append(one, "--row-weights", "w", "--class-weights", "no=1,yes=2", "--lr", "0.8")...))
	require.Less(t, float64(r.GradientNorm), 1e-10)
	// What diverges is one line with the flags that help.
	stderr := refuse(t, 1, "train", "--data", data, "--split", "0", "--arch", "mlp:20-1", "--optimizer", "voggn", "--lr", "1", "--prior-precision", "1e-4", "--out", filepath.Join(dir, "x.onnx"))
	require.Regexp(t, `^gpexplain: training on .*a.csv .split 0.: update \d+ of --optimizer voggn diverged: .*; try a smaller --lr, more --draws or a larger --prior-precision\n?$`, stderr)
}

// One update of rate one from anywhere is ridge regression (E27): the gradient is zero, and the prior precision 1 bounds how
// far the parameters are from its solution by the gradient.
func TestTrainRidgeByOneUpdate(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(2, 1))
	x, y := mat.NewDense(50, 3, nil), make([]float64, 50)
	for i := range y {
		x.SetRow(i, []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()})
		y[i] = 2 + x.At(i, 0) - 3*x.At(i, 1) + .2*rng.NormFloat64()
	}
	data := write(t, filepath.Join(dir, "a.csv"), table(x, y))
	r := decode[trainReport](t, succeed(t, "train", "--json", "--data", data, "--noise-variance", "0.04", "--prior-precision", "1", "--arch", "mlp:1", "--optimizer", "oggn", "--lr", "1", "--steps", "1", "--out", filepath.Join(dir, "a.onnx")))
	require.Equal(t, 1, r.Steps)
	require.Less(t, float64(r.GradientNorm), 1e-10)
}

// Only what a normalization follows is normalized.
func TestNoDecay(t *testing.T) {
	net := testref.Must(network.Sequential(network.Shape{1, 28, 28}, (&arch{name: "bn-cnn"}).layers(10)...))(t)
	require.Equal(t, []string{"Conv2D1.weight", "Conv2D2.weight"}, net.Normalized())
	d := &trainVerb{noDecay: []string{"normalized", "Dense2.bias"}}
	precision := testref.Must(d.precision(net, 3))(t)
	for _, p := range net.Params() {
		want := 3.0
		if p.Name == "Conv2D1.weight" || p.Name == "Conv2D2.weight" || p.Name == "Dense2.bias" {
			want = 0
		}
		for _, v := range precision[p.Offset : p.Offset+p.Len()] {
			require.Equal(t, want, v, p.Name)
		}
	}
}

func TestArch(t *testing.T) {
	for _, x := range []struct {
		name string
		in   network.Shape
		c, p int
	}{
		{"thesis-cnn", network.Shape{1, 28, 28}, 1, 4587}, // [thesis]
		{"thesis-cnn", network.Shape{1, 28, 28}, 10, 4587 + 9*26},
		{"lenet5", network.Shape{1, 28, 28}, 10, 44426},
		{"bn-cnn", network.Shape{1, 28, 28}, 10, 200 + 16 + 3200 + 32 + 257*64 + 65*10},
		{"mlp:128-64-10", network.Shape{1, 28, 28}, 10, 109386},
		{"mlp:3", network.Shape{5}, 3, 18},
	} {
		a := testref.Must(parseArch(x.name, "tanh", 0.1))(t)
		net := testref.Must(network.Sequential(x.in, a.layers(x.c)...))(t)
		_, c, p := net.Dims()
		require.Equal(t, x.c, c)
		require.Equal(t, x.p, p)
		if a.widths != nil {
			require.EqualValues(t, p, a.parameters(net.Inputs()[0].Len()))
		}
	}
}

// TestModelInUnitsOfData checks that the file of a training says that its inputs are standardized, and that the network
// of raw rows that network.Standardized makes of it predicts as the file does, to the last bit.
func TestModelInUnitsOfData(t *testing.T) {
	dir := t.TempDir()
	net, raw := filepath.Join(dir, "net.onnx"), filepath.Join(dir, "raw.onnx")
	table := write(t, filepath.Join(dir, "a.csv"), []byte("age,income,repaid\n31,2200,yes\n22,1900,no\n54,4100,yes\n43,1300,no\n35,3500,yes\n27,800,no\n61,2900,yes\n39,1000,no\n"))
	succeed(t, "train", "--quiet", "--data", table, "--arch", "mlp:3-1", "--epochs", "20", "--prior-precision", "1", "--out", net)
	of := testref.Must(network.ReadONNXFile(t.Context(), net, nil))(t)
	require.NotNil(t, linearize.FindWarning(of.Warnings(), "inputs-scaled"))
	units := testref.Must(of.Standardized(nil, nil))(t)
	var b bytes.Buffer
	require.NoError(t, units.WriteONNX(&b))
	require.NoError(t, os.WriteFile(raw, b.Bytes(), 0o600))
	rows := func(model string) []string {
		lines := strings.Split(strings.TrimSpace(succeed(t, "predict", "--json", "--quiet", "--model", model, "--data", table, "--test-data", table)), "\n")
		return lines[:len(lines)-1] // without the summary, which names the model
	}
	want := rows(net)
	require.Len(t, want, 8)
	require.Equal(t, want, rows(raw))
}
