package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testref"
)

// asCommand is the variable under which the test binary is the command.
const asCommand = "GPEXPLAIN_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	// Hundreds of small jobs in one process leave little that is alive: collecting it less often takes a
	// sixth less time.
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// process is a command line in a process of its own.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), asCommand+"=1")
	return c
}

// fewParameters are the flags of a posterior over the parameters of the built-in network but its largest matrix, of which
// a factorization takes a thirtieth of the time.
var fewParameters = slices.Clip([]string{"--method", "parameters", "--freeze", "Dense1.weight"})

// fitArgs are command lines that fit, each a small posterior.
func fitArgs() map[string][]string {
	return map[string][]string{
		"exact":            nil,
		"exact refit":      {"--refit"},
		"subset":           {"--method", "subset", "--inducing", "20"},
		"nystrom":          {"--method", "nystrom", "--inducing", "20", "--select", "kmeans"},
		"nystrom refit":    {"--method", "nystrom", "--inducing", "20", "--refit"},
		"all":              {"--method", "nystrom"},
		"kept":             {"--within", "0.05"},
		"kept refit":       {"--method", "kept", "--refit"},
		"nystrom, kept":    {"--method", "nystrom", "--inducing", "20", "--within", "0.05"},
		"parameters":       fewParameters,
		"parameters refit": append(fewParameters, "--refit"),
	}
}

// withoutTimings drops what differs from run to run.
func withoutTimings(t *testing.T, text string) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(text) {
		var v map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(line), &v), line)
		delete(v, "timings")
		delete(v, "record")
		out := testref.Must(json.Marshal(v))(t)
		lines = append(lines, string(out))
	}
	return strings.Join(lines, "\n")
}

// A posterior that was saved answers in another process as one that is fitted
// on the spot: predictions and explanations bit for bit, and the report of
// the fit.
func TestSavedPosterior(t *testing.T) {
	for name, args := range fitArgs() {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.gp")
			text := succeed(t, append(small("fit", "--json", "-o", file), args...)...)
			r := decode[result.Saved](t, text)
			require.Equal(t, file, r.File)
			info := testref.Must(os.Stat(file))(t)
			require.Equal(t, info.Size(), r.Bytes)
			for _, verb := range []string{"predict", "explain", "importances"} {
				want := succeed(t, append(small(verb, "--json"), args...)...)
				line := []string{verb, "--json", "--data", "digits:400,100", "--posterior", file}
				if verb != "explain" {
					require.Equal(t, withoutTimings(t, want), withoutTimings(t, succeed(t, line...)), verb)
					continue
				}
				got := testref.Must(process(t, line...).Output())(t)
				require.Equal(t, withoutTimings(t, want), withoutTimings(t, string(got)), verb)
			}
		})
	}
}

