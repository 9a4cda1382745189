package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// refused runs a command line, whose error is one line, and returns that.
func refused(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out, stderr bytes.Buffer
	require.Equal(t, code, job.Status(&stderr, "gpexplain-beam", option.Flags, run(t.Context(), &out, &stderr, args)), "%v: %s", args, stderr.String())
	require.Empty(t, out.String())
	require.Equal(t, 1, bytes.Count(stderr.Bytes(), []byte("\n")), stderr.String())
	return stderr.String()
}

// Wrong command lines and missing files are one line each, with the status of gpexplain.
func TestRefusals(t *testing.T) {
	for want, args := range map[string][]string{
		"--runner spark is none of prism, flink, dataflow, direct": {"fit", "--inducing-file", "z.gp", "-o", "a.gp", "--runner", "spark"},
		"--inducing-file FILE is needed":                           {"fit", "-o", "a.gp"},
		"-o FILE is needed":                                        {"fit", "--inducing-file", "z.gp"},
		"--parts 0 must be at least 1":                             {"fit", "--inducing-file", "z.gp", "-o", "a.gp", "--parts", "0"},
		"both name z.gp":                                           {"fit", "--inducing-file", "z.gp", "-o", "z.gp"},
		"--calibrate x is none of":                                 {"fit", "--inducing-file", "z.gp", "-o", "a.gp", "--calibrate", "x"},
		"--posterior FILE is needed":                               {"explain", "-o", "a.terms"},
		"--top 0 must be at least 1":                               {"explain", "--posterior", "a.gp", "-o", "a.terms", "--top", "0"},
		"unknown flag: --bad":                                      {"fit", "--bad"},
		`unknown command "forget"`:                                 {"forget"},
		`unknown command "z.gp"`:                                   {"fit", "z.gp"},
	} {
		require.Contains(t, refused(t, 2, args...), want)
	}
	dir := t.TempDir()
	none := filepath.Join(dir, "none.gp")
	require.Contains(t, refused(t, 1, "fit", "--inducing-file", none, "-o", filepath.Join(dir, "a.gp")), none+": the inducing examples cannot be opened")
	require.Contains(t, refused(t, 1, "explain", "--posterior", none, "-o", filepath.Join(dir, "a.terms")), none+": the posterior cannot be opened")
	require.Contains(t, refused(t, 1, "fit", "--inducing-file", none, "-o", filepath.Join(none, "a.gp")), "there is no directory "+none)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	var stderr bytes.Buffer
	require.Equal(t, 130, job.Status(&stderr, "gpexplain-beam", option.Flags, context.Canceled))
	require.Equal(t, "gpexplain-beam: interrupted\n", stderr.String())
}

// Help lists the flags of the command and those of Beam that choose a cluster.
func TestHelp(t *testing.T) {
	var out, stderr bytes.Buffer
	require.NoError(t, run(t.Context(), &out, &stderr, []string{"fit", "--help"}))
	for _, flag := range []string{"--inducing-file FILE", "--parts N", "--runner RUNNER", "--endpoint", "--project"} {
		require.Contains(t, out.String(), flag)
	}
	require.NotContains(t, out.String(), "--beam_strict")
}
