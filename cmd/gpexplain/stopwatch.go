package main

import (
	"sync/atomic"
	"time"

	"github.com/funcgp/funcgp/explain/report"
)

// A stopwatch divides the time since the process started into consecutive
// laps, so that the parts sum to the total.
type stopwatch struct {
	start, last time.Time
	laps        map[string]time.Duration
	hear        func(stage string, done, total int) // hears of every lap; may be nil
}

// startTaken is set by the first command that a process runs, which counts
// from the start of the process.
var startTaken atomic.Bool

func newStopwatch(hear func(stage string, done, total int)) *stopwatch {
	from := time.Now()
	if startTaken.CompareAndSwap(false, true) {
		from = started
	}
	return &stopwatch{start: from, last: from, laps: map[string]time.Duration{}, hear: hear}
}

// lap adds the time since the last call to a part.
func (w *stopwatch) lap(part string) { w.lapAt(part, time.Now()) }

func (w *stopwatch) lapAt(part string, now time.Time) {
	w.laps[part] += now.Sub(w.last)
	w.last = now
	if w.hear != nil {
		w.hear(part, 1, 1)
	}
}

func (w *stopwatch) timings() report.Timings {
	s := func(part string) report.Float { return report.Float(w.laps[part].Seconds()) }
	return report.Timings{Load: s("load"), Linearize: s("linearize"), Kernel: s("kernel"), Factorize: s("factorize"),
		Predict: s("predict"), Write: s("write"), Total: report.Float(w.last.Sub(w.start).Seconds())}
}

// listener is what hears of progress in place of a bar; nil where there is a
// bar or nothing.
func (p *progress) listener() func(stage string, done, total int) {
	if p == nil {
		return nil
	}
	return p.told
}
