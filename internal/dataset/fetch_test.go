package dataset

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// content is what the test servers serve.
var content = count(300_000)

func md5Hex(b []byte) string {
	h := md5.Sum(b)
	return hex.EncodeToString(h[:])
}

// plain serves content.
func plain(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }

// breaking promises the whole content and stops after n bytes of it.
func breaking(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:n])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// script answers the i-th request with the i-th handler, then with the last.
type script struct {
	steps []http.HandlerFunc
	calls atomic.Int32
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := int(s.calls.Add(1)) - 1
	s.steps[min(i, len(s.steps)-1)](w, r)
}

func serve(t *testing.T, steps ...http.HandlerFunc) (url string, s *script) {
	t.Helper()
	s = &script{steps: steps}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL + "/", s
}

func testFetcher(mirrors ...string) *fetcher {
	f := newFetcher(nil)
	f.mirrors, f.timeout, f.pause = mirrors, 5*time.Second, time.Millisecond
	return f
}

// Downloads that end with the right file.
func TestFetch(t *testing.T) {
	rubbish := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>captive portal</html>")) }
	for _, c := range []struct {
		name  string
		steps []http.HandlerFunc
	}{
		{"clean", []http.HandlerFunc{plain}},
		{"broken then restarted", []http.HandlerFunc{breaking(200_000), plain}},
		{"rubbish first", []http.HandlerFunc{rubbish, plain}},
		{"part of the file", []http.HandlerFunc{status(206), plain}},
		{"busy first", []http.HandlerFunc{status(503), status(429), plain}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "cache")
			url, s := serve(t, c.steps...)
			require.NoError(t, testFetcher(url).fetch(context.Background(), dir, "f.gz", md5Hex(content)))
			got := testref.Must(os.ReadFile(filepath.Join(dir, "f")))(t)
			require.Equal(t, md5Hex(content), md5Hex(got))
			require.Equal(t, int32(len(c.steps)), s.calls.Load())
		})
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) }
}

// A failed download leaves no file.
func TestFetchFails(t *testing.T) {
	const sum = "00000000000000000000000000000000"
	stop := make(chan struct{})
	defer close(stop)
	hang := func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(content[:10])
		w.(http.Flusher).Flush()
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}
	silent := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}
	for _, c := range []struct {
		name  string
		steps []http.HandlerFunc
		sum   string
		calls int32
		want  string
	}{
		{"not found", []http.HandlerFunc{status(404)}, sum, 1, "/f.gz: the server refused the file: 404 Not Found"},
		{"server error", []http.HandlerFunc{status(500)}, sum, tries, "the server answered 500 Internal Server Error"},
		{"checksum", []http.HandlerFunc{plain}, sum, tries, "wrong checksum: MD5 " + md5Hex(content) + ", want " + sum},
		{"truncated", []http.HandlerFunc{breaking(100)}, md5Hex(content), tries, "broke off after 100 bytes: unexpected EOF"},
		{"hangs", []http.HandlerFunc{hang}, md5Hex(content), tries, "the server sent nothing for too long"},
		{"silent", []http.HandlerFunc{silent}, md5Hex(content), tries, "the server sent nothing for too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			url, s := serve(t, c.steps...)
			f := testFetcher(url)
			f.timeout = 200 * time.Millisecond
			require.ErrorContains(t, f.fetch(context.Background(), dir, "f.gz", c.sum), c.want)
			require.Equal(t, c.calls, s.calls.Load())
			left := testref.Must(os.ReadDir(dir))(t)
			require.Empty(t, left)
		})
	}
}

// An answer without end stops at the limit.
func TestFetchTooLarge(t *testing.T) {
	url, s := serve(t, plain)
	f := testFetcher(url)
	f.most = 1000
	err := f.fetch(context.Background(), t.TempDir(), "f.gz", md5Hex(content))
	require.ErrorContains(t, err, "the file is larger than 1000 bytes")
	require.Equal(t, int32(1), s.calls.Load())
}

// The second mirror is tried if the first fails, and the error names both if both fail.
func TestFetchMirrors(t *testing.T) {
	gone, _ := serve(t, status(404))
	good, _ := serve(t, plain)
	require.NoError(t, testFetcher(gone, good).fetch(context.Background(), t.TempDir(), "f.gz", md5Hex(content)))
	err := testFetcher(gone, gone+"b").fetch(context.Background(), t.TempDir(), "f.gz", "")
	require.ErrorContains(t, err, gone+"f.gz: ")
	require.ErrorContains(t, err, gone+"b/f.gz: ")
	err = testFetcher("http://\x00").fetch(context.Background(), t.TempDir(), "f.gz", "")
	require.ErrorContains(t, err, "the server refused the file: parse")
}

// A cancelled download ends, and the next one starts anew.
func TestFetchCancel(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	url, s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(content[:5000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, plain)
	f := testFetcher(url)
	f.progress = func(_ string, done, _ int) {
		if done == 5000 {
			cancel()
		}
	}
	require.ErrorIs(t, f.fetch(ctx, dir, "f.gz", md5Hex(content)), context.Canceled)
	require.NoError(t, f.fetch(context.Background(), dir, "f.gz", md5Hex(content)))
	require.Equal(t, int32(2), s.calls.Load())
}

// A directory that cannot be made is the local machine's fault: no mirror is
// asked. Where the file cannot be written no other is.
func TestFetchUnwritable(t *testing.T) {
	url, s := serve(t, plain)
	file := write(t, t.TempDir(), "file", nil)
	require.ErrorIs(t, testFetcher(url).fetch(context.Background(), filepath.Join(file, "cache"), "f.gz", ""), errLocal)
	require.Zero(t, s.calls.Load())
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "f"), 0o755))
	require.ErrorIs(t, testFetcher(url).fetch(context.Background(), dir, "f.gz", md5Hex(content)), errLocal)
	require.Equal(t, int32(1), s.calls.Load())
}
