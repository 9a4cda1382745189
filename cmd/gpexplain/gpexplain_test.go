package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// A ran command is what a user sees of one run.
type ran struct {
	code           int
	stdout, stderr string
}

// gpexplain runs a command line as main does.
func gpexplain(ctx context.Context, args ...string) ran {
	var stdout, stderr bytes.Buffer
	code := job.Status(&stderr, "gpexplain", option.Flags, run(ctx, &stdout, &stderr, args))
	return ran{code, stdout.String(), stderr.String()}
}

// succeed returns standard output of a command that must work, and work in
// silence.
func succeed(t testing.TB, args ...string) string {
	t.Helper()
	r := gpexplain(t.Context(), args...)
	require.Equal(t, 0, r.code, "gpexplain %q: %s", args, r.stderr)
	if slices.Contains(args, "--json") {
		r.stderr = regexp.MustCompile(`(?m)^gpexplain: warning: .*\n`).ReplaceAllString(r.stderr, "")
	}
	require.Empty(t, r.stderr, "gpexplain %q", args)
	return r.stdout
}

// refuse returns the one line that a command must fail with.
func refuse(t testing.TB, code int, args ...string) string {
	t.Helper()
	r := gpexplain(t.Context(), args...)
	require.Equal(t, code, r.code, "gpexplain %q: %s", args, r.stderr)
	require.Empty(t, r.stdout, "gpexplain %q", args)
	requireOneLine(t, r.stderr)
	return r.stderr
}

func requireOneLine(t testing.TB, stderr string) {
	t.Helper()
	require.Regexp(t, `^gpexplain: [^\n]+\n$`, stderr)
	require.NotRegexp(t, `goroutine|panic:|Usage:`, stderr)
}

// Keys of a model's metadata.
const (
	keyClasses    = "funcgp.classes"
	keyLikelihood = "funcgp.likelihood"
	keyNoise      = "funcgp.noise_variance"
	keyPrecision  = "funcgp.prior_precision"
	keyRows       = "funcgp.train_rows"
	keyScaling    = "funcgp.scaling"
)

// builtin returns the ONNX file of the built-in network.
func builtin(t testing.TB) []byte {
	t.Helper()
	return testref.Must(os.ReadFile(filepath.Join(repository, "testdata", "builtin.onnx")))(t)
}

// untold returns the built-in network in a file, without its metadata.
func untold(t testing.TB) string {
	t.Helper()
	net := testref.Must(network.ReadONNX(bytes.NewReader(builtin(t)), nil))(t)
	var b bytes.Buffer
	require.NoError(t, net.WithMetadata(nil).WriteONNX(&b))
	return write(t, filepath.Join(t.TempDir(), "untold.onnx"), b.Bytes())
}

// decode reads one JSON object and nothing after it.
func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(text))
	require.NoError(t, d.Decode(&v), text)
	require.ErrorIs(t, testref.Err(d.Token()), io.EOF, "something follows the object")
	return v
}

// A prediction is a line of predict --json, and a predictSummary the last one.
type (
	prediction struct {
		Schema string
		result.Prediction
		Classes, Labels []string
	}
	predictSummary struct {
		Schema string
		result.PredictionSummary
	}
)

// small is a problem with the built-in network that takes no time.
func small(verb string, args ...string) []string {
	return append([]string{verb, "--data", "digits:400,100", "--train-count", "60"}, args...)
}

func write(t testing.TB, path string, content []byte) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// listing is what a directory holds, hidden files too.
func listing(t testing.TB, dir string) []string {
	t.Helper()
	entries := testref.Must(os.ReadDir(dir))(t)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// repository is the root of the repository. Tests change their directory, so it is
// made absolute before any runs; an error would show in each path.
var repository, _ = filepath.Abs(filepath.Join("..", ".."))

// sharedData is a path below ../shared/data beside the repository; without it
// the test is skipped: real data sets are no part of the project.
func sharedData(t testing.TB, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "..", "shared", "data"}, elem...)...))
	require.NoError(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs the shared data beside the repository: %v", err)
	}
	return path
}

func read(t testing.TB, path string) string {
	t.Helper()
	b := testref.Must(os.ReadFile(path))(t)
	return string(b)
}