// The file is for its own model and data only, and says so.
func TestSavedPosteriorOfOthers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.gp")
	succeed(t, append(small("fit", "--json", "-o", file), "--method", "nystrom")...)
	net := filepath.Join(dir, "other.onnx")
	succeed(t, "train", "--data", "digits:200,100", "--classes", "4,9", "--arch", "mlp:4-1", "--epochs", "1", "--lbfgs", "1", "--out", net)
	ask := func(args ...string) []string {
		return append([]string{"predict", "--data", "digits:400,100", "--posterior", file}, args...)
	}
	succeed(t, "predict", "--quiet", "--data", "digits:400,100", "--posterior", file)
	require.Contains(t, refuse(t, 1, ask("--model", net)...), "the graph of the network is another")
	require.Contains(t, refuse(t, 1, ask("--freeze", "Dense1.bias")...), "makes another network")
	// The synthetic digits are the same whatever their number: among 300 and 401
	// are those fitted on, among 50 not.
	for _, data := range []string{"digits:300,100", "digits:401,100"} {
		succeed(t, "predict", "--quiet", "--data", data, "--posterior", file)
	}
	require.Contains(t, refuse(t, 1, "predict", "--data", "digits:50,100", "--posterior", file), "a.gp: its posterior is of other training rows")
	csv := write(t, filepath.Join(dir, "t.csv"), []byte("a,y\n1,0\n2,1\n"))
	refuse(t, 1, "predict", "--data", csv, "--posterior", file)
	require.Contains(t, refuse(t, 1, "predict", "--posterior", filepath.Join(dir, "missing")), "cannot be opened")
	require.Contains(t, refuse(t, 1, "predict", "--posterior", csv), "t.csv")
	// A file whose name, kind and checksums are right, but which was cut or
	// changed.
	good := read(t, file)
	for _, at := range []int{0, 10, 70, len(good) / 2, len(good) - 2} {
		bad := []byte(good)
		bad[at] ^= 1
		line := refuse(t, 1, "predict", "--data", "digits:400,100", "--posterior", write(t, filepath.Join(dir, "bad.gp"), bad))
		require.Contains(t, line, "bad.gp", at)
		line = refuse(t, 1, "predict", "--data", "digits:400,100", "--posterior", write(t, filepath.Join(dir, "bad.gp"), []byte(good)[:at]))
		require.Contains(t, line, "bad.gp", at)
	}
}

// A posterior is of one network of its file, and says which setting would make another.
func TestOtherNetworkOfTheFile(t *testing.T) {
	dir := t.TempDir()
	data := write(t, filepath.Join(dir, "train.csv"), []byte("a,b,y\n1,2,0\n3,4,1\n5,7,0\n7,8,1\n2,2,1\n"))
	net, file := filepath.Join(dir, "net.onnx"), filepath.Join(dir, "a.gp")
	succeed(t, "train", "--quiet", "--data", data, "--arch", "mlp:4-1", "--epochs", "2", "--lbfgs", "1", "--out", net)
	tensors := regexp.MustCompile(`\S+bias`).FindAllString(succeed(t, "inspect", "--model", net), 2)
	require.Len(t, tensors, 2)
	tensor, other := tensors[0], tensors[1]
	predict := []string{"predict", "--quiet", "--input", data, "--posterior", file}
	succeed(t, "fit", "--quiet", "-o", file, "--model", net, "--data", data)
	require.Contains(t, refuse(t, 1, append(predict, "--freeze", tensor)...), "a.gp: it was fitted without --freeze, and --freeze "+tensor+" makes another network; leave --freeze out")
	succeed(t, "fit", "--quiet", "-o", file, "--model", net, "--data", data, "--freeze", tensor)
	succeed(t, append(predict, "--freeze", tensor)...)
	require.Contains(t, refuse(t, 1, append(predict, "--freeze", other)...), "a.gp: it was fitted with --freeze "+tensor+", and --freeze "+other+" makes another network")
}

// With the training inputs inside, data without training rows are enough.
func TestWithInputs(t *testing.T) {
	dir := t.TempDir()
	train := write(t, filepath.Join(dir, "train.csv"), []byte("a,b,y\n1,2,0\n3,4,1\n5,7,0\n7,8,1\n2,2,1\n"))
	test := write(t, filepath.Join(dir, "test.csv"), []byte("a,b,y\n1,3,0\n3,5,1\n"))
	net := filepath.Join(dir, "net.onnx")
	succeed(t, "train", "--quiet", "--data", train, "--test-data", test, "--arch", "mlp:4-1", "--epochs", "2", "--lbfgs", "1", "--out", net)
	for _, with := range []string{"--with-inputs", "--with-inputs=false"} {
		file := filepath.Join(dir, "a.gp")
		succeed(t, "fit", "--json", "--quiet", "-o", file, with, "--model", net, "--data", train, "--test-data", test)
		want := succeed(t, "explain", "--json", "--quiet", "--model", net, "--data", train, "--test-data", test)
		// Other training rows stand in the same place.
		other := write(t, filepath.Join(dir, "other.csv"), []byte("a,b,y\n9,2,0\n3,4,1\n5,7,0\n7,8,1\n2,2,1\n"))
		args := []string{"explain", "--json", "--model", net, "--data", other, "--test-data", test, "--posterior", file}
		if with == "--with-inputs" {
			require.Equal(t, withoutTimings(t, want), withoutTimings(t, succeed(t, args...)))
		} else {
			require.Contains(t, refuse(t, 1, args...), "a.gp: the posterior does not belong to what is given: the inputs are others")
		}
	}
}

