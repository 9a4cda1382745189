package console

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/job"
)

// Output is standard output. It keeps the first error, so that a lost result is reported even if
// code in between ignores the error.
type Output struct {
	w   io.Writer
	Err error
}

var _ io.Writer = (*Output)(nil)

// Write implements io.Writer. Characters that could control a terminal or hide text are written as
// \u and four hexadecimal digits, which JSON reads as the same string.
func (o *Output) Write(p []byte) (int, error) {
	if o.Err != nil {
		return 0, o.Err
	}
	safe := p
	if bytes.ContainsFunc(p, steers) {
		safe = nil
		for _, c := range string(p) {
			if !steers(c) {
				safe = utf8.AppendRune(safe, c)
				continue
			}
			for _, unit := range utf16.AppendRune(nil, c) {
				safe = fmt.Appendf(safe, "\\u%04x", unit)
			}
		}
	}
	if _, err := o.w.Write(safe); err != nil {
		o.Err = &outputError{err}
		return 0, o.Err
	}
	return len(p), nil
}

// steers tells whether a character is one that Write escapes: a control or format character other than line feed
// and tab.
func steers(c rune) bool {
	return c != '\n' && c != '\t' && unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// ErrClosed says that JSON was requested but standard output is closed.
var ErrClosed = errors.New("standard output: it is closed, or /dev/null opened for reading and writing; send the JSON to a file or a pipe, or leave --json out")

// CheckJSON returns an error before long work if requested JSON would be lost because standard
// output is closed. Text may be lost: whoever closes standard output does not want it.
func (o *Output) CheckJSON(asked bool) error {
	if asked && o.w == os.Stdout && stdoutClosed() {
		return ErrClosed
	}
	return nil
}

// Terminal tells whether standard output is a terminal.
func (o *Output) Terminal() bool {
	f, ok := o.w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Columns returns the width of the terminal, between 60 and 120, or 80 if standard output is not a terminal.
func (o *Output) Columns() int {
	if f, ok := o.w.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			return min(max(w, 60), 120)
		}
	}
	return 80
}

// outputError is a failure to write to standard output.
type outputError struct{ err error }

func (e *outputError) Unwrap() error { return e.err }

func (e *outputError) Error() string {
	cause := e.err
	if p := (*fs.PathError)(nil); errors.As(cause, &p) {
		cause = p.Err
	}
	return fmt.Sprintf("standard output: %v; send it to a place with room", cause)
}

// Writable checks before long work whether a file can be written at path, and leaves no file
// behind. "" means no file.
func Writable(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &atomicfile.Error{Path: path, Err: syscall.EISDIR}
	case err == nil && !info.Mode().IsRegular():
		return nil // devices and pipes are written directly
	}
	target, err := atomicfile.Target(path)
	if err != nil {
		return &atomicfile.Error{Path: path, Err: err}
	}
	dir, _ := filepath.Split(target) // not filepath.Dir, since a cleaned path may lead elsewhere
	if dir == "" {
		dir = "."
	}
	probe, err := os.CreateTemp(dir, ".gpexplain-*.tmp")
	if err != nil {
		return &atomicfile.Error{Path: path, Err: job.CauseOf(err)}
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// Distinct returns an error if an output file is the same as another output or an input, or is
// standard output.
func Distinct(outputs, inputs []job.FlagPath) error {
	for i, o := range outputs {
		switch o.Path {
		case "":
			continue
		case "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1":
			return job.Usagef("%s %s: standard output is for text and JSON; name a file, ./- for one of that name", o.Flag, o.Path)
		}
		for _, x := range append(outputs[:i:i], inputs...) {
			if x.Path != "" && job.SameFile(x.Path, o.Path) {
				return job.Usagef("%s and %s both name %s", x.Flag, o.Flag, o.Path)
			}
		}
	}
	return nil
}
