package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
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

// A disk that fills up while a file is written holds no part of it, and an
// old file of that name as it was.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("needs the right to mount a small disk: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	old := write(t, filepath.Join(dir, "old"), []byte("content"))
	for _, name := range []string{"new", "old"} {
		path := filepath.Join(dir, name)
		for _, args := range [][]string{
			small("explain", "--html", path),
			small("importances", "--html", path),
			{"train", "--data", "digits:100,20", "--arch", "mlp:9-10", "--epochs", "1", "--lbfgs", "1", "--out", path},
		} {
			require.Contains(t, refuse(t, job.StatusAgain, args...), "cannot write "+path+": no space left on device; free some space")
			require.Equal(t, []string{"old"}, listing(t, dir))
		}
	}
	require.Equal(t, "content", read(t, old))
}

// What a scheduler tries again is told from what it does not by the exit status, of parts as of all: a full disk, a limit,
// a disk that cannot be read and no memory from what was asked for. Memory is limited as data (-d), since the runtime
// reserves more or less address space (-v) at every start; what does not fit is one matrix of 1.15 GB.
func TestStatusOfMachines(t *testing.T) {
	dir := t.TempDir()
	z, part := filepath.Join(dir, "z.gp"), filepath.Join(dir, "part.sums")
	succeed(t, append([]string{"fit", "--select-only", "-o", z}, inParts...)...)
	fit := []string{"fit", "--quiet", "--inducing-file", z, "--shard", "0/2", "-o", part}
	broken := filepath.Join(dir, "broken.onnx")
	require.NoError(t, os.Symlink("/proc/self/mem", broken)) // whose first byte cannot be read
	for _, x := range []struct {
		code  int
		limit string
		args  []string
		says  string
	}{
		{2, "", append(fit, "--shard", "2/2"), "the parts of 2 are"},
		{1, "", append(fit, "--model", z), z},
		{1, "", append(fit, "--shard", "0/1000"), "it has no rows"},
		{job.StatusAgain, "", append(fit, "-o", "/dev/full"), "no space left on device"},
		{job.StatusAgain, "trap '' XFSZ; ulimit -f 1; ", fit, "cannot write " + part + ": file too large"},
		{job.StatusAgain, "", append(fit, "--model", broken), "input/output error"},
		{job.StatusAgain, "", []string{"explain", "--posterior", broken}, "input/output error"},
		{job.StatusAgain, "", []string{"merge", broken, "-o", part}, "input/output error"},
		{job.StatusAgain, "ulimit -n 6; ", []string{"predict"}, "gpexplain: too few files may be open (ulimit -n); raise the limit\n"},
		{job.StatusAgain, "ulimit -v 1500000; ", []string{"predict"}, "gpexplain: the address space is limited (ulimit -v)"},
		{-int(unix.SIGABRT), "ulimit -d 1000000; ", []string{"predict", "--data", "digits:60000,10"}, "fatal error: "},
	} {
		c := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", x.limit + `exec "$0" "$@"`, os.Args[0]}, x.args...)...)
		c.Env = append(os.Environ(), asCommand+"=1")
		out, _ := c.CombinedOutput() // the exit status is looked at
		status := c.ProcessState.Sys().(syscall.WaitStatus)
		code := status.ExitStatus()
		if status.Signaled() {
			code = -int(status.Signal())
		}
		require.Equal(t, x.code, code, "%q: %.2000s", x.args, out)
		require.Contains(t, string(out), x.says)
		require.Equal(t, []string{"broken.onnx", "z.gp"}, listing(t, dir))
	}
}
