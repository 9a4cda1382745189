//go:build unix

package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testkit"
)

// asCommand makes the program of the tests the command.
const asCommand = "GPEXPLAIN_BEAM_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// module is the directory of the main module.
var module = filepath.Join("..", "..", "..", "..")

// command is a program in a directory, with the lines that it writes to standard error.
func command(t *testing.T, dir, program string, args ...string) (*exec.Cmd, *strings.Builder) {
	c := exec.CommandContext(t.Context(), program, args...)
	c.Dir, c.Env = dir, append(os.Environ(), asCommand+"=1")
	problem := new(strings.Builder)
	c.Stderr = problem
	return c, problem
}

// execute runs a program in a directory and returns its standard output.
func execute(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	c, problem := command(t, dir, program, args...)
	out, err := c.Output()
	require.NoError(t, err, "%v: %s", args, problem.String())
	return string(out)
}

// build builds a program, or skips the test where there is no network for its sources.
func build(t *testing.T, at, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	c := exec.Command("go", "build", "-o", path, program)
	c.Dir = at
	out, err := c.CombinedOutput()
	if text := string(out); err != nil && (strings.Contains(text, "module lookup disabled") || strings.Contains(text, "dial tcp")) {
		t.Skipf("the sources of %s are not here: %s", program, out)
	}
	require.NoError(t, err, "%s: %s", program, out)
	return path
}

// listen starts the program of Prism's job server and returns it with its endpoint.
func listen(t *testing.T, program string) (*exec.Cmd, string) {
	t.Helper()
	free, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	endpoint := free.Addr().String()
	require.NoError(t, free.Close())
	_, port, err := net.SplitHostPort(endpoint)
	require.NoError(t, err)
	c, problem := command(t, t.TempDir(), program, "-job_port", port, "-serve_http=false")
	start(t, c, problem, endpoint)
	return c, "localhost:" + port
}

// start starts a server for the time of a test, and waits until it listens at an endpoint.
func start(t *testing.T, c *exec.Cmd, problem *strings.Builder, endpoint string) {
	t.Helper()
	require.NoError(t, c.Start())
	t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", endpoint)
		return err == nil && conn.Close() == nil
	}, 20*time.Second, 10*time.Millisecond, problem)
}

// script is what a runner starts as a worker: the boot program of Beam's containers, but for
// the files that it fetches. Prism quotes the name of the worker, which that program refuses.
const script = `#!/bin/sh
for a; do
	case $a in
	--id=*) id=${a#*=} ;;
	--provision_endpoint=*) at=${a#*=} ;;
	esac
done
id=${id#\'}
echo $$ >"$PID"
exec "$PROGRAM" --worker=true --id="${id%\'}" --logging_endpoint="$at" --control_endpoint="$at"
`

// A workplace is a directory with inducing examples, and how a runner starts workers in
// processes of their own, which have nothing but what it hands them and the files.
type workplace struct {
	dir, self string
	process   []string // flags
}

func newWorkplace(t *testing.T) workplace {
	self, err := os.Executable()
	require.NoError(t, err)
	w := workplace{dir: t.TempDir(), self: self}
	execute(t, module, "go", "run", "./cmd/gpexplain", "fit", "--quiet", "--select-only", "--data", "digits:2600,100", "--train-count", "500", "--inducing", "20", "-o", w.file("z.gp"))
	require.NoError(t, os.WriteFile(w.file("worker"), []byte(script), 0o700))
	w.process = process(t, w.file("worker"), "PROGRAM", self, "PID", w.file("pid"))
	return w
}

// process are the flags with which a runner starts a program as a worker, with names and values of its environment.
func process(t *testing.T, program string, env ...string) []string {
	values := map[string]string{}
	for pair := range slices.Chunk(env, 2) {
		values[pair[0]] = pair[1]
	}
	config, err := json.Marshal(map[string]any{"command": program, "env": values})
	require.NoError(t, err)
	return []string{"--environment_type", "process", "--environment_config", string(config)}
}

func (w workplace) file(name string) string { return filepath.Join(w.dir, name) }

// fit are arguments of a fit.
func (w workplace) fit(parts int, out string, more ...string) []string {
	return append([]string{"fit", "--inducing-file", "z.gp", "--parts", strconv.Itoa(parts), "-o", out}, more...)
}

