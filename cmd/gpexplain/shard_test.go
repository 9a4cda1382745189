package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/sparse/shard"
)

// inParts are the flags of a fit that is split into parts, and of the same fit in one.
var inParts = []string{"--data", "digits:800,100", "--train-count", "130", "--method", "nystrom", "--inducing", "24", "--quiet"}

// fitParts computes all parts and returns their files.
func fitParts(t testing.TB, dir, name string, n int, args ...string) []string {
	t.Helper()
	var files []string
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("%s-%d.sums", name, i))
		succeed(t, append([]string{"fit", "--quiet", "--shard", fmt.Sprintf("%d/%d", i, n), "-o", path}, args...)...)
		files = append(files, path)
	}
	return files
}

// requireSameJSON compares two JSON values up to rounding.
func requireSameJSON(t testing.TB, want, got string, leaveOut ...string) {
	t.Helper()
	var a, b any
	require.NoError(t, json.Unmarshal([]byte(want), &a))
	require.NoError(t, json.Unmarshal([]byte(got), &b))
	requireSameValue(t, "", a, b, leaveOut)
}

func requireSameValue(t testing.TB, at string, a, b any, leaveOut []string) {
	t.Helper()
	switch x := a.(type) {
	case map[string]any:
		y := b.(map[string]any)
		for k, v := range x {
			require.Contains(t, y, k, at)
			if k != "record" && k != "sum_residual" && !slices.Contains(leaveOut, k) { // which have the time and the command line, and are rounding alone
				requireSameValue(t, at+"/"+k, v, y[k], leaveOut)
			}
		}
		require.Len(t, y, len(x), at)
	case []any:
		y := b.([]any)
		require.Len(t, y, len(x), at)
		for i := range x {
			requireSameValue(t, fmt.Sprintf("%s/%d", at, i), x[i], y[i], leaveOut)
		}
	case float64:
		// sums of 130 rows in another order, through a factorization
		require.InDelta(t, x, b, 1e-10*math.Max(1, math.Abs(x)), at)
	default:
		require.Equal(t, a, b, at)
	}
}

