package dataset

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/option"
)

// Error says what is wrong with a data file, where, and what to do about it.
// Its text is one line.
type Error struct {
	File    string      // the file, directory or data set
	Option  option.Text // in place of File: the option that lists the rows
	Line    int         // 1-based line of a text file; 0 if it has no lines
	Place   string      // a row, column or byte offset; may be empty
	Problem string      // what is wrong
	Remedy  option.Text // what the user can do; may be empty
	Err     error       // the cause; may be nil

	// Field is set if a field is not a number where a number is needed; nil for other errors.
	Field *Field
}

// A Field describes a field of a table that is not a number, and the other fields of its line.
type Field struct {
	Column   string   // name of the column of the field
	Word     bool     // whether it could be a label or the name of a row
	Features []string // names of the features
	Numbers  []bool   // whether the field of each feature is a number
	Targets  []string // names of the targets
	Number   bool     // whether the fields of all targets are numbers
}

var _ error = (*Error)(nil)

// Error returns "file:line: place: problem: cause; remedy".
func (e *Error) Error() string { return e.Message().String() }

// Message is the text of the error with its options.
func (e *Error) Message() option.Text {
	s := e.Option + option.Plain(e.File)
	if e.Line > 0 {
		s += option.Textf(":%d", e.Line)
	}
	cause := ""
	if e.Err != nil {
		cause = e.Err.Error()
	}
	if p := (*fs.PathError)(nil); errors.As(e.Err, &p) && p.Path == e.File {
		cause = p.Err.Error() // the message names the path already
	}
	for _, part := range []string{e.Place, e.Problem, cause} {
		if part == "" {
			continue
		}
		if s != "" {
			s += ": "
		}
		s += option.Plain(part)
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return option.Text(strings.NewReplacer("\n", " ", "\r", " ").Replace(string(s)))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// openFile opens a file or a pipe for reading. The error is an *Error or, if ctx is
// done, its error.
func openFile(ctx context.Context, path string) (*inputfile.File, error) {
	f, err := inputfile.Open(ctx, path)
	if err == nil || interrupted(err) {
		return f, err
	}
	return nil, &Error{File: path, Problem: "cannot be opened", Err: err, Remedy: "check the path and its permissions"}
}

// interrupted reports whether an error says that a context is done.
func interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// listOf formats values with commas between them and cuts a long list.
func listOf[T any](v []T, text func(T) string) string {
	const most = 20
	var b strings.Builder
	for i, x := range v {
		if i > 0 {
			b.WriteByte(',')
		}
		if i == most {
			b.WriteString("...")
			break
		}
		b.WriteString(text(x))
	}
	return b.String()
}
