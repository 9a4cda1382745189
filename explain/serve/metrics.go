package serve

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// latencies are the upper ends of the buckets of request times, in seconds.
var latencies = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// counts holds the numbers that /metrics shows.
type counts struct {
	panics atomic.Int64

	mutex    sync.Mutex
	requests map[answered]int64
	times    map[string]*histogram // by path
}

// answered identifies requests by path and status.
type answered struct {
	path   string
	status int
}

// A histogram counts times by bucket. Buckets are cumulative: each also counts the times in the buckets before it.
type histogram struct {
	buckets []int64
	count   int64
	sum     float64 // seconds
}

// add counts a request.
func (c *counts) add(path string, status int, took time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.requests[answered{path, status}]++
	h := c.times[path]
	if h == nil {
		h = &histogram{buckets: make([]int64, len(latencies))}
		c.times[path] = h
	}
	h.count++
	h.sum += took.Seconds()
	for i, end := range latencies {
		if took.Seconds() <= end {
			h.buckets[i]++
		}
	}
}

// metrics shows the counts in the text format of Prometheus, version 0.0.4.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	ready := 0
	if s.unready() == nil {
		ready = 1
	}
	inside, running := s.gate.inside.Load(), len(s.gate.running)
	for _, m := range []struct {
		name, kind, help string
		value            any
	}{
		{"gpexplain_ready", "gauge", "Whether the posterior is there to answer from.", ready},
		{"gpexplain_reading_requests", "gauge", "Requests whose bodies are read.", s.bodies.reading()},
		{"gpexplain_running_requests", "gauge", "Requests that are computed.", running},
		{"gpexplain_waiting_requests", "gauge", "Requests that wait to be computed.", max(0, inside-int64(running))},
		{"gpexplain_panics_total", "counter", "Requests that a bug ended.", s.counts.panics.Load()},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %v\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
	s.counts.write(w)
}

// write writes the counts of requests. All paths come from routes, so no label needs escaping.
func (c *counts) write(w io.Writer) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	fmt.Fprint(w, "# HELP gpexplain_requests_total Requests by path and status.\n# TYPE gpexplain_requests_total counter\n")
	keys := slices.SortedFunc(maps.Keys(c.requests), func(a, b answered) int {
		if a.path != b.path {
			return map[bool]int{true: -1, false: 1}[a.path < b.path]
		}
		return a.status - b.status
	})
	for _, k := range keys {
		fmt.Fprintf(w, "gpexplain_requests_total{path=%q,code=\"%d\"} %d\n", k.path, k.status, c.requests[k])
	}
	fmt.Fprint(w, "# HELP gpexplain_request_seconds Time from the end of a request's header to the end of its answer.\n# TYPE gpexplain_request_seconds histogram\n")
	for _, path := range slices.Sorted(maps.Keys(c.times)) {
		h := c.times[path]
		for i, end := range latencies {
			fmt.Fprintf(w, "gpexplain_request_seconds_bucket{path=%q,le=\"%g\"} %d\n", path, end, h.buckets[i])
		}
		fmt.Fprintf(w, "gpexplain_request_seconds_bucket{path=%q,le=\"+Inf\"} %d\n", path, h.count)
		fmt.Fprintf(w, "gpexplain_request_seconds_sum{path=%q} %g\ngpexplain_request_seconds_count{path=%q} %d\n", path, h.sum, path, h.count)
	}
}
