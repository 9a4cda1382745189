package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/testref"
)

// posteriors are files at two prior precisions, whose predictions differ.
func posteriors(t *testing.T) (files [2][]byte) {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "testdata", "corpus", "string-labels")
	for i, delta := range []float64{1, 30} {
		p, err := funcgp.Fit(t.Context(), funcgp.Model{File: filepath.Join(dir, "model.onnx")},
			funcgp.Data{Source: filepath.Join(dir, "train.csv"), ID: "id"}, &funcgp.FitOptions{Prior: funcgp.Precision(delta)})
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "a.gp")
		require.NoError(t, p.Save(t.Context(), path, nil))
		require.NoError(t, p.Close())
		files[i] = testref.Must(os.ReadFile(path))(t)
	}
	return files
}

// replace puts a file in place by a rename, as gpexplain fit does.
func replace(t *testing.T, path string, file []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", file, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// The program answers who has the token, with predictions of several rows and an explanation whose sum closes. While
// clients ask, it loads other posteriors: each answer is that of one or of the other. A damaged file changes nothing, and
// SIGTERM ends it with status 0.
func TestProgram(t *testing.T) {
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("it builds the program, and sends it signals")
	}
	program, path, files := filepath.Join(t.TempDir(), "service"), filepath.Join(t.TempDir(), "loans.gp"), posteriors(t)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	l := testref.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	url := "http://" + l.Addr().String() + "/loans/"
	require.NoError(t, l.Close())
	replace(t, path, files[0])
	c := exec.CommandContext(t.Context(), program, "-file", path, "-addr", l.Addr().String())
	says := testref.Must(os.Create(filepath.Join(t.TempDir(), "stderr")))(t)
	defer says.Close()
	said := func() string {
		text := testref.Must(os.ReadFile(says.Name()))(t)
		return string(text)
	}
	c.Stderr, c.Env = says, append(os.Environ(), "TOKEN=secret")
	require.NoError(t, c.Start())
	ask := func(token, path, body string) (int, string) {
		method := "POST"
		if body == "" {
			method = "GET"
		}
		r := testref.Must(http.NewRequest(method, url+path, strings.NewReader(body)))(t)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer a.Body.Close()
		text := testref.Must(io.ReadAll(a.Body))(t)
		return a.StatusCode, string(text)
	}
	require.Eventually(t, func() bool { status, _ := ask("secret", "readyz", ""); return status == 200 }, time.Minute, 20*time.Millisecond)
	const rows = `{"rows":[[28685,0.383,44,1],[60000,0.1,50,0]]}`
	status, _ := ask("guessed", "v1/predict", rows)
	require.Equal(t, http.StatusUnauthorized, status)
	status, _ = ask("secret", "v1/predict", `{"rows":[[1]]}`)
	require.Equal(t, http.StatusUnprocessableEntity, status)

	status, text := ask("secret", "v1/explain", `{"values":[28685,0.383,44,1]}`)
	require.Equal(t, 200, status, text)
	var x struct {
		Sum struct {
			Network, Remainder float64
			PriorMean          float64 `json:"prior_mean"`
			Contributions      float64 `json:"contribution_sum"`
		}
		For []struct{ ID string }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &x))
	require.InDelta(t, x.Sum.Network, x.Sum.PriorMean+x.Sum.Contributions+x.Sum.Remainder, 1e-9)
	require.NotEmpty(t, x.For[0].ID)

	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var mutex sync.Mutex
	seen, errors := map[string]int{}, map[int]string{}
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				status, text := ask("secret", "v1/predict", rows)
				mutex.Lock()
				if seen[text]++; status != 200 {
					errors[status] = text
				}
				mutex.Unlock()
			}
		})
	}
	_, now := ask("secret", "v1/predict", rows)
	for i := range 6 {
		replace(t, path, files[(i+1)%2])
		require.NoError(t, c.Process.Signal(syscall.SIGHUP))
		was := now
		require.Eventually(t, func() bool { _, now = ask("secret", "v1/predict", rows); return now != was }, time.Minute, 10*time.Millisecond)
	}
	replace(t, path, files[0][:1000])
	require.NoError(t, c.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return strings.Contains(said(), path) }, time.Minute, 10*time.Millisecond)
	_, text = ask("secret", "v1/predict", rows)
	require.Equal(t, now, text)
	stop()
	clients.Wait()
	require.Empty(t, errors)
	require.Len(t, seen, 2)
	_, text = ask("secret", "metrics", "")
	require.Contains(t, text, `gpexplain_requests_total{path="/v1/explain",code="200"} 1`)
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait(), said())
}
