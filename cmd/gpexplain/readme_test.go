package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func mkdir(path string) error { return os.Mkdir(path, 0o700) }

func canceled(t testing.TB) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

// invocationLine finds commands in prose: a line that starts with the
// command's name.
var invocationLine = regexp.MustCompile(`^(?://)?\s*(?:go run \./cmd/gpexplain|gpexplain)((?: +(?:'[^']*'|\S+))*)`)

// commandLines returns the arguments of every command in a text, comments
// left out.
func commandLines(text string) [][]string {
	var all [][]string
	for line := range strings.SplitSeq(text, "\n") {
		m := invocationLine.FindStringSubmatch(line)
		if m == nil || strings.Contains(line, " [") { // a synopsis
			continue
		}
		var args []string
		for _, word := range strings.Fields(m[1]) {
			if word == "#" || word == ">" {
				break
			}
			args = append(args, strings.Trim(word, "'"))
		}
		all = append(all, args)
	}
	return all
}

// Every command shown in README.md and in the package's documentation works,
// one after the other in an empty directory.
func TestShownCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of work, and many times that under the race detector")
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	doc, _, _ := strings.Cut(string(source), "\npackage main")
	var shell strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		shell.WriteString(block[1])
	}
	for name, text := range map[string]string{"README.md": shell.String(), "package documentation": doc} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			lines := commandLines(text)
			require.GreaterOrEqual(t, len(lines), 5)
			for _, args := range lines {
				if strings.Contains(strings.Join(args, " "), "mnist") {
					continue // needs a download
				}
				r := gpexplain(t.Context(), args...)
				require.Zero(t, r.code, "gpexplain %s: %s", strings.Join(args, " "), r.stderr)
				require.NotEmpty(t, r.stdout, "gpexplain %s", strings.Join(args, " "))
			}
		})
	}
}
