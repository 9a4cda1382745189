package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/testref"
)

// refused requires a refusal of this status, as one JSON object with a line that says why.
func refused(t testing.TB, w *httptest.ResponseRecorder, status int, says string) {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body)
	var e struct{ Error refusal }
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&e))
	require.Equal(t, status, e.Error.Status)
	require.Regexp(t, `^[a-z_]+$`, e.Error.Code)
	require.NotContains(t, e.Error.Message, "\n")
	require.Contains(t, e.Error.Message, says)
	require.NotRegexp(t, `--(row|values|picture|table|rows|fit|invert|top|contrast|output|without|flip|influence|coverage)\b`, e.Error.Message)
	if name, ok := strings.CutPrefix(e.Error.Code, "bad_"); ok && status == 422 && name != "input" {
		require.Equal(t, name, e.Error.Field)
	}
}

// bomb is a PNG file that says that it has this many pixels, and has 64.
func bomb(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))))
	file := b.Bytes()
	binary.BigEndian.PutUint32(file[16:], uint32(w))
	binary.BigEndian.PutUint32(file[20:], uint32(h))
	binary.BigEndian.PutUint32(file[29:], crc32.ChecksumIEEE(file[12:29])) // of the chunk IHDR
	return file
}

// plain is a PNG file of one colour.
func plain(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))))
	return b.Bytes()
}

