package job

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/funcgp/funcgp/internal/atomicfile"
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

// A FlagPath is a flag that names a file.
type FlagPath struct{ Flag, Path string }

// Exclusive is the usage error of flags of which more than one is given; nil for none.
func Exclusive(given func(flag string) bool, names ...string) error {
	first := ""
	for _, name := range names {
		switch {
		case !given(name):
		case first != "":
			return Usagef("--%s and --%s exclude each other", first, name)
		default:
			first = name
		}
	}
	return nil
}
