package console

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/funcgp/funcgp/explain/report"
)

// A stopwatch divides the time since the process started into consecutive
// parts, so that they sum to the total.
type stopwatch struct {
	start, last time.Time
	parts       map[string]time.Duration
}

// startTaken is set by the first command that a process runs, which counts
// from the start of the process.
var startTaken atomic.Bool

func newStopwatch() *stopwatch {
	from := time.Now()
	if startTaken.CompareAndSwap(false, true) {
		from = started
	}
	return &stopwatch{start: from, last: from, parts: map[string]time.Duration{}}
}

// lap adds the time since the last call to a part.
func (w *stopwatch) lap(part string, at time.Time) {
	w.parts[part] += at.Sub(w.last)
	w.last = at
}

func (w *stopwatch) timings() report.Timings {
	s := func(part string) report.Float { return report.Float(w.parts[part].Seconds()) }
	return report.Timings{Load: s("load"), Linearize: s("linearize"), Kernel: s("kernel"), Factorize: s("factorize"),
		Predict: s("predict"), Write: s("write"), Total: report.Float(w.last.Sub(w.start).Seconds())}
}

// A progress shows a bar with an estimate of the time left on a terminal, and
// nothing elsewhere. A nil progress shows nothing.
type progress struct {
	out   io.Writer                           // nil shows nothing
	told  func(stage string, done, total int) // where not nil, it is called instead of showing a bar
	stage string
	bar   *progressbar.ProgressBar
}

func newProgress(stderr io.Writer, quiet bool) *progress {
	f, ok := stderr.(*os.File)
	if quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{out: stderr}
}

// show reports that done of total steps of a stage are done; a total of 0 is
// unknown. It is called from one goroutine.
func (p *progress) show(stage string, done, total int) {
	if p != nil && p.told != nil {
		p.told(stage, done, total)
		return
	}
	if p == nil || p.out == nil {
		return
	}
	if p.bar == nil || p.stage != stage {
		p.clear()
		p.stage, p.bar = stage, newBar(p.out, stage, total)
	}
	if total < 1 {
		p.bar.Describe(fmt.Sprintf("%s %d", stage, done))
		return
	}
	// An error here is one of writing to the terminal.
	_ = p.bar.Set(done)
}

func newBar(out io.Writer, stage string, total int) *progressbar.ProgressBar {
	if total < 1 {
		total = -1
	}
	return progressbar.NewOptions(total, progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(stage),
		progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(30),
		// Without an interval no goroutine goes on drawing behind our back.
		progressbar.OptionSetSpinnerChangeInterval(0))
}

// clear removes the bar.
func (p *progress) clear() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

// started is as near to the start of the process as Go code can be.
var started = time.Now()