// The prior precision is chosen on rows that were not trained on.
func TestTunePrior(t *testing.T) {
	dir := t.TempDir()
	for _, method := range []string{"nystrom", "subset"} {
		file := filepath.Join(dir, method+".gp")
		args := []string{"--data", "digits:1000,100", "--train-count", "100", "--method", method, "--inducing", "50"}
		r := decode[result.Saved](t, succeed(t, append([]string{"fit", "--json", "-o", file, "--tune-prior"}, args...)...))
		require.Greater(t, len(r.Trials), 3)
		require.True(t, slices.ContainsFunc(r.Trials, func(x result.Trial) bool { return x.PriorPrecision == 10 }), "where it starts")
		best := r.Trials[0]
		for _, x := range r.Trials {
			if x.Score() < best.Score() {
				best = x
			}
		}
		require.InEpsilon(t, float64(best.PriorPrecision), float64(r.Fit.PriorPrecision), 1e-12)
		// A fit at that precision predicts the same.
		text := succeed(t, "predict", "--json", "--data", "digits:1000,100", "--posterior", file)
		rows, sum := predicted(t, strings.ReplaceAll(text, approximationOf(t, text), ""))
		require.Equal(t, r.Fit.PriorPrecision, sum.Fit.PriorPrecision)
		number := testref.Must(json.Marshal(r.Fit.PriorPrecision))(t)
		text = succeed(t, append([]string{"predict", "--json", "--prior-precision", string(number)}, args...)...)
		want, _ := predicted(t, strings.ReplaceAll(text, approximationOf(t, text), ""))
		require.NotEmpty(t, rows)
		require.Len(t, want, len(rows))
		for i := range rows {
			require.InEpsilon(t, float64(want[i].Covariance[0][0]), float64(rows[i].Covariance[0][0]), 1e-6)
			require.Equal(t, want[i].Mean, rows[i].Mean)
		}
	}
	line := refuse(t, 1, "fit", "-o", filepath.Join(dir, "a.gp"), "--tune-prior", "--method", "nystrom", "--data", "digits:1500,100", "--train-count", "300")
	require.Contains(t, line, "none is left")
}

// approximationOf is the error report in the last line of a text.
func approximationOf(t *testing.T, text string) string {
	t.Helper()
	at := strings.LastIndex(text, `,"approximation":`)
	require.Positive(t, at)
	end := strings.Index(text[at:], `}},"timings"`)
	if end < 0 {
		end = strings.Index(text[at:], `},"timings"`)
	}
	require.Positive(t, end)
	return text[at : at+end+1]
}

