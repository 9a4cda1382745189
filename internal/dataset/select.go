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

// SelectOptions says which rows of a part to take. The zero value takes all.
type SelectOptions struct {
	Classes []int       // keep rows of these labels and number the classes in this order; nil keeps every row
	Count   int         // take the first Count kept rows, in file order; 0 takes all
	Rows    []int       // take these rows of the original file, in this order; nil takes no list
	From    option.Text // the file or option with Rows, for messages
}

// Select returns those of the rows that o asks for. It is an error, which names the row or
// class, to list a row of another class, a row twice, or a row past the end or of
// another part; to ask for more rows than there are; or to name a class twice or
// one that is not in the data.
func (s *Rows) Select(o *SelectOptions) (*Rows, error) {
	if o == nil {
		o = &SelectOptions{}
	}
	fail := func(remedy option.Text, format string, a ...any) (*Rows, error) {
		return nil, &Error{File: s.File, Problem: fmt.Sprintf(format, a...), Remedy: remedy}
	}
	switch {
	case o.Count < 0 || o.Count > 0 && o.Rows != nil:
		return fail("ask for a positive count of rows or a list of rows, not both", "count of rows %d", o.Count)
	case s.Len() == 0:
		return fail("name data that have them", "there are no %s rows in these data", s.Part)
	case o.Classes != nil && s.Labels == nil && s.Labelled():
		return fail("leave the classes out", "classes asked for, but the targets are real numbers")
	}
	keep := func(p int) bool {
		return o.Classes == nil || s.Labels == nil || slices.Contains(o.Classes, s.Labels[p])
	}
	if o.Classes != nil && s.Labels != nil {
		known := s.known
		if known == nil {
			known = distinct(s.Labels)
		}
		for i, c := range o.Classes {
			if slices.Contains(o.Classes[:i], c) {
				return fail("name each class once", "class %s is in the list of classes twice", s.ClassName(c))
			}
			if _, ok := slices.BinarySearch(known, c); !ok {
				return fail("choose from these", "class %s is not in the data, which have classes %s", s.ClassName(c), s.classList(known))
			}
		}
	}
	if o.Rows != nil {
		if len(o.Rows) == 0 {
			return nil, &Error{Option: o.From, Problem: "the list of rows is empty", Remedy: "name at least one row"}
		}
		pos, seen := make([]int, 0, min(len(o.Rows), s.Len())), make([]bool, s.Len())
		for _, row := range o.Rows {
			p, err := s.Lookup(row)
			if e := (*Error)(nil); o.From != "" && errors.As(err, &e) {
				e.Place, e.File, e.Option = e.Place+" of "+e.File, "", o.From
			}
			if err != nil {
				return nil, err
			}
			wrong := ""
			if seen[p] {
				wrong = "is listed twice"
			} else if !keep(p) {
				wrong = fmt.Sprintf("has label %s, which is not one of the classes %s", s.ClassName(s.Labels[p]), s.classList(o.Classes))
			}
			if wrong != "" {
				return nil, &Error{Option: o.From, Place: fmt.Sprintf("row %d of %s", row, s.File), Problem: wrong, Remedy: "name another row"}
			}
			seen[p] = true
			pos = append(pos, p)
		}
		return s.selected(pos, o.Classes), nil
	}
	n := 0
	for p := range s.Len() {
		if keep(p) {
			n++
		}
	}
	of := ""
	if o.Classes != nil {
		of = " of the classes " + s.classList(o.Classes)
	}
	switch {
	case n == 0:
		return fail("choose other classes", "no %s row has a class in %s", s.Part, s.classList(o.Classes))
	case o.Count > n:
		return fail("ask for fewer", "%d %s rows asked for, but there are %d%s", o.Count, s.Part, n, of)
	case o.Count > 0:
		n = o.Count
	}
	pos := make([]int, 0, n)
	for p := 0; len(pos) < n; p++ {
		if keep(p) {
			pos = append(pos, p)
		}
	}
	return s.selected(pos, o.Classes), nil
}

// classList formats classes as 4,9 or setosa,virginica and cuts a long list.
func (s *Rows) classList(classes []int) string {
	if s.Names == nil {
		return listOf(classes, strconv.Itoa)
	}
	return listOf(classes, s.ClassName)
}

// selected returns the rows at these places with their classes, which may be nil, and targets for a likelihood.
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