// Any parts, merged in any order, give the posterior of one process: its predictions,
// evidence, calibration and explanations. The order of the files does not change a bit.
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	whole := succeed(t, append([]string{"fit", "--json", "-o", file("whole.gp")}, inParts...)...)
	requireSchema(t, "part", succeed(t, append([]string{"fit", "--json", "--select-only", "-o", file("z.gp")}, inParts...)...))
	for _, n := range []int{1, 2, 7} {
		parts := fitParts(t, dir, fmt.Sprint("z", n), n, "--inducing-file", file("z.gp"))
		merged := succeed(t, append([]string{"merge", "--json", "--quiet", "-o", file("all.gp")}, parts...)...)
		requireSchema(t, "fit", merged)
		requireSameJSON(t, whole, merged, "timings", "bytes", "file")
		for _, args := range [][]string{{"explain", "--json", "--index", "24", "--top", "20"}, {"predict", "--json", "--quiet", "--index", "24"}} {
			one := succeed(t, append(args, "--posterior", file("whole.gp"))...)
			all := succeed(t, append(args, "--posterior", file("all.gp"))...)
			requireSameJSON(t, firstLine(one), firstLine(all), "timings")
		}
		again := slices.Clone(parts)
		slices.Reverse(again)
		succeed(t, append([]string{"merge", "--quiet", "-o", file("again.gp")}, again...)...)
		require.True(t, read(t, file("all.gp")) == read(t, file("again.gp")), "the order of the parts changes the posterior")
		// A part that is computed once more does not change.
		before := read(t, parts[0])
		fitParts(t, dir, fmt.Sprint("z", n), n, "--inducing-file", file("z.gp"))
		require.True(t, before == read(t, parts[0]), "a part that is computed again is another")
	}
	for _, name := range listing(t, dir) {
		require.Regexp(t, `^(whole|z|all|again)\.gp$|\.sums$`, name, "a temporary file is left")
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Rows as inducing elements and several outputs go through parts too.
func TestMergeOfOthers(t *testing.T) {
	net := filepath.Join(t.TempDir(), "net.onnx")
	succeed(t, "train", "--quiet", "--data", "digits:300,40", "--classes", "1,4,9", "--arch", "mlp:4-3", "--epochs", "2", "--lbfgs", "2", "--out", net)
	for _, how := range [][]string{{"--select", "strength", "--inducing", "12"}, {"--inducing", "9"}} {
		dir := t.TempDir()
		file := func(name string) string { return filepath.Join(dir, name) }
		args := append([]string{"--model", net, "--data", "digits:300,40", "--quiet"}, how...)
		whole := succeed(t, append([]string{"fit", "--json", "-o", file("whole.gp"), "--method", "nystrom"}, args...)...)
		succeed(t, append([]string{"fit", "--select-only", "-o", file("z.gp")}, args...)...)
		parts := fitParts(t, dir, "z", 3, "--inducing-file", file("z.gp"))
		requireSameJSON(t, whole, succeed(t, append([]string{"merge", "--json", "--quiet", "-o", file("all.gp")}, parts...)...), "timings", "bytes", "file")
	}
}

// A part that is missing, doubled, foreign or damaged is refused by the name of its file.
func TestMergeRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	fitIn := func(name string, n int, args ...string) []string {
		succeed(t, append([]string{"fit", "--quiet", "--select-only", "-o", file(name + ".gp")}, args...)...)
		return fitParts(t, dir, name, n, "--inducing-file", file(name+".gp"))
	}
	parts := fitIn("a", 3, inParts...)
	merge := func(files ...string) string {
		return refuse(t, 1, append([]string{"merge", "--quiet", "-o", file("all.gp")}, files...)...)
	}
	require.Contains(t, merge(parts[0], parts[2]), "gpexplain: part 1/3: 1 of 3 parts are missing")
	require.Contains(t, merge(parts[0], parts[1], parts[1], parts[2]), parts[1]+": part 1/3 is in "+parts[1]+" too; leave one of them out")
	for what, args := range map[string][]string{
		"the prior":                          {"--prior-precision", "3"},
		"the inducing examples":              {"--seed", "2"},
		"the number of training examples":    {"--train-count", "129"},
		"the targets or the weights of rows": {"--class-weights", "4=2,9=1"},
	} {
		other := fitIn("other", 3, append(slices.Clone(inParts), args...)...)
		require.Contains(t, merge(parts[0], other[1], parts[2]), other[1]+": part 1/3 is of another pass than "+parts[0]+": they differ in "+what)
	}
	bad := []byte(read(t, parts[1]))
	bad[len(bad)/2] ^= 4
	require.Contains(t, merge(parts[0], write(t, file("bad.sums"), bad), parts[2]), file("bad.sums")+": ")
	require.Contains(t, merge(parts[0], write(t, file("bad.sums"), bad[:len(bad)/2]), parts[2]), file("bad.sums")+": ")
	require.Contains(t, merge(file("none.sums")), file("none.sums")+": cannot be opened")
	succeed(t, append([]string{"fit", "--select-only", "-o", file("z.gp")}, inParts...)...)
	require.Contains(t, merge(file("z.gp")), `holds a "gpexplain inducing", not a "`+shard.Kind+`"`)
	require.Contains(t, refuse(t, 1, "predict", "--posterior", parts[0]), `holds a "`+shard.Kind+`", not a "gpexplain posterior"`)

	// The inducing examples that the parts name must be there, and the same.
	ours := fitParts(t, dir, "ours", 2, "--inducing-file", file("z.gp"))
	require.NoError(t, os.Rename(file("z.gp"), file("moved.gp")))
	require.Contains(t, merge(ours...), file("z.gp")+": the inducing examples of its pass are not there; give --inducing-file")
	succeed(t, append([]string{"merge", "--quiet", "--inducing-file", file("moved.gp"), "-o", file("all.gp")}, ours...)...)
	succeed(t, append([]string{"fit", "--select-only", "--prior-precision", "3", "-o", file("z.gp")}, inParts...)...)
	require.Contains(t, merge(ours...), file("z.gp")+": these are not the inducing examples of the parts")

	// A part of data that have changed.
	table := write(t, file("t.csv"), []byte("a,y\n1,2\n2,3\n3,5\n4,4\n5,7\n6,6\n"))
	net := file("net.onnx")
	succeed(t, "train", "--quiet", "--data", table, "--test-data", table, "--arch", "mlp:2-1", "--epochs", "2", "--lbfgs", "2", "--out", net)
	rows := fitIn("rows", 2, "--model", net, "--data", table, "--inducing", "3")
	require.Contains(t, refuse(t, 1, "fit", "--quiet", "--inducing-file", file("rows.gp"), "--shard", "0/7", "-o", file("empty")),
		"--shard 0/7: it has no rows, as there are 6 training rows; split them into at most 6")
	write(t, table, []byte("a,y\n1,2\n2,3\n3,5\n4,4\n5,7\n6,8\n"))
	require.Contains(t, merge(rows...), "t.csv has changed since it was fitted")
}

