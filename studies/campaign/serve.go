package campaign

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	serveMemory   = 300 << 20        // bytes that gpexplain serve may have resident under any attack
	servePatience = time.Second      // that an ordinary request may take meanwhile, where it takes no fifth of it alone
	serveGrowth   = 20 << 20         // bytes that 9,000 requests may add to what 1,000 left
	serveLimit    = 3 * time.Minute  // for one part of a round
	serveStop     = 20 * time.Second // for the server to end
)

// serve attacks gpexplain serve, with the built-in network on 60 built-in digits, from
// 127.0.0.1: bodies of 8.2 MB at once, connections that trickle, bodies of random size and
// type, malformed requests, names and origins of other sites, files that change under it, a
// SIGTERM while requests run, and 10,000 requests one after the other. An ordinary client
// asks once a second during the first five. It begins again with other random numbers until
// ctx ends.
var serve = Part{
	Name: "serve", Short: "serve under slow clients, large and malformed bodies, other sites, changed files, SIGTERM and 10,000 requests",
	Run: func(ctx context.Context, env *Env, r *Result) error {
		posterior := filepath.Join(env.Temp, "digits.gp")
		for round := uint64(0); ctx.Err() == nil; round++ {
			rng := env.Rand(round)
			for _, attack := range []struct {
				kind string
				run  func(context.Context, *served, *rand.Rand) (string, error)
			}{
				{"24 bodies of 8.2 MB", bodiesAtOnce(24)}, {"40 bodies of 8.2 MB", bodiesAtOnce(40)}, {"131 bodies that stop after a byte", trickle(131, 1)}, {"600 bodies that stop after 60 kB", trickle(600, 60_000)},
				{"bodies of any size", anySize}, {"malformed requests", malformedRequests}, {"names of other sites", otherSites},
				{"files that change", changedFiles}, {"SIGTERM", terminated}, {"10,000 requests", manyRequests},
			} {
				if _, said, status := env.Gpexplain(ctx, "fit", "--quiet", "--data", "digits:400,100", "--train-count", "60", "-o", posterior); status != 0 && ctx.Err() == nil {
					return fmt.Errorf("fit: %s", said)
				}
				says, trials, err := onServer(ctx, env.Program, posterior, func(ctx context.Context, s *served) (string, error) { return attack.run(ctx, s, rng) })
				if ctx.Err() != nil {
					return ctx.Err() // what was cut short says nothing
				}
				r.Count(attack.kind, trials)
				fmt.Fprintf(env.Log, "serve: %s: %s\n", attack.kind, says)
				if err != nil {
					r.Find("serve, round %d, %s: %.1000s", round, attack.kind, err)
				}
			}
		}
		return ctx.Err()
	},
}

// A served is a gpexplain serve that runs.
type served struct {
	addr, posterior string
	process         *os.Process
	client          *http.Client
	trials          atomic.Int64  // requests
	row             int           // a test row
	ended           chan struct{} // closed once the process has ended
	status          error         // of it, afterwards
}

