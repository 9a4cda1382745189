package dataset

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/option"
)

// Select returns the rows of these classes, which it numbers in the order given; nil keeps every row. A positive
// count takes only the first count of these rows, in file order. It is an error to ask for more rows than there are,
// to name a class twice, or to name a class that is not in the data.
func (s *Rows) Select(classes []int, count int) (*Rows, error) {
	if err := s.checkClasses(classes); err != nil {
		return nil, err
	}
	var pos []int
	for p := range s.Len() {
		if s.keeps(classes, p) {
			pos = append(pos, p)
		}
	}
	of := ""
	if classes != nil {
		of = " of the classes " + s.classList(classes)
	}
	switch {
	case count < 0:
		return nil, s.errorf("ask for a positive count of rows", "count of rows %d", count)
	case len(pos) == 0:
		return nil, s.errorf("choose other classes", "no %s row has a class in %s", s.Part, s.classList(classes))
	case count > len(pos):
		return nil, s.errorf("ask for fewer", "%d %s rows asked for, but there are %d%s", count, s.Part, len(pos), of)
	case count > 0:
		pos = slices.Clip(pos[:count])
	}
	return s.selected(pos, classes), nil
}

// Pick returns the rows with these numbers in the original file, in this order; nil rows give the result of Select.
// from is the file or option that lists them, for messages. The error names a row that is listed twice, is not of the
// given classes, is past the end or belongs to another part. For the classes the errors are those of Select.
func (s *Rows) Pick(classes, rows []int, from option.Text) (*Rows, error) {
	if rows == nil {
		return s.Select(classes, 0)
	}
	if err := s.checkClasses(classes); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, &Error{Option: from, Problem: "the list of rows is empty", Remedy: "name at least one row"}
	}
	pos, seen := make([]int, 0, min(len(rows), s.Len())), make([]bool, s.Len())
	for _, row := range rows {
		p, err := s.Lookup(row)
		if e := (*Error)(nil); from != "" && errors.As(err, &e) {
			e.Place, e.File, e.Option = e.Place+" of "+e.File, "", from
		}
		if err != nil {
			return nil, err
		}
		wrong := ""
		if seen[p] {
			wrong = "is listed twice"
		} else if !s.keeps(classes, p) {
			wrong = fmt.Sprintf("has label %s, which is not one of the classes %s", s.ClassName(s.Labels[p]), s.classList(classes))
		}
		if wrong != "" {
			return nil, &Error{Option: from, Place: fmt.Sprintf("row %d of %s", row, s.File), Problem: wrong, Remedy: "name another row"}
		}
		seen[p] = true
		pos = append(pos, p)
	}
	return s.selected(pos, classes), nil
}

// errorf returns an error that names the file of the rows.
func (s *Rows) errorf(remedy option.Text, format string, a ...any) error {
	return &Error{File: s.File, Problem: fmt.Sprintf(format, a...), Remedy: remedy}
}

// keeps tells whether the row at a position has one of these classes.
func (s *Rows) keeps(classes []int, place int) bool {
	return classes == nil || s.Labels == nil || slices.Contains(classes, s.Labels[place])
}

// checkClasses returns an error if there are no rows to select, or if the rows cannot have the classes.
func (s *Rows) checkClasses(classes []int) error {
	known := s.known
	switch {
	case s.Len() == 0:
		return s.errorf("name data that have them", "there are no %s rows in these data", s.Part)
	case classes == nil || s.Labels == nil && !s.Labelled():
		return nil
	case s.Labels == nil:
		return s.errorf("leave the classes out", "classes asked for, but the targets are real numbers")
	case known == nil:
		known = distinct(s.Labels)
	}
	for i, c := range classes {
		if slices.Contains(classes[:i], c) {
			return s.errorf("name each class once", "class %s is in the list of classes twice", s.ClassName(c))
		}
		if _, ok := slices.BinarySearch(known, c); !ok {
			return s.errorf("choose from these", "class %s is not in the data, which have classes %s", s.ClassName(c), s.classList(known))
		}
	}
	return nil
}

// classList formats classes as 4,9 or setosa,virginica and cuts a long list.
func (s *Rows) classList(classes []int) string {
	if s.Names == nil {
		return listOf(classes, strconv.Itoa)
	}
	return listOf(classes, s.ClassName)
}

// selected returns the rows at these positions, with Classes set to classes, which may be nil, and with targets for
// a likelihood.
func (s *Rows) selected(at, classes []int) *Rows {
	sub := s.At(at)
	if s.Labels == nil {
		sub.Classes = slices.Clone(classes)
		return sub
	}
	if classes == nil {
		if sub.Targets == nil {
			sub.Targets = make([]float64, len(at))
			for i, label := range sub.Labels {
				sub.Targets[i] = float64(label)
			}
		}
		return sub
	}
	sub.Classes, sub.Class, sub.Targets = slices.Clone(classes), make([]int, len(at)), make([]float64, len(at))
	for i, label := range sub.Labels {
		sub.Class[i] = slices.Index(classes, label)
		sub.Targets[i] = float64(sub.Class[i])
	}
	return sub
}

// distinct returns the values of all v, ascending, each once.
func distinct(v ...[]int) []int {
	seen := map[int]bool{}
	for _, part := range v {
		for _, n := range part {
			seen[n] = true
		}
	}
	out := make([]int, 0, len(seen))
	for n := range seen {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// maxRows bounds the number of row numbers in a file; they take at most 512 MiB.
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
			return nil, &Error{File: name, Line: line, Problem: option.Quote(text) + " is not a row number", Remedy: "write one number, 0 or more, a line"}
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
