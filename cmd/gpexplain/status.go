package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/funcgp/funcgp/internal/dataset"
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
