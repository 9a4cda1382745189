package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/console"
)

// shell runs the command with these arguments and a redirection of a shell's.
func shell(t *testing.T, redirect string, args ...string) ran {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `exec "$0" "$@" ` + redirect, os.Args[0]}, args...)...)
	c.Env = append(os.Environ(), asCommand+"=1")
	var stdout, stderr strings.Builder
	c.Stdout, c.Stderr = &stdout, &stderr
	_ = c.Run() // the exit status is looked at
	return ran{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// JSON that nobody can receive is an error, found before the work and its
// files.
func TestClosedStandardOutput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	for _, args := range [][]string{
		{"explain", "--html", file}, {"predict"}, {"importances"}, {"evidence"}, {"validate"},
		{"fit", "-o", file}, {"train", "--out", file}, {"inspect"}, {"version"},
	} {
		want := ran{1, "", "gpexplain: " + console.ErrClosed.Error() + "\n"}
		require.Equal(t, want, shell(t, ">&-", append(args, "--json")...), "%q", args)
		require.Empty(t, listing(t, dir))
	}
	require.Equal(t, 2, shell(t, ">&-", "evidence", "--json", "--classes", "4").code, "a wrong command line is found first")
}

// /dev/null is a place for results that nobody wants, and so is a standard
// output that was closed on purpose for text.
func TestDiscardedStandardOutput(t *testing.T) {
	for _, redirect := range []string{">/dev/null", ">/dev/null 2>&1", "1<>/dev/null 2>&1"} {
		require.Equal(t, ran{}, shell(t, redirect, "inspect", "--json"), redirect)
	}
	require.Equal(t, ran{}, shell(t, ">&-", "inspect"))
}
