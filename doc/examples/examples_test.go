// Package examples runs the programs of its folders, which were written from
// the documentation of the library.
package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
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

// shown are the lines of doc/library.md that run programs of this folder.
func shown(t *testing.T) [][]string {
	t.Helper()
	page := testref.Must(os.ReadFile(filepath.Join("..", "library.md")))(t)
	var lines [][]string
	for line := range strings.Lines(string(page)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "go run ./doc/examples/"); ok {
			lines = append(lines, strings.Fields(rest))
		}
	}
	return lines
}

// The commands of doc/library.md, one after the other in an empty directory, so
// that one process reads the file that another one wrote.
func TestShownCommands(t *testing.T) {
	lines, programs := shown(t), map[string]string{}
	for _, args := range lines {
		if programs[args[0]] == "" {
			programs[args[0]] = build(t, args[0])
		}
	}
	require.Len(t, programs, 3)
	t.Chdir(t.TempDir())
	got := map[string]string{}
	for _, args := range lines {
		got[strings.Join(args, " ")] = run(t, append([]string{programs[args[0]]}, args[1:]...)...)
	}
	require.Equal(t, map[string]string{
		"probabilities": `x 0: p(y=1) = 0.084 ± 0.041, less like the training rows than 40 % of them
x 1: p(y=1) = 0.870 ± 0.067, less like the training rows than 69 % of them
x 2: p(y=1) = 0.597 ± 0.081, less like the training rows than 64 % of them
x 3: p(y=1) = 0.981 ± 0.068, less like the training rows than 100 % of them
`,
		"saved fit sine.gp":     "",
		"saved explain sine.gp": got["saved explain sine.gp"],
		"own":                   "f(0.75) = 1.042 ± 0.071; sin 1.5 = 0.997, y = 8\n",
	}, got)

	// Training adds up in another order on other processors, which other
	// networks come of: only what holds for each of them is compared.
	explained := strings.Split(strings.TrimSpace(got["saved explain sine.gp"]), "\n")
	require.Len(t, explained, 4)
	require.Regexp(t, `^f\(0\.8\) = (0\.9[89]\d|1\.00\d) = -?\d+\.\d+ \+ -?\d+\.\d+ from 300 examples \+ -?\d+\.\d+$`, explained[0])
	for _, line := range explained[1:] {
		require.Regexp(t, `^x = [+-]\d\.\d\d, y = [+-]\d\.\d{3}: [+-]\d\.\d{4}$`, line)
	}
}

// Each program has fewer than 60 lines of code, and the service fewer than 120, comments and blank lines not
// counted.
func TestProgramsAreShort(t *testing.T) {
	files := testref.Must(filepath.Glob("*/main.go"))(t)
	require.Len(t, files, 4)
	for _, name := range files {
		text := testref.Must(os.ReadFile(name))(t)
		most := 60
		if name == filepath.Join("service", "main.go") {
			most = 120
		}
		code := regexp.MustCompile(`(?m)^\s*(//.*)?\n`).ReplaceAll(text, nil)
		require.Less(t, bytes.Count(code, []byte("\n")), most, name)
	}
}