// Explanations by parts of the training rows, merged in any order, are those of one process:
// their sums and the terms listed.
func TestMergeTerms(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	succeed(t, append([]string{"fit", "-o", file("a.gp")}, inParts...)...)
	asked := []string{"explain", "--quiet", "--posterior", file("a.gp"), "--index", "6,24", "--top", "10"}
	parts := func(name string, n int, args ...string) []string {
		var files []string
		for i := range n {
			files = append(files, file(fmt.Sprintf("%s-%d.terms", name, i)))
			succeed(t, append(append(slices.Clone(asked), "--shard", fmt.Sprintf("%d/%d", i, n), "-o", files[i]), args...)...)
		}
		return files
	}
	for terms, numbers := range map[string][]int{"posterior": {1, 7}, "raw": {2}} {
		whole := strings.Split(strings.TrimSpace(succeed(t, append(slices.Clone(asked), "--json", "--terms", terms)...)), "\n")
		for _, n := range numbers {
			files := parts(terms, n, "--terms", terms)
			slices.Reverse(files)
			merged := strings.Split(strings.TrimSpace(succeed(t, append([]string{"merge", "--json", "--quiet"}, files...)...)), "\n")
			require.Len(t, merged, len(whole))
			for i := range whole {
				requireSchema(t, "explain", merged[i]+"\n")
				requireSameJSON(t, whole[i], merged[i], "timings")
			}
		}
	}
	files := parts("posterior", 3)
	require.Contains(t, refuse(t, 1, "merge", files[0], files[2]), "part 1/3: 1 of 3 parts are missing")
	raw := parts("raw", 3, "--terms", "raw")
	require.Contains(t, refuse(t, 1, "merge", files[0], raw[1], files[2]), raw[1]+": part 1/3 is of another pass than "+files[0]+": they differ in top, terms")
	require.Contains(t, refuse(t, 2, "merge", "-o", "a", files[0]), "are for parts of a fit")
	bad := []byte(read(t, files[1]))
	bad[len(bad)/2] ^= 8
	require.Contains(t, refuse(t, 1, "merge", files[0], write(t, file("bad.terms"), bad), files[2]), file("bad.terms")+": ")
	succeed(t, append([]string{"fit", "--seed", "3", "-o", file("a.gp")}, inParts...)...)
	require.Contains(t, refuse(t, 1, append([]string{"merge"}, files...)...), "the posterior of the parts is not there or has changed")
	for want, args := range map[string][]string{
		"--shard needs -o FILE":             {"--shard", "0/2"},
		"--shard needs --posterior":         {"--shard", "0/2", "-o", "a"},
		"--out is for --shard":              {"-o", "a"},
		"--html is not for --shard":         {"--shard", "0/2", "-o", "a", "--posterior", "b", "--html", "c"},
		"--shard 2/2: the parts of 2 are 0": {"--shard", "2/2", "-o", "a", "--posterior", "b"},
	} {
		require.Contains(t, refuse(t, 2, append([]string{"explain"}, args...)...), want)
	}
}

