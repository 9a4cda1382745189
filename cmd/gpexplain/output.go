package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/store"
)

// output is standard output. It keeps the first error, so that no result is
// lost in silence, whatever the code in between makes of it.
type output struct {
	w   io.Writer
	err error
}

var _ io.Writer = (*output)(nil)

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	if err != nil {
		o.err = &outputError{err}
	}
	return n, o.err
}

// errClosed is the error of JSON for which there is no standard output.
var errClosed = errors.New("standard output: it is closed, or /dev/null opened for reading and writing; send the JSON to a file or a pipe, or leave --json out")

// checkJSON finds out before long work that JSON that was asked for would
// vanish. Text may vanish: whoever closes standard output wants none.
func (o *output) checkJSON(asked bool) error {
	if asked && o.w == os.Stdout && stdoutClosed() {
		return errClosed
	}
	return nil
}

// columns is the width of text on a terminal, and 80 elsewhere.
func (o *output) columns() int {
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

// writable finds out before long work whether a file can be written at path,
// and leaves nothing behind. "" is no file.
func writable(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &atomicfile.Error{Path: path, Err: syscall.EISDIR}
	case err == nil && !info.Mode().IsRegular():
		return nil // a device or pipe, which is written directly
	}
	target, err := atomicfile.Target(path)
	if err != nil {
		return &atomicfile.Error{Path: path, Err: err}
	}
	dir, _ := filepath.Split(target) // a cleaned path may lead elsewhere
	if dir == "" {
		dir = "."
	}
	probe, err := os.CreateTemp(dir, ".gpexplain-*.tmp")
	if err != nil {
		return &atomicfile.Error{Path: path, Err: causeOf(err)}
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// causeOf is err without the name of a temporary file.
func causeOf(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// A flagPath is a flag that names a file.
type flagPath struct{ flag, path string }

// distinct refuses to write a result over another or over what is read, and
// to standard output.
func distinct(outputs, inputs []flagPath) error {
	for i, o := range outputs {
		switch o.path {
		case "":
			continue
		case "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1":
			return usagef("%s %s: standard output is for text and JSON; name a file, ./- for one of that name", o.flag, o.path)
		}
		for _, x := range append(outputs[:i:i], inputs...) {
			if x.path != "" && sameFile(x.path, o.path) {
				return usagef("%s and %s both name %s", x.flag, o.flag, o.path)
			}
		}
	}
	return nil
}

// sameFile tells whether two paths name one file, through links too. The file
// need not exist.
func sameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	if targetA, err := atomicfile.Target(a); err == nil {
		if targetB, err := atomicfile.Target(b); err == nil && filepath.Clean(targetA) == filepath.Clean(targetB) {
			return true
		}
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && x.Mode().IsRegular() && os.SameFile(x, y)
}

// commandLine is the command as a shell takes it.
func commandLine(args []string) string {
	words := []string{"gpexplain"}
	for _, a := range args {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// plain are the characters that need no quotes in a shell.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_"

// usageError is a command line that is wrong without looking at any file.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// status reports err in one line and returns the exit status.
func status(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	msg := err.Error()
	if download := (*dataset.Error)(nil); errors.Is(err, context.Canceled) && !errors.As(err, &download) {
		msg = "interrupted"
	}
	// Where standard error cannot be written there is nobody left to tell.
	fmt.Fprintln(stderr, "gpexplain: "+oneLine(msg))
	if _, ok := errors.AsType[*usageError](err); ok {
		return 2
	}
	return 1
}

// unprintable is what could break a line, steer a terminal or hide text.
var unprintable = regexp.MustCompile(`[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+`)

// mostRunes is the longest line of a message; a name in a hostile file may
// have any length.
const mostRunes = 1000

// oneLine makes text of any origin fit for one line of a terminal.
func oneLine(s string) string {
	s = strings.TrimSpace(unprintable.ReplaceAllString(strings.ToValidUTF8(s, "\uFFFD"), " "))
	return cut(s, mostRunes)
}

// cut shortens s to at most the given number of runes.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

// A fullError is an error that already names a file or flag and what to do.
type fullError struct{ err error }

func (e *fullError) Error() string { return e.err.Error() }
func (e *fullError) Unwrap() error { return e.err }

// fullErrorf formats a fullError.
func fullErrorf(format string, args ...any) error { return &fullError{fmt.Errorf(format, args...)} }

// isFull tells whether an error names a file or flag and what to do.
func isFull(err error) bool {
	_, full := errors.AsType[*fullError](err)
	_, stored := errors.AsType[*store.Error](err)
	_, written := errors.AsType[*atomicfile.Error](err)
	return full || stored || written
}

// explainError says at which example numbers of the library's went wrong, and
// what helps. Errors that are about another file or flag stay as they are.
func (n rowNames) explainError(err error) error {
	const remedy = "check the numbers there, or give another --prior-precision"
	if err == nil || isFull(err) {
		return err
	}
	if e := (*gp.NotFiniteError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: the %s (output %d) is %v; %s", n.row(e.Row), e.What, e.Output, e.Value, remedy)
	}
	if e := (*gp.NegativeVarianceError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: the variance of output %d is %v; %s", n.row(e.Row), e.Output, e.Variance, remedy)
	}
	if e := (*glm.ValueError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: the %s of output %d is %v; %s", n.row(e.Row), e.What, e.Output, e.Value, remedy)
	}
	return fmt.Errorf("%s: %w; %s", n.all, err, remedy)
}
