package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/console"
)

// limited takes a number of bytes, as a disk does that fills up.
type limited struct{ left int }

func (w *limited) Write(p []byte) (int, error) {
	if len(p) > w.left {
		n := w.left
		w.left = 0
		return n, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
	}
	w.left -= len(p)
	return len(p), nil
}

// What standard output cannot take is an error, of every verb.
func TestFullStandardOutput(t *testing.T) {
	out := filepath.Join(t.TempDir(), "net.onnx")
	for _, args := range [][]string{
		small("explain"), small("explain", "--json"), small("predict"), small("predict", "--json"), small("importances"), small("audit"), small("acquire", "--pool", "digits:400,100"), small("evidence"), small("evidence", "--json"),
		{"inspect"}, {"inspect", "--json"}, {"version"}, {"help"}, {"help", "explain"}, {}, {"completion", "bash"}, {"completion", "zsh"},
		{"train", "--data", "digits:100,20", "--arch", "mlp:3-10", "--epochs", "1", "--lbfgs", "1", "--out", out},
	} {
		for _, room := range []int{0, 10} {
			var stderr bytes.Buffer
			code := console.Status(&stderr, run(t.Context(), &limited{room}, &stderr, args))
			require.Equal(t, 1, code, "%q", args)
			require.Equal(t, "gpexplain: standard output: no space left on device; send it to a place with room\n", stderr.String(), "%q", args)
		}
	}
}
