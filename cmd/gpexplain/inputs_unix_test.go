//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/funcgp/funcgp/internal/job"
)

// readers are command lines that read the file of a name.
func readers(t *testing.T, path string) map[string][]string {
	table := write(t, filepath.Join(t.TempDir(), "a.csv"), []byte("u,y\n1,0\n2,1\n"))
	splits := filepath.Join(t.TempDir(), "b.csv")
	write(t, splits, []byte("u,y\n1,0\n2,1\n"))
	require.NoError(t, os.Symlink(path, filepath.Join(filepath.Dir(splits), "b.splits.csv")))
	return map[string][]string{
		"inspect --model": {"inspect", "--model", path},
		"model":           small("explain", "--model", path),
		"posterior":       {"explain", "--posterior", path},
		"train-index":     {"explain", "--data", "digits:400,100", "--train-index", path},
		"test-index":      small("predict", "--test-index", path),
		"input":           small("explain", "--input", path),
		"test-data":       {"train", "--arch", "mlp:2-1", "--out", filepath.Join(t.TempDir(), "net.onnx"), "--data", table, "--test-data", path},
		"splits":          {"train", "--arch", "mlp:2-1", "--out", filepath.Join(t.TempDir(), "net.onnx"), "--data", splits, "--split", "0"},
	}
}

// A device may never end, so none is read.
func TestDevicesAreRefused(t *testing.T) {
	for name, args := range readers(t, "/dev/zero") {
		line := refuse(t, 1, args...)
		require.Contains(t, line, "it is a device, and only files and pipes are read; ", name)
	}
}

// A pipe that nobody writes to, or that sends no end, can be interrupted.
func TestPipesAreInterrupted(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	for name, args := range readers(t, pipe) {
		for _, writer := range []bool{false, true} {
			if writer {
				// Opened for both, a pipe has a writer at once, and here no data.
				w, err := os.OpenFile(pipe, os.O_RDWR, 0)
				require.NoError(t, err)
				defer w.Close()
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			r := gpexplain(ctx, args...)
			require.Equal(t, ran{job.StatusInterrupted, "", "gpexplain: interrupted\n"}, r, "%s, writer %v", name, writer)
		}
	}
}

// A model is read as its stream comes, so that one which never ends and is no
// model is refused after its first bytes.
func TestEndlessModel(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	sent := make(chan int)
	go func() {
		total := 0
		for zeros := make([]byte, 1<<16); ; {
			n, err := w.Write(zeros)
			if total += n; err != nil {
				sent <- total
				return
			}
		}
	}()
	line := refuse(t, 1, "inspect", "--model", fmt.Sprintf("/dev/fd/%d", r.Fd()))
	require.Contains(t, line, "damaged, or not an ONNX file (at byte 0); export the model again")
	require.NoError(t, w.SetWriteDeadline(time.Now()))
	require.Less(t, <-sent, 16<<20)
}

// piped is the path of a pipe that sends the content, as <(cat file) does.
func piped(t *testing.T, content []byte) string {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	go func() { _, _ = w.Write(content); w.Close() }()
	return fmt.Sprintf("/dev/fd/%d", r.Fd())
}

// What a pipe sends is read as a file is.
func TestReadsPipes(t *testing.T) {
	dir := t.TempDir()
	fit := filepath.Join(dir, "a.gp")
	succeed(t, small("fit", "-o", fit)...)
	ask := func(args ...string) string { return withoutTimings(t, succeed(t, args...)) }
	_, want, _ := strings.Cut(succeed(t, "inspect"), "\n")
	_, got, _ := strings.Cut(succeed(t, "inspect", "--model", piped(t, builtin(t))), "\n")
	require.Equal(t, want, got)
	require.Equal(t, ask("explain", "--json", "--data", "digits:400,100", "--posterior", fit),
		ask("explain", "--json", "--data", "digits:400,100", "--posterior", piped(t, []byte(read(t, fit)))))
	one := func(args ...string) string { return ask(small("predict", append([]string{"--json"}, args...)...)...) }
	require.Equal(t, one("--index", "24"), one("--test-index", piped(t, []byte("24\n"))))

	refused := refuse(t, 1, "explain", "--posterior", piped(t, []byte(read(t, fit))), "--max-memory", "10kB")
	require.Contains(t, refused, "of memory may be used; name a file")
}

// A file without lines, or of more numbers than memory, is no table to read.
func TestHugeTables(t *testing.T) {
	dir := t.TempDir()
	table := write(t, filepath.Join(dir, "a.csv"), append([]byte("u,y\n"), bytes.Repeat([]byte("1,0\n"), 1000)...))
	require.Contains(t, refuse(t, 1, "train", "--arch", "mlp:2-1", "--out", filepath.Join(dir, "net"), "--data", table, "--max-memory", "8kB"),
		table+": what is kept of its about 1000 rows takes 48000 bytes of memory, of which 8000 may be used")
	holes := write(t, filepath.Join(dir, "b.csv"), []byte("u,y\n"))
	require.NoError(t, os.Truncate(holes, 1<<40))
	require.Contains(t, refuse(t, 1, "explain", "--data", holes), "a line of more than ")
	model := write(t, filepath.Join(dir, "m.onnx"), builtin(t))
	require.NoError(t, os.Truncate(model, 1<<40))
	require.Contains(t, refuse(t, 1, "inspect", "--model", model), "it has 1099511627776 bytes, but a model has at most 2147483647")
}
