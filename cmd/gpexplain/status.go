package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/store"
)

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
