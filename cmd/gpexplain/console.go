package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/funcgp/funcgp/explain/report"
)

// A console is where one run of the command speaks: results go to standard
// output; notes, warnings and progress go to standard error.
type console struct {
	args                 []string // the command line
	out                  *output
	stderr               io.Writer
	json, quiet, verbose bool // --json, --quiet and --verbose

	running  bool // a verb has been found and has begun to check its flags
	bar      *progress
	watch    *stopwatch
	warnings []string
	closers  []func() error // of files that answers are read from
}

// begin starts progress and the stopwatch. It is called after the flags are
// parsed.
func (c *console) begin() {
	if c.bar == nil {
		c.bar = newProgress(c.stderr, c.quiet)
	}
	c.watch = newStopwatch()
}

// close closes the files that the verb still had open.
func (c *console) close() {
	for _, f := range c.closers {
		// They were only read from, so an error loses nothing.
		_ = f()
	}
}

// note writes a line on standard error unless --quiet.
func (c *console) note(format string, args ...any) {
	if c.quiet {
		return
	}
	c.bar.clear()
	fmt.Fprintln(c.stderr, oneLine(fmt.Sprintf(format, args...)))
}

// detail writes a line on standard error with --verbose.
func (c *console) detail(format string, args ...any) {
	if c.verbose {
		c.note(format, args...)
	}
}

// warn keeps warnings for the report, each text once.
func (c *console) warn(list ...error) {
	for _, err := range list {
		c.warnText(err.Error())
	}
}

func (c *console) warnText(text string) {
	if !slices.Contains(c.warnings, text) {
		c.warnings = append(c.warnings, text)
	}
}

// show reports progress. Every long call of the library gets it as its
// Progress.
func (c *console) show(stage string, done, total int) { c.bar.show(stage, done, total) }

// endPart ends a part of the work. It returns the error of a context that is
// done, so that the next part does not begin.
func (c *console) endPart(ctx context.Context, part string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.endPartAt(part, time.Now())
	return ctx.Err()
}

// endPartAt ends a part of the work at a time that may have passed already.
func (c *console) endPartAt(part string, at time.Time) {
	c.watch.lap(part, at)
	if c.bar != nil && c.bar.told != nil {
		c.bar.told(part, 1, 1)
	}
}

// timings ends the part in which results were written, and returns the time
// that each part took.
func (c *console) timings() report.Timings {
	c.endPartAt("write", time.Now())
	return c.watch.timings()
}

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