// Each kind of bad input has an error of its own that says what to do.
func TestRefusals(t *testing.T) {
	s := newServer(t, digits()...)
	train := trainingNumbers(t, s.service.Load().front)
	picture := func(b []byte, more string) string {
		return `{"picture":"` + base64.StdEncoding.EncodeToString(b) + `"` + more + `}`
	}
	all := marshal(t, train)
	row := fmt.Sprintf(`"row":%d`, get[rows](t, s, "GET", "/v1/rows", "").Rows[0].Index)
	for _, c := range []struct {
		status     int
		body, says string
	}{
		{400, ``, "not the JSON"}, {400, `{`, "not the JSON"}, {400, `[1]`, "not the JSON"}, {400, `{"row":1}{`, "something follows"}, {400, `{"row":"1"}`, "not the JSON"},
		{400, `{"row":1.5}`, "not the JSON"}, {400, `{"row":1e400}`, "not the JSON"}, {400, `{"values":[NaN]}`, "not the JSON"}, {400, `{"values":[1e999]}`, "not the JSON"}, {400, `{"values":["1"]}`, "not the JSON"},
		{400, `{"picture":"%%"}`, "not the JSON"}, {400, `{"cells":1}`, `unknown field "cells"`}, {400, strings.Repeat(`[`, 20000), "not the JSON"},
		{422, `{}`, "names 0 inputs"}, {422, `null`, "names 0 inputs"}, {422, `{"row":1,"values":[]}`, "names 2 inputs"},
		{422, `{"row":-1}`, "row: row -1 of digits (seed 0): is past the end: the test rows are 0 to 99; name another row"}, {422, `{"row":9999999}`, "past the end"}, {422, `{"row":0}`, "not one of the classes"},
		{400, `{"row":1,"row":1}`, `"row" is given twice`}, {400, `{"Row":1}`, `unknown field "Row"`}, {400, `{"values":1}`, "1 is no list"}, {400, `{"row":1,}`, "not the JSON"}, {400, `{"without":[1,]}`, "not the JSON"}, {400, `{"row":` + strings.Repeat("1", 1000) + `}`, "not the JSON"},
		{422, `{"values":[` + strings.Repeat("1,", 784) + `1]}`, "more than 784 numbers"}, {422, `{"without":[` + strings.Repeat("1,", mostRemoved) + `1]}`, "more than 200 rows"}, {422, `{"contrast":["4","9","4"]}`, "more than 2 names"},
		{422, `{"values":[]}`, "0 numbers, but an input has 784"}, {422, `{"values":[` + strings.Repeat("null,", 783) + `1]}`, "number 0 is null"},
		{422, `{"values":[` + strings.Repeat("0.5,", 783) + `1]}`, "the input: row 0, column 1: 0.5 is not a grey level; give whole numbers from 0 to 255"}, {422, `{"values":[` + strings.Repeat("256,", 783) + `1]}`, "is not a grey level"},
		{422, picture(nil, ""), "neither PNG nor JPEG"}, {422, picture([]byte("GIF89a"), ""), "neither PNG nor JPEG"}, {422, picture([]byte("\x89PNG\r\n\x1a\nnothing"), ""), "no readable PNG"},
		{422, picture([]byte("\xff\xd8\xff\xe0"), `,"fit":"ink"`), "no readable JPEG"},
		{422, picture(bomb(t, 30000, 30000), ""), "30000×30000 pixels, and pictures of at most 4194304 are read"}, {422, picture(bomb(t, 30000, 30000), `,"fit":"ink"`), "30000×30000 pixels"},
		{422, picture(plain(t, 100000, 2), `,"fit":"ink"`), "drawings of at most 4096×4096"},
		{422, picture(plain(t, 280, 280), ""), "blank"}, {422, picture(plain(t, 280, 280), `,"fit":"ink"`), "nothing is drawn"},
		{422, picture(plain(t, 28, 28), `,"fit":"whole"`), "frame or ink"}, {422, picture(plain(t, 28, 28), `,"invert":"maybe"`), "auto, yes or no"}, {422, picture(plain(t, 28, 28), `,"fit":"ink","invert":"yes"`), "leave one of them out"},
		{422, `{"row":1,"fit":"ink"}`, "for a picture"},
		{422, `{"table":""}`, "is empty"}, {422, `{"table":"1,2"}`, "2 numbers, want 784"}, {422, `{"table":"\u0000"}`, "no text"}, {422, `{"table":"` + strings.Repeat("1,", 783) + `1\n` + strings.Repeat("1,", 783) + `1"}`, "2 rows; send one"}, {422, `{"table":"` + strings.Repeat("1,", 20_000) + `1"}`, "20001 cells"},
		{422, `{"table":"` + strings.Repeat("x,", 783) + `1"}`, ""},
		{422, `{` + row + `,"top":0}`, "from 1 to 100"}, {422, `{` + row + `,"top":101}`, "from 1 to 100"},
		{422, `{` + row + `,"output":1}`, "outputs 0 to 0"}, {422, `{` + row + `,"output":-1}`, "outputs 0 to 0"}, {422, `{` + row + `,"contrast":["4","9"]}`, "leave contrast out"}, {422, `{` + row + `,"contrast":["4","9"],"output":0}`, "exclude each other"},
		{422, `{` + row + `,"without":[1000000]}`, "none of the 120 training rows"}, {422, `{` + row + fmt.Sprintf(`,"without":[%d,%d]}`, train[3], train[3]), "listed twice"}, {422, `{` + row + `,"without":` + all + `}`, "leave one in"},
	} {
		refused(t, ask(s, "POST", "/v1/explain", "application/json", c.body), c.status, c.says)
	}
	refused(t, ask(s, "POST", "/v1/predict", "application/json", `{"values":[`+strings.Repeat("1,", bodyBytes/2)+`1]}`), 413, "8388608 bytes")
	for _, kind := range []string{"", "text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ";;", "application/json, text/csv"} {
		refused(t, ask(s, "POST", "/v1/predict", kind, `{"row":1}`), 415, "application/json")
	}
	refused(t, ask(s, "POST", "/v1/predict", "application/json; charset=utf-16", `{`+row+`}`), 415, "UTF-8")
	require.Equal(t, 200, ask(s, "POST", "/v1/predict", "application/json; charset=UTF-8", `{`+row+`}`).Code)
	packed := httptest.NewRequest("POST", "http://localhost/v1/predict", strings.NewReader(`{`+row+`}`))
	packed.Header.Set("Content-Type", "application/json")
	packed.Header.Set("Content-Encoding", "gzip")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, packed)
	refused(t, w, 415, "uncompressed")
	refused(t, ask(s, "POST", "/v1/predict?top=x", "image/png", "x"), 400, "no whole number")
	refused(t, ask(s, "POST", "/v1/predict?fit=ink&fit=ink", "image/png", "x"), 400, "given 2 times")
	refused(t, ask(s, "POST", "/v1/predict?row=1", "image/png", "x"), 400, "no parameter")
	refused(t, ask(s, "POST", "/v1/predict?flip=perhaps", "image/png", "x"), 400, "neither true nor false")
	refused(t, ask(s, "POST", "/v1/predict?without=1,x", "image/png", "x"), 400, "no whole number")
	refused(t, ask(s, "POST", "/v1/predict?coverage=x", "image/png", "x"), 400, "no number")
	refused(t, ask(s, "POST", "/v1/predict", "text/csv", "\x1f\x8b\x08"), 422, "uncompressed")
	refused(t, ask(s, "POST", "/v1/predict", "text/csv", "PK\x03\x04\x00"), 422, "no text")
	refused(t, ask(s, "GET", "/v1/predict", "", ""), 405, "takes POST, not GET")
	refused(t, ask(s, "DELETE", "/", "", ""), 405, "takes GET")
	refused(t, ask(s, "GET", "/nothing", "", ""), 404, "/openapi.json")
	refused(t, ask(s, "GET", "//v1/model", "", ""), 404, "nothing at")
	refused(t, ask(s, "GET", "/static/../static/app.js", "", ""), 404, "nothing at")
	refused(t, ask(s, "GET", "/v1/train/x/picture", "", ""), 404, "nothing at")
	refused(t, ask(s, "GET", "/v1/rows?from=-1", "", ""), 400, "whole numbers")
	refused(t, ask(s, "GET", "/v1/rows?from=1;count=2", "", ""), 400, "a=1&b=2")
	refused(t, ask(s, "POST", "/v1/predict?top=1;fit=ink", "image/png", "x"), 400, "a=1&b=2")
	table := newServer(t, tableOfNames(t, "x")...)
	refused(t, ask(table, "POST", "/v1/predict", "application/json", picture(plain(t, 28, 28), "")), 422, "give a CSV or NumPy file")
	refused(t, ask(table, "POST", "/v1/predict", "application/json", picture(plain(t, 28, 28), `,"fit":"ink"`)), 422, "square grey pictures")
	refused(t, ask(table, "POST", "/v1/predict", "application/json", `{"values":[1e308,-1e308]}`), 422, "")
	refused(t, ask(table, "POST", "/v1/predict", "text/csv", "NaN,1"), 422, "")
	refused(t, ask(table, "POST", "/v1/predict", "text/csv", "inf,1"), 422, "")
	refused(t, ask(table, "GET", "/v1/train/1/picture", "", ""), 404, "nothing at")
}

