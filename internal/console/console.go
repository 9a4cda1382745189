// Package console is where one run of the command speaks: results on standard
// output, notes and progress on standard error, files that it writes, and errors
// with the exit status that each kind has.
package console

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/linearize"
)

// A Console is where one run of the command speaks: results go to standard
// output; notes, warnings and progress go to standard error.
type Console struct {
	Args                 []string // the command line
	Out                  *Output
	Stderr               io.Writer
	JSON, Quiet, Verbose bool // --json, --quiet and --verbose
	Strict               bool // --strict

	Running  bool // a verb has been found and has begun to check its flags
	bar      *progress
	watch    *stopwatch
	Warnings linearize.Warnings
	remarks  []string       // texts of those that are no fault
	alarmed  []string       // texts of those that were written on standard error at once
	closers  []func() error // of files that answers are read from

	completions []func(ctx context.Context) error // of files that are still read
}

// New speaks for the command line args on these streams.
func New(args []string, stdout, stderr io.Writer) *Console {
	return &Console{Args: args, Out: &Output{w: stdout}, Stderr: stderr}
}

// Hear calls told with the progress of the work in place of showing a bar.
func (c *Console) Hear(told func(stage string, done, total int)) { c.bar = &progress{told: told} }

// Begin starts progress and the stopwatch. It is called after the flags are
// parsed.
func (c *Console) Begin() {
	if c.bar == nil {
		c.bar = newProgress(c.Stderr, c.Quiet)
	}
	c.watch = newStopwatch()
}

// Close closes the files that the verb still had open.
func (c *Console) Close() {
	for _, f := range c.closers {
		// They were only read from, so an error loses nothing.
		_ = f()
	}
}

// CompleteLater keeps what waits for files that are still read, and says what is wrong with them.
func (c *Console) CompleteLater(f func(ctx context.Context) error) {
	c.completions = append(c.completions, f)
}

// Complete waits for all files that are still read. EndPart of the predictions does, so that no
// answer is of damaged data.
func (c *Console) Complete(ctx context.Context) error {
	for _, f := range c.completions {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// CloseLater keeps the file of an answer open until close.
func (c *Console) CloseLater(f func() error) { c.closers = append(c.closers, f) }

// Note writes a line on standard error unless --quiet.
func (c *Console) Note(format string, args ...any) {
	if c.Quiet {
		return
	}
	c.ClearBar()
	fmt.Fprintln(c.Stderr, OneLine(fmt.Sprintf(format, args...)))
}

// Detail writes a line on standard error with --verbose.
func (c *Console) Detail(format string, args ...any) {
	if c.Verbose {
		c.Note(format, args...)
	}
}

// Alarm keeps warnings for the report, and writes each that is new on standard error
// at once, unless --quiet: they are about something that long work would waste its
// time on. With --strict the first of them is an error.
func (c *Console) Alarm(warnings ...error) error {
	for _, w := range warnings {
		if !c.keep(w) {
			continue
		}
		text := translated(w).Error()
		c.alarmed = append(c.alarmed, text)
		if !c.Strict {
			c.Note("gpexplain: warning: %s", text)
		}
	}
	if c.Strict && len(warnings) > 0 {
		return &StrictError{warnings}
	}
	return nil
}

// Verdict is the error of a command that did its work, but with warnings that
// --strict does not let pass. Without --strict, warnings that JSON alone holds go to
// standard error too, unless --quiet: who pipes the JSON on reads them there.
func (c *Console) Verdict() error {
	bad := slices.DeleteFunc(slices.Clone(c.Warnings), func(w error) bool { return slices.Contains(c.remarks, w.Error()) })
	if c.Strict && len(bad) > 0 {
		return &StrictError{bad}
	}
	for _, w := range bad {
		if c.JSON && !slices.Contains(c.alarmed, w.Error()) {
			c.Note("gpexplain: warning: %v", w)
		}
	}
	return nil
}

// Remark keeps what was understood of a model for the report. It is no reason for
// --strict to fail.
func (c *Console) Remark(list ...error) {
	for _, w := range list {
		c.keep(w)
		c.remarks = append(c.remarks, translated(w).Error())
	}
}

// Warn keeps warnings for the report, each text once.
func (c *Console) Warn(list ...error) {
	for _, w := range list {
		c.keep(w)
	}
}

// keep keeps a warning for the report, and tells whether it is new.
func (c *Console) keep(err error) bool {
	w := translated(err)
	if slices.ContainsFunc(c.Warnings, func(o error) bool { return o.Error() == w.Error() }) {
		return false
	}
	c.Warnings = append(c.Warnings, w)
	return true
}

// Show reports progress. Every long call of the library gets it as its
// Progress.
func (c *Console) Show(stage string, done, total int) { c.bar.show(stage, done, total) }

// ClearBar removes the progress bar.
func (c *Console) ClearBar() { c.bar.clear() }

// EndPart ends a part of the work. It returns the error of a context that is
// done, so that the next part does not begin.
func (c *Console) EndPart(ctx context.Context, part string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if part == "predict" {
		if err := c.Complete(ctx); err != nil {
			return err
		}
	}
	c.EndPartAt(part, time.Now())
	return ctx.Err()
}

// EndPartAt ends a part of the work at a time that may have passed already.
func (c *Console) EndPartAt(part string, at time.Time) {
	c.watch.lap(part, at)
	if c.bar != nil && c.bar.told != nil {
		c.bar.told(part, 1, 1)
	}
}

// Timings ends the part in which results were written, and returns the time
// that each part took.
func (c *Console) Timings() report.Timings {
	c.EndPartAt("write", time.Now())
	return c.TimingsSoFar()
}

// TimingsSoFar is the time that each part took that has ended.
func (c *Console) TimingsSoFar() report.Timings { return c.watch.timings() }
