package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// checkpointed is a fit that was interrupted after its first checkpoint.
func checkpointed(t *testing.T, args ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "a.check")
	args = append([]string{"fit", "--out", filepath.Join(t.TempDir(), "a.gp"), "--checkpoint", path}, args...)
	for n := int64(20); ; n += n/4 + 1 {
		r := gpexplain(newCountdown(t.Context(), n), args...)
		require.NotZero(t, r.code, "it ended before a checkpoint was written")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
}

// A checkpoint of another fit is refused, by name and with what differs, and
// stays as it is.
func TestCheckpointOfOthers(t *testing.T) {
	common := []string{"--data", "digits:2000,100", "--method", "nystrom"}
	path := checkpointed(t, append(common, "--inducing", "40")...)
	before := read(t, path)
	for what, args := range map[string][]string{
		"inducing examples":                 {"--inducing", "40", "--seed", "1"},
		"prior":                             {"--inducing", "40", "--prior-precision", "3"},
		"the number of training examples, ": {"--inducing", "40", "--train-count", "300"},
	} {
		line := refuse(t, 1, append(append([]string{"fit", "--quiet", "--out", filepath.Join(t.TempDir(), "b.gp"), "--checkpoint", path}, common...), args...)...)
		require.Contains(t, line, "gpexplain: --checkpoint "+path+": is of another fit, which differs in "+what)
		require.True(t, strings.HasSuffix(line, "; name another file, or remove it to start anew\n"), line)
	}
	require.Equal(t, before, read(t, path))
}

// A refit of kept rows that was interrupted goes on to the same posterior, whose file has
// the same numbers, and leaves no checkpoint; one of another fit or method is refused and
// stays.
func TestKeptCheckpoint(t *testing.T) {
	common := []string{"--data", "digits:1500,50", "--train-count", "150", "--within", "0.2", "--calibrate", "none"}
	path := checkpointed(t, append(common, "--refit")...)
	before := read(t, path)
	fit := func(more ...string) (report, rows string) {
		out := filepath.Join(t.TempDir(), "a.gp")
		r := decode[result.Saved](t, succeed(t, append(append([]string{"fit", "--json", "--out", out, "--refit"}, common...), more...)...))
		text, err := json.Marshal(r.Fit)
		require.NoError(t, err)
		return string(text), succeed(t, "predict", "--quiet", "--posterior", out)
	}
	report, rows := fit("--quiet")
	for what, args := range map[string][]string{
		"differs in the prior: ":        {"--prior-precision", "3"},
		"the posterior does not belong": {"--train-count", "100"},
	} {
		line := refuse(t, 1, append(append([]string{"fit", "--quiet", "--refit", "--out", filepath.Join(t.TempDir(), "b.gp"), "--checkpoint", path}, common...), args...)...)
		require.Contains(t, line, "gpexplain: --checkpoint "+path+": ")
		require.Contains(t, line, what)
		require.True(t, strings.HasSuffix(line, "; name another file, or remove it to start anew\n"), line)
	}
	require.Contains(t, refuse(t, 1, "fit", "--quiet", "--out", "a", "--method", "nystrom", "--checkpoint", path), "--checkpoint "+path+": ")
	require.Equal(t, before, read(t, path))
	r, p := fit("--quiet", "--checkpoint", path)
	require.Equal(t, report, r)
	require.Equal(t, rows, p)
	require.NoFileExists(t, path)
}

// Where memory is short, rows are kept that fit, and the certificate says what they give. The
// checkpoint stays, from which a fit with more memory goes on to the posterior of one that had enough.
func TestKeptShortMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.check")
	fit := func(more ...string) result.Fit {
		args := []string{"fit", "--json", "--quiet", "--data", "digits:1500,200", "--train-count", "300", "--within", "0.001", "--calibrate", "none", "--out", filepath.Join(t.TempDir(), "a.gp")}
		return decode[result.Saved](t, succeed(t, append(args, more...)...)).Fit
	}
	enough := fit("--max-memory", "1GB")
	require.LessOrEqual(t, float64(enough.Certificate.Ratio), 1.001)
	short := fit("--max-memory", "1500kB", "--checkpoint", path)
	require.Less(t, short.Certificate.Kept, enough.Certificate.Kept/2)
	require.Greater(t, float64(short.Certificate.Ratio), 1.1)
	require.Contains(t, fmt.Sprint(short.Warnings), "Raise --max-memory with --checkpoint "+path+", which goes on from here")
	require.FileExists(t, path)
	require.Contains(t, refuse(t, 1, "fit", "--quiet", "--data", "digits:1500,200", "--train-count", "200", "--within", "0.001", "--checkpoint", path, "--out", "a"), "--checkpoint "+path+": ")
	more := fit("--max-memory", "1GB", "--checkpoint", path)
	// The search began with other rows, and the refit with another preconditioner: a row at the threshold may differ.
	require.InDelta(t, enough.Certificate.Kept, more.Certificate.Kept, 2)
	require.LessOrEqual(t, float64(more.Certificate.Ratio), 1.001)
	require.InEpsilon(t, float64(enough.LogLikelihood), float64(more.LogLikelihood), 1e-9)
	require.InEpsilon(t, float64(enough.LogEvidence), float64(more.LogEvidence), 1e-5)
	require.NoFileExists(t, path)
}