// onServer starts a server, lets a part attack it, and ends it.
func onServer(ctx context.Context, binary, posterior string, part func(context.Context, *served) (string, error)) (says string, trials int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, serveLimit)
	defer cancel()
	c := exec.Command(binary, "serve", "--addr", "127.0.0.1:0", "--json", "--quiet", "--data", "digits:400,100", "--posterior", posterior)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	pipe, err := c.StdoutPipe()
	if err != nil {
		return "", 0, err
	}
	if err := c.Start(); err != nil {
		return "", 0, err
	}
	s := &served{posterior: posterior, process: c.Process, ended: make(chan struct{}), client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	line, lineErr := bufio.NewReader(pipe).ReadBytes('\n')
	go func() {
		s.status = c.Wait()
		close(s.ended)
	}()
	defer func() {
		s.client.CloseIdleConnections()
		err = errors.Join(err, s.stop())
		if stderr.Len() > 0 {
			err = errors.Join(err, fmt.Errorf("standard error: %.2000s", stderr.Bytes()))
		}
	}()
	var said struct{ URL string }
	if lineErr != nil || json.Unmarshal(line, &said) != nil {
		return "", 0, fmt.Errorf("the server did not start: %s", line)
	}
	s.addr = strings.Trim(strings.TrimPrefix(said.URL, "http://"), "/")
	var rows struct{ Rows []struct{ Index int } }
	r, err := s.client.Get(s.url("/v1/rows"))
	if err != nil {
		return "", 0, err
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&rows); err != nil || len(rows.Rows) == 0 {
		return "", 0, fmt.Errorf("no test rows: %w", err)
	}
	s.row = rows.Rows[0].Index
	if _, err := s.ordinary(ctx); err != nil { // and everything that is made at first use
		return "", 0, err
	}
	before := s.memory()
	says, err = part(ctx, s)
	if now := s.memory(); now.peak > 0 {
		says += fmt.Sprintf("; memory %d MB before, %d at most, %d after", before.now>>20, now.peak>>20, now.now>>20)
		if now.peak > serveMemory {
			err = errors.Join(err, fmt.Errorf("%d MB of memory, more than %d", now.peak>>20, serveMemory>>20))
		}
	}
	return strings.TrimPrefix(says, "; "), s.trials.Load(), err
}

func (s *served) url(path string) string { return "http://" + s.addr + path }

// stop ends the server, which must have status 0 soon after.
func (s *served) stop() error {
	_ = s.process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.ended:
		return s.status
	case <-time.After(serveStop):
		_ = s.process.Kill()
		<-s.ended
		return fmt.Errorf("it did not end within %v of SIGTERM", serveStop)
	}
}

// A memory is what a process has resident, in bytes. Zero where the system does not say.
type memory struct{ now, peak int64 }

func (s *served) memory() (m memory) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Pid))
	if err != nil {
		return m
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) == 3 && (f[0] == "VmRSS:" || f[0] == "VmHWM:") {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			if f[0] == "VmRSS:" {
				m.now = n << 10
			} else {
				m.peak = n << 10
			}
		}
	}
	return m
}

// ask sends a request and returns its status and answer.
func (s *served) ask(ctx context.Context, method, path, kind string, body io.Reader) (int, []byte, error) {
	s.trials.Add(1)
	r, err := http.NewRequestWithContext(ctx, method, s.url(path), body)
	if err != nil {
		return 0, nil, err
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	return answer.StatusCode, b, err
}

// ordinary explains a test row and returns the answer.
func (s *served) ordinary(ctx context.Context) ([]byte, error) {
	status, b, err := s.ask(ctx, "POST", "/v1/explain", "application/json", strings.NewReader(fmt.Sprintf(`{"row":%d,"top":3}`, s.row)))
	if err == nil && status != 200 {
		err = fmt.Errorf("an ordinary request: %d %.300s", status, b)
	}
	return b, err
}

// beside does an attack while an ordinary client, on a connection of its own each time,
// asks once a second, until the attack is over and at least for so many seconds. Before the
// attack the client asks five times alone, which tells how busy the machine is.
func (s *served) beside(ctx context.Context, seconds int, attack func() (string, error)) (string, error) {
	fresh := &served{addr: s.addr, row: s.row, client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}}
	var alone time.Duration
	for range 5 {
		began := time.Now()
		if _, err := fresh.ordinary(ctx); err != nil {
			return "", err
		}
		alone = max(alone, time.Since(began))
	}
	var says string
	var err error
	over := make(chan struct{})
	go func() {
		defer close(over)
		says, err = attack()
	}()
	var slowest time.Duration
	var faults []error
	asked := 0
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for running := true; running || asked < seconds; {
		began := time.Now()
		if _, err := fresh.ordinary(ctx); err != nil {
			faults = append(faults, err)
		}
		took := time.Since(began)
		if took > max(servePatience, 5*alone) {
			faults = append(faults, fmt.Errorf("an ordinary request took %.1f s, and %.2f s without an attack", took.Seconds(), alone.Seconds()))
		}
		slowest = max(slowest, took)
		asked++
		select {
		case <-tick.C:
		case <-ctx.Done():
			return says, errors.Join(append(faults, ctx.Err())...)
		}
		select {
		case <-over:
			running = false
		default:
		}
	}
	<-over
	return fmt.Sprintf("%s; %d ordinary answers, the slowest in %.0f ms (alone %.0f ms)", says, asked, slowest.Seconds()*1000, alone.Seconds()*1000), errors.Join(append(faults, err)...)
}

