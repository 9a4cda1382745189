package reproduce

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var command = Command{Verb: "reproduce", Studies: Studies}

// Without a study all are listed.
func TestCommandLists(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, command.Run(t.Context(), &out, nil))
	for _, study := range Studies() {
		require.Contains(t, "\n"+out.String(), "\n"+study.Name+" ")
		require.Contains(t, out.String(), study.Source)
	}
}

// A study runs in parts, and a call without a part makes the page.
func TestCommandParts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "uci")
	args := []string{"uci", "-quick", "-only", "glass", "-out", dir}
	var out bytes.Buffer
	for _, part := range []string{"0/2", "1/2"} {
		require.NoError(t, command.Run(t.Context(), &out, append(args, "-part", part)))
		require.Empty(t, out.String())
		require.NoFileExists(t, filepath.Join(dir, "uci.html"))
	}
	require.NoError(t, command.Run(t.Context(), &out, args))
	require.Equal(t, filepath.Join(dir, "uci.html")+"\n", out.String())
	require.ErrorContains(t, command.Run(t.Context(), &out, []string{"uci", "-data", dir, "-only", "glass", "-out", dir}), "glass.csv")
}

func TestCommandRefuses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for line, want := range map[string]string{
		"ucl":                            `there is no study "ucl"; gpstudies reproduce without arguments lists them`,
		"-quick":                         `there is no study ""`,
		"uci":                            "-out DIR is missing",
		"uci -out OUT":                   "-data DIR is missing: a directory with NAME.csv",
		"uci -out OUT -quick -data x":    "-quick and -data exclude each other",
		"snelson -out OUT -only glass":   "-only is for a study of several data sets",
		"uci -out OUT -quick -only glas": "-only glas: uci has the sets",
		"uci -out OUT -quick -part 2/2":  `-part "2/2" must be K/M`,
		"uci -out OUT -quick -part x/y":  `-part "x/y" must be K/M`,
		"uci -out OUT -quick moons":      `"moons" is one argument too many`,
	} {
		require.ErrorContains(t, command.Run(t.Context(), new(bytes.Buffer), strings.Fields(strings.ReplaceAll(line, "OUT", out))), want, line)
		require.NoDirExists(t, out)
	}
}
