//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shards is the folder of the examples of parts.
var shards = filepath.Join(repository, "doc", "examples", "shards")

// makeParts starts make with the example of parts, in its own group of processes.
func makeParts(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	bin := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "gpexplain")))
	c := exec.CommandContext(t.Context(), "make", append([]string{"-s", "-j", "2", "-f", filepath.Join(shards, "Makefile"), "PARTS=4"}, args...)...)
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	c.Env = append(os.Environ(), asCommand+"=1", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return c
}

// The example for make gives the posterior of one process. Killed at any moment and run again to
// the end, it gives the same bytes, computes no part twice that was finished, and leaves nothing
// half. studies/shards/kill.sh does so more often.
func TestMakeParts(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make")
	}
	fit := "FIT=--data digits:400,50 --train-count 40 --inducing 8"
	whole, killed := t.TempDir(), t.TempDir()
	out, err := makeParts(t, whole, fit).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for k := range 3 {
		c := makeParts(t, killed, fit)
		require.NoError(t, c.Start())
		time.Sleep(time.Duration(40*(k+1)) * time.Millisecond)
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // unless it has ended
		_ = c.Wait()
	}
	out, err = makeParts(t, killed, fit).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.True(t, read(t, filepath.Join(whole, "all.gp")) == read(t, filepath.Join(killed, "all.gp")))
	one := filepath.Join(t.TempDir(), "one.gp")
	succeed(t, append([]string{"fit", "--quiet", "--method", "nystrom", "-o", one}, strings.Fields(strings.TrimPrefix(fit, "FIT="))...)...)
	ask := []string{"explain", "--json", "--index", "24", "--posterior"}
	requireSameJSON(t, succeed(t, append(ask, one)...), succeed(t, append(ask, filepath.Join(killed, "all.gp"))...), "timings")
	out, err = makeParts(t, killed, "explain").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "prior mean + 40 contributions")
}

// The scripts for other engines count parts from 0 as the flag does.
func TestEngines(t *testing.T) {
	require.Contains(t, read(t, filepath.Join(shards, "slurm.sh")), `--shard "$SLURM_ARRAY_TASK_ID/`)
	require.Contains(t, read(t, filepath.Join(shards, "kubernetes.yaml")), `--shard "$JOB_COMPLETION_INDEX/64"`)
	bin := t.TempDir()
	write(t, filepath.Join(bin, "gpexplain"), []byte("#!/bin/sh\necho \"$@\"\n"))
	require.NoError(t, os.Chmod(filepath.Join(bin, "gpexplain"), 0o700))
	c := exec.CommandContext(t.Context(), "sh", filepath.Join(shards, "slurm.sh"), "part")
	c.Env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "SLURM_ARRAY_TASK_ID=0", "PARTS=7", "SLURM_CPUS_PER_TASK=2"}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "fit --inducing-file z.gp --shard 0/7 -o part0.sums --quiet --workers 2\n", string(out))
}