// bodiesAtOnce sends n bodies of 4.1 million numbers at once, three times.
func bodiesAtOnce(n int) func(context.Context, *served, *rand.Rand) (string, error) {
	return func(ctx context.Context, s *served, _ *rand.Rand) (string, error) {
		body := []byte(`{"values":[` + strings.Repeat("1,", 4_100_000) + `1]}`)
		return s.beside(ctx, 10, func() (string, error) {
			began := time.Now()
			var all sync.WaitGroup
			c := &statuses{}
			for range n {
				all.Go(func() {
					for range 3 {
						status, _, err := s.ask(ctx, "POST", "/v1/predict", "application/json", bytes.NewReader(body))
						c.add(status, err)
					}
				})
			}
			all.Wait()
			return fmt.Sprintf("%v in %.1f s", c, time.Since(began).Seconds()), c.refusals()
		})
	}
}

// trickle opens n connections at once that send a header and some bytes of a body and
// then no more, and waits until the server has ended all of them.
func trickle(n, bytes int) func(context.Context, *served, *rand.Rand) (string, error) {
	return func(ctx context.Context, s *served, _ *rand.Rand) (string, error) {
		head := "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat(" ", bytes)
		return s.beside(ctx, 10, func() (string, error) {
			began := time.Now()
			var all sync.WaitGroup
			c := &statuses{}
			for range n {
				all.Go(func() { c.add(s.raw(ctx, head, time.Minute)) })
			}
			all.Wait()
			return fmt.Sprintf("%v in %.1f s", c, time.Since(began).Seconds()), c.refusals()
		})
	}
}

// raw sends text over a connection of its own and returns the status of the answer, 0
// where the connection was ended without one.
func (s *served) raw(ctx context.Context, text string, patience time.Duration) (int, error) {
	s.trials.Add(1)
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return 0, nil // ended while it was written
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, fmt.Errorf("no answer within %v to %.100q", patience, text)
		}
		return 0, nil
	}
	// The rest may be cut off where the server does not read on.
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Body.Close()
}

// statuses count answers; a request that the server ended without one has the status 0.
type statuses struct {
	mutex  sync.Mutex
	count  map[int]int
	faults []error
}

func (c *statuses) add(status int, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.count == nil {
		c.count = map[int]int{}
	}
	c.count[status]++
	if err != nil && (status != 0 || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNREFUSED)) {
		c.faults = append(c.faults, err)
	}
}

func (c *statuses) String() string { return strings.TrimPrefix(fmt.Sprint(c.count), "map") }

// refusals returns an error where an answer was no refusal.
func (c *statuses) refusals() error {
	err := errors.Join(c.faults...)
	for status := range c.count {
		// 501 and 505 are what net/http says of other encodings and versions of HTTP.
		if status != 0 && (status < 400 || status > 499) && status != 501 && status != 503 && status != 505 {
			err = errors.Join(err, fmt.Errorf("status %d", status))
		}
	}
	return err
}

