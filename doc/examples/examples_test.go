// Package examples runs the programs of its folders, which were written from
// the documentation of the library.
package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// build compiles the program of a folder.
func build(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./"+name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestProbabilities(t *testing.T) {
	require.Equal(t, `x = [   0    1]: p(y=1) = 0.112 ± 0.110
x = [   1 -0.5]: p(y=1) = 0.830 ± 0.160
x = [ 0.5 0.25]: p(y=1) = 0.589 ± 0.160
x = [   6    5]: p(y=1) = 0.873 ± 0.273
`, run(t, build(t, "probabilities")))
}

func TestOwn(t *testing.T) {
	require.Equal(t, "f(0.75) = 1.042 ± 0.071; sin 1.5 = 0.997, y = 8\n", run(t, build(t, "own")))
}

// The file is written by one process and read by another. What it prints of
// the network differs between processors, since training adds up in another
// order there, so only the sum and the neighbours are compared.
func TestSaved(t *testing.T) {
	program, file := build(t, "saved"), filepath.Join(t.TempDir(), "sine.gp")
	require.Empty(t, run(t, program, "fit", file))
	out := run(t, program, "explain", file)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 4, out)
	require.Regexp(t, `^f\(0\.8\) = (0\.99\d|1\.00\d) = -?\d+\.\d+ \+ -?\d+\.\d+ from 300 examples$`, lines[0])
	for _, line := range lines[1:] {
		require.Regexp(t, `^x = \+0\.\d\d, y = \+\d\.\d{3}: \+0\.\d{4}$`, line)
	}
}

// Each program has fewer than 60 lines of code, comments and blank lines not
// counted.
func TestProgramsAreShort(t *testing.T) {
	files, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		code := 0
		for line := range bytes.Lines(text) {
			line = bytes.TrimSpace(line)
			if len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
				code++
			}
		}
		require.Less(t, code, 60, name)
	}
}
