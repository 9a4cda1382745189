package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// Parts of a CSV file keep the rows of the original file, everywhere.
func TestSplitRows(t *testing.T) {
	dir := t.TempDir()
	var rows strings.Builder
	rows.WriteString("x,y\n")
	for i := range 40 {
		rows.WriteString(string(rune('0'+i%7)) + "." + string(rune('0'+i%3)) + "," + string(rune('0'+i%2)) + "\n")
	}
	data := write(t, filepath.Join(dir, "d.csv"), []byte(rows.String()))
	split(t, data, 40)
	model := filepath.Join(dir, "net.onnx")
	run := func(verb string, args ...string) []string {
		return append([]string{verb, "--data", data, "--split", "0", "--json"}, args...)
	}
	succeed(t, run("train", "--arch", "mlp:4-1", "--epochs", "0", "--lbfgs", "5", "--out", model)...)

	importances := decode[result.ImportanceReport](t, succeed(t, run("importances", "--model", model, "--top", "99")...))
	require.Len(t, importances.Importances, 24)
	for _, x := range importances.Importances {
		require.Contains(t, []int{0, 1, 3}, int(x.Index)%5)
		require.EqualValues(t, int(x.Index)%2, x.Label)
	}
	predictions, _ := predicted(t, succeed(t, run("predict", "--model", model)...))
	require.Len(t, predictions, 8)
	for i, x := range predictions {
		require.EqualValues(t, 5*i+4, x.Index)
	}
	require.EqualValues(t, 9, decode[result.Report](t, succeed(t, run("explain", "--model", model, "--index", "9")...)).Input.Index)
	for _, row := range []string{"0", "2"} {
		require.Contains(t, refuse(t, 1, run("explain", "--model", model, "--index", row)...), "is not one of the 8 test rows")
	}
	require.Contains(t, refuse(t, 1, run("explain", "--model", model, "--index", "40")...), "past the end")

	// --train-index takes rows of the original file too, in order.
	index := write(t, filepath.Join(dir, "rows.txt"), []byte("13\n0\n31\n"))
	few := decode[result.Report](t, succeed(t, run("explain", "--model", model, "--train-index", index, "--top", "9")...))
	require.Equal(t, 3, few.Fit.Examples)
	write(t, index, []byte("13\n4\n"))
	require.Contains(t, refuse(t, 1, run("explain", "--model", model, "--train-index", index)...), "row 4")
}

// A split without test rows is tried on its validation rows.
func TestValidationRows(t *testing.T) {
	dir, data, model := csvModel(t)
	write(t, filepath.Join(dir, "data.splits.csv"), []byte("split,row,part\n0,0,train\n0,1,train\n0,2,train\n0,3,valid\n0,4,valid\n"))
	r := decode[result.Report](t, succeed(t, "explain", "--json", "--model", model, "--data", data, "--split", "0", "--index", "4"))
	require.Equal(t, "valid", r.Input.Split)
	require.EqualValues(t, 4, r.Input.Index)
}

// --train-count counts kept rows in the order of the file; index files keep
// their order, whatever --classes says about the labels.
func TestTrainingRows(t *testing.T) {
	rows := func(args ...string) []int {
		r := decode[result.ImportanceReport](t, succeed(t, append([]string{"importances", "--json", "--top", "999", "--data", "digits:400,100"}, args...)...))
		var list []int
		for _, x := range r.Importances {
			list = append(list, int(x.Index))
		}
		slices.Sort(list)
		return list
	}
	first := rows("--train-count", "5")
	require.Len(t, first, 5)
	all := rows("--train-count", "80")
	require.Equal(t, first, all[:5])
	require.Equal(t, all, rows(), "all kept rows without a flag, for data the model does not know")
	require.Equal(t, first, rows("--train-count", "5", "--model", untold(t), "--classes", "9,4", "--quiet"))
	index := write(t, filepath.Join(t.TempDir(), "rows"), lines([]int{first[4], first[1], first[3], first[2], first[0]}))
	require.Equal(t, first, rows("--train-index", index))
}

// lines writes an index file.
func lines(rows []int) []byte {
	var b bytes.Buffer
	for _, row := range rows {
		fmt.Fprintln(&b, row)
	}
	return b.Bytes()
}

