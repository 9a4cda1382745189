package dataset

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/picture"
)

// Matrices returns data whose only rows are training rows with inputs x, N×D, targets y, N×T, and weights, which may
// be nil. columns names the columns of x; nil names them by number. shape is the shape of one input; nil is [D]. The
// numbers are copied. The error is an *Error that names x and y as X and Y.
func Matrices(x, y *mat.Dense, weights []float64, columns []string, shape []int) (*Data, error) {
	n, dim := x.Dims()
	t := newTable("X")
	t.n, t.Shape, t.Columns, t.Weights = n, shape, slices.Clone(columns), slices.Clone(weights)
	if y == nil || y.RawMatrix().Rows != n {
		return nil, t.errorf("give Y as many", "%d rows, but Y has other than that", n)
	}
	if shape == nil && columns == nil {
		for j := range dim {
			t.Columns = append(t.Columns, strconv.Itoa(j))
		}
	}
	twice, repeats := repeated(columns)
	switch {
	case shape != nil && size(shape) != dim:
		return nil, t.errorf("give rows of that shape", "%d columns, but the network takes inputs of shape %v", dim, shape)
	case columns != nil && len(columns) != dim:
		return nil, t.errorf("name each", "%d names of columns, but there are %d columns", len(columns), dim)
	case repeats:
		return nil, t.errorf("rename one", "two columns have the same name %s", option.Quote(twice))
	case weights != nil && len(weights) != n:
		return nil, t.errorf("give one for each", "%d Weights for %d rows", len(weights), n)
	}
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 1) {
			return nil, t.errorf("give numbers of 0 or more", "the weight of row %d is %v", i, w)
		}
	}
	t.x, t.Targets, t.targets = mat.DenseCopyOf(x).RawMatrix().Data, mat.DenseCopyOf(y).RawMatrix().Data, make([]string, y.RawMatrix().Cols)
	if err := cmp.Or(finite("X", t.x, dim, 0, named(columns)), finite("Y", t.Targets, len(t.targets), 0, named(nil))); err != nil {
		return nil, err
	}
	const source = "the rows"
	d := &Data{Name: source, Source: source, Inside: true, Columns: t.Columns}
	if weights != nil {
		d.Weights = "Weights"
	}
	none := newTable(source)
	none.files = []string{}
	t.File, t.files = source, none.files
	return d.take([3]*table{t, none, none}, nil, nil)
}

// Numbers returns the rows of x, N×D, in the units of the data: pixels run from 0 to 255 and need not be whole
// numbers. columns, if given, names the columns of x as the header of a table does; without it they have the order of
// the data. The numbers are copied. The error is an *Error.
func (o *InputOptions) Numbers(x mat.Matrix, columns []string) (*Rows, error) {
	n, width := x.Dims()
	d := size(o.Like.Shape)
	t := newTable(o.Name)
	t.n = n
	var places []int
	switch {
	case n == 0:
		return nil, t.errorf("give at least one", "there are no rows")
	case columns != nil && o.Like.Columns == nil:
		return nil, t.errorf("leave the names of columns out", "the inputs have shape %v, and their numbers no names", o.Like.Shape)
	case columns != nil && len(columns) != width:
		return nil, t.errorf("name each", "%d names of columns, but there are %d columns", len(columns), width)
	case columns != nil:
		var err error
		if places, err = Places(columns, o.Like.Columns, o.Spare, o.Name, 0); err != nil {
			return nil, err
		}
	case width != d:
		return nil, t.errorf(option.Textf("give rows of inputs of shape %v", o.Like.Shape), "%d numbers a row, want %d", width, d)
	}
	if o.MaxBytes > 0 && int64(n) > o.MaxBytes/int64(8*d) {
		return nil, t.errorf("give fewer rows, or allow more memory", "%d rows of %d numbers take more than the %d bytes of memory that may be used", n, d, o.MaxBytes)
	}
	t.x = make([]float64, n*d)
	for i := range n {
		row := t.x[i*d : (i+1)*d]
		if places == nil {
			mat.Row(row, i, x)
		} else {
			for k, j := range places {
				if row[k] = math.NaN(); j >= 0 { // a negative j is a spare column, which stays NaN
					row[k] = x.At(i, j)
				}
			}
		}
		if err := o.take(row, i); err != nil {
			return nil, err
		}
	}
	rows := o.inputs(t)
	rows.levels = o.Like.GreyLevels() && rows.whole // even if no pixel is bright
	return rows, nil
}

// take checks the numbers of row i and converts grey levels to inputs of the network.
func (o *InputOptions) take(row []float64, i int) error {
	if o.Like.GreyLevels() {
		whole := o.whole()
		for k, v := range row {
			if !(v >= 0 && v <= 255) {
				return &Error{File: o.Name, Place: fmt.Sprintf("row %d, %s", i, place(k, "")), Problem: fmt.Sprintf("%v is not a grey level", v), Remedy: "give numbers from 0 to 255"}
			}
			if !whole {
				row[k] = v / 255
			}
		}
		return nil
	}
	for k, v := range row {
		if bad(v) && !(o.Spare != nil && o.Spare[k]) {
			return notFinite(o.Name, i, named(o.Like.Columns)(k), v)
		}
	}
	return nil
}

// Drawn returns a picture in memory as one row, fitted to the inputs. The error is an *Error or, if ctx is done,
// its error.
func (o *InputOptions) Drawn(ctx context.Context, img image.Image) (*Rows, error) {
	fit, err := o.pictureOptions(ctx, o.Name)
	if err != nil {
		return nil, err
	}
	pixels, notes, err := o.fit(&picture.Picture{Image: img}, fit, o.Name)
	if err != nil {
		return nil, err
	}
	t := newTable(o.Name)
	t.n, t.px, t.Notes = 1, pixels, notes
	return o.inputs(t), nil
}

// named returns a function that describes column j by its name, if it has one.
func named(names []string) func(j int) string {
	return func(j int) string {
		if j < len(names) {
			return place(j, names[j])
		}
		return place(j, "")
	}
}
