package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/store"
)

// CauseOf is err without the name of a temporary file.
func CauseOf(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// UsageError is a command line that is wrong without looking at any file.
type UsageError struct{ msg string }

func (e *UsageError) Error() string { return e.msg }

// Usagef formats a usageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// A StrictError holds the warnings that --strict turns into an error.
type StrictError struct{ Warnings linearize.Warnings }

func (e *StrictError) Error() string {
	more := ""
	if n := len(e.Warnings) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return "--strict: " + e.Warnings[0].Error() + more
}

// Exit statuses other than 0 and 1.
const (
	StatusUsage       = 2   // a wrong command line
	StatusInterrupted = 130 // Ctrl-C, as shells have it: 128 and the number of SIGINT
	StatusTerminated  = 143 // the same of SIGTERM
)

// Status reports err in one line and returns the exit status. A context that was
// cancelled counts as interrupted.
func Status(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	msg, interrupted := err.Error(), errors.Is(err, context.Canceled)
	if download := (*dataset.Error)(nil); interrupted && !errors.As(err, &download) {
		msg = "interrupted"
	}
	// Where standard error cannot be written there is nobody left to tell.
	fmt.Fprintln(stderr, "gpexplain: "+OneLine(WithoutPackages(msg)))
	if _, ok := errors.AsType[*UsageError](err); ok {
		return StatusUsage
	}
	if interrupted {
		return StatusInterrupted
	}
	return 1
}

// packages are the names with which the library's errors begin.
var packages = regexp.MustCompile(`(: )(?:(?:network|onnx|linearize|ntk|gp|cg|evidence|sparse|shard|glm|weightspace|explain|report|store|dataset): )+`)

// WithoutPackages is a message without the names of packages, which say nothing to a
// person who did not call them. It keeps what stands first, which may be a file's name.
func WithoutPackages(msg string) string { return packages.ReplaceAllString(msg, "$1") }

// unprintable is what could break a line, steer a terminal or hide text.
var unprintable = regexp.MustCompile(`[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+`)

// mostRunes is the longest line of a message; a name in a hostile file may
// have any length.
const mostRunes = 1000

// OneLine makes text of any origin fit for one line of a terminal.
func OneLine(s string) string {
	s = strings.TrimSpace(unprintable.ReplaceAllString(strings.ToValidUTF8(s, "\uFFFD"), " "))
	return Cut(s, mostRunes)
}

// Count is a number with a comma before every three digits.
func Count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Cut shortens s to at most the given number of runes.
func Cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

// A FullError is an error that already names a file or flag and what to do.
type FullError struct{ Err error }

func (e *FullError) Error() string { return e.Err.Error() }

func (e *FullError) Unwrap() error { return e.Err }

// FullErrorf formats a fullError.
func FullErrorf(format string, args ...any) error { return &FullError{fmt.Errorf(format, args...)} }

// Full marks an error as one that already says what is wrong and what to do.
func Full(err error) error { return &FullError{err} }

// IsFull tells whether an error names a file or flag and what to do.
func IsFull(err error) bool {
	_, full := errors.AsType[*FullError](err)
	_, stored := errors.AsType[*store.Error](err)
	_, written := errors.AsType[*atomicfile.Error](err)
	return full || stored || written
}