// tables writes a table into one file, and its rows into several.
func tables(t testing.TB, dir string) {
	rng := rand.New(rand.NewPCG(1, 2))
	var rows []string
	for range 60 {
		a, b := rng.NormFloat64(), rng.NormFloat64()
		rows = append(rows, fmt.Sprintf("%.3f,%.3f,%.3f\n", a, b, a-b*b))
	}
	const head = "a,b,y\n"
	write(t, filepath.Join(dir, "whole.csv"), []byte(head+strings.Join(rows, "")))
	for k, cut := range []int{0, 7, 31} {
		end := []int{7, 31, 60}[k]
		write(t, filepath.Join(dir, fmt.Sprintf("rows-%d.csv", k)), []byte(head+strings.Join(rows[cut:end], "")))
	}
}

// Rows of several files, which are read by range, give the posterior of one file that is read
// whole, in one process and in parts. Parts of the same file merge however it was read, and a
// file that has changed since is refused.
func TestRowsOfSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	tables(t, dir)
	net := file("net.onnx")
	succeed(t, "train", "--quiet", "--data", file("whole.csv"), "--test-data", file("whole.csv"), "--arch", "mlp:3-1", "--epochs", "2", "--lbfgs", "2", "--out", net)
	args := []string{"--model", net, "--inducing", "9", "--test-data", file("rows-0.csv")}
	fit := func(name, data string, more ...string) string {
		return succeed(t, slices.Concat([]string{"fit", "--quiet", "--json", "--data", file(data), "-o", file(name)}, args, more)...)
	}
	several := file("rows-0.csv") + "," + file("rows-[1-2].csv")
	whole := fit("whole.gp", "whole.csv", "--method", "nystrom")
	requireSameJSON(t, whole, fit("several.gp", "rows-*.csv", "--method", "nystrom"), "timings", "bytes", "file")

	fit("z.gp", "rows-*.csv", "--select-only")
	succeed(t, slices.Concat([]string{"fit", "--quiet", "--data", several, "-o", file("of.gp")}, args, []string{"--select-only"})...)
	for name, z := range map[string]string{"z": file("z.gp"), "of": file("of.gp")} {
		parts := fitParts(t, dir, name, 4, "--inducing-file", z)
		requireSameJSON(t, whole, succeed(t, append([]string{"merge", "--json", "--quiet", "-o", file("all.gp")}, parts...)...), "timings", "bytes", "file")
		asked := []string{"explain", "--json", "--quiet", "--index", "3", "--top", "60"}
		requireSameJSON(t, succeed(t, append(asked, "--posterior", file("whole.gp"))...), succeed(t, append(asked, "--posterior", file("all.gp"))...), "timings")
		terms := []string{file("0.terms"), file("1.terms")}
		for i, path := range terms {
			succeed(t, "explain", "--quiet", "--posterior", file("all.gp"), "--index", "3", "--top", "60", "--shard", fmt.Sprintf("%d/2", i), "-o", path)
		}
		requireSameJSON(t, succeed(t, append(asked, "--posterior", file("whole.gp"))...), succeed(t, append([]string{"merge", "--json", "--quiet"}, terms...)...), "timings")
	}

	// A pattern that only the whole file has reads it by range.
	fit("half.gp", "whol?.csv", "--select-only")
	half := fitParts(t, dir, "half", 2, "--inducing-file", file("half.gp"))
	requireSameJSON(t, whole, succeed(t, append([]string{"merge", "--json", "--quiet", "-o", file("all.gp")}, half...)...), "timings", "bytes", "file")

	parts := fitParts(t, dir, "z", 2, "--inducing-file", file("z.gp"))
	text := read(t, file("rows-1.csv"))
	write(t, file("rows-1.csv"), []byte(text[:len(text)-2]+"9\n"))
	require.Contains(t, refuse(t, 1, "merge", "--quiet", "-o", file("all.gp"), parts[0], parts[1]), "rows-1.csv has changed since it was fitted")
	write(t, file("rows-1.csv"), []byte(text+"1,2,3\n"))
	require.Contains(t, refuse(t, 1, "fit", "--quiet", "--inducing-file", file("z.gp"), "--shard", "0/2", "-o", file("no")), "rows-1.csv has changed since it was fitted")
	require.NoError(t, os.Remove(file("rows-1.csv")))
	require.Contains(t, refuse(t, 1, "fit", "--quiet", "--model", net, "--data", file("rows-*.csv"), "-o", file("no")), "rows-1.csv: is missing: the files of "+file("rows-*.csv")+" are numbered from 0 to 2")
	require.Contains(t, refuse(t, 1, "fit", "--quiet", "--model", net, "--data", file("none-*.csv"), "-o", file("no")), "none-*.csv: no file has such a name")
	require.Contains(t, refuse(t, 2, "fit", "--quiet", "--model", net, "--data", file("rows-0.csv")+","+file("rows-2.csv"), "-o", file("rows-2.csv")), "both name "+file("rows-2.csv"))
}
