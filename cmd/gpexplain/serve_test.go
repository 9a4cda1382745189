package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/testref"
)

// serving runs gpexplain serve on a free port and returns its address. The stop that it
// returns ends it, and returns its exit status and what it wrote to standard error.
func serving(t *testing.T, args ...string) (url string, stop func() (int, string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var stderr bytes.Buffer
	status := make(chan int, 1)
	go func() {
		status <- job.Status(&stderr, "gpexplain", option.Flags, run(ctx, w, &stderr, append([]string{"serve", "--addr", "127.0.0.1:0", "--json"}, args...)))
		_ = w.Close() // of a pipe, which does not fail
	}()
	var said struct{ Schema, URL string }
	require.NoError(t, json.NewDecoder(r).Decode(&said))
	require.Equal(t, "funcgp/serve/1", said.Schema)
	return strings.TrimSuffix(said.URL, "/"), func() (int, string) {
		cancel()
		return <-status, stderr.String()
	}
}

// post asks a server, which must answer.
func post(t *testing.T, url string, body, into any) {
	t.Helper()
	b := testref.Must(json.Marshal(body))(t)
	r := testref.Must(http.Post(url, "application/json", bytes.NewReader(b)))(t)
	defer r.Body.Close()
	require.Equal(t, 200, r.StatusCode)
	require.NoError(t, json.NewDecoder(r.Body).Decode(into))
}

// The server answers as explain and predict do, to the last bit, from a posterior that it
// fits and from a saved one, and ends in order when it is told to.
func TestServeAnswersAsExplain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "digits.gp")
	succeed(t, small("fit", "--quiet", "-o", file, "--refit")...)
	for name, args := range map[string][]string{"fitted": {"--data", "digits:400,100", "--train-count", "60"}, "saved": {"--data", "digits:400,100", "--posterior", file}} {
		t.Run(name, func(t *testing.T) {
			url, stop := serving(t, args...)
			for _, row := range []int{6, 24} {
				want := decode[result.Report](t, succeed(t, append([]string{"explain", "--json", "--top", "60", "--index", fmt.Sprint(row)}, args...)...))
				var got struct {
					Prediction result.Prediction
					For        []result.Contribution
					Against    []result.Contribution
				}
				post(t, url+"/v1/explain", map[string]any{"row": row, "top": 100}, &got)
				require.Equal(t, asJSON(t, want.Prediction), asJSON(t, got.Prediction))
				require.Len(t, append(got.For, got.Against...), 60)
				sign := result.Float(1)
				if got.Prediction.Class == 4 {
					sign = -1
				}
				largest := got.For[0]
				if -got.Against[0].Value > largest.Value {
					largest = got.Against[0]
				}
				require.Equal(t, want.Outputs[0].Contributions[0].Index, largest.Index)
				require.Equal(t, want.Outputs[0].Contributions[0].Value, sign*largest.Value)
				require.Equal(t, want.Outputs[0].Contributions[0].Similarity, largest.Similarity)
			}
			status, stderr := stop()
			require.Zero(t, status, stderr)
			require.Empty(t, stderr)
			require.Error(t, testref.Err(http.Get(url+"/healthz")))
		})
	}
}

// Asked for a page, the server gives the page of explain --html, but for the times and the command line.
func TestServePage(t *testing.T) {
	args := []string{"--data", "digits:400,100", "--train-count", "60"}
	url, stop := serving(t, args...)
	file := filepath.Join(t.TempDir(), "page.html")
	for _, change := range []string{"--without", "--smallest-flip", ""} {
		ask, more := map[string]any{"row": 24}, []string{}
		switch change {
		case "--smallest-flip":
			ask["flip"], more = true, []string{"--smallest-flip"}
		case "--without":
			var x struct{ For []struct{ Index int } }
			post(t, url+"/v1/explain", map[string]any{"row": 24}, &x)
			ask["without"], more = []int{x.For[0].Index, x.For[1].Index}, []string{"--without", fmt.Sprintf("%d,%d", x.For[0].Index, x.For[1].Index)}
		}
		succeed(t, append(append([]string{"explain", "--index", "24", "--html", file}, more...), args...)...)
		r, err := http.NewRequest("POST", url+"/v1/explain", strings.NewReader(asJSON(t, ask)))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "text/html")
		got, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		page, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		require.Equal(t, 200, got.StatusCode, string(page))
		require.Equal(t, "text/html; charset=utf-8", got.Header.Get("Content-Type"))
		require.Contains(t, got.Header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'unsafe-inline'")
		passing := regexp.MustCompile(`gpexplain (serve|explain) [^<]*|\d+ [A-Z][a-z]+ \d{4}, \d\d:\d\d UTC|<p>Time: [^<]*</p>`)
		want, have := passing.ReplaceAllString(read(t, file), ""), passing.ReplaceAllString(string(page), "")
		require.Equal(t, strings.Split(want, "\n"), strings.Split(have, "\n"))
	}
	status, stderr := stop()
	require.Zero(t, status, stderr)
}

// A posterior that was loaded does not change with its file.
func TestServeKeepsItsPosterior(t *testing.T) {
	file := filepath.Join(t.TempDir(), "digits.gp")
	succeed(t, small("fit", "--quiet", "-o", file)...)
	url, stop := serving(t, "--data", "digits:400,100", "--posterior", file)
	var want, got any
	post(t, url+"/v1/explain", map[string]any{"row": 24}, &want)
	saved := testref.Must(os.ReadFile(file))(t)
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte{7}, len(saved)), 0o600))
	post(t, url+"/v1/explain", map[string]any{"row": 24}, &got)
	require.Equal(t, want, got)
	require.NoError(t, os.Truncate(file, 0))
	post(t, url+"/v1/explain", map[string]any{"row": 24}, &got)
	require.Equal(t, want, got)
	status, stderr := stop()
	require.Zero(t, status, stderr)
}