// anySize sends 300 bodies whose sizes are spread evenly in their logarithms from 1 byte
// to 9 MB, of every type that is taken, eight at a time.
func anySize(ctx context.Context, s *served, rng *rand.Rand) (string, error) {
	type one struct {
		kind string
		body []byte
	}
	var list []one
	for range 300 {
		n := 1 << rng.IntN(24)
		n = min(n+rng.IntN(n), 9<<20)
		o := []struct{ kind, before, unit, after string }{
			{"application/json", `{"values":[`, "1,", `1]}`}, {"application/json", `{"table":"`, "1,", `1"}`}, {"application/json", `{"table":"`, `1\n`, `"}`},
			{"application/json", `{"picture":"`, "AAAA", `"}`}, {"application/json", "", "[", ""}, {"application/json", "", " ", ""},
			{"application/json", `{"row":1,"without":[`, "1,", `1]}`}, {"application/json", `{"row":1,"contrast":[`, `"",`, `""]}`}, {"application/json", `{"`, "a", `":1}`},
			{"application/json", `{"row":`, "1", `}`}, {"application/json", "{", `"row":1,`, `"top":1}`}, {"application/json", `{"values":{`, `"a":1,`, `"a":1}}`},
			{"text/csv", "", "1,", "1"}, {"text/csv", "", "1\n", ""}, {"text/csv", "", "\n", ""}, {"text/csv", "", `"`, ""}, {"text/csv", "", "a", ""},
			{"image/png", "\x89PNG\r\n\x1a\n", "\x00", ""}, {"image/jpeg", "\xff\xd8\xff", "\xff", ""}, {"image/png", "", "", ""},
		}[rng.IntN(20)]
		body := []byte(o.before + strings.Repeat(o.unit, n/max(1, len(o.unit))) + o.after)
		if o.unit == "" {
			body = noise(rng, 1+min(1400, n/2000))
		}
		list = append(list, one{o.kind, body})
	}
	return s.beside(ctx, 10, func() (string, error) {
		began := time.Now()
		c, next := &statuses{}, make(chan one)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for o := range next {
					status, _, err := s.ask(ctx, "POST", "/v1/explain", o.kind, bytes.NewReader(o.body))
					if status == 200 { // a picture, or a table that is one row by chance
						status = 400
					}
					c.add(status, err)
				}
			})
		}
		for _, o := range list {
			next <- o
		}
		close(next)
		all.Wait()
		return fmt.Sprintf("%v in %.1f s", c, time.Since(began).Seconds()), c.refusals()
	})
}

// noise is a PNG file of random pixels.
func noise(rng *rand.Rand, side int) []byte {
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	for i := range img.Pix {
		img.Pix[i] = byte(rng.Uint32())
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err) // a buffer takes all
	}
	return b.Bytes()
}

