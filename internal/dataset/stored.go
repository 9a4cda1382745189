package dataset

import (
	"fmt"
	"math"
	"slices"
)

// Stored holds rows of a data set without the files from which they were read.
type Stored struct {
	Rows    []int     // of the original file, ascending
	Shape   []int     // of one input
	Columns []string  // names of the features; nil for images
	Targets []float64 // labels or targets, one a row
	Integer bool      // the targets are labels
	Pixels  []byte    // images, one byte a pixel; nil for features
	X       []float64 // features; nil for images
}

// Stored returns the rows of a subset of the data, in the order of the file, with
// copies of their inputs.
func (d *Data) Stored(s *Subset) *Stored {
	pos := slices.Clone(s.Pos)
	slices.Sort(pos)
	r := &Stored{Shape: s.Set.Shape, Columns: d.Columns, Integer: s.Set.Labels != nil}
	for _, p := range pos {
		r.Rows = append(r.Rows, s.Set.Row(p))
		if r.Integer {
			r.Targets = append(r.Targets, float64(s.Set.Labels[p]))
		} else {
			r.Targets = append(r.Targets, s.Set.Targets[p])
		}
	}
	if s.Set.Images() {
		r.Pixels = make([]byte, len(pos)*s.Set.Dim())
		for i, p := range pos {
			s.Set.px.imageTo(r.Pixels[i*s.Set.Dim():(i+1)*s.Set.Dim()], p)
		}
		return r
	}
	r.X = s.Set.Matrix(pos).RawMatrix().Data
	return r
}

// WithTrain returns the data with stored rows in place of the training part. file
// names their origin in messages. Rows that do not fit the data or each other are
// an *Error.
func (d *Data) WithTrain(r *Stored, file string) (*Data, error) {
	fail := func(format string, a ...any) (*Data, error) {
		return nil, &Error{File: file, Problem: "its training rows " + fmt.Sprintf(format, a...), Remedy: "write it again, or name the data it belongs to"}
	}
	n := len(r.Rows)
	dim := 1
	for _, k := range r.Shape {
		if k < 1 || k > math.MaxInt32/dim {
			return fail("have an impossible shape %v", r.Shape)
		}
		dim *= k
	}
	images := r.Pixels != nil
	switch {
	case n == 0 || len(r.Targets) != n || images && len(r.Pixels) != n*dim || !images && len(r.X) != n*dim:
		return fail("are incomplete")
	case images && !r.Integer:
		return fail("are images without labels")
	case images != d.Images():
		return fail("are not of the same kind as those of %s", d.Source)
	case !slices.Equal(r.Shape, d.Shape):
		return fail("have inputs of shape %v, those of %s have %v", r.Shape, d.Source, d.Shape)
	case !slices.Equal(r.Columns, d.Columns):
		return fail("have columns %s, those of %s are %s", quoteList(r.Columns), d.Source, quoteList(d.Columns))
	}
	for i, row := range r.Rows {
		if row < 0 || row == math.MaxInt || i > 0 && row <= r.Rows[i-1] {
			return fail("are not in order")
		}
	}
	s := &Set{Part: d.Train.Part, File: file, Shape: r.Shape, n: n, rows: r.Rows, fileRows: r.Rows[n-1] + 1}
	if r.Integer {
		s.Labels = make([]int, n)
		for i, v := range r.Targets {
			if s.Labels[i] = int(v); float64(s.Labels[i]) != v {
				return fail("have labels that are no integers")
			}
		}
	}
	if images {
		s.px = storedPixels{r.Pixels, dim}
	} else {
		s.Targets, s.x = r.Targets, r.X
	}
	out := *d
	out.Train = s
	return out.finish()
}
