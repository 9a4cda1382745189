package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
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

// fitArgs are command lines that fit, each a small posterior.
func fitArgs() map[string][]string {
	return map[string][]string{
		"exact":         nil,
		"exact refit":   {"--refit"},
		"subset":        {"--method", "subset", "--inducing", "20"},
		"nystrom":       {"--method", "nystrom", "--inducing", "20", "--select", "kmeans"},
		"nystrom refit": {"--method", "nystrom", "--inducing", "20", "--refit"},
		"all":           {"--method", "nystrom"},
		"fitc":          {"--method", "fitc", "--inducing", "20"},
		"kept":          {"--within", "0.05"},
		"kept refit":    {"--method", "kept", "--refit"},
		"nystrom, kept": {"--method", "nystrom", "--inducing", "20", "--within", "0.05"},
		"fitc refit":    {"--method", "fitc", "--inducing", "20", "--refit"},
		"cg":            {"--method", "cg"},
		"cg refit":      {"--method", "cg", "--refit"},
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
			r := decode[fitReport](t, text)
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
	require.Contains(t, refuse(t, 1, ask("--freeze", "Dense1.bias")...), "the graph of the network is another")
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
		r := decode[fitReport](t, succeed(t, append([]string{"fit", "--json", "-o", file, "--tune-prior"}, args...)...))
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
		{[]string{"--method", "cg"}, false, false},
	} {
		text := succeed(t, append(small("fit", "--json", "-o", filepath.Join(t.TempDir(), "a.gp")), c.args...)...)
		requireSchema(t, "fit", text)
		f := decode[fitReport](t, text).Fit
		require.Equal(t, f.Method == "exact", f.Approximation == nil)
		if a := f.Approximation; a != nil {
			require.Equal(t, c.inducing, a.Select != "" && a.Rank > 0 && a.TestRows > 0 && a.ResidualMean != nil && a.ResidualMax != nil)
			require.Equal(t, c.sample, a.Sample != nil)
			require.Equal(t, f.Method == "cg", a.MeanError != nil && a.EvidenceSE != nil)
		}
	}
	// What has no size says none.
	require.Contains(t, succeed(t, small("fit", "-o", os.DevNull)...), os.DevNull+", in ")
}
