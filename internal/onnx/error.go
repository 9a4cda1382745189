package onnx

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// FormatError says what is wrong with a model, and where.
type FormatError struct {
	Place  string // for example `graph, node 3 "/0/Conv" (Conv), attribute 1 "pads"`; "" for the file itself
	Offset int64  // byte offset in the file, -1 where there is none
	Reason string

	// Unsupported tells that the file may be as ONNX has it, and holds what this package
	// does not read.
	Unsupported bool
}

func (e *FormatError) Error() string {
	var s strings.Builder
	s.WriteString("onnx: ")
	if e.Place != "" {
		s.WriteString(e.Place + ": ")
	}
	s.WriteString(e.Reason)
	if e.Offset >= 0 {
		fmt.Fprintf(&s, " (at byte %d)", e.Offset)
	}
	return s.String()
}

// faultf returns an error at a byte of the file. The callers add the Place by in.
func faultf(offset int, format string, args ...any) error {
	return &FormatError{Offset: int64(offset), Reason: fmt.Sprintf(format, args...)}
}

// unsupportedf returns an error at a byte of the file about something that ONNX has and
// this package does not read.
func unsupportedf(offset int, format string, args ...any) error {
	return &FormatError{Offset: int64(offset), Reason: fmt.Sprintf(format, args...), Unsupported: true}
}

// invalidf returns an error in a model in memory, which has no offset.
func invalidf(format string, args ...any) error { return faultf(-1, format, args...) }

// in puts place in front of the Place of err; a nil err stays nil.
func in(place string, err error) error {
	var e *FormatError
	if !errors.As(err, &e) {
		return err
	}
	if e.Place != "" {
		place += ", " + e.Place
	}
	return &FormatError{Place: place, Offset: e.Offset, Reason: e.Reason, Unsupported: e.Unsupported}
}

// label names item i of a list: `node 3 "conv"`, or `node 3` without a name.
func label(kind string, i int, name string) string {
	s := kind + " " + strconv.Itoa(i)
	if name != "" {
		s += " " + quote(name)
	}
	return s
}

// quote quotes a name for an error message and cuts one that would fill it.
func quote(name string) string {
	const most = 80
	if len(name) > most {
		name = name[:most] + "…"
	}
	return strconv.Quote(name)
}
