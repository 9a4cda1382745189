package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"
)

// SelectOptions says which rows of a part to take. The zero value takes all.
type SelectOptions struct {
	Classes []int  // keep rows of these labels and number the classes in this order; nil keeps every row
	Count   int    // take the first Count kept rows, in file order; 0 takes all
	Rows    []int  // take these rows of the original file, in this order; nil takes no list
	From    string // the file or flag with Rows, for messages
}

// Subset is a selection of rows from a Set, in order.
type Subset struct {
	Set     *Set
	Pos     []int     // positions in Set
	Rows    []int     // rows of the original file
	Labels  []int     // as in Set; nil where the targets are real numbers or unknown
	Class   []int     // index of the label in Classes; nil if Classes is or the targets are unknown
	Classes []int     // the selected classes, in order; nil if all rows were kept
	Targets []float64 // for a likelihood, N×T: Class, or the targets if Classes is nil; nil where unknown
	Shares  []float64 // as in Set, of all labels of the data
	IDs     []string  // as in Set
	Weights []float64 // as in Set
}

// Len returns the number of rows N.
func (s *Subset) Len() int { return len(s.Pos) }

// Matrix returns the inputs, N×D: see Set.Matrix.
func (s *Subset) Matrix() *mat.Dense { return s.Set.Matrix(s.Pos) }

// Read returns the inputs, N×D: see Set.Read.
func (s *Subset) Read(ctx context.Context) (*mat.Dense, error) { return s.Set.Read(ctx, s.Pos) }

// Image returns the pixels of the i-th row of the subset: see Set.Image.
func (s *Subset) Image(i int) []byte { return s.Set.Image(s.Pos[i]) }

// Slice returns the rows [lo, hi) of the subset, which share its memory.
func (s *Subset) Slice(lo, hi int) *Subset {
	part, n := *s, s.Len()
	part.Pos, part.Rows = s.Pos[lo:hi], s.Rows[lo:hi]
	if s.Labels != nil {
		part.Labels = s.Labels[lo:hi]
	}
	if s.Class != nil {
		part.Class = s.Class[lo:hi]
	}
	if s.IDs != nil {
		part.IDs = s.IDs[lo:hi]
	}
	if s.Weights != nil {
		part.Weights = s.Weights[lo:hi]
	}
	if s.Shares != nil {
		k := len(s.Shares) / n
		part.Shares = s.Shares[lo*k : hi*k]
	}
	if s.Targets != nil {
		width := len(s.Targets) / n
		part.Targets = s.Targets[lo*width : hi*width]
	}
	return &part
}

// Select returns the rows that o asks for. It is an error, which names the row or
// class, to list a row of another class, a row twice, or a row past the end or of
// another part; to ask for more rows than there are; or to name a class twice or
// one that is not in the data.
func (s *Set) Select(o *SelectOptions) (*Subset, error) {
	if o == nil {
		o = &SelectOptions{}
	}
	fail := func(remedy, format string, a ...any) (*Subset, error) {
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
			return nil, &Error{File: o.From, Problem: "the list of rows is empty", Remedy: "name at least one row"}
		}
		pos, seen := make([]int, 0, min(len(o.Rows), s.Len())), make([]bool, s.Len())
		for _, row := range o.Rows {
			p, err := s.Lookup(row)
			if e := (*Error)(nil); o.From != "" && errors.As(err, &e) {
				e.Place, e.File = e.Place+" of "+e.File, o.From
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
				return nil, &Error{File: o.From, Place: fmt.Sprintf("row %d of %s", row, s.File), Problem: wrong, Remedy: "name another row"}
			}
			seen[p] = true
			pos = append(pos, p)
		}
		return s.subset(pos, o.Classes), nil
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
	return s.subset(pos, o.Classes), nil
}

// classList formats classes as 4,9 or setosa,virginica and cuts a long list.
func (s *Set) classList(classes []int) string {
	if s.Names == nil {
		return listOf(classes, strconv.Itoa)
	}
	return listOf(classes, s.ClassName)
}

// subset returns the Subset of these positions. There may be many: what is the same as in the
// Set, or as another field, shares its memory.
func (s *Set) subset(pos, classes []int) *Subset {
	sub := &Subset{Set: s, Pos: pos, Rows: pos, Classes: slices.Clone(classes)}
	all := len(pos) == s.n && slices.IsSorted(pos)
	if s.rows != nil {
		sub.Rows = gather(s.rows, pos, 1)
	}
	width := s.Width()
	sub.Weights = gather(s.Weights, pos, 1)
	if s.Shares != nil {
		sub.Shares = gather(s.Shares, pos, len(s.Shares)/s.n)
	}
	switch {
	case all:
		sub.IDs, sub.Labels, sub.Targets = slices.Clip(s.IDs), slices.Clip(s.Labels), slices.Clip(s.Targets)
	default:
		sub.IDs, sub.Labels = gather(s.IDs, pos, 1), gather(s.Labels, pos, 1)
		if s.Labels == nil {
			sub.Targets = gather(s.Targets, pos, width)
		}
	}
	if s.Labels == nil {
		return sub
	}
	sub.Targets = make([]float64, len(pos))
	for i, label := range sub.Labels {
		sub.Targets[i] = float64(label)
	}
	if classes == nil {
		return sub
	}
	sub.Class = make([]int, len(pos))
	for i, label := range sub.Labels {
		sub.Class[i] = slices.Index(classes, label)
		sub.Targets[i] = float64(sub.Class[i])
	}
	return sub
}

// gather returns the rows at these positions of a table of a width; nil of nil.
func gather[T any](v []T, pos []int, width int) []T {
	if v == nil {
		return nil
	}
	out := make([]T, 0, len(pos)*width)
	for _, p := range pos {
		out = append(out, v[p*width:(p+1)*width]...)
	}
	return out
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

// Grouped returns the rows with fewer classes: class k of s is class to[k] of the
// result, whose labels are classes. It returns s if it has no classes.
func (s *Subset) Grouped(to, classes []int) *Subset {
	if s.Class == nil {
		return s
	}
	g := *s
	g.Classes, g.Class, g.Targets, g.Labels = slices.Clone(classes), make([]int, s.Len()), make([]float64, s.Len()), make([]int, s.Len())
	for i, k := range s.Class {
		g.Class[i], g.Targets[i], g.Labels[i] = to[k], float64(to[k]), classes[to[k]]
	}
	return &g
}
