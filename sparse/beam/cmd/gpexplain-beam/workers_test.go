package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// asCommand makes the program of the tests the command.
const asCommand = "GPEXPLAIN_BEAM_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// execute runs a program in a directory and returns its standard output.
func execute(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	c := exec.Command(program, args...)
	c.Dir, c.Env = dir, append(os.Environ(), asCommand+"=1")
	var problem strings.Builder
	c.Stderr = &problem
	out, err := c.Output()
	require.NoError(t, err, "%v: %s", args, problem.String())
	return string(out)
}

// script is what a runner starts as a worker: the boot program of Beam's containers, but for
// the files that it fetches.
const script = `#!/bin/sh
for a; do
	case $a in
	--id=*) id=${a#*=} ;;
	--provision_endpoint=*) at=${a#*=} ;;
	esac
done
id=${id#\'}
exec "$PROGRAM" --worker=true --id="${id%\'}" --logging_endpoint="$at" --control_endpoint="$at"
`

// Workers in processes of their own, which have nothing but what the runner hands them and
// the files, give the posterior that workers in the process of the command give.
func TestWorkerProcesses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the worker is started by a shell script")
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	root := filepath.Join("..", "..", "..", "..")
	execute(t, root, "go", "run", "./cmd/gpexplain", "fit", "--quiet", "--select-only", "--data", "digits:400,50", "--train-count", "40", "--inducing", "8", "-o", file("z.gp"))
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file("worker"), []byte(script), 0o700))
	environment, err := json.Marshal(map[string]any{"command": file("worker"), "env": map[string]string{"PROGRAM": self}})
	require.NoError(t, err)
	predicted := func(name string, more ...string) []float64 {
		out := execute(t, dir, self, append([]string{"fit", "--inducing-file", "z.gp", "--parts", "3", "-o", name, "--calibrate", "none"}, more...)...)
		require.Contains(t, out, "wrote "+name+" of 3 parts\n") // workers of Beam write there too
		line, _, _ := strings.Cut(execute(t, root, "go", "run", "./cmd/gpexplain", "predict", "--json", "--quiet", "--posterior", file(name), "--index", "24"), "\n")
		var row struct {
			Mean       []float64   `json:"mean"`
			Covariance [][]float64 `json:"covariance"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		return append(row.Mean, row.Covariance[0]...)
	}
	want := predicted("here.gp")
	require.InDeltaSlice(t, want, predicted("there.gp", "--environment_type", "process", "--environment_config", string(environment)), 1e-10)
}