// A fit that is killed leaves nothing under the final name, and one with a
// checkpoint goes on to the same posterior, to the last bit.
func TestKilledFit(t *testing.T) {
	testref.Long(t, "starts many processes")
	dir := t.TempDir()
	args := []string{"--data", "digits:3000,100", "--classes", "4,9", "--train-count", "600", "--method", "nystrom", "--inducing", "60", "--refit"}
	whole := filepath.Join(dir, "whole.gp")
	start := time.Now()
	require.NoError(t, process(t, append([]string{"fit", "-o", whole}, args...)...).Run())
	took := time.Since(start)
	file, check := filepath.Join(dir, "a.gp"), filepath.Join(dir, "a.check")
	killed, resumed, written := 0, 0, false
	for i := 1; ; i++ {
		_, err := os.Stat(check)
		if err == nil {
			resumed++
		}
		var stderr bytes.Buffer
		c := process(t, append([]string{"fit", "-o", file, "--checkpoint", check}, args...)...)
		c.Stderr = &stderr
		require.NoError(t, c.Start())
		timer := time.AfterFunc(took*time.Duration(i)/5, func() { _ = c.Process.Kill() })
		err = c.Wait()
		timer.Stop()
		if err == nil {
			break
		}
		require.NotContains(t, stderr.String(), "gpexplain:", "killed, not failed")
		killed++
		if _, err := os.Stat(file); err == nil {
			written = true // killed after the last step
			break
		}
	}
	require.Positive(t, killed)
	require.Equal(t, read(t, whole), read(t, file))
	t.Logf("killed %d times, went on from a checkpoint %d times", killed, resumed)
	if !written {
		require.NoFileExists(t, check)
	}
}

// A fit that goes on from a checkpoint writes the file that one in a piece
// does, byte for byte, and removes the checkpoint.
func TestResumedFit(t *testing.T) {
	args := []string{"--data", "digits:2000,100", "--method", "nystrom", "--inducing", "40", "--refit"}
	dir := t.TempDir()
	whole, file := filepath.Join(dir, "whole.gp"), filepath.Join(dir, "a.gp")
	succeed(t, append([]string{"fit", "--quiet", "--out", whole}, args...)...)
	check := checkpointed(t, args...)
	r := gpexplain(t.Context(), append([]string{"fit", "--out", file, "--checkpoint", check}, args...)...)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "going on from")
	require.Equal(t, read(t, whole), read(t, file))
	require.NoFileExists(t, check)
}

// A posterior that is not exact has its error report.
func TestFitJSON(t *testing.T) {
	for _, c := range []struct {
		args             []string
		inducing, sample bool
	}{
		{nil, false, false},
		{[]string{"--method", "subset"}, true, false},
		{[]string{"--method", "nystrom", "--quiet"}, true, true},
		{fewParameters, false, false},
	} {
		text := succeed(t, append(small("fit", "--json", "-o", filepath.Join(t.TempDir(), "a.gp")), c.args...)...)
		requireSchema(t, "fit", text)
		f := decode[result.Saved](t, text).Fit
		require.Equal(t, f.Method == "exact" || f.Method == "parameters", f.Approximation == nil)
		if a := f.Approximation; a != nil {
			require.Equal(t, c.inducing, a.Select != "" && a.Rank > 0 && a.TestRows > 0 && a.ResidualMean != nil && a.ResidualMax != nil)
			require.Equal(t, c.sample, a.Sample != nil)
		}
	}
	// What has no size says none.
	require.Contains(t, succeed(t, small("fit", "-o", os.DevNull)...), os.DevNull+", in ")
}

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
		x, y := decode[result.Prediction](t, want[i]), decode[result.Prediction](t, got[i])
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
		fit := decode[result.Saved](t, succeed(t, "fit", "--quiet", "--json", "--posterior", all, "--without", indexOf(t, rows[3], rows[40]), "-o", fewer))
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
	f := testref.Must(store.Open(larger, savedKind, savedVersion))(t)
	var h savedHeader
	require.NoError(t, f.JSON("header", &h))
	require.NoError(t, f.Close())
	require.Equal(t, "0-23", h.Rows)
	for _, file := range h.Remembered.Files {
		require.NotEqual(t, old, file.Path)
	}
	// Appended row by row, each with one label of the two.
	at := old
	for i, line := range lines[16:] {
		next := filepath.Join(dir, fmt.Sprintf("%d.gp", i))
		succeed(t, "fit", "--quiet", "--posterior", at, "--append", table(fmt.Sprintf("row%d.csv", i), line), "-o", next)
		at = next
	}
	requireSamePredictions(t, 1e-8, scratch, []string{"predict", "--quiet", "--json", "--posterior", at})
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