// An audit by parts of the training rows, merged in any order, is that of one process.
func TestMergeAudit(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	succeed(t, append([]string{"fit", "-o", file("a.gp")}, inParts...)...)
	asked := []string{"audit", "--quiet", "--posterior", file("a.gp"), "--top", "7"}
	whole := succeed(t, append(slices.Clone(asked), "--json", "--csv", file("whole.csv"))...)
	const n = 3
	var files, scores []string
	for i := range n {
		files = append(files, file(fmt.Sprintf("%d.audit", i)))
		table := file(fmt.Sprintf("%d.csv", i))
		succeed(t, append(slices.Clone(asked), "--shard", fmt.Sprintf("%d/%d", i, n), "-o", files[i], "--csv", table)...)
		lines := strings.SplitAfter(read(t, table), "\n")
		scores = append(scores, lines[min(i, 1):]...) // one header
	}
	columns := "row,id,label,log_density_nats,suggested,suggested_probability,label_probability,residual_sd,entropy_nats,margin,leverage,equal_to_row"
	all, inParts := scoresOf(t, file("whole.csv"), columns), scoresOf(t, write(t, file("parts.csv"), []byte(strings.Join(scores, ""))), columns)
	require.Len(t, inParts, len(all))
	for row, x := range inParts {
		for _, name := range []string{"label", "entropy_nats", "margin", "leverage", "equal_to_row"} {
			require.Equal(t, all[row][name], x[name], "no rows of these data are equal")
		}
		if x["suggested"] != x["label"] { // by the posterior
			require.Less(t, float(t, x["label_probability"]), 0.5)
		}
	}
	merged := succeed(t, "merge", "--json", "--quiet", files[2], files[0], files[1])
	requireSchema(t, "audit", merged)
	requireSameJSON(t, whole, merged, "timings", "record")
	require.Equal(t, "1\n", succeed(t, "merge", "--missing", files[0], files[2]))
	require.Contains(t, refuse(t, 1, "merge", files[0], files[2]), "part 1/3: 1 of 3 parts are missing")
	require.Contains(t, refuse(t, 2, "merge", "-o", "a", files[0]), "are for parts of a fit")
	succeed(t, "audit", "--quiet", "--posterior", file("a.gp"), "--top", "8", "--shard", "1/3", "-o", file("other"))
	require.Contains(t, refuse(t, 1, "merge", files[0], file("other"), files[2]), "they differ in top")
	bad := []byte(read(t, files[1]))
	bad[len(bad)/2] ^= 8
	require.Contains(t, refuse(t, 1, "merge", files[0], write(t, file("bad"), bad), files[2]), file("bad")+": ")
	for want, args := range map[string][]string{
		"--shard needs -o FILE":             {"--shard", "0/2"},
		"--shard needs --posterior":         {"--shard", "0/2", "-o", "a"},
		"--html is not for --shard":         {"--shard", "0/2", "-o", "a", "--posterior", "b", "--html", "c"},
		"--shard 2/2: the parts of 2 are 0": {"--shard", "2/2", "-o", "a", "--posterior", "b"},
	} {
		require.Contains(t, refuse(t, 2, append([]string{"audit"}, args...)...), want)
	}
}

