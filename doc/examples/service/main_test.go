package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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
)

// loan is a row as a client sends it.
const loan = `[{"income":28685,"debt_ratio":0.383,"age":44,"late_payments":1}]`

// posteriors are files at two prior precisions, whose predictions differ.
func posteriors(t *testing.T) (files [2]string) {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "testdata", "corpus", "string-labels")
	for i, delta := range []float64{1, 30} {
		p, err := funcgp.Fit(t.Context(), funcgp.Model{File: filepath.Join(dir, "model.onnx")},
			funcgp.Data{Source: filepath.Join(dir, "train.csv"), ID: "id"}, &funcgp.FitOptions{Prior: funcgp.Precision(delta)})
		require.NoError(t, err)
		files[i] = filepath.Join(t.TempDir(), "a.gp")
		require.NoError(t, p.Save(t.Context(), files[i], nil))
		require.NoError(t, p.Close())
	}
	return files
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(text)
}

func start(t *testing.T, path string) (*service, string) {
	t.Helper()
	s := &service{}
	require.NoError(t, s.load(t.Context(), path))
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, s.now.Close())
	})
	return s, server.URL
}

// Predictions and explanations come as JSON, and what cannot be answered is said.
func TestAnswers(t *testing.T) {
	_, url := start(t, posteriors(t)[0])
	status, text := post(t, url+"/predict", loan)
	require.Equal(t, http.StatusOK, status, text)
	var predicted []struct {
		Class       string
		Probability []float64
		Novelty     struct{ Rank *float64 }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &predicted))
	require.Len(t, predicted, 1)
	require.NotEmpty(t, predicted[0].Class)
	require.InDelta(t, 1, predicted[0].Probability[0]+predicted[0].Probability[1], 1e-9)
	require.NotNil(t, predicted[0].Novelty.Rank)

	status, text = post(t, url+"/explain", loan)
	require.Equal(t, http.StatusOK, status, text)
	var explained []struct {
		Mean, Remainder float64
		PriorMean       float64 `json:"prior_mean"`
		Sum             float64 `json:"contribution_sum"`
		Terms           []struct {
			ID, Label string
			Value     float64
		} `json:"contributions"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &explained))
	require.InDelta(t, explained[0].Mean, explained[0].PriorMean+explained[0].Sum+explained[0].Remainder, 1e-9)
	require.Len(t, explained[0].Terms, 8)
	require.NotEmpty(t, explained[0].Terms[0].ID)

	for _, body := range []string{"", "{", `[{"income":1}]`, `[{"income":"high"}]`} {
		status, text = post(t, url+"/predict", body)
		require.Equal(t, http.StatusUnprocessableEntity, status, body)
		require.Contains(t, text, "error")
	}
}

// While clients ask, the posterior is replaced again and again: each answer is that of one file or of the other, and
// a replaced posterior is closed. A file that cannot be read changes nothing.
func TestReloadUnderLoad(t *testing.T) {
	files := posteriors(t)
	s, url := start(t, files[0])
	var want [2]string
	for i, file := range files {
		require.NoError(t, s.load(t.Context(), file))
		_, want[i] = post(t, url+"/predict", loan)
	}
	require.NotEqual(t, want[0], want[1])
	before := counts.Get("loads").String()
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	answered := make(chan string, 4)
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				status, text := post(t, url+"/predict", loan)
				if status != http.StatusOK || text != want[0] && text != want[1] {
					t.Errorf("%d %s", status, text)
				}
				answered <- text
			}
		})
	}
	var old []*funcgp.Posterior
	seen := map[string]bool{}
	for i := range 10 {
		old = append(old, s.now)
		require.NoError(t, s.load(t.Context(), files[i%2]))
		require.ErrorContains(t, s.load(t.Context(), filepath.Join(t.TempDir(), "none.gp")), "none.gp")
		for range 8 {
			seen[<-answered] = true
		}
	}
	stop()
	go func() { clients.Wait(); close(answered) }()
	for range answered {
	}
	require.Len(t, seen, 2)
	for _, p := range old {
		_, err := p.TestRows(t.Context())
		require.ErrorIs(t, err, funcgp.ErrClosed)
	}
	require.NotEqual(t, before, counts.Get("loads").String())
}

// The program itself: it answers, loads again on SIGHUP, shows counts, and ends with status 0 on SIGTERM.
func TestProgram(t *testing.T) {
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("it builds the program, and sends it signals")
	}
	program := filepath.Join(t.TempDir(), "service")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	c := exec.CommandContext(t.Context(), program, "-file", posteriors(t)[0], "-addr", addr)
	var says bytes.Buffer
	c.Stderr = &says
	require.NoError(t, c.Start())
	shows := func(what string) func() bool {
		return func() bool {
			r, err := http.Get("http://" + addr + "/debug/vars")
			if err != nil {
				return false
			}
			defer r.Body.Close()
			text, err := io.ReadAll(r.Body)
			return err == nil && strings.Contains(string(text), what)
		}
	}
	require.Eventually(t, shows(`"loads": 1`), time.Minute, 20*time.Millisecond)
	status, text := post(t, "http://"+addr+"/explain", loan)
	require.Equal(t, http.StatusOK, status, text)
	require.NoError(t, c.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, shows(`"loads": 2`), time.Minute, 20*time.Millisecond)
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait(), "%s", &says)
}
