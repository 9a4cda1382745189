package dataset

import (
	"errors"
	"io/fs"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err  Error
		want string
	}{
		{Error{File: "a.csv", Line: 3, Place: "column 2 (x)", Problem: "missing value", Remedy: "fill it in"}, "a.csv:3: column 2 (x): missing value; fill it in"},
		{Error{File: "a", Problem: "bad", Err: errors.New("two\nlines")}, "a: bad: two lines"},
		{Error{Place: "feature 1", Problem: "bad"}, "feature 1: bad"},
	} {
		require.Equal(t, c.want, c.err.Error())
	}
}

// The path of a file is named once, and the cause stays reachable.
func TestErrorCause(t *testing.T) {
	_, err := ReadRows(t.Context(), "absent.txt")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, "absent.txt: cannot be opened: no such file or directory; check the path and its permissions", err.Error())
}

func TestQuoteAndList(t *testing.T) {
	require.Equal(t, `"a\nb"`, quote("a\nb"))
	require.Len(t, quote(string(make([]byte, 1000))), 2+4*40+3)
	require.Equal(t, "4,9", listOf([]int{4, 9}, strconv.Itoa))
	require.Contains(t, listOf(make([]int, 1000), strconv.Itoa), "...")
}
