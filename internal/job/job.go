// Package job collects what a long call reports: progress, notes and warnings, the time of each part, and files that
// stay open until the end. A command shows the reports on a terminal; a program receives progress.
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

// A Listener receives the reports of a running job.
type Listener interface {
	// Show says that done of total steps of a stage are done; a total of 0 is unknown.
	Show(stage string, done, total int)
	// Clear says that the stage is over, so that its progress may be removed from the screen.
	Clear()
	// Ended says that this part of the work is done.
	Ended(part string)
	// Note gives users important information in one line. Detail says in one line what is being done.
	Note(text string)
	Detail(text string)
	// Alarm gives a warning at once, because long work would be wasted if it applies.
	Alarm(w *linearize.Warning)
}

// Progress is a listener that receives progress only; it may be nil.
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

// Warnings lists what users of answers should know. It has a JSON form.
type Warnings = linearize.Warnings

// A Job is one piece of work. Make it with New.
type Job struct {
	// Args is the command line of the job, which written files record; nil in a program.
	Args []string
	// Strict turns the first alarm into an error.
	Strict bool
	Words  option.Words // how notes and warnings name options

	Listener Listener // may be nil

	Warnings Warnings

	times *times
	files *files
}

// times holds the durations of the parts of a job.
type times struct {
	start, last time.Time // last is the end of the last part
	parts       map[string]time.Duration
}

// files are the files that a job keeps open to read answers from.
type files struct {
	users   atomic.Int32 // number of jobs that use the files and are not closed yet
	closers []func() error
}

// New returns a job whose clock starts now. The listener may be nil.
func New(l Listener) *Job {
	j := &Job{Listener: l, files: new(files)}
	j.files.users.Add(1)
	j.Begin(time.Now())
	return j
}

// Next returns a job that continues with the open files of j and has warnings of its own. The files are closed when
// both jobs are closed.
func (j *Job) Next() *Job {
	next := *j
	next.Warnings = nil
	j.files.users.Add(1)
	return &next
}

// Begin starts the clock of the job at the given time.
func (j *Job) Begin(at time.Time) {
	j.times = &times{at, at, map[string]time.Duration{}}
}

// Close closes the open files of the job, if no other job uses them.
func (j *Job) Close() {
	if j.files.users.Add(-1) != 0 {
		return
	}
	for _, f := range j.files.closers {
		// The files were only read, so an error of closing them loses nothing.
		_ = f()
	}
}

// CloseLater makes Close call f, which closes a file.
func (j *Job) CloseLater(f func() error) { j.files.closers = append(j.files.closers, f) }

// Note gives users important information in one line. The format names options in braces.
func (j *Job) Note(format string, args ...any) {
	if j.Listener != nil {
		j.Listener.Note(OneLine(option.Textf(format, args...).In(j.Words)))
	}
}

// Detail says in one line what is being done. The format names options in braces.
func (j *Job) Detail(format string, args ...any) {
	if j.Listener != nil {
		j.Listener.Detail(OneLine(option.Textf(format, args...).In(j.Words)))
	}
}

// Alarm records warnings and gives each new one to the listener at once, because long work would be wasted if they
// apply. If the job is strict, it returns the first of them as an error.
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

// Warn records warnings, each text once.
func (j *Job) Warn(list ...error) {
	for _, err := range list {
		j.keep(err)
	}
}

// keep records a warning and returns it, or nil if it was recorded already.
func (j *Job) keep(err error) *Warning {
	w := Worded(err, j.Words)
	if slices.ContainsFunc(j.Warnings, func(o error) bool { return o.Error() == w.Error() }) {
		return nil
	}
	j.Warnings = append(j.Warnings, w)
	return w
}

// Show says that done of total steps of a stage are done. It is passed as Progress to every long call of the
// library.
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

// Timings ends the part "write", in which results are written, and returns the duration of each part.
func (j *Job) Timings() result.Timings {
	j.EndPartAt("write", time.Now())
	return j.TimingsSoFar()
}

// TimingsSoFar returns the duration of each part that has ended. The parts are consecutive and add up to the total.
func (j *Job) TimingsSoFar() result.Timings {
	s := func(part string) result.Float { return result.Float(j.times.parts[part].Seconds()) }
	return result.Timings{Load: s("load"), Linearize: s("linearize"), Kernel: s("kernel"), Factorize: s("factorize"),
		Predict: s("predict"), Write: s("write"), Total: result.Float(j.times.last.Sub(j.times.start).Seconds())}
}
