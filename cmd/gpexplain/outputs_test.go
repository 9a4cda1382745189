package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// manyClasses writes a network of 120 classes and a table of 40 rows whose labels are
// numbers of its outputs.
func manyClasses(t *testing.T) (dir, model, data string, net *network.Network) {
	t.Helper()
	dir = t.TempDir()
	net, err := network.Sequential([]int{3}, network.Dense{Units: 4}, network.Tanh, network.Dense{Units: 120})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	theta := net.Theta()
	for i := range theta {
		theta[i] = r.NormFloat64()
	}
	net = testref.Must(net.WithTheta(theta))(t)
	var b bytes.Buffer
	require.NoError(t, net.WriteONNX(&b))
	model = write(t, filepath.Join(dir, "net.onnx"), b.Bytes())
	var text strings.Builder
	text.WriteString("a,b,c,label\n")
	for range 40 {
		fmt.Fprintf(&text, "%.3f,%.3f,%.3f,%d\n", r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), r.IntN(120))
	}
	data = write(t, filepath.Join(dir, "rows.csv"), []byte(text.String()))
	return dir, model, data, net
}

// Of more than 100 classes the ten that are most probable for the rows asked for are
// told apart, and said to be; their probabilities by the network are those among all
// classes.
func TestOutputsByDefault(t *testing.T) {
	_, model, data, net := manyClasses(t)
	args := []string{"--model", model, "--data", data, "--test-data", data, "--standardize", "no", "--quiet"}
	r := gpexplain(t.Context(), append([]string{"explain", "--json", "--index", "5"}, args[:len(args)-1]...)...)
	require.Equal(t, 0, r.code, r.stderr)
	require.Contains(t, r.stderr, `tells 120 classes apart`)
	require.Contains(t, r.stderr, `are one class, "others"; --outputs chooses others`)
	require.Contains(t, r.stderr, "are taken for those of the outputs; --classes names others")
	x := decode[result.Report](t, r.stdout)
	g := x.Fit.Grouped
	require.Equal(t, 120, g.Of)
	require.Len(t, g.Kept, 10)
	require.Len(t, x.Classes, 11)
	require.Equal(t, "others", x.Classes[10])
	require.Len(t, x.Outputs, 12) // and a contrast

	rows := strings.Split(read(t, data), "\n")
	in := make([]float64, 3)
	_, err := fmt.Sscanf(strings.ReplaceAll(rows[6], ",", " "), "%g %g %g", &in[0], &in[1], &in[2])
	require.NoError(t, err)
	f := testref.Must(net.Forward(t.Context(), mat.NewDense(1, 3, in)))(t)
	p := make([]float64, 120)
	glm.Categorical{}.MeanTo(p, f.RawRowView(0))
	sorted := slices.Clone(p)
	slices.Sort(sorted)
	rest := 1.0
	for i, k := range g.Kept {
		require.Equal(t, sorted[119-i], p[k])
		require.InDelta(t, p[k], float64(x.Prediction.MAPProbability[i]), 1e-6)
		rest -= p[k]
	}
	require.InDelta(t, rest, float64(x.Prediction.MAPProbability[10]), 1e-6)
	require.InDelta(t, rest, float64(g.Others), 1e-6)
	for i := range 11 {
		o := x.Outputs[i]
		require.InDelta(t, float64(o.Network), float64(o.PriorMean+o.ContributionSum+o.Remainder), 1e-8)
	}
}

