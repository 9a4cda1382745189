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

// Stored holds rows of a data set without the files from which they were read.
type Stored struct {
	Rows    []int     // of the original file, ascending
	Shape   []int     // of one input
	Columns []string  // names of the features; nil for images
	Targets []float64 // labels or targets, row-major
	Integer bool      // the targets are labels
	Names   []string  // the labels as words; nil where they are integers
	IDs     []string  // what the rows are called; nil without names
	Weights []float64 // of the rows; nil without weights
	Shares  []float64 // as in Rows
	Pixels  []byte    // images, one byte a pixel; nil for other inputs
	X       []float64 // features, or images of real numbers; nil otherwise
	Held    []int     // positions of the rows whose inputs are here, ascending; nil for all
}

// Stored returns the rows of a subset of the data, in the order of the file, with
// copies of their inputs, of those at the positions held of the subset alone unless it is nil.
// The error is an error of Set.Read.
func (d *Data) Stored(ctx context.Context, s *Rows, held []int) (*Stored, error) {
	order := make([]int, s.n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(s.Row(i), s.Row(j)) })
	all := s.At(order)
	r := &Stored{Rows: all.Index, Shape: s.Shape, Columns: d.Columns, Integer: s.Labels != nil, Names: s.Names, IDs: all.IDs, Shares: all.Shares, Weights: all.Weights, Targets: all.Targets}
	if r.Integer {
		r.Targets = make([]float64, s.n)
		for i := range r.Targets {
			r.Targets[i] = float64(all.OwnLabel(i))
		}
	}
	if held != nil {
		r.Held = make([]int, len(held))
		for i, k := range held {
			r.Held[i], _ = slices.BinarySearch(all.Index, s.Row(k))
		}
		slices.Sort(r.Held)
		r.Held = slices.Compact(r.Held) // an inducing element may be a row again
		all = all.At(r.Held)
	}
	if s.bytes() {
		r.Pixels = make([]byte, 0, all.n*s.Dim())
		for i := range all.n {
			img, err := all.ReadImage(ctx, i)
			if err != nil {
				return nil, err
			}
			r.Pixels = append(r.Pixels, img...)
		}
		return r, nil
	}
	x, err := all.Read(ctx)
	if err != nil {
		return nil, err
	}
	r.X = x.RawMatrix().Data
	return r, nil
}

// Data returns the data that the rows are from, without any row: WithTrain puts them
// in. source says where they come from, for messages.
func (r *Stored) Data(source string) *Data {
	d := &Data{Name: source, Source: source, Inside: true, Shape: r.Shape, Columns: r.Columns, IntegerLabels: r.Integer, Names: r.Names}
	d.Train, d.Valid, d.Test = noRows("train", source), noRows("valid", source), noRows("test", source)
	return d
}

// WithTrain returns the data with stored rows in place of the training part. file
// names their origin in messages. Rows that do not fit the data or each other are
// an *Error.
func (d *Data) WithTrain(r *Stored, file string) (*Data, error) {
	fail := func(format string, a ...any) (*Data, error) {
		return nil, &Error{File: file, Problem: "its training rows " + fmt.Sprintf(format, a...), Remedy: "write it again, or name the data it belongs to"}
	}
	n, held, dim := len(r.Rows), len(r.Rows), 1
	if r.Held != nil {
		held = len(r.Held)
	}
	for _, k := range r.Shape {
		if k < 1 || k > math.MaxInt32/dim {
			return fail("have an impossible shape %v", r.Shape)
		}
		dim *= k
	}
	images := r.Pixels != nil
	switch {
	case n == 0 || len(r.Targets) == 0 || len(r.Targets)%n != 0 || r.Integer && len(r.Targets) != n || r.IDs != nil && len(r.IDs) != n || r.Weights != nil && len(r.Weights) != n || len(r.Shares)%n != 0 ||
		images && len(r.Pixels) != held*dim || !images && len(r.X) != held*dim:
		return fail("are incomplete")
	case images && !d.Images(), !images && d.hasPixels():
		return fail("are not of the same kind as those of %s", d.Source)
	case (r.Names != nil) != (d.Names != nil), d.Images() && r.Integer != d.IntegerLabels:
		return fail("have labels of another kind than those of %s", d.Source)
	case !slices.Equal(r.Shape, d.Shape):
		return fail("have inputs of shape %v, those of %s have %v", r.Shape, d.Source, d.Shape)
	case !slices.Equal(r.Columns, d.Columns):
		return fail("have columns %s, those of %s are %s", option.QuoteList(r.Columns), d.Source, option.QuoteList(d.Columns))
	}
	for i, row := range r.Rows {
		if row < 0 || row == math.MaxInt || i > 0 && row <= r.Rows[i-1] {
			return fail("are not in order")
		}
	}
	s := &Rows{Part: d.Train.Part, File: file, Shape: r.Shape, n: n, Index: r.Rows, fileRows: r.Rows[n-1] + 1, inputs: new(inputs)}
	if r.Integer {
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
	s.IDs, s.Weights, s.Shares = r.IDs, r.Weights, r.Shares
	if slices.ContainsFunc(r.Weights, func(w float64) bool { return !(w >= 0) || math.IsInf(w, 1) }) {
		return fail("have weights that are no weights")
	}
	if images {
		s.px = r.Pixels
	} else {
		s.x = r.X
		s.findRange()
	}
	if r.Held != nil {
		s.held = make(map[int]int, held)
		for i, p := range r.Held {
			if p < 0 || p >= n || i > 0 && p <= r.Held[i-1] {
				return fail("are not in order")
			}
			s.held[p] = i
		}
	}
	if r.Names == nil && !(images && r.Integer) {
		s.Targets = r.Targets
	}
	out := *d
	out.Train = s
	return out.finish()
}
