package main

import (
	"sync/atomic"
	"time"

	"github.com/funcgp/funcgp/explain"
)

// A stopwatch divides the time since the process started into consecutive
// laps, so that the parts sum to the total.
type stopwatch struct {
	start, last time.Time
	laps        map[string]time.Duration
}

// startTaken is set by the first command that a process runs, which counts
// from the start of the process.
var startTaken atomic.Bool

func newStopwatch() *stopwatch {
	from := time.Now()
	if startTaken.CompareAndSwap(false, true) {
		from = started
	}
	return &stopwatch{start: from, last: from, laps: map[string]time.Duration{}}
}

// lap adds the time since the last call to a part.
func (w *stopwatch) lap(part string) { w.lapAt(part, time.Now()) }

func (w *stopwatch) lapAt(part string, now time.Time) {
	w.laps[part] += now.Sub(w.last)
	w.last = now
}

func (w *stopwatch) timings() explain.Timings {
	s := func(part string) explain.Float { return explain.Float(w.laps[part].Seconds()) }
	return explain.Timings{Load: s("load"), Linearize: s("linearize"), Kernel: s("kernel"), Factorize: s("factorize"),
		Predict: s("predict"), Write: s("write"), Total: explain.Float(w.last.Sub(w.start).Seconds())}
}
