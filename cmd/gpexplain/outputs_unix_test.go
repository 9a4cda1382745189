//go:build unix

package main

import (
	"bufio"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/testref"
)

// Results are written through a link to a file that is not there yet.
func TestWritesThroughDanglingLinks(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for name, args := range map[string][]string{
		"page":  small("explain", "--html"),
		"table": small("explain", "--csv"),
		"list":  small("importances", "--html"),
		"fit":   small("fit", "-o"),
		"net":   {"train", "--data", "digits:100,20", "--arch", "mlp:3-10", "--epochs", "1", "--lbfgs", "1", "--out"},
	} {
		link := filepath.Join(dir, name)
		require.NoError(t, os.Symlink(filepath.Join(other, name), link))
		succeed(t, append(args, link)...)
		info := testref.Must(os.Lstat(link))(t)
		require.Equal(t, os.ModeSymlink, info.Mode().Type(), "%s is no link any more", name)
		require.NotEmpty(t, read(t, filepath.Join(other, name)))
	}
	require.Len(t, listing(t, dir), 5)
	require.Len(t, listing(t, other), 5)

	bad := filepath.Join(dir, "bad")
	require.NoError(t, os.Symlink(filepath.Join(other, "none", "x"), bad))
	require.Contains(t, refuse(t, 1, small("explain", "--html", bad, "--model", "absent")...), "cannot write "+bad+": no such file or directory; create its directory first")
	twin := filepath.Join(dir, "twin")
	require.NoError(t, os.Symlink(filepath.Join(other, "none", "x"), twin))
	require.Contains(t, refuse(t, 2, small("explain", "--html", bad, "--csv", twin)...), "--html and --csv both name "+twin)
}

// A checkpoint's link outlives the checkpoint, as a link to nothing.
func TestCheckpointThroughLink(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(filepath.Join(other, "state"), link))
	succeed(t, small("fit", "-o", filepath.Join(dir, "a.gp"), "--method", "nystrom", "--inducing", "10", "--checkpoint", link)...)
	require.Equal(t, []string{"a.gp", "link"}, listing(t, dir))
	require.Empty(t, listing(t, other))
}

func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "file"), nil)
	for path, says := range map[string]string{
		filepath.Join(dir, "none", "a"): "create its directory first",
		dir:                             "is a directory",
		filepath.Join(file, "a"):        "not a directory",
		filepath.Join(dir, strings.Repeat("x", 300)): "too long",
		"/dev/full": "no space left on device; free some space",
	} {
		if _, err := os.Stat("/dev/full"); path == "/dev/full" && err != nil {
			continue
		}
		for _, args := range [][]string{
			small("explain", "--html", path),
			small("importances", "--html", path),
			{"train", "--data", "digits:100,20", "--arch", "mlp:3-10", "--epochs", "1", "--lbfgs", "1", "--out", path},
		} {
			line := refuse(t, map[bool]int{false: 1, true: job.StatusAgain}[path == "/dev/full"], args...)
			require.Contains(t, line, says)
			require.Contains(t, line, path)
			require.Equal(t, []string{"file"}, listing(t, dir))
		}
	}
	if os.Getuid() == 0 {
		t.Log("root may write anywhere: the read-only directory is not tried")
		return
	}
	require.NoError(t, os.Chmod(dir, 0o500))
	require.Contains(t, refuse(t, 1, small("explain", "--html", filepath.Join(dir, "a"))...), "choose a place you may write to")
	require.NoError(t, os.Chmod(dir, 0o700))
}

// The exit status after a signal is that of a shell, and no file is left.
func TestSignals(t *testing.T) {
	statuses := map[os.Signal]int{os.Interrupt: job.StatusInterrupted, syscall.SIGTERM: job.StatusTerminated, syscall.SIGHUP: job.StatusHungUp}
	if signal.Ignored(syscall.SIGHUP) { // by nohup, which a child inherits
		delete(statuses, syscall.SIGHUP)
	}
	for sent, status := range statuses {
		dir := t.TempDir()
		c := process(t, "train", "--verbose", "--data", "digits:400,10", "--arch", "mlp:8-10", "--epochs", "1000000", "--out", filepath.Join(dir, "net.onnx"))
		stderr := testref.Must(c.StderrPipe())(t)
		require.NoError(t, c.Start())
		lines := bufio.NewScanner(stderr)
		require.True(t, lines.Scan(), "a line of progress")
		require.NoError(t, c.Process.Signal(sent))
		last := ""
		for lines.Scan() {
			last = lines.Text()
		}
		_ = c.Wait() // the exit status is looked at
		require.Equal(t, status, c.ProcessState.ExitCode())
		require.Equal(t, "gpexplain: interrupted", last)
		require.Empty(t, listing(t, dir))
	}
}