// malformed are requests that no server should take, made from good ones by a seed.
func malformed(rng *rand.Rand, good [][]byte) (method, path, kind string, body []byte) {
	method, path, kind = "POST", []string{"/v1/predict", "/v1/explain"}[rng.IntN(2)], "application/json"
	body = bytes.Clone(good[rng.IntN(len(good))])
	change := rng.IntN(8)
	if change == 3 && rng.IntN(10) > 0 {
		change = 0 // few are too large, since these take time
	}
	switch change {
	case 0: // cut off
		body = body[:rng.IntN(len(body))]
	case 1: // a byte that JSON does not have
		body[rng.IntN(len(body))] = 1
	case 2: // random bytes
		body = make([]byte, rng.IntN(2000))
		for i := range body {
			body[i] = byte(rng.Uint32())
		}
		kind = []string{"application/json", "image/png", "image/jpeg", "text/csv", "text/html", ""}[rng.IntN(6)]
	case 3: // too large
		body = bytes.Repeat([]byte(" "), bodyBytes+1+rng.IntN(10))
	case 4: // a picture whose bytes are changed
		body = bomb2(rng)
		kind = "image/png"
	case 5:
		method = []string{"GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"}[rng.IntN(7)]
	case 6: // another path
		path = "/" + string(rune('a'+rng.IntN(26))) + path
	case 7: // numbers that are none
		body = []byte(strings.Replace(`{"row":?}`, "?", []string{"-1", "1e99", "99999999999999999999", "1.5", "\"1\"", "[]", "{}", "true", "1,\"top\":-5", "1,\"without\":[-1]"}[rng.IntN(10)], 1))
	}
	return method, path, kind, body
}

// bomb2 is a PNG file of random noise, cut off and with its header changed.
func bomb2(rng *rand.Rand) []byte {
	img := image.NewGray(image.Rect(0, 0, 8, 8))
	for i := range img.Pix {
		img.Pix[i] = byte(rng.Uint32())
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err)
	}
	out := b.Bytes()[:b.Len()-12-rng.IntN(20)]
	out[16+rng.IntN(8)] ^= byte(1 + rng.IntN(255)) // the width or the height
	return out
}