// On a socket it answers whoever is its user, with the log of answers in a file; it takes the place of a socket on which
// nobody listens, and removes its own.
func TestServeSocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no modes of files")
	}
	dir, err := os.MkdirTemp("", "s") // short, as the paths of sockets are
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path, log := filepath.Join(dir, "gp.sock"), filepath.Join(dir, "decisions.jsonl")
	stale := testref.Must(net.Listen("unix", path))(t)
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, stale.Close())
	args := []string{"serve", "--socket", path, "--decisions", log, "--data", "digits:400,100", "--train-count", "30"}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	for n := range 2 {
		ctx, stop := context.WithCancel(t.Context())
		r, w := io.Pipe()
		var stderr bytes.Buffer
		status := make(chan int, 1)
		go func() { status <- job.Status(&stderr, "gpexplain", option.Flags, run(ctx, w, &stderr, args)) }()
		said := testref.Must(bufio.NewReader(r).ReadString('\n'))(t)
		require.Equal(t, "gpexplain answers at the socket "+path+"; Ctrl-C ends it\n", said)
		info := testref.Must(os.Stat(path))(t)
		require.Equal(t, os.ModeSocket|0o600, info.Mode())
		require.Contains(t, refuse(t, 1, args...), "another program listens there")
		got, err := client.Post("http://any.name/v1/predict", "application/json", strings.NewReader(`{"row":24}`))
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		require.Equal(t, 200, got.StatusCode)
		require.Equal(t, n+1, strings.Count(read(t, log), "\n"), "it is appended to")
		stop()
		require.Zero(t, <-status, &stderr)
		require.NoFileExists(t, path)
	}
	info := testref.Must(os.Stat(log))(t)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Contains(t, refuse(t, 1, "serve", "--socket", log), "no socket")
	require.FileExists(t, log)
	require.Contains(t, refuse(t, 2, "serve", "--socket", path, "--addr", "127.0.0.1:0"), "exclude each other")
	require.Contains(t, refuse(t, 1, "serve", "--addr", "127.0.0.1:0", "--decisions", dir), "--decisions")
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b := testref.Must(json.Marshal(v))(t)
	return string(b)
}

func TestServeRefuses(t *testing.T) {
	for _, addr := range []string{"8080", "127.0.0.1", "127.0.0.1:"} {
		require.Contains(t, refuse(t, 2, "serve", "--addr", addr), "must be a host and a port")
	}
	taken := testref.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	require.Regexp(t, `^gpexplain: --addr 127\.0\.0\.1:\d+: bind: address already in use; give another one\n$`, refuse(t, 1, "serve", "--addr", taken.Addr().String()))
	require.Contains(t, refuse(t, 1, "serve", "--addr", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "none.csv")), "none.csv")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, job.StatusInterrupted, gpexplain(ctx, small("serve", "--addr", "127.0.0.1:0")...).code)
}

// Where other machines can reach it, the server says so.
func TestServeWarns(t *testing.T) {
	_, stop := serving(t, "--addr", "0.0.0.0:0", "--data", "digits:400,100", "--train-count", "30")
	status, stderr := stop()
	require.Zero(t, status)
	require.Regexp(t, `^gpexplain: warning: \S+:\d+ can be reached from other machines; [^\n]*\n$`, stderr)
}

// The commands of doc/serve.md work, and the clients in Go and Python print the same.
func TestServeClients(t *testing.T) {
	testref.Long(t, "it builds a program")
	url, stop := serving(t, "--data", "digits:400,100", "--train-count", "60")
	text := ""
	for _, m := range regexp.MustCompile("(?ms)^```console\n(.*?)^```").FindAllStringSubmatch(read(t, filepath.Join(repository, "doc", "serve.md")), -1) {
		text += m[1]
	}
	require.NotEmpty(t, text)
	dir := t.TempDir()
	r := testref.Must(http.Get(url + "/v1/test/24/picture"))(t)
	digit := testref.Must(io.ReadAll(r.Body))(t)
	require.NoError(t, r.Body.Close())
	write(t, filepath.Join(dir, "digit.png"), digit)
	var clients []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		program := strings.Fields(line)[0]
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("not run, for there is no %s: %s", program, line)
			continue
		}
		line = strings.ReplaceAll(strings.ReplaceAll(line, "http://127.0.0.1:8080", url), "@digit.png", "@"+filepath.Join(dir, "digit.png"))
		c := exec.CommandContext(t.Context(), "sh", "-ec", line)
		c.Dir, c.Stderr = repository, os.Stderr
		out, err := c.Output()
		require.NoError(t, err, line)
		switch {
		case program == "curl":
			require.Contains(t, string(out), `"schema":"funcgp/serve-explain/1"`)
			continue
		case strings.Contains(line, "gpstudies load"):
			require.Regexp(t, `^2 clients, \S+: \d+ answers, \S+ a second; status map\[200 OK:\d+\]; median `, string(out))
			continue
		}
		require.Contains(t, string(out), "A score is what one training example adds")
		clients = append(clients, string(out))
	}
	for _, out := range clients {
		require.Equal(t, clients[0], out)
	}
	status, _ := stop()
	require.Zero(t, status)
}