// Auto takes the exact posterior where it fits, else kept rows where these fit, else inducing examples, or
// the kept rows that fit where those do not, and says why, and on standard error, which is no terminal here, how long it takes.
func TestMethodAuto(t *testing.T) {
	for _, c := range []struct{ rows, memory, within, method, why string }{
		{"300", "1GB", "0.05", "exact", "--method auto takes exact: the training rows have 300 outputs"},
		{"300", "3MB", "0.1", "kept", "are enough for --within 0.1"},
		{"900", "15MB", "0.0001", "nystrom", "--method auto takes nystrom: --within 0.0001 takes about "},
		{"300", "1500kB", "0.001", "kept", "--within 0.001 takes about 2"},
	} {
		r := gpexplain(t.Context(), "fit", "--json", "--data", "digits:5000,200", "--train-count", c.rows, "--method", "auto", "--within", c.within,
			"--calibrate", "none", "--max-memory", c.memory, "--out", filepath.Join(t.TempDir(), "a.gp"))
		require.Zero(t, r.code, r.stderr)
		fit := decode[result.Saved](t, r.stdout).Fit
		require.Equal(t, c.method, fit.Method)
		require.Contains(t, fmt.Sprint(fit.Warnings, fit.Remarks), c.why)
		if fit.Certificate == nil || !strings.Contains(r.stderr, "of which 1.5 MB may be used") {
			require.Regexp(t, `(?m)^--method auto takes `+c.method+`: .*\. It takes (under a second|about [1-9]0* (s|min|h)) from here$`, r.stderr)
		}
	}
}

// Auto takes the precision of few parameters where kept rows would be all rows, as of a regression.
func TestMethodAutoOfFewParameters(t *testing.T) {
	dir := t.TempDir()
	net := testref.Must(network.Seeded(1, network.Shape{2}, network.Dense{Units: 5}, network.Tanh, network.Dense{Units: 1}))(t)
	model, table := filepath.Join(dir, "net.onnx"), "a,b,y\n"
	require.NoError(t, atomicfile.Write(model, net.WriteONNX))
	for i := range 5100 {
		table += fmt.Sprintf("%d,%d,%v\n", i%71, i%53, math.Sin(float64(i)))
	}
	data := write(t, filepath.Join(dir, "rows.csv"), []byte(table))
	r := gpexplain(t.Context(), "fit", "--json", "--model", model, "--data", data, "--test-data", data, "--likelihood", "gaussian", "--method", "auto",
		"--at", "stated", "--calibrate", "none", "--out", filepath.Join(dir, "a.gp"))
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, "parameters", decode[result.Saved](t, r.stdout).Fit.Method)
	require.Regexp(t, `--method auto takes parameters: .*\. The network has 21 parameters, whose precision says the same of all rows\.`, r.stderr)
}

// What is no checkpoint is found before the model is read.
func TestBadCheckpoint(t *testing.T) {
	dir := t.TempDir()
	good := read(t, checkpointed(t, "--data", "digits:2000,100", "--method", "nystrom", "--inducing", "40"))
	ask := func(path string) string {
		return refuse(t, 1, "fit", "--out", filepath.Join(dir, "a.gp"), "--checkpoint", path, "--method", "nystrom", "--model", "none.onnx", "--max-memory", "1MB")
	}
	flipped := []byte(good)
	flipped[len(flipped)/2] ^= 1
	for name, content := range map[string][]byte{"empty": nil, "junk": []byte("junk"), "cut": []byte(good)[:len(good)-1], "flipped": flipped} {
		path := write(t, filepath.Join(dir, name), content)
		line := ask(path)
		require.Contains(t, line, "gpexplain: --checkpoint "+path+": ")
		require.Contains(t, line, "remove it to start anew")
		require.FileExists(t, path)
	}
	require.Contains(t, ask(os.DevNull), "no regular file; name another file")
	require.Contains(t, ask(write(t, filepath.Join(dir, "large"), make([]byte, 2e6))), "2.0 MB, more than --max-memory allows")
	require.Contains(t, ask(write(t, filepath.Join(dir, "good"), []byte(good))), "none.onnx", "a checkpoint is not what is wrong")
	require.Contains(t, ask(filepath.Join(dir, "none", "a")), "create its directory first")
}
