package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
)

// CauseOf returns err without the path of a *fs.PathError, which may be that of a temporary file.
func CauseOf(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// A UsageError says that a command line is wrong whatever the files contain.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }

func (e *UsageError) Unwrap() error { return e.err }

// Usagef formats a UsageError, with options in braces.
func Usagef(format string, args ...any) error { return &UsageError{option.Errorf(format, args...)} }

// A StrictError holds the warnings that --strict turns into an error.
type StrictError struct{ Warnings linearize.Warnings }

func (e *StrictError) Error() string { return e.Message().String() }

// Message returns the first warning as a text with options.
func (e *StrictError) Message() option.Text {
	more := ""
	if n := len(e.Warnings) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return option.Textf("{strict}: %v%s", warningOf(e.Warnings[0]), more)
}

// A FullError is an error that already names a file or flag and what to do.
type FullError struct{ Err error }

func (e *FullError) Error() string { return e.Err.Error() }

func (e *FullError) Unwrap() error { return e.Err }

// FullErrorf formats a FullError, with options in braces.
func FullErrorf(format string, args ...any) error { return &FullError{option.Errorf(format, args...)} }

// Full marks an error as one that already says what is wrong and what to do.
func Full(err error) error { return &FullError{err} }

// IsFull tells whether an error names a file or flag and what to do.
func IsFull(err error) bool {
	_, full := errors.AsType[*FullError](err)
	_, stored := errors.AsType[*store.Error](err)
	_, written := errors.AsType[*atomicfile.Error](err)
	return full || stored || written
}

// IsCancelled tells whether an error comes from a context that ended.
func IsCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// SameFile tells whether two paths name the same file, also through links. The file need not exist.
func SameFile(a, b string) bool {
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

// A FlagPath is an option or operand that names a file.
type FlagPath struct {
	Flag option.Text
	Path string
}

// Exclusive returns a usage error if more than one of the flags is given.
func Exclusive(given func(flag string) bool, names ...string) error {
	first := ""
	for _, name := range names {
		switch {
		case !given(name):
		case first != "":
			return Usagef("%v and %v exclude each other", option.Named(first), option.Named(name))
		default:
			first = name
		}
	}
	return nil
}

// NotOneOf returns the usage error of a flag whose value is not in the list.
func NotOneOf(flag, value string, list []string) error {
	text := list[len(list)-1]
	if rest := list[:len(list)-1]; len(rest) > 0 {
		text = strings.Join(rest, ", ") + " or " + text
	}
	return Usagef("%v %q must be %s%s", option.Named(flag), value, text, DidYouMean(value, list))
}

// DidYouMean returns "; did you mean X?", where X is the entry of the list that differs from word by the fewest
// typing errors, at most one in three letters. If there is none, X is the only entry that begins with word;
// otherwise the result is "".
func DidYouMean(word string, list []string) string {
	word = strings.ToLower(word)
	near, fewest := "", len([]rune(word))/3+1
	var longer []string
	for _, w := range list {
		if d := typingErrors(word, w); d < fewest {
			near, fewest = w, d
		}
		if strings.HasPrefix(w, word) && len(word) > 1 {
			longer = append(longer, w)
		}
	}
	if near == "" && len(longer) == 1 {
		near = longer[0]
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", near)
}

// typingErrors returns the optimal string alignment distance: the number of letters that are missing,
// superfluous, wrong or swapped with their neighbour.
func typingErrors(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1) // rows[i][j] is the distance between the first i and the first j letters
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			wrong := 1
			if x[i-1] == y[j-1] {
				wrong = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+wrong)
			if i > 1 && j > 1 && slices.Equal(x[i-2:i], []rune{y[j-1], y[j-2]}) {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
