package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/store"
)

// indexOf writes an index file.
func indexOf(t *testing.T, rows ...string) string {
	return write(t, filepath.Join(t.TempDir(), "rows.txt"), []byte(strings.Join(rows, "\n")+"\n"))
}

// requireSamePredictions compares the rows that two commands predict.
func requireSamePredictions(t *testing.T, tol float64, a, b []string) {
	t.Helper()
	want, got := slices.Collect(strings.Lines(succeed(t, a...))), slices.Collect(strings.Lines(succeed(t, b...)))
	require.Len(t, got, len(want))
	for i := range want[:len(want)-1] {
		x, y := decode[result.PredictedRow](t, want[i]), decode[result.PredictedRow](t, got[i])
		for k := range x.Mean {
			require.InDelta(t, float64(x.Mean[k]), float64(y.Mean[k]), tol)
		}
		for k := range x.Probability {
			require.InDelta(t, float64(x.Probability[k]), float64(y.Probability[k]), tol)
		}
		require.InDelta(t, float64(x.Novelty.Score), float64(y.Novelty.Score), tol)
	}
}

// A posterior without rows, or with further ones, is that of a refit to these rows from
// scratch. Where the answers are the network's own, they change by what the refit changes.
func TestFitChangesRows(t *testing.T) {
	rows, _ := trained(t)
	slices.SortFunc(rows, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
	dir := t.TempDir()
	all, fewer, back := filepath.Join(dir, "all.gp"), filepath.Join(dir, "fewer.gp"), filepath.Join(dir, "back.gp")
	data := []string{"--quiet", "--json", "--data", "digits:400,100"}
	for _, how := range [][]string{{"--refit"}, {"--refit", "--method", "kept", "--within", ".01"}, {"--refit", "--with-inputs", "--calibrate", "none", "--prior-precision", "3"}} {
		succeed(t, append(small("fit", "--quiet", "-o", all), how...)...)
		fit := decode[fitReport](t, succeed(t, "fit", "--quiet", "--json", "--posterior", all, "--without", indexOf(t, rows[3], rows[40]), "-o", fewer))
		require.Equal(t, 58, fit.Fit.Examples)
		index := indexOf(t, slices.Concat(rows[:3], rows[4:40], rows[41:])...)
		scratch := slices.Concat([]string{"predict", "--train-index", index}, data, slices.DeleteFunc(slices.Clone(how), func(s string) bool { return s == "--with-inputs" }))
		requireSamePredictions(t, 1e-8, scratch, append([]string{"predict", "--posterior", fewer}, data...))

		// The rows put back, which come last.
		if !slices.Contains(how, "--with-inputs") {
			succeed(t, "fit", "--quiet", "--posterior", fewer, "--append", "digits:400,100", "--append-index", indexOf(t, rows[3], rows[40]), "-o", back)
			requireSamePredictions(t, 1e-7, append([]string{"predict", "--posterior", all}, data...), append([]string{"predict", "--posterior", back}, data...))
		}
	}
	succeed(t, small("fit", "--quiet", "-o", all)...)
	succeed(t, "fit", "--quiet", "--posterior", all, "--without", indexOf(t, rows[3], rows[40]), "-o", fewer)
	means := func(args ...string) []float64 {
		var list []float64
		for line := range strings.Lines(succeed(t, append([]string{"predict"}, append(args, "--quiet", "--data", "digits:400,100")...)...)) {
			list = append(list, float64(decode[prediction](t, line).Mean[0]))
		}
		return list
	}
	index := indexOf(t, slices.Concat(rows[:3], rows[4:40], rows[41:])...)
	network, changed := means("--posterior", all), means("--posterior", fewer)
	before, after := means("--refit", "--train-count", "60"), means("--refit", "--train-index", index)
	require.NotEqual(t, network, changed)
	for i := range network {
		require.InDelta(t, network[i]+after[i]-before[i], changed[i], 1e-7)
	}
	without := decode[result.Report](t, succeed(t, "explain", "--json", "--quiet", "--data", "digits:400,100", "--posterior", all, "--without", rows[3]+","+rows[40]))
	require.InDelta(t, changed[0], float64(without.Without.Mean[0]), 1e-6, "the file without the rows, and the answer without them")
	refuseFit := func(code int, want string, args ...string) {
		require.Contains(t, refuse(t, code, append([]string{"fit", "-o", back}, args...)...), want)
	}
	refuseFit(1, "is not among the 60 training rows", "--posterior", all, "--without", indexOf(t, "100000"))
	refuseFit(1, "twice", "--posterior", all, "--without", indexOf(t, rows[0], rows[0]))
	refuseFit(1, "names all 60 training rows", "--posterior", all, "--without", indexOf(t, rows...))
	refuseFit(1, "holds no row numbers", "--posterior", all, "--without", indexOf(t, ""))
	refuseFit(2, "give --posterior FILE", "--without", indexOf(t, rows[0]))
	refuseFit(2, "give one of them", "--posterior", all)
	refuseFit(2, "exclude each other", "--posterior", all, "--without", "a", "--append", "b")
	refuseFit(2, "--append-index is for --append", "--posterior", all, "--without", "a", "--append-index", "b")
	succeed(t, small("fit", "--quiet", "-o", all)...)
	refuseFit(1, "--method kept is not what it was fitted with, which says exact", "--posterior", all, "--without", "a", "--method", "kept")
	refuseFit(1, "is a training row already", "--posterior", all, "--append", "digits:400,100", "--append-index", indexOf(t, rows[0]))
	succeed(t, small("fit", "--quiet", "-o", all, "--method", "nystrom", "--inducing", "5")...)
	refuseFit(1, "needs a posterior of all training rows, which --method nystrom is not", "--posterior", all, "--without", indexOf(t, rows[0]))
}

// Rows of another table, with other words for labels in front, are as those of one table.
func TestFitAppendsATable(t *testing.T) {
	dir := t.TempDir()
	var lines []string
	for i := range 24 {
		lines = append(lines, fmt.Sprintf("%d.5,%d,%s\n", i*7%13, i*5%11, []string{"no", "yes", "yes"}[i%3]))
	}
	const header = "a,b,y\n"
	table := func(name string, lines ...string) string {
		return write(t, filepath.Join(dir, name), []byte(header+strings.Join(lines, "")))
	}
	whole, first, more, test := table("whole.csv", lines...), table("first.csv", lines[:16]...), table("more.csv", lines[16:]...), table("test.csv", lines[:5]...)
	net, old, larger := filepath.Join(dir, "net.onnx"), filepath.Join(dir, "old.gp"), filepath.Join(dir, "larger.gp")
	succeed(t, "train", "--quiet", "--data", first, "--arch", "mlp:4-1", "--epochs", "2", "--lbfgs", "5", "--out", net)
	with := func(verb, data string, args ...string) []string {
		return append([]string{verb, "--quiet", "--model", net, "--data", data, "--test-data", test}, args...)
	}
	succeed(t, with("fit", first, "--refit", "--at", "stated", "--train-count", "16", "-o", old)...)
	succeed(t, "fit", "--quiet", "--posterior", old, "--append", more, "-o", larger)
	scratch := with("predict", whole, "--json", "--refit", "--at", "stated", "--train-count", "24")
	requireSamePredictions(t, 1e-8, scratch, []string{"predict", "--quiet", "--json", "--posterior", larger})
	f, err := store.Open(larger, problem.SavedKind, problem.SavedVersion)
	require.NoError(t, err)
	var h problem.SavedHeader
	require.NoError(t, f.JSON("header", &h))
	require.NoError(t, f.Close())
	require.Equal(t, "0-23", h.Rows)
	for _, file := range h.Remembered.Files {
		require.NotEqual(t, old, file.Path)
	}
	// Appended in two steps, the second onto a file with rows inside, whose data are gone.
	part, rest := table("part.csv", lines[16:20]...), table("rest.csv", lines[20:]...)
	between := filepath.Join(dir, "between.gp")
	succeed(t, "fit", "--quiet", "--posterior", old, "--append", part, "-o", between)
	require.NoError(t, os.Remove(part))
	succeed(t, "fit", "--quiet", "--posterior", between, "--append", rest, "-o", larger)
	requireSamePredictions(t, 1e-8, scratch, []string{"predict", "--quiet", "--json", "--posterior", larger})
	require.NoError(t, os.Remove(old))
	require.NoError(t, os.Remove(between))
	requireSamePredictions(t, 1e-8, scratch, []string{"predict", "--quiet", "--json", "--posterior", larger})

	succeed(t, with("fit", first, "--refit", "--at", "stated", "--train-count", "16", "-o", old)...)
	refuseMore := func(want, name, text string) {
		line := refuse(t, 1, "fit", "--posterior", old, "-o", larger, "--append", write(t, filepath.Join(dir, name), []byte(text)))
		require.Contains(t, line, want)
		require.Contains(t, line, name)
	}
	refuseMore("its columns are", "others.csv", "a,c,y\n1,2,no\n")
	refuseMore("its columns are", "wide.csv", "a,b,c,y\n1,2,3,no\n")
	refuseMore("its labels are of another kind", "numbers.csv", "a,b,y\n1,2,3\n")
	refuseMore("there are no rows below the header", "empty.csv", "a,b,y\n")
	require.Contains(t, refuse(t, 1, "fit", "--posterior", old, "-o", larger, "--append", filepath.Join(dir, "none.csv")), "no such data")
	require.Contains(t, refuse(t, 1, "fit", "--posterior", old, "-o", larger, "--append", first), "all of its rows are training rows already")
	require.Contains(t, refuse(t, 1, "fit", "--posterior", old, "-o", larger, "--append", "digits:50"), "shape")
}
