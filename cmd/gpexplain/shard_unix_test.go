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

// The scripts for other engines count parts from 0 as the flag does, and try again what the exit status says.
// testdata/cluster/slurm.sh runs the script for Slurm on a Slurm.
func TestEngines(t *testing.T) {
	kubernetes := read(t, filepath.Join(shards, "kubernetes.yaml"))
	require.Contains(t, kubernetes, `--shard "$JOB_COMPLETION_INDEX/64"`)
	require.Contains(t, kubernetes, "{action: FailJob, onExitCodes: {containerName: part, operator: In, values: [1, 2]}}")
	bin := t.TempDir()
	for name, script := range map[string]string{"gpexplain": `echo "$@"; exit ${STATUS:-0}`, "scontrol": `echo scontrol "$@"`, "sbatch": `echo "$FIT: $@" >&2; echo 41`} {
		require.NoError(t, os.Chmod(write(t, filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n")), 0o700))
	}
	slurm := filepath.Join(shards, "slurm.sh")
	const part = "fit --inducing-file z.gp --shard 0/7 -o part0.sums --quiet --workers 2\n"
	task := []string{"SLURM_JOB_ID=48", "SLURM_ARRAY_JOB_ID=41", "SLURM_ARRAY_TASK_ID=0", "SLURM_CPUS_PER_TASK=2", "PARTS=7"}
	for _, x := range []struct {
		step string
		env  []string
		code int
		want string
	}{
		{"", []string{"PARTS=7", "FIT=--seed 2"}, 0, "--seed 2: --parsable --kill-on-invalid-dep=yes " + slurm + " select\n" +
			"--seed 2: --parsable --kill-on-invalid-dep=yes --dependency=afterok:41 --array=0-6 " + slurm + " part\n" +
			"--seed 2: --parsable --kill-on-invalid-dep=yes --dependency=afterok:41 " + slurm + " merge\n41\n"},
		{"select", []string{"FIT=--seed 2"}, 0, "fit --select-only --seed 2 -o z.gp --quiet --workers 1\n"},
		{"merge", nil, 0, "merge part*.sums -o all.gp --quiet --workers 1\n"},
		{"merge", []string{"STATUS=75", "SLURM_JOB_ID=48"}, 75, "merge part*.sums -o all.gp --quiet --workers 1\nscontrol requeue 48\n"},
		{"part", task, 0, part},
		{"part", append(task, "STATUS=1"), 1, part},
		{"part", append(task, "STATUS=2"), 2, part},
		{"part", append(task, "STATUS=75"), 75, part + "scontrol requeue 41_0\n"},
		{"part", append(task, "STATUS=75", "SLURM_RESTART_COUNT=3"), 75, part},
	} {
		c := exec.CommandContext(t.Context(), "sh", slurm, x.step)
		c.Dir, c.Env = t.TempDir(), append(x.env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, _ := c.CombinedOutput() // the exit status is looked at
		require.Equal(t, x.want, string(out))
		require.Equal(t, x.code, c.ProcessState.ExitCode(), "%q", x)
	}
}
