package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