// A thousand malformed or oversized requests over a connection get statuses from 400 to
// 499, and the server goes on answering.
func TestThousandMalformedRequests(t *testing.T) {
	s := newServer(t, digits()...)
	server := httptest.NewServer(s)
	defer server.Close()
	row := int(get[rows](t, s, "GET", "/v1/rows", "").Rows[0].Index)
	good := [][]byte{[]byte(fmt.Sprintf(`{"row":%d,"top":3}`, row)), []byte(marshal(t, asked(t, s)[1])), []byte(marshal(t, asked(t, s)[2]))}
	rng := rand.New(rand.NewPCG(7, 8))
	count, requests := map[int]int{}, 1000
	if testing.Short() {
		requests = 100 // all kinds, at a tenth of the time under the race detector
	}
	for range requests {
		method, path, kind, body := malformed(rng, good)
		r := testref.Must(http.NewRequest(method, server.URL+path, bytes.NewReader(body)))(t)
		r.Header.Set("Content-Type", kind)
		answer, err := server.Client().Do(r)
		if err != nil {
			// The server ends a connection whose request is too large while it is written.
			require.Greater(t, len(body), bodyBytes, "%v", err)
			continue
		}
		require.NoError(t, testref.Err(io.Copy(io.Discard, answer.Body)))
		require.NoError(t, answer.Body.Close())
		require.True(t, answer.StatusCode >= 400 && answer.StatusCode < 500, "%s %s %s %.200q: %s", method, path, kind, body, answer.Status)
		count[answer.StatusCode]++
	}
	require.Len(t, count, 6, "400, 404, 405, 413, 415 and 422: %v", count)
	require.Equal(t, 200, ask(s, "POST", "/v1/explain", "application/json", string(good[0])).Code)
}

// Lines that are no HTTP are refused too.
func TestMalformedHTTP(t *testing.T) {
	s := NewServer(nil)
	l := testref.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, &http.Server{Handler: s}, l) }()
	for _, text := range []string{
		"nonsense\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 1<<16) + "\r\n\r\n", "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
		"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\nBad Header: 1\r\n\r\n",
	} {
		c := testref.Must(net.Dial("tcp", l.Addr().String()))(t)
		require.NoError(t, testref.Err(io.WriteString(c, text)))
		require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		head := make([]byte, 13)
		require.NoError(t, testref.Err(io.ReadFull(c, head)), "%.80q", text)
		require.Regexp(t, `^HTTP/1\.\d 4\d\d `, string(head), "%.80q", text)
		require.NoError(t, c.Close())
	}
	stop()
	require.NoError(t, <-ended)
}

// A page of another site can neither ask nor, by a name of its own that leads here, read.
func TestOtherSites(t *testing.T) {
	s := newServer(t, digits()...)
	row := fmt.Sprintf(`{"row":%d}`, get[rows](t, s, "GET", "/v1/rows", "").Rows[0].Index)
	try := func(host string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/v1/predict", strings.NewReader(row))
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	for _, host := range []string{"localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:8080", "[::1]:8080", "[::1]", "192.0.2.7"} {
		require.Equal(t, 200, try(host).Code, host)
	}
	for _, host := range []string{"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "", ":8080", "127.0.0.1@evil.example", "localhost:evil.com", "localhost:", "localhost:0", "localhost:65536", "[::1", "::1]", "::1", "[127.0.0.1]", "[::1]x"} {
		refused(t, try(host), 421, "--host")
	}
	s.options.Hosts = []string{"Gpu7.Example"}
	require.Equal(t, 200, try("gpu7.example:80").Code)
	require.Equal(t, 200, try("localhost:8080", "Origin", "http://localhost:8080").Code)
	require.Equal(t, 200, try("localhost:8080", "Sec-Fetch-Site", "same-origin").Code)
	require.Equal(t, 200, try("localhost:8080", "Sec-Fetch-Site", "same-origin", "Origin", "https://localhost:8080").Code, "behind a proxy")
	for _, h := range [][]string{{"Origin", "http://evil.example"}, {"Origin", "https://localhost:8080"}, {"Origin", "http://localhost:9999"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
		refused(t, try("localhost:8080", h...), 403, "another site")
	}
	require.Empty(t, try("localhost").Header().Get("Access-Control-Allow-Origin"))
}

// Refusals are in the words of who asks.
func TestWords(t *testing.T) {
	for _, x := range []struct {
		python    bool
		says, arg string
	}{{false, "start it with --host", ""}, {true, "start it with host", "host"}} {
		w := httptest.NewRecorder()
		NewServer(&Options{Python: x.python}).ServeHTTP(w, httptest.NewRequest("GET", "http://evil.example/", nil))
		var e struct{ Error refusal }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &e))
		require.Contains(t, e.Error.Message, x.says)
		require.Equal(t, x.arg, e.Error.Field)
	}
}

