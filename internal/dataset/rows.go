package dataset

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
)

// ReadRows reads a file of row numbers, one a line, in order. Blank lines and
// what follows a # are left out. Whether the rows exist is for Select to say.
func ReadRows(path string) ([]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{File: path, Problem: "cannot be opened", Err: err, Remedy: "check the path and its permissions"}
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
		rows = append(rows, n)
	}
	if err := in.Err(); err != nil {
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
