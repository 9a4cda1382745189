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

// Results are written through a link to a file that is not there yet.
func TestWritesThroughDanglingLinks(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for name, args := range map[string][]string{
		"page":  small("explain", "--html"),
		"image": small("explain", "--png"),
		"list":  small("importances", "--html"),
		"fit":   small("fit", "-o"),
		"net":   {"train", "--data", "digits:100,20", "--arch", "mlp:3-10", "--epochs", "1", "--lbfgs", "1", "--out"},
	} {
		link := filepath.Join(dir, name)
		require.NoError(t, os.Symlink(filepath.Join(other, name), link))
		succeed(t, append(args, link)...)
		info, err := os.Lstat(link)
		require.NoError(t, err)
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
	require.Contains(t, refuse(t, 2, small("explain", "--html", bad, "--png", twin)...), "--html and --png both name "+twin)
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
