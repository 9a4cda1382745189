//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// socketIn is a short path of a socket, as these must be, and a client of it.
func socketIn(t *testing.T) (path string, client *http.Client) {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "s")
	return path, &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

// awaited waits until a path is answered with status 200.
func awaited(t *testing.T, client *http.Client, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		r, err := client.Get("http://localhost" + path)
		return err == nil && r.Body.Close() == nil && r.StatusCode == 200
	}, time.Minute, 10*time.Millisecond)
}

// ends requires that a process ends by itself with status 0, without its socket.
func ends(t *testing.T, c *exec.Cmd, socket string) {
	t.Helper()
	late := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer late.Stop()
	require.NoError(t, c.Wait())
	require.Empty(t, listing(t, filepath.Dir(socket)))
}

// A server ends when its parent is killed, and leaves no socket.
func TestServeEndsWithItsParent(t *testing.T) {
	socket, client := socketIn(t)
	script := `"$0" serve --parent-pid $$ --socket "$1" --data digits:400,100 --train-count 30 & wait`
	c := exec.CommandContext(t.Context(), "sh", "-c", script, os.Args[0], socket)
	c.Env = append(os.Environ(), asCommand+"=1")
	r, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	said, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, said, socket)
	awaited(t, client, "/readyz")
	time.Sleep(1500 * time.Millisecond)
	awaited(t, client, "/readyz") // the parent lives, and its standard input is no pipe
	require.NoError(t, c.Process.Kill())
	require.Eventually(t, func() bool { return len(listing(t, filepath.Dir(socket))) == 0 }, time.Minute, 10*time.Millisecond)
	_, err = io.Copy(io.Discard, r) // until the server, which holds it too, is gone
	require.NoError(t, err)
	require.Error(t, c.Wait())
}

// A server whose standard input is closed answers what is under way, and ends.
func TestServeEndsWithItsInput(t *testing.T) {
	socket, client := socketIn(t)
	c := process(t, "serve", "--parent-pid", fmt.Sprint(os.Getpid()), "--socket", socket, "--data", "digits:400,100", "--train-count", "30")
	in, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	awaited(t, client, "/readyz")
	conn, err := net.Dial("unix", socket)
	require.NoError(t, err)
	defer conn.Close()
	body := `{"row":24}`
	_, err = fmt.Fprintf(conn, "POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	require.NoError(t, err)
	awaited(t, client, "/v1/version")
	require.NoError(t, in.Close())
	time.Sleep(1500 * time.Millisecond)
	_, err = io.WriteString(conn, body)
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 200, r.StatusCode)
	_, err = io.Copy(io.Discard, r.Body)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	ends(t, c, socket)
}

// So does a server that is still fitting, one that was never wanted, and one that nobody asks; none says a word.
func TestServeEndsUnneeded(t *testing.T) {
	for name, args := range map[string][]string{
		"fitting": {"--parent-pid", fmt.Sprint(os.Getpid()), "--data", "digits:16000,100", "--train-count", "3000"},
		"foreign": {"--parent-pid", "1073741824", "--data", "digits:16000,100", "--train-count", "3000"},
		"idle":    {"--idle-timeout", "300ms", "--data", "digits:400,100", "--train-count", "30"},
	} {
		t.Run(name, func(t *testing.T) {
			socket, client := socketIn(t)
			c := process(t, append([]string{"serve", "--socket", socket}, args...)...)
			var stderr strings.Builder
			c.Stderr = &stderr
			in, err := c.StdinPipe()
			require.NoError(t, err)
			began := time.Now()
			require.NoError(t, c.Start())
			if name == "fitting" {
				awaited(t, client, "/v1/version")
				require.NoError(t, in.Close())
			}
			ends(t, c, socket)
			require.Less(t, time.Since(began), 30*time.Second)
			require.Empty(t, stderr.String())
		})
	}
}

// A server that is killed leaves its socket, whose place the next one takes.
func TestServeKilled(t *testing.T) {
	socket, client := socketIn(t)
	for range 2 {
		c := process(t, "serve", "--socket", socket, "--data", "digits:400,100", "--train-count", "30")
		require.NoError(t, c.Start())
		awaited(t, client, "/readyz")
		require.NoError(t, c.Process.Signal(syscall.SIGKILL))
		require.Error(t, c.Wait())
		require.FileExists(t, socket)
	}
}

// A port is told in a file, with the token that alone is answered. Both go in the end.
func TestServePortFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "port.json")
	url, stop := serving(t, "--port-file", file, "--data", "digits:400,100", "--train-count", "30")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Len(t, listing(t, filepath.Dir(file)), 1)
	var told struct{ Address, Token string }
	require.NoError(t, json.Unmarshal([]byte(read(t, file)), &told))
	require.Equal(t, url, "http://"+told.Address)
	for _, token := range []string{"", told.Token[1:], told.Token} {
		r, err := http.NewRequest("GET", url+"/v1/model", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		got, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		require.Equal(t, map[bool]int{true: 200, false: 401}[token == told.Token], got.StatusCode)
	}
	status, stderr := stop()
	require.Zero(t, status, stderr)
	require.Empty(t, listing(t, filepath.Dir(file)))

	require.Contains(t, refuse(t, 2, "serve", "--port-file", file, "--socket", "s"), "exclude each other")
	require.Contains(t, refuse(t, 2, "serve", "--port-file", file, "--addr", "0.0.0.0:0"), "other machines")
	require.Contains(t, refuse(t, 1, "serve", "--port-file", filepath.Join(file, "none")), "port.json")
	require.Contains(t, refuse(t, 2, "serve", "--parent-pid", "0"), "at least 1")
	require.Contains(t, refuse(t, 2, "serve", "--idle-timeout", "0s"), "above 0")
	require.Contains(t, refuse(t, 2, "serve", "--idle-timeout", "10"), "missing unit")
}
