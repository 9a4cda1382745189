// Package job is what a piece of work says of itself while it goes on, and what it keeps to the end: progress, notes,
// warnings, the time of each part and files that stay open. A command shows it on a terminal, and a program hears of
// progress.
package job

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
)

// A Listener hears what a job says while it goes on.
type Listener interface {
	// Show says that done of total steps of a stage are done; a total of 0 is unknown.
	Show(stage string, done, total int)
	// Clear says that the stage is over, and that something else may be said.
	Clear()
	// Ended says that a part of the work is done.
	Ended(part string)
	// Note says in a line what users should know, and Detail what is done.
	Note(text string)
	Detail(text string)
	// Alarm says at once what long work would waste its time on.
	Alarm(w *linearize.Warning)
}

// Progress is a listener that hears of progress alone; nil tells nobody.
type Progress func(stage string, done, total int)

// Show implements Listener.
func (p Progress) Show(stage string, done, total int) {
	if p != nil {
		p(stage, done, total)
	}
}

// Ended implements Listener.
func (p Progress) Ended(part string) { p.Show(part, 1, 1) }

// Clear implements Listener.
func (Progress) Clear() {}

// Note implements Listener.
func (Progress) Note(string) {}

// Detail implements Listener.
func (Progress) Detail(string) {}

// Alarm implements Listener.
func (Progress) Alarm(*linearize.Warning) {}

// Warnings are what users of answers should know, which write themselves as JSON.
type Warnings = linearize.Warnings

// A Job is one piece of work. Make it with New.
type Job struct {
	// Args are the command line that the job is, for files that remember how they were made; nil in a program.
	Args []string
	// Strict makes an error of the first alarm.
	Strict bool
	Words  option.Words // of who asked, for notes and warnings

	Listener Listener // nil hears nothing

	Warnings Warnings

	times *times
	files *files
}

// times are those of the parts of a job.
type times struct {
	start, last time.Time // the last is the end of the last part
	parts       map[string]time.Duration
}

// files are what answers are read from.
type files struct {
	users   atomic.Int32 // jobs that are not closed yet
	closers []func() error
}

// New returns a job whose time counts from now. The listener may be nil.
func New(l Listener) *Job {
	j := &Job{Listener: l, files: new(files)}
	j.files.users.Add(1)
	j.Begin(time.Now())
	return j
}

// Next returns a job that goes on with what j opened, with warnings of its own. The files of both are closed once both
// jobs are.
func (j *Job) Next() *Job {
	next := *j
	next.Warnings = nil
	j.files.users.Add(1)
	return &next
}

// Begin begins to take the time.
func (j *Job) Begin(at time.Time) {
	j.times = &times{at, at, map[string]time.Duration{}}
}

// Close closes the files that the job still has open, once.
func (j *Job) Close() {
	if j.files.users.Add(-1) != 0 {
		return
	}
	for _, f := range j.files.closers {
		// They were only read from, so an error loses nothing.
		_ = f()
	}
}

// CloseLater keeps the file of an answer open until Close.
func (j *Job) CloseLater(f func() error) { j.files.closers = append(j.files.closers, f) }

// Note says in one line what users should know, with options in braces.
func (j *Job) Note(format string, args ...any) {
	if j.Listener != nil {
		j.Listener.Note(OneLine(option.Textf(format, args...).In(j.Words)))
	}
}

// Detail says in one line what is done, with options in braces.
func (j *Job) Detail(format string, args ...any) {
	if j.Listener != nil {
		j.Listener.Detail(OneLine(option.Textf(format, args...).In(j.Words)))
	}
}

// Alarm keeps warnings, and says each that is new at once: they are about something that long work would waste its
// time on. If the job is strict the first of them is an error.
func (j *Job) Alarm(warnings ...error) error {
	for _, err := range warnings {
		if w := j.keep(err); w != nil && j.Listener != nil && !j.Strict {
			j.Listener.Alarm(&w.warning)
		}
	}
	if j.Strict && len(warnings) > 0 {
		return &StrictError{warnings}
	}
	return nil
}

// Warn keeps warnings, each text once.
func (j *Job) Warn(list ...error) {
	for _, err := range list {
		j.keep(err)
	}
}

// keep keeps a warning and returns it, or nil where it is known already.
func (j *Job) keep(err error) *Warning {
	w := Worded(err, j.Words)
	if slices.ContainsFunc(j.Warnings, func(o error) bool { return o.Error() == w.Error() }) {
		return nil
	}
	j.Warnings = append(j.Warnings, w)
	return w
}

// Show says that done of total steps of a stage are done. Every long call of the library gets it as its Progress.
func (j *Job) Show(stage string, done, total int) {
	if j.Listener != nil {
		j.Listener.Show(stage, done, total)
	}
}

// Clear says that the stage of the last Show is over.
func (j *Job) Clear() {
	if j.Listener != nil {
		j.Listener.Clear()
	}
}

// EndPart ends a part of the work. It returns the error of a context that is done, so that the next part does not
// begin.
func (j *Job) EndPart(ctx context.Context, part string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.EndPartAt(part, time.Now())
	return ctx.Err()
}

// EndPartAt ends a part of the work at a time that may have passed already.
func (j *Job) EndPartAt(part string, at time.Time) {
	j.times.parts[part] += at.Sub(j.times.last)
	j.times.last = at
	if j.Listener != nil {
		j.Listener.Ended(part)
	}
}

// Timings ends the part in which results were written, and returns the time that each part took.
func (j *Job) Timings() result.Timings {
	j.EndPartAt("write", time.Now())
	return j.TimingsSoFar()
}

// TimingsSoFar is the time that each part took that has ended. The parts follow each other and sum to the total.
func (j *Job) TimingsSoFar() result.Timings {
	s := func(part string) result.Float { return result.Float(j.times.parts[part].Seconds()) }
	return result.Timings{Load: s("load"), Linearize: s("linearize"), Kernel: s("kernel"), Factorize: s("factorize"),
		Predict: s("predict"), Write: s("write"), Total: result.Float(j.times.last.Sub(j.times.start).Seconds())}
}
