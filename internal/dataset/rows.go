package dataset

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxRows bounds the row numbers in a file, which take 512 MiB then.
const maxRows = 1 << 26

// ReadRows reads a file of row numbers, one on each line. Blank lines and text
// after a # are skipped. It does not check that the rows exist; Select does. The
// error is an *Error or, if ctx is done, its error.
func ReadRows(ctx context.Context, path string) ([]int, error) {
	f, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readRows(f, path)
}

func readRows(r io.Reader, name string) ([]int, error) {
	rows := []int{}
	in := bufio.NewScanner(r)
	line := 0
	for in.Scan() {
		line++
		text, _, _ := strings.Cut(strings.TrimPrefix(in.Text(), bom), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, &Error{File: name, Line: line, Problem: quote(text) + " is not a row number", Remedy: "write one number, 0 or more, a line"}
		}
		if len(rows) == maxRows {
			return nil, &Error{File: name, Line: line, Problem: fmt.Sprintf("more than %d row numbers", maxRows), Remedy: "list each row once"}
		}
		rows = append(rows, n)
	}
	if err := in.Err(); err != nil {
		if interrupted(err) {
			return nil, err
		}
		e := &Error{File: name, Line: line + 1, Problem: "cannot be read", Err: err}
		if errors.Is(err, bufio.ErrTooLong) {
			e.Problem, e.Err, e.Remedy = "the line is too long", nil, "write one number a line"
		}
		return nil, e
	}
	if len(rows) == 0 {
		return nil, &Error{File: name, Problem: "holds no row numbers", Remedy: "write one number a line"}
	}
	return rows, nil
}
