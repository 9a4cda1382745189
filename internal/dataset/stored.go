package dataset

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/text/unicode/norm"

	"github.com/funcgp/funcgp/internal/option"
)

// Kept returns the rows in the order of the file, with copies of their inputs in memory. If held is not nil, only the
// rows at these positions have inputs. Targets holds labels too, as the data have them. The error is an error of
// Read.
func (s *Rows) Kept(ctx context.Context, held []int) (*Rows, error) {
	order := rowsFrom(0, s.n)
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(s.Row(i), s.Row(j)) })
	out := *s.At(order)
	from := out
	out.inputs, out.places = &inputs{last: s.last, whole: s.whole}, nil
	if held != nil {
		at := make([]int, len(held))
		for i, k := range held {
			at[i], _ = slices.BinarySearch(out.Index, s.Row(k))
		}
		slices.Sort(at)
		out.held = slices.Compact(at) // several inducing elements may be the same row
		from = *from.At(out.held)
	}
	if s.Labels != nil {
		out.Targets = make([]float64, s.n)
		for i := range out.Targets {
			out.Targets[i] = float64(out.OwnLabel(i))
		}
	}
	if !s.bytes() {
		x, err := from.Read(ctx)
		if err == nil {
			out.x = x.RawMatrix().Data
		}
		return &out, err
	}
	out.px = make([]byte, 0, from.n*s.Dim())
	for i := range from.n {
		img, err := from.ReadImage(ctx, i)
		if err != nil {
			return nil, err
		}
		out.px = append(out.px, img...)
	}
	return &out, nil
}

// Memory returns the inputs in memory: pixels or other numbers, and the positions of the rows that have inputs, nil
// for all.
func (s *Rows) Memory() (pixels []byte, x []float64, held []int) { return s.px, s.x, s.held }

// Hold sets the inputs of the rows to what Memory returned.
func (s *Rows) Hold(pixels []byte, x []float64, held []int) {
	s.inputs = &inputs{px: pixels, x: x, held: held}
}

// Join returns the rows s of Kept followed by the rows more, which get the numbers first, first+1, ….
func (s *Rows) Join(more *Rows, first int) *Rows {
	out := *s
	out.Index, out.IDs, out.Targets = slices.Concat(s.Index, rowsFrom(first, first+more.n)), slices.Concat(s.IDs, more.IDs), slices.Concat(s.Targets, more.Targets)
	if s.Shares != nil {
		out.Shares = slices.Concat(s.Shares, more.Shares)
	}
	if s.Weights != nil {
		out.Weights = slices.Concat(s.Weights, more.Weights)
	}
	if more.Labels == nil {
		out.Labels = nil
	}
	out.Hold(append(s.px, more.px...), append(s.x, more.x...), nil)
	return &out
}

// Without returns data of the form of these rows but without rows; WithTrain adds rows. source is the origin of
// the data for messages.
func Without(r *Rows, source string) *Data {
	d := &Data{Name: source, Source: source, Inside: true, Shape: r.Shape, Columns: r.Columns, IntegerLabels: r.Labels != nil, Names: r.Names}
	d.Train, d.Valid, d.Test = noRows("train", source), noRows("valid", source), noRows("test", source)
	return d
}

// WithTrain returns the data with r, rows as Kept returns them, as the training part. If Labels is not nil, the
// values of the labels are taken from Targets. file is the origin of the rows for messages. The error is an *Error if
// the rows do not fit the data or each other.
func (d *Data) WithTrain(r *Rows, file string) (*Data, error) {
	fail := func(format string, a ...any) (*Data, error) {
		return nil, &Error{File: file, Problem: "its training rows " + fmt.Sprintf(format, a...), Remedy: "write it again, or name the data it belongs to"}
	}
	s := *r
	s.Part, s.File, s.n = d.Train.Part, file, len(r.Index)
	n, integer, inside, dim := s.n, r.Labels != nil, s.n, 1
	if s.held != nil {
		inside = len(s.held)
	}
	for _, k := range r.Shape {
		if k < 1 || k > math.MaxInt32/dim {
			return fail("have an impossible shape %v", r.Shape)
		}
		dim *= k
	}
	images := s.px != nil
	switch {
	case n == 0 || len(r.Targets) == 0 || len(r.Targets)%n != 0 || integer && len(r.Targets) != n || r.IDs != nil && len(r.IDs) != n || r.Weights != nil && len(r.Weights) != n || len(r.Shares)%n != 0 ||
		images && len(s.px) != inside*dim || !images && len(s.x) != inside*dim:
		return fail("are incomplete")
	case images && !d.Images(), !images && d.hasPixels():
		return fail("are not of the same kind as those of %s", d.Source)
	case (r.Names != nil) != (d.Names != nil), d.Images() && integer != d.IntegerLabels:
		return fail("have labels of another kind than those of %s", d.Source)
	case !slices.Equal(r.Shape, d.Shape):
		return fail("have inputs of shape %v, those of %s have %v", r.Shape, d.Source, d.Shape)
	case !slices.Equal(r.Columns, d.Columns):
		return fail("have columns %s, those of %s are %s", option.QuoteList(r.Columns), d.Source, option.QuoteList(d.Columns))
	}
	for i, row := range r.Index {
		if row < 0 || row == math.MaxInt || i > 0 && row <= r.Index[i-1] {
			return fail("are not in order")
		}
	}
	s.fileRows = r.Index[n-1] + 1
	if integer {
		s.Labels = make([]int, n)
		for i, v := range r.Targets {
			if s.Labels[i] = int(v); float64(s.Labels[i]) != v || r.Names != nil && (v < 0 || int(v) >= len(r.Names)) {
				return fail("have labels that are no integers")
			}
			if r.Names == nil {
				continue
			}
			k, ok := slices.BinarySearch(d.Names, norm.NFC.String(r.Names[s.Labels[i]]))
			if !ok {
				return fail("have the label %s, which those of %s do not have", option.Quote(r.Names[s.Labels[i]]), d.Source)
			}
			s.Labels[i] = k
		}
	}
	if slices.ContainsFunc(r.Weights, func(w float64) bool { return !(w >= 0) || math.IsInf(w, 1) }) {
		return fail("have weights that are no weights")
	}
	if images {
		s.x = nil
	}
	s.findRange()
	for i, p := range s.held {
		if p < 0 || p >= n || i > 0 && p <= s.held[i-1] {
			return fail("are not in order")
		}
	}
	if r.Names != nil || images && integer {
		s.Targets = nil
	}
	out := *d
	out.Train = &s
	return out.finish()
}
