//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// Without a terminal SIGHUP opens the log of decisions again where there is one, and otherwise ends the server, which removes
// its socket.
func TestServeHangup(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored, as by nohup, which a child inherits")
	}
	for _, logs := range []bool{true, false} {
		socket, client := socketIn(t)
		log := filepath.Join(t.TempDir(), "log")
		args := []string{"serve", "--json", "--socket", socket, "--data", "digits:400,100", "--train-count", "60"}
		if logs {
			args = append(args, "--decisions", log)
		}
		c := process(t, args...)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out := bufio.NewScanner(testref.Must(c.StdoutPipe())(t))
		require.NoError(t, c.Start())
		require.True(t, out.Scan(), "the server answers")
		if logs {
			ask := func() {
				r := testref.Must(client.Post("http://localhost/v1/predict", "application/json", strings.NewReader(`{"row": 6}`)))(t)
				require.Equal(t, 200, r.StatusCode)
				require.NoError(t, r.Body.Close())
			}
			ask()
			require.NoError(t, os.Rename(log, log+".1"))
			require.NoError(t, c.Process.Signal(syscall.SIGHUP))
			require.Eventually(t, func() bool { _, err := os.Stat(log); return err == nil }, 20*time.Second, 10*time.Millisecond)
			// The file is there before it takes the place of the old one.
			require.Eventually(t, func() bool { ask(); return read(t, log) != "" }, 20*time.Second, 10*time.Millisecond)
			require.True(t, json.Valid([]byte(strings.SplitAfter(read(t, log), "\n")[0])))
			require.NotEmpty(t, read(t, log+".1"))
			require.NoError(t, c.Process.Signal(syscall.SIGTERM))
		} else {
			require.NoError(t, c.Process.Signal(syscall.SIGHUP))
		}
		ends(t, c, socket)
	}
}