// Classes can be named; a posterior of a file tells the same ones apart, and weight
// space agrees.
func TestOutputsOfAList(t *testing.T) {
	dir, model, data, _ := manyClasses(t)
	args := []string{"--model", model, "--data", data, "--test-data", data, "--standardize", "no", "--quiet"}
	file := filepath.Join(dir, "posterior")
	succeed(t, append([]string{"fit", "--outputs", "7,110,3", "--out", file}, args...)...)
	rows, sum := lastLines(t, succeed(t, append([]string{"predict", "--outputs", "7,110,3", "--json"}, args...)...))
	require.Equal(t, []int{7, 110, 3}, sum.Fit.Grouped.Kept)
	require.Equal(t, []string{"7", "110", "3", "others"}, sum.Classes)
	others := 0
	for _, r := range rows {
		require.Len(t, r.Probability, 4)
		if r.Label == -1 {
			require.Regexp(t, `^\d+ \(others\)$`, r.LabelName)
			others++
		}
	}
	require.Greater(t, others, 30)
	saved, savedSum := lastLines(t, succeed(t, "predict", "--posterior", file, "--json", "--quiet"))
	require.Equal(t, sum.Fit.Grouped, savedSum.Fit.Grouped)
	require.Equal(t, rows, saved)
	require.Contains(t, refuse(t, 1, "predict", "--posterior", file, "--outputs", "7,110"), "--outputs 7,110 is not what it was fitted with")
	succeed(t, append([]string{"validate", "--outputs", "top:4"}, args...)...)

	// Held-out rows have the same classes.
	succeed(t, append([]string{"predict", "--outputs", "top:3", "--calibrate", "heldout", "--valid-data", data}, args...)...)
}

// All classes are told apart where that is asked for, or where there are not many.
func TestOutputsAll(t *testing.T) {
	_, model, data, _ := manyClasses(t)
	args := []string{"--model", model, "--data", data, "--test-data", data, "--standardize", "no", "--train-count", "3", "--calibrate", "none", "--json", "--index", "0", "--quiet"}
	rows, sum := lastLines(t, succeed(t, append([]string{"predict", "--outputs", "all"}, args...)...))
	require.Nil(t, sum.Fit.Grouped)
	require.Len(t, rows[0].Probability, 120)
}

func TestOutputsRefused(t *testing.T) {
	dir, model, data, _ := manyClasses(t)
	args := []string{"predict", "--model", model, "--data", data, "--test-data", data, "--quiet"}
	for text, want := range map[string]string{"top:0": "want a number of classes, such as top:10", "top:x": "want a number of classes", "3,3": "names 3 twice"} {
		require.Contains(t, refuse(t, 2, append(args, "--outputs", text)...), want)
	}
	require.Contains(t, refuse(t, 1, append(args, "--outputs", "3,120")...), "--outputs: 120 is not one of the classes")
	for _, method := range []string{"exact", "nystrom"} {
		require.Contains(t, refuse(t, 1, append(args, "--outputs", "all", "--max-memory", "8MiB", "--method", method)...), "that tells 120 classes apart takes")
	}
	table := write(t, filepath.Join(dir, "y.csv"), []byte("a,b,c,y\n1,2,3,.5\n2,3,4,.7\n"))
	one := filepath.Join(dir, "one.onnx")
	succeed(t, "train", "--data", table, "--arch", "mlp:2-1", "--epochs", "1", "--out", one, "--quiet")
	require.Contains(t, refuse(t, 1, "predict", "--model", one, "--data", table, "--test-data", table, "--outputs", "top:1", "--quiet"), "--outputs is for classes with an output each")
}

// limited takes a number of bytes, as a disk does that fills up.
type limited struct{ left int }

func (w *limited) Write(p []byte) (int, error) {
	if len(p) > w.left {
		n := w.left
		w.left = 0
		return n, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
	}
	w.left -= len(p)
	return len(p), nil
}

// What standard output cannot take is an error, of every verb.
func TestFullStandardOutput(t *testing.T) {
	out := filepath.Join(t.TempDir(), "net.onnx")
	for _, args := range [][]string{
		small("explain"), small("explain", "--json"), small("predict"), small("predict", "--json"), small("importances"), small("audit"), small("acquire", "--pool", "digits:400,100"), small("evidence"), small("evidence", "--json"),
		{"inspect"}, {"inspect", "--json"}, {"version"}, {"help"}, {"help", "explain"}, {}, {"completion", "bash"}, {"completion", "zsh"},
		{"train", "--data", "digits:100,20", "--arch", "mlp:3-10", "--epochs", "1", "--lbfgs", "1", "--out", out},
	} {
		for _, room := range []int{0, 10} {
			var stderr bytes.Buffer
			code := job.Status(&stderr, "gpexplain", option.Flags, run(t.Context(), &limited{room}, &stderr, args))
			require.Equal(t, job.StatusAgain, code, "%q", args)
			require.Equal(t, "gpexplain: standard output: no space left on device; send it to a place with room\n", stderr.String(), "%q", args)
		}
	}
}