// The parts to compute are those that no file holds whole, as sbatch --array takes them, for a fit and for explanations.
// What is damaged, foreign, or there twice is named, and so is a file from which nothing can be told.
func TestMergeMissing(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	missing := func(notes int, files ...string) (stdout, stderr string) {
		r := gpexplain(t.Context(), append([]string{"merge", "--missing"}, files...)...)
		require.Equal(t, 0, r.code, r.stderr)
		require.Equal(t, notes, strings.Count(r.stderr, "\n"), r.stderr)
		return r.stdout, r.stderr
	}
	const n = 11
	succeed(t, append([]string{"fit", "--select-only", "-o", file("z.gp")}, inParts...)...)
	succeed(t, append([]string{"fit", "-o", file("a.gp")}, inParts...)...)
	succeed(t, append([]string{"fit", "--select-only", "--prior-precision", "3", "-o", file("other.gp")}, inParts...)...)
	sums, foreign := fitParts(t, dir, "a", n, "--inducing-file", file("z.gp")), fitParts(t, dir, "b", 1, "--inducing-file", file("other.gp"))
	var terms []string
	for i := range n {
		terms = append(terms, file(fmt.Sprintf("%d.terms", i)))
		succeed(t, "explain", "--quiet", "--posterior", file("a.gp"), "--index", "24", "--shard", fmt.Sprintf("%d/%d", i, n), "-o", terms[i])
	}
	succeed(t, "explain", "--quiet", "--posterior", file("a.gp"), "--index", "6", "--shard", "0/1", "-o", file("other.terms"))
	for _, x := range []struct {
		parts   []string
		foreign string
	}{{sums, foreign[0]}, {terms, file("other.terms")}} {
		p := x.parts
		out, _ := missing(0, p...)
		require.Empty(t, out)
		for want, there := range map[string][]string{
			"0\n": p[1:], "10\n": p[:n-1], "1-9\n": {p[0], p[10]}, "0,2-3,5,7-10\n": {p[6], p[4], p[1]}, "1-10\n": p[:1],
		} {
			out, _ := missing(0, there...)
			require.Equal(t, want, out)
			if want != "1-10\n" {
				continue
			}
			// The number of a part that merge refuses first is the first of them.
			require.Contains(t, refuse(t, 1, append([]string{"merge", "--quiet", "-o", file("all.gp")}, sums[0])...), "part 1/11: 10 of 11 parts are missing")
		}
		// A bit that flips anywhere in the file, half a file, none, a part of another pass and one that is there twice.
		whole := []byte(read(t, p[2]))
		for _, at := range []int{3, 70, len(whole) / 2, len(whole) - 1} {
			bad := slices.Clone(whole)
			bad[at] ^= 16
			out, named := missing(1, append([]string{write(t, file("bad"), bad)}, slices.Delete(slices.Clone(p), 2, 3)...)...)
			require.Equal(t, "2\n", out)
			require.Contains(t, named, "gpexplain: "+file("bad")+": ")
		}
		write(t, file("half"), whole[:len(whole)/2])
		out, named := missing(4, file("half"), p[0], p[1], file("none"), p[1], p[3], p[4], x.foreign, p[7], p[8], p[9], p[10])
		require.Equal(t, "2,5-6\n", out)
		for _, path := range []string{file("half"), file("none"), p[1], x.foreign} {
			require.Contains(t, named, "gpexplain: "+path+": ")
		}
		require.Contains(t, refuse(t, 1, "merge", "--missing", "--quiet", file("half"), file("none")), file("none")+": cannot be opened")
		out, named = missing(0, "--quiet", file("half"), p[3])
		require.Equal(t, "0-2,4-10\n", out)
		require.Empty(t, named)
	}
	require.Contains(t, refuse(t, 2, "merge", "--missing", "-o", "a", sums[0]), "--out is not for --missing")
	require.Contains(t, refuse(t, 2, "merge", "--missing", "--json", sums[0]), "--json is not for --missing")
}

// Flags that make no part are refused before a file is opened.
func TestPartUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"--shard 4/3: the parts of 3 are 0/3 to 2/3":      {"--shard", "4/3"},
		`--shard "x" is no part`:                          {"--shard", "x"},
		"--inducing-file is for --shard":                  {"--inducing-file", "z.gp"},
		"--select-only and --shard exclude":               {"--select-only", "--shard", "0/1"},
		"--shard is for --method nystrom, not exact":      {"--shard", "0/1", "--method", "exact"},
		"--tune-prior is not for --select-only":           {"--select-only", "--tune-prior"},
		"--calibrate is not for --select-only or --shard": {"--shard", "0/1", "--calibrate", "none"},
		"--shard needs --inducing-file FILE":              {"--shard", "0/2"},
		"--shard is empty":                                {"--shard", ""},
	} {
		require.Contains(t, refuse(t, 2, append([]string{"fit", "-o", "a"}, args...)...), want)
	}
	require.Contains(t, refuse(t, 2, "merge", "-o", "a"), "merge needs arguments, PARTS")
	require.Contains(t, refuse(t, 1, "merge", "a.sums"), "a.sums: cannot be opened")
	require.Contains(t, refuse(t, 2, "merge", write(t, filepath.Join(t.TempDir(), "a.sums"), nil)), "-o FILE is needed")
	require.Contains(t, refuse(t, 2, "merge", "a.sums", "-o", "a.sums"), "both name a.sums")
}
