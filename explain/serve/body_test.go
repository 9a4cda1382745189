package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// A body of 8 MB of numbers, names or cells takes no more memory than what a request may
// have of them.
func TestBodiesAreNotAmplified(t *testing.T) {
	s := newServer(t, digits()...)
	fill := func(unit string) string { return strings.Repeat(unit, (bodyBytes-100)/len(unit)) }
	for _, body := range []string{
		`{"values":[` + fill("1,") + `1]}`, `{"without":[` + fill("1,") + `1]}`, `{"contrast":[` + fill(`"",`) + `""]}`, `{` + fill(`"row":1,`) + `"top":1}`,
		`{"table":"` + fill("1,") + `1"}`, `{"table":"` + fill(`1\n`) + `1"}`, `{"rows":[` + fill("[1],") + `1]}`, `{"rows":[[` + fill("1,") + `1]]}`, `{"row":` + fill("1") + `}`, `{"` + fill("a") + `":1}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w := ask(s, "POST", "/v1/predict", "application/json", body)
		runtime.ReadMemStats(&after)
		require.True(t, w.Code == 400 || w.Code == 422, "%.20s: %d", body, w.Code)
		require.Less(t, w.Body.Len(), 1000, "%.20s", body)
		// A value that is read whole is in the body, in the buffer of the decoder, which doubles, and in its own
		// place or the text of an error, of which a line remains.
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10*bodyBytes), "%.20s", body)
	}
}

// stalled opens connections that send a header and a part of a body.
func stalled(t *testing.T, addr string, n, sent, length int) []net.Conn {
	t.Helper()
	var list []net.Conn
	for range n {
		c := testref.Must(net.Dial("tcp", addr))(t)
		t.Cleanup(func() { _ = c.Close() })
		_, err := fmt.Fprintf(c, "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", length, strings.Repeat(" ", sent))
		require.NoError(t, err)
		list = append(list, c)
	}
	return list
}

// Bodies that do not come keep nobody from being answered, by number or by size, and are
// refused in the end.
func TestStalledBodies(t *testing.T) {
	s := newServer(t, digits()...)
	server := httptest.NewServer(s)
	defer server.Close()
	addr := server.Listener.Addr().String()
	reading := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return s.bodies.reading() == n }, time.Minute, time.Millisecond)
	}
	answered := func() {
		t.Helper()
		r, err := server.Client().Post(server.URL+"/v1/predict", "application/json", strings.NewReader(fmt.Sprintf(`{"row":%d}`, s.service.Load().tests.Index(0))))
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, r.Body)
		require.NoError(t, r.Body.Close())
		require.Equal(t, 200, r.StatusCode)
	}
	status := func(c net.Conn) int {
		t.Helper()
		r := testref.Must(http.ReadResponse(bufio.NewReader(c), nil))(t)
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode
	}
	// The first of too many gives way, and none of them has a place.
	first := stalled(t, addr, 1, 1, 1000)
	reading(1)
	others := stalled(t, addr, mostRead-1, 1, 1000)
	reading(mostRead)
	require.Zero(t, s.gate.inside.Load())
	answered()
	require.Equal(t, 503, status(first[0]))
	// One that is too slow is refused.
	require.Equal(t, 408, status(others[mostRead-2]))
	for _, c := range others {
		require.NoError(t, c.Close())
	}
	reading(0)
	// Large bodies keep no small one out, and a large one waits for them.
	large := stalled(t, addr, mostLarge, smallBody+1, bodyBytes)
	require.Eventually(t, func() bool { return len(s.bodies.large) == 0 }, time.Minute, time.Millisecond)
	waiting := stalled(t, addr, 1, smallBody+1, smallBody+1)
	reading(mostLarge + 1)
	answered()
	require.NoError(t, large[0].Close())
	require.Equal(t, 400, status(waiting[0]), "a body of spaces")
	for _, c := range large {
		_ = c.Close() // so that the server need not wait for them
	}
}