// A server with a token answers nobody who does not give it, and before it is ready says which program it is.
func TestToken(t *testing.T) {
	s := NewServer(&Options{Token: "secret", Version: "gpexplain 7"})
	for _, given := range []string{"", "secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "bearer secret", "Basic secret"} {
		for _, rt := range routes {
			r := httptest.NewRequest(rt.method, "http://localhost"+rt.path, strings.NewReader("{}"))
			r.Header.Set("Authorization", given)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
			refused(t, w, 401, "token")
		}
	}
	r := httptest.NewRequest("GET", "http://localhost/v1/version", nil)
	r.Header.Set("Authorization", "Bearer secret")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.JSONEq(t, fmt.Sprintf(`{"version":"gpexplain 7","api":1,"pid":%d}`, os.Getpid()), w.Body.String())
}

// Every answer has the headers that keep a browser from what the page does not need, and
// the page has no script, style or handler inside its HTML.
func TestHeaders(t *testing.T) {
	s := NewServer(nil)
	for _, path := range []string{"/", "/static/app.js", "/healthz", "/nothing", "/v1/model"} {
		h := ask(s, "GET", path, "", "").Header()
		require.Equal(t, policy, h.Get("Content-Security-Policy"))
		require.True(t, strings.HasPrefix(policy, "default-src 'none'"))
		require.NotContains(t, policy, "unsafe")
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"))
		require.NotEmpty(t, h.Get("Content-Type"))
	}
	page := ask(s, "GET", "/", "", "").Body.String()
	require.NotRegexp(t, `(?i)<style|style=|\son[a-z]+=|<script>|javascript:|https?:`, page)
	require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(`, ask(s, "GET", "/static/app.js", "", "").Body.String())
}

// Where too many requests wait, the next one is told when to come back, and those that
// wait are answered.
func TestBusy(t *testing.T) {
	s := NewServer(&Options{Running: 1, Waiting: 2})
	v := newServer(t, digits()...).service.Load()
	s.service.Store(v)
	row := fmt.Sprintf(`{"row":%d}`, v.tests.Index(0))
	s.gate.running <- struct{}{} // a request that takes long
	s.gate.inside.Add(1)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if w := ask(s, "POST", "/v1/predict", "application/json", row); w.Code != 200 {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
		})
	}
	require.Eventually(t, func() bool { return s.gate.inside.Load() == 3 }, time.Minute, time.Millisecond)
	w := ask(s, "POST", "/v1/predict", "application/json", row)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	refused(t, w, 503, "3 requests")
	<-s.gate.running
	s.gate.inside.Add(-1)
	all.Wait()
	require.Zero(t, s.gate.inside.Load())
	require.Equal(t, 200, ask(s, "POST", "/v1/predict", "application/json", row).Code)
}

// A client that goes away while its request waits leaves its place.
func TestGone(t *testing.T) {
	s := NewServer(&Options{Running: 1})
	s.service.Store(newServer(t, digits()...).service.Load())
	s.gate.running <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/v1/predict", strings.NewReader(`{"row":1}`))
	r.Header.Set("Content-Type", "application/json")
	done := make(chan struct{})
	go func() { defer close(done); s.ServeHTTP(httptest.NewRecorder(), r) }()
	require.Eventually(t, func() bool { return s.gate.inside.Load() == 1 }, time.Minute, time.Millisecond)
	cancel()
	<-done
	require.Zero(t, s.gate.inside.Load())
}

// A panic is a status of 500 and a line in the log, and ends no other request.
func TestPanic(t *testing.T) {
	var said string
	s := NewServer(&Options{Failed: func(what string) { said = what }})
	h := s.guarded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(errors.New("a bug")) }))
	refused(t, ask(h, "GET", "/healthz", "", ""), 500, "bug of gpexplain")
	require.Contains(t, said, "GET /healthz: a bug")
	require.Contains(t, ask(s, "GET", "/metrics", "", "").Body.String(), "gpexplain_panics_total 1\n")
	h = s.guarded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { // on goroutines of its own too
		_ = par.DoWorker(t.Context(), 4, 100, func(int, int) error { panic("another bug") })
	}))
	refused(t, ask(h, "GET", "/healthz", "", ""), 500, "bug of gpexplain")
	require.Contains(t, said, "another bug")
	require.Contains(t, said, "TestPanic")
}

// Before the posterior is there, and after it is told to stop, the server lives but is not
// ready.
func TestReady(t *testing.T) {
	s := NewServer(nil)
	require.Equal(t, 200, ask(s, "GET", "/healthz", "", "").Code)
	require.Equal(t, 200, ask(s, "GET", "/", "", "").Code)
	w := ask(s, "GET", "/readyz", "", "")
	require.Equal(t, "2", w.Header().Get("Retry-After"))
	refused(t, w, 503, "not ready")
	refused(t, ask(s, "POST", "/v1/predict", "application/json", `{"row":1}`), 503, "not ready")
	require.NoError(t, s.Ready(t.Context(), newPosterior(t, digits()...)))
	require.Equal(t, 200, ask(s, "GET", "/readyz", "", "").Code)
}

// A request that runs when the server is told to stop is answered; a later one finds
// nobody.
func TestStop(t *testing.T) {
	s := NewServer(&Options{Running: 1})
	v := newServer(t, digits()...).service.Load()
	s.service.Store(v)
	l := testref.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, &http.Server{Handler: s}, l) }()
	s.gate.running <- struct{}{}
	answer := make(chan int, 1)
	go func() {
		r, err := http.Post("http://"+l.Addr().String()+"/v1/predict", "application/json", strings.NewReader(fmt.Sprintf(`{"row":%d}`, v.tests.Index(0))))
		if err != nil {
			answer <- 0
			return
		}
		answer <- r.StatusCode
		_ = r.Body.Close()
	}()
	require.Eventually(t, func() bool { return s.gate.inside.Load() == 1 }, time.Minute, time.Millisecond)
	stop()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, time.Minute, time.Millisecond)
	<-s.gate.running
	require.Equal(t, 200, <-answer)
	require.NoError(t, <-ended)
}

// FuzzRequest sends any bytes of any type: the answer is 200 or from 400 to 499, and JSON.
func FuzzRequest(f *testing.F) {
	s := newServer(f, digits()...)
	var b bytes.Buffer
	require.NoError(f, png.Encode(&b, blob(rand.New(rand.NewPCG(1, 1)), 40, 40, 0, 255)))
	row := s.service.Load().tests.Index(0)
	for _, body := range []string{fmt.Sprintf(`{"row":%d,"without":[4]}`, row), `{"values":[1,2,3]}`, `{"table":"1,2"}`, b.String(), strings.Repeat("1,", 783) + "1\n", `{"picture":"` + base64.StdEncoding.EncodeToString(b.Bytes()) + `","fit":"ink"}`} {
		for k := range 6 {
			f.Add([]byte(body), uint8(k), "top=2&fit=ink&without=1,2")
		}
	}
	f.Add([]byte(array(f, numbersOf(f, s, 2))), uint8(10), "")
	f.Add([]byte(marshal(f, map[string]any{"rows": numbersOf(f, s, 2)})), uint8(6), "")
	f.Fuzz(func(t *testing.T, body []byte, kind uint8, query string) {
		r := httptest.NewRequest("POST", "http://localhost"+[]string{"/v1/explain", "/v1/predict"}[kind/6%2], bytes.NewReader(body))
		r.URL.RawQuery = query
		r.Header.Set("Content-Type", kinds[kind%6])
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		require.True(t, w.Code == 200 || w.Code >= 400 && w.Code < 500, "%d: %s", w.Code, w.Body)
		require.True(t, json.Valid(w.Body.Bytes()))
	})
}
