// Package console has the input and output of one run of the command: results on standard output,
// notes and progress on standard error, and checks of the files to be written.
package console

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
)

// A Console holds the output streams of one run of the command. Results go to standard output;
// notes, warnings and progress go to standard error.
type Console struct {
	*job.Job
	Out                  *Output
	Stderr               io.Writer
	JSON, Quiet, Verbose bool // --json, --quiet and --verbose

	Running bool // a verb was found and checks its flags, or later
	bar     *progress
	alarmed []string // texts of warnings that were already written to standard error
}

// New returns a Console for the command line args and these streams.
func New(args []string, stdout, stderr io.Writer) *Console {
	c := &Console{Out: &Output{w: stdout}, Stderr: stderr}
	c.Job = job.New((*screen)(c))
	c.Args, c.Words = args, Words()
	return c
}

// Words returns how messages name options. The Python package runs the command with FUNCGP_WORDS=python in its
// environment. All messages then name its arguments in place of flags, and the last line of a run that failed is
// JSON.
func Words() option.Words {
	if os.Getenv("FUNCGP_WORDS") == "python" {
		return option.Python
	}
	return option.Flags
}

// Begin starts progress and the clock. For the first command of a process the clock counts from the
// start of the process. It is called after the flags are parsed.
func (c *Console) Begin() {
	c.bar = newProgress(c.Stderr, c.Quiet)
	from := time.Now()
	if startTaken.CompareAndSwap(false, true) {
		from = started
	}
	c.Job.Begin(from)
}

// startTaken is set by the first command of the process.
var startTaken atomic.Bool

// Verdict returns an error if the command did its work but has warnings that --strict turns into an
// error. Without --strict and --quiet, it writes warnings that only the JSON holds to standard
// error too, where they are seen if the JSON is piped to another program.
func (c *Console) Verdict() error {
	bad, _ := result.Remarks(c.Warnings)
	if c.Strict && len(bad) > 0 {
		return &job.StrictError{Warnings: bad}
	}
	for _, w := range bad {
		if c.JSON && !slices.Contains(c.alarmed, w.Error()) {
			c.Note("gpexplain: warning: %v", w)
		}
	}
	return nil
}

// A screen is a job.Listener that writes to standard error.
type screen Console

var _ job.Listener = (*screen)(nil)

// Show implements job.Listener.
func (s *screen) Show(stage string, done, total int) { s.bar.show(stage, done, total) }

// Clear implements job.Listener: it removes the progress bar.
func (s *screen) Clear() { s.bar.clear() }

// Ended implements job.Listener.
func (s *screen) Ended(string) {}

// Note implements job.Listener.
func (s *screen) Note(text string) {
	if !s.Quiet {
		s.Clear()
		fmt.Fprintln(s.Stderr, text)
	}
}

// Detail implements job.Listener.
func (s *screen) Detail(text string) {
	if s.Verbose {
		s.Note(text)
	}
}

// Alarm implements job.Listener.
func (s *screen) Alarm(w *linearize.Warning) {
	s.alarmed = append(s.alarmed, w.Error())
	s.Note(job.OneLine("gpexplain: warning: " + w.Error()))
}