// malformedRequests sends a thousand requests of which none may be answered, half of them
// as raw text with random changes.
func malformedRequests(ctx context.Context, s *served, rng *rand.Rand) (string, error) {
	good := fmt.Sprintf(`{"row":%d,"top":3}`, s.row)
	c := &statuses{}
	for i := range 1000 {
		if i%2 == 0 {
			body, kind, path := good, "application/json", []string{"/v1/explain", "/v1/predict"}[rng.IntN(2)]
			switch rng.IntN(7) {
			case 0:
				body = body[:rng.IntN(len(body))]
			case 1:
				body = body[:5] + string(byte(rng.IntN(32))) + body[5+rng.IntN(3):]
			case 2:
				kind = []string{"", "text/plain", "application/json; charset=utf-16", "multipart/form-data", ";", "application/json; charset=utf-8; charset=utf-16"}[rng.IntN(6)]
			case 3:
				body = strings.Replace(`{"row":?}`, "?", []string{"-1", "1e99", "99999999999999999999", "1.5", `"1"`, "[]", "{}", "true", `1,"top":-5`, `1,"without":[-1]`, `1,"row":1`, `1,"Row":1`}[rng.IntN(12)], 1)
			case 4:
				path = "/" + string(rune('a'+rng.IntN(26))) + path
			case 5:
				kind, body = []string{"image/png", "image/jpeg", "text/csv"}[rng.IntN(3)], string(noise(rng, 5))[rng.IntN(20)+1:]
			case 6:
				kind, path = "text/csv", path+"?"+[]string{"top=x", "top=1;fit=ink", "row=1", "top=1&top=1", "%zz=1", "without=1,"}[rng.IntN(6)]
			}
			status, _, err := s.ask(ctx, "POST", path, kind, strings.NewReader(body))
			if status == 200 {
				err = fmt.Errorf("answered: %s %q %.200q", path, kind, body)
			}
			c.add(status, err)
			continue
		}
		line := []string{"POST /v1/predict HTTP/1.1", "POST /v1/predict HTTP/9.9", "P\x00ST / HTTP/1.1", "POST  /v1/predict HTTP/1.1", "POST /v1/../../etc/passwd HTTP/1.1", "GET /v1/train/%2e%2e/picture HTTP/1.1", "BREW / HTTP/1.1", "GET /v1/rows?from=1;count=2 HTTP/1.1", "POST /v1/predict"}[rng.IntN(9)]
		header := []string{"Host: localhost\r\nContent-Length: -1", "Host: localhost\r\nContent-Length: 1\r\nContent-Length: 2", "Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3", "Host: localhost\r\nTransfer-Encoding: gzip", "Host: a\r\nHost: b", "Host: evil.example",
			"Host: localhost\r\n folded: 1", "Host: localhost\r\nX: " + strings.Repeat("x", 1<<rng.IntN(16)), "Host: localhost\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 2", "Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked", "\x00\xff: 1"}[rng.IntN(11)]
		body := []string{"", "{}", "zz\r\n", "ffffffffffffffff\r\n", "2\r\n{}", "0\r\n\r\n", "-1\r\n"}[rng.IntN(7)]
		text := []byte(line + "\r\n" + header + "\r\n\r\n" + body + "\r\n\r\n\r\n")
		if rng.IntN(3) == 0 {
			text[rng.IntN(len(text))] ^= byte(1 + rng.IntN(255))
		}
		status, err := s.raw(ctx, string(text), 30*time.Second)
		if status == 200 && strings.HasPrefix(string(text), line) {
			err = errors.Join(err, fmt.Errorf("answered: %.200q", text))
		} else if status == 200 {
			status = 404 // a changed byte may make a request that can be answered
		}
		c.add(status, err)
	}
	_, err := s.ordinary(ctx)
	return c.String(), errors.Join(err, c.refusals())
}

// otherSites asks as pages of other sites would, by names that lead here and with their
// origins.
func otherSites(ctx context.Context, s *served, _ *rand.Rand) (string, error) {
	body := fmt.Sprintf(`{"row":%d}`, s.row)
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return "", err
	}
	c, asked := &statuses{}, 0
	try := func(want int, host, more string) {
		asked++
		status, err := s.raw(ctx, "POST /v1/predict HTTP/1.1\r\nHost: "+host+"\r\n"+more+"Content-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body, time.Minute)
		if status != want {
			err = errors.Join(err, fmt.Errorf("host %q %q: %d, not %d", host, more, status, want))
		}
		c.add(status, nil)
		if err != nil {
			c.faults = append(c.faults, err)
		}
	}
	for _, host := range []string{"localhost", "localhost:" + port, "127.0.0.1:" + port, "[::1]", "[::1]:" + port} {
		try(200, host, "")
		try(200, host, "Origin: http://"+host+"\r\n")
		try(403, host, "Origin: https://"+host+"\r\n")
		try(403, host, "Origin: http://evil.example\r\n")
		try(403, host, "Origin: null\r\n")
		try(403, host, "Sec-Fetch-Site: cross-site\r\n")
		try(403, host, "Sec-Fetch-Site: same-site\r\n")
	}
	for _, host := range []string{"evil.example", "evil.example:" + port, "localhost:evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:99999", "[::1", "::1]", "::1", "[127.0.0.1]", "127.1", "0x7f.1", "2130706433", "localhost."} {
		try(421, host, "")
	}
	return fmt.Sprintf("%d requests, %v", asked, c), errors.Join(c.faults...)
}

