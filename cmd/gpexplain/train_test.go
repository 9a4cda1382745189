package main

import (
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
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
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

	meta := decode[inspection](t, succeed(t, "inspect", "--json", "--model", model)).Metadata
	require.Equal(t, "9,4", meta[problem.KeyClasses])
	require.Equal(t, "3", meta[problem.KeyPrecision])
	require.Equal(t, "bernoulli", meta[problem.KeyLikelihood])
	named := strings.Join(append(args, "--json"), " ")
	require.Equal(t, "gpexplain "+strings.Replace(named, model, "net.onnx", 1), meta[problem.KeyCommand], "without the folders of this machine")

	explained := decode[result.Report](t, succeed(t, append([]string{"explain", "--json", "--calibrate", "none", "--model", model, "--html", page}, data...)...))
	require.Equal(t, 100, explained.Fit.Examples, "the rows it was trained on")
	require.EqualValues(t, 3, explained.Fit.PriorPrecision)
	f := float64(explained.Outputs[0].Network)
	require.InDelta(t, sigmoid(f), float64(explained.Prediction.MAPProbability[1]), 1e-15, "the second class is 4")
	// The objective's gradient is the one train stopped at.
	require.InEpsilon(t, float64(r.GradientNorm), float64(explained.Fit.GradientNorm), 1e-6)
	require.InEpsilon(t, float64(r.LogLikelihood), float64(decode[evidenceReport](t, succeed(t, append([]string{"evidence", "--json", "--model", model}, data...)...)).LogLikelihood), 1e-9)

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
		b, err := os.ReadFile(path)
		require.NoError(t, err)
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

// A network of a table in SVMlight's format predicts what one of the same table in CSV does, of
// test rows that lack the last feature too.
func TestRegressionSVMLight(t *testing.T) {
	dir := t.TempDir()
	var sparse, test strings.Builder
	dense, testDense := "x1,x2,x3,target\n", "x1,x2,x3,target\n"
	for i := range 60 {
		a, c := float64(i%7)/7, float64(i%11+1)/11
		y := math.Round(math.Exp(a + c))
		fmt.Fprintf(&sparse, "%v 1:%v 3:%v\n", y, a, c)
		dense += fmt.Sprintf("%v,0,%v,%v\n", a, c, y)
		if i < 10 {
			fmt.Fprintf(&test, "%v 1:%v\n", y, a)
			testDense += fmt.Sprintf("%v,0,0,%v\n", a, y)
		}
	}
	var want []string
	for _, ending := range []string{".csv", ".svm"} {
		text, part := dense, testDense
		if ending == ".svm" {
			text, part = sparse.String(), test.String()
		}
		data, model := write(t, filepath.Join(dir, "a"+ending), []byte(text)), filepath.Join(dir, "a.onnx")
		args := []string{"--data", data, "--test-data", write(t, filepath.Join(dir, "t"+ending), []byte(part)), "--json"}
		succeed(t, append([]string{"train", "--likelihood", "negative-binomial:2.5", "--arch", "mlp:4-1", "--epochs", "5", "--out", model}, args...)...)
		rows := strings.Split(succeed(t, append([]string{"predict", "--model", model}, args...)...), "\n")
		require.Greater(t, len(rows), 10)
		if want == nil {
			want = rows
		}
		require.Equal(t, want[:10], rows[:10])
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
