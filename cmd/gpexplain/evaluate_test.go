package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/protocols"
)

// Without a protocol all are listed.
func TestEvaluateLists(t *testing.T) {
	list := succeed(t, "evaluate")
	for _, study := range protocols.All(&protocols.Options{Models: 1, Runs: 1}) {
		require.Contains(t, "\n"+list, "\n"+study.Name+" ")
		require.Contains(t, list, study.Source)
	}
}

// A protocol runs in parts, and a call without a part makes the page.
func TestEvaluateParts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "four")
	args := []string{"evaluate", "4-9", "--quick", "--out", dir, "--runs", "1", "--quiet"}
	for _, part := range []string{"0/2", "1/2"} {
		require.Empty(t, succeed(t, append(args, "--part", part)...))
		require.NoFileExists(t, filepath.Join(dir, "4-9.html"))
	}
	require.Equal(t, filepath.Join(dir, "4-9.html")+"\n", succeed(t, args...))
	require.Contains(t, read(t, filepath.Join(dir, "4-9-scores.csv")), "removal")
	require.Contains(t, refuse(t, 1, "evaluate", "dattri", "--data", dir, "--out", dir), "train-images")
}

func TestEvaluateUsage(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for line, want := range map[string]string{
		"evaluate datri":                               `there is no study "datri"; did you mean dattri?; gpexplain evaluate lists them`,
		"evaluate --quick":                             "--quick is for a study",
		"evaluate --models 2":                          "--models is for a protocol; name one of 4-9",
		"evaluate dattri":                              "--out DIR is missing",
		"evaluate dattri --out OUT":                    "--data DIR is missing: a directory with MNIST",
		"evaluate dattri --out OUT --quick --data x":   "--quick and --data exclude each other",
		"evaluate dattri --out OUT --quick --models 0": "--models 0 must be at least 1",
		"evaluate dattri --out OUT --quick --runs -1":  "--runs -1 must be at least 1",
		"evaluate dattri --out OUT --quick --part 2/2": `--part "2/2" must be K/M`,
		"evaluate dattri --out OUT --quick --only x":   "unknown flag: --only",
		"evaluate dattri 4-9 --out OUT":                "accepts at most 1 arg",
	} {
		require.Contains(t, refuse(t, 2, strings.Fields(strings.ReplaceAll(line, "OUT", out))...), want, line)
		require.NoDirExists(t, out)
	}
}
