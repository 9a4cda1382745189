package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/reproduce"
)

// Without a study all are listed.
func TestReproduceLists(t *testing.T) {
	list := succeed(t, "reproduce")
	for _, study := range reproduce.Studies() {
		require.Contains(t, "\n"+list, "\n"+study.Name+" ")
		require.Contains(t, list, study.Source)
	}
}

// A study runs in parts, and a call without a part makes the page.
func TestReproduceParts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "uci")
	args := []string{"reproduce", "uci", "--quick", "--only", "glass", "--out", dir, "--quiet"}
	for _, part := range []string{"0/2", "1/2"} {
		require.Empty(t, succeed(t, append(args, "--part", part)...))
		require.NoFileExists(t, filepath.Join(dir, "uci.html"))
	}
	require.Equal(t, filepath.Join(dir, "uci.html")+"\n", succeed(t, args...))
	require.Contains(t, read(t, filepath.Join(dir, "uci.html")), "glass")
	require.Contains(t, refuse(t, 1, "reproduce", "uci", "--data", dir, "--only", "glass", "--out", dir), "glass.csv")
}

func TestReproduceUsage(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for line, want := range map[string]string{
		"reproduce ucl":                                   `there is no study "ucl"; did you mean uci?; gpexplain reproduce lists them`,
		"reproduce --quick":                               "--quick is for a study",
		"reproduce uci":                                   "--out DIR is missing",
		"reproduce uci --out OUT":                         "--data DIR is missing: a directory with NAME.csv",
		"reproduce uci --out OUT --quick --data x":        "--quick and --data exclude each other",
		"reproduce uci --out OUT --quick --only glas":     "did you mean glass?",
		"reproduce uci --out OUT --quick --part 2/2":      `--part "2/2" must be K/M`,
		"reproduce uci --out OUT --quick --part 1":        `--part "1" must be K/M`,
		"reproduce uci --out OUT --quick --part x/y":      `--part "x/y" must be K/M`,
		"reproduce uci --out OUT --quick --workers 0":     "--workers 0 must be",
		"reproduce uci --out OUT --quick --max-memory xx": "max-memory",
		"reproduce uci moons --out OUT":                   "accepts at most 1 arg",
	} {
		require.Contains(t, refuse(t, 2, strings.Fields(strings.ReplaceAll(line, "OUT", out))...), want, line)
		require.NoDirExists(t, out)
	}
}