// worker is the process that ran the script last.
func (w workplace) worker(t *testing.T) *os.Process {
	text, err := os.ReadFile(w.file("pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	p, err := os.FindProcess(pid)
	require.NoError(t, err)
	return p
}

// requireEnd waits until a process is gone.
func requireEnd(t *testing.T, p *os.Process) {
	require.Eventually(t, func() bool { return p.Signal(syscall.Signal(0)) != nil }, 20*time.Second, 10*time.Millisecond, "it goes on")
}

// Workers that the command runs itself and workers in processes of their own, for Prism in the process of the
// command or as a job server, give the same predictions and explanations, which gpexplain explain gives too.
func TestWorkers(t *testing.T) {
	w := newWorkplace(t)
	gpexplain := build(t, module, "./cmd/gpexplain")
	_, endpoint := listen(t, build(t, ".", "github.com/apache/beam/sdks/v2/go/cmd/prism"))
	answers := func(name string, more ...string) []string {
		out := execute(t, w.dir, w.self, w.fit(3, name+".gp", more...)...)
		require.Contains(t, out, "wrote "+name+".gp of 3 parts\n") // workers of Beam write there too
		execute(t, w.dir, w.self, append([]string{"explain", "--posterior", name + ".gp", "--index", "24", "--parts", "3", "-o", name + ".terms"}, more...)...)
		predicted, _, _ := strings.Cut(execute(t, w.dir, gpexplain, "predict", "--json", "--quiet", "--posterior", name+".gp", "--index", "24"), "\n")
		return []string{predicted, execute(t, w.dir, gpexplain, "merge", "--json", "--quiet", name+".terms")}
	}
	want := answers("here")
	testkit.RequireSameJSON(t, execute(t, w.dir, gpexplain, "explain", "--json", "--quiet", "--posterior", "here.gp", "--index", "24"), want[1], 1e-10)
	at := []string{"--endpoint", endpoint}
	workers := map[string][]string{
		"processes": w.process, "loopback": slices.Concat(at, []string{"--environment_type", "loopback"}), "processes of the server": slices.Concat(at, w.process),
	}
	if dir := os.Getenv("FUNCGP_CONTAINER"); dir != "" { // of testdata/cluster/image.sh
		run, static := filepath.Join(dir, "run"), slices.Concat(at, []string{"--worker_binary", filepath.Join(dir, "gpexplain-beam")})
		workers["containers"] = slices.Concat(static, process(t, run, "VOLUME", w.dir))
		pool, problem := command(t, w.dir, run, "--worker_pool")
		pool.Env = append(pool.Env, "VOLUME="+w.dir)
		start(t, pool, problem, "localhost:50000")
		workers["a pool"] = slices.Concat(static, []string{"--environment_type", "external", "--environment_config", "localhost:50000"})
	}
	for name, more := range workers {
		t.Log(name)
		for i, got := range answers(name, more...) {
			testkit.RequireSameJSON(t, want[i], got, 1e-10)
		}
	}
	requireEnd(t, w.worker(t))
}

// Where a worker or the job server is killed amid the parts, the command ends with one line and leaves neither files
// nor workers. Prism misses the end of about every second worker that is killed, and then it takes an interrupt.
func TestKilled(t *testing.T) {
	w := newWorkplace(t)
	program := build(t, ".", "github.com/apache/beam/sdks/v2/go/cmd/prism")
	for victim, says := range map[string]string{"a worker": "SDK worker disconnected", "the server": "code = Unavailable"} {
		dir := w.file(victim)
		require.NoError(t, os.Mkdir(dir, 0o700))
		server, endpoint := listen(t, program)
		c, problem := command(t, w.dir, w.self, w.fit(500, "all.gp", append(w.process, "--endpoint", endpoint, "--dir", dir)...)...)
		require.NoError(t, c.Start())
		require.Eventually(t, func() bool {
			parts, err := filepath.Glob(filepath.Join(dir, "fit-*", "part-*"))
			return err == nil && len(parts) > 0
		}, 20*time.Second, time.Millisecond)
		worker := w.worker(t)
		if victim == "the server" {
			require.NoError(t, server.Process.Kill())
		} else {
			require.NoError(t, worker.Kill())
		}
		missed := time.AfterFunc(5*time.Second, func() { _ = c.Process.Signal(os.Interrupt) })
		require.Error(t, c.Wait(), victim)
		if missed.Stop() || victim == "the server" {
			require.Equal(t, 1, c.ProcessState.ExitCode())
			require.Regexp(t, "^gpexplain-beam: --runner prism: .*"+says+".*\n$", problem.String())
		} else {
			require.Equal(t, "gpexplain-beam: interrupted\n", problem.String())
		}
		requireEnd(t, worker)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
		require.NoFileExists(t, w.file("all.gp"))
	}
}