// changedFiles replaces the posterior that was loaded, truncates it and deletes it, and
// requires the same answer each time.
func changedFiles(ctx context.Context, s *served, rng *rand.Rand) (string, error) {
	posterior := s.posterior
	want, err := s.ordinary(ctx)
	if err != nil {
		return "", err
	}
	same := func(what string) {
		got, e := s.ordinary(ctx)
		if e == nil && !bytes.Equal(got, want) {
			e = errors.New("another answer")
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("once the posterior's file was %s: %w", what, e))
		}
	}
	file, err := os.ReadFile(posterior)
	if err != nil {
		return "", err
	}
	for range 20 {
		damaged := bytes.Clone(file)
		damaged[rng.IntN(len(file))] ^= byte(1 + rng.IntN(255))
		if e := os.WriteFile(posterior, damaged, 0o600); e != nil {
			return "", e
		}
		same("written over")
	}
	if e := os.Truncate(posterior, int64(rng.IntN(len(file)))); e != nil {
		return "", e
	}
	same("cut off")
	if e := os.Truncate(posterior, 0); e != nil {
		return "", e
	}
	same("emptied")
	if e := os.Remove(posterior); e != nil {
		return "", e
	}
	same("deleted")
	return "23 changes", err
}

// terminated sends SIGTERM while requests run: each that was taken is answered, and the
// process ends with status 0.
func terminated(ctx context.Context, s *served, rng *rand.Rand) (string, error) {
	c := &statuses{}
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 16 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				status, b, err := s.ask(ctx, "POST", "/v1/explain", "application/json", strings.NewReader(fmt.Sprintf(`{"row":%d,"top":100}`, s.row)))
				if status == 200 && !json.Valid(b) {
					err = fmt.Errorf("half an answer: %d bytes", len(b))
				}
				if err != nil && status == 0 {
					c.add(0, nil) // nobody listens any more
					return
				}
				c.add(status, err)
			}
		})
	}
	time.Sleep(500*time.Millisecond + time.Duration(rng.IntN(1000))*time.Millisecond)
	began := time.Now()
	err := s.stop()
	took := time.Since(began)
	close(stop)
	all.Wait()
	for status := range c.count {
		if status != 0 && status != 200 && status != 503 {
			err = errors.Join(err, fmt.Errorf("status %d", status))
		}
	}
	return fmt.Sprintf("%v, ended in %.2f s", c, took.Seconds()), errors.Join(append(c.faults, err)...)
}

// manyRequests asks 10,000 times, by numbers of rows, values and tables in turn, four at a
// time, and compares what is resident after 1,000 and after all.
func manyRequests(ctx context.Context, s *served, rng *rand.Rand) (string, error) {
	values := strings.Repeat("0,", 783) + "1"
	bodies := []string{fmt.Sprintf(`{"row":%d}`, s.row), `{"values":[` + values + `]}`, `{"table":"` + values + `"}`, `{"row":`, `{"values":[1]}`}
	began, first := time.Now(), memory{}
	for _, n := range []int{1000, 9000} {
		next := make(chan string)
		var all sync.WaitGroup
		c := &statuses{}
		for range 4 {
			all.Go(func() {
				for body := range next {
					status, b, err := s.ask(ctx, "POST", "/v1/predict", "application/json", strings.NewReader(body))
					if err == nil && (status == 200) != (body == bodies[0] || body == bodies[1] || body == bodies[2]) {
						err = fmt.Errorf("status %d: %.200s", status, b)
					}
					c.add(status, err)
				}
			})
		}
		for range n {
			next <- bodies[rng.IntN(len(bodies))]
		}
		close(next)
		all.Wait()
		if len(c.faults) > 0 {
			return "", c.faults[0]
		}
		if n == 1000 {
			first = s.memory()
		}
	}
	last := s.memory()
	says := fmt.Sprintf("in %.0f s; %d MB after 1,000, %d MB after 10,000", time.Since(began).Seconds(), first.now>>20, last.now>>20)
	if last.now > first.now+serveGrowth {
		return says, fmt.Errorf("memory grew by %d MB", (last.now-first.now)>>20)
	}
	return says, nil
}
