//go:build unix

package main

import (
	"bufio"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/console"
)

// The exit status after a signal is that of a shell, and no file is left.
func TestSignals(t *testing.T) {
	for signal, status := range map[os.Signal]int{os.Interrupt: console.StatusInterrupted, syscall.SIGTERM: console.StatusTerminated} {
		dir := t.TempDir()
		c := process(t, "train", "--verbose", "--data", "digits:400,10", "--arch", "mlp:8-10", "--epochs", "1000000", "--out", filepath.Join(dir, "net.onnx"))
		stderr, err := c.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		lines := bufio.NewScanner(stderr)
		require.True(t, lines.Scan(), "a line of progress")
		require.NoError(t, c.Process.Signal(signal))
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
