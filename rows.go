package funcgp

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"io"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// Rows are inputs in the units of the data. Each has been checked to be an input that the network takes.
type Rows struct {
	asked *dataset.Rows
	own   *Posterior
}

// Len is the number of rows.
func (r *Rows) Len() int { return r.asked.Len() }

// Slice returns the rows [lo, hi).
func (r *Rows) Slice(lo, hi int) *Rows { return &Rows{r.asked.Slice(lo, hi), r.own} }

// Index returns the number of row i in the file of the data, or its position among rows that did not come from
// the data.
func (r *Rows) Index(i int) int { return r.asked.Row(i) }

// Called returns the same rows with a name that errors use for them.
func (r *Rows) Called(name string) *Rows {
	asked := *r.asked
	asked.File = name
	return &Rows{&asked, r.own}
}

// Part returns the part of the data that the rows belong to: train, valid or test. It is file for rows that did
// not come from the data.
func (r *Rows) Part() string { return r.asked.Part }

// Named names row i, with its label in the data.
func (r *Rows) Named(i int) result.NamedRow {
	return result.NamedRow{Index: result.Index(r.asked.Row(i)), Label: result.Float(label(r.asked, i)), LabelName: r.own.problem.LabelName(r.asked, i), ID: idOf(r.asked, i)}
}

// Values are the rows as they are in the file, T×D: features in the units of the data, pixels from 0 to 1.
func (r *Rows) Values(ctx context.Context) (*mat.Dense, error) {
	x, err := r.asked.Read(ctx)
	return x, r.own.named(err)
}

// ID is the name of row i, "" for none.
func (r *Rows) ID(i int) string { return idOf(r.asked, i) }

// Label is the number of the label of row i in the data; NaN of a row without a label or with a target that is a number.
func (r *Rows) Label(i int) result.Float {
	if r.asked.Labels == nil {
		return result.Undefined()
	}
	return result.Float(r.asked.OwnLabel(i))
}

// Name names row i for messages, by its file, its part of the data and its number.
func (r *Rows) Name(i int) string { return r.asked.Name(i) }

// Located adds to err, which may be nil, the row at which numbers went wrong and a remedy. err comes from a
// package below this one that computed with the rows, and may carry the row's position.
func (r *Rows) Located(err error) error { return named(explainError(r.asked, err)) }

// Source gives the rows to packages below this one, linearized anew in each pass, until ctx is done. It must not be used
// after the posterior is closed.
func (r *Rows) Source(ctx context.Context) linearize.Source {
	return r.own.problem.Examples.Source(ctx, r.own.problem.Model, r.asked)
}

// Pictures returns a function that finds the picture of a row by its number, for a page: pixels, or the
// features in their units. A picture that cannot be read is empty and sets err, which the caller checks when
// the page is written. The function must not be used after Close.
func (r *Rows) Pictures(ctx context.Context, err *error) func(row result.Index) result.Picture {
	return r.own.problem.Examples.Pictures(ctx, r.asked, err)
}

// Notes say what was done to pictures to fit them to the network.
func (r *Rows) Notes() []string { return append([]string(nil), r.asked.Notes...) }

// held reads the rows of d, which are in memory. If the network is known, the inputs have the shape that it
// takes.
func held(d *Data, net *network.Network) (*dataset.Data, error) {
	var shape []int
	if net != nil && len(net.InputShape()) > 1 {
		shape = net.InputShape()
	}
	out, err := dataset.Matrices(d.X, d.Y, d.Weights, d.Columns, shape)
	if err != nil {
		return nil, named(err)
	}
	return out, nil
}

// ReadOptions are the options of Read and Picture. Zero values mean the defaults.
type ReadOptions struct {
	Name string // what errors and notes call the rows; default the input, or the picture
	// Invert chooses whether the grey levels of a picture are inverted: yes, no, or "". With "" they are
	// inverted if the picture's border is clearly the opposite of the border of the training pictures, and
	// Notes say so.
	Invert   string
	MaxBytes int64 // the most memory that the rows, and decoding them, may take; default Limits.Memory
}

// take makes Rows of rows that did not come from the data. Errors and notes call them name unless the options
// name them. The options may be nil.
func (p *Posterior) take(name string, o *ReadOptions, read func(o *dataset.InputOptions) (*dataset.Rows, error)) (*Rows, error) {
	if o == nil {
		o = &ReadOptions{}
	}
	invert, err := invert(o.Invert)
	if err != nil {
		return nil, named(err)
	}
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	asked, err := read(p.problem.Own(dataset.InputOptions{Invert: invert, MaxBytes: gp.MemoryBudget(cmp.Or(o.MaxBytes, p.problem.Memory)), Name: cmp.Or(o.Name, name)}))
	if err != nil {
		return nil, named(err)
	}
	return &Rows{asked, p}, nil
}

// Read reads rows from a file, whose kind its first bytes tell: a PNG or JPEG picture, which is fitted to the inputs of the
// network; a table as ReadCSV reads it, gzipped or not, of grey levels from 0 to 255 where inputs are pictures; or a .npy
// or .npz file of N×D numbers, or of N inputs in their shape. The options may be nil. The error names the place in the file.
func (p *Posterior) Read(ctx context.Context, r io.Reader, o *ReadOptions) (*Rows, error) {
	return p.take("the input", o, func(o *dataset.InputOptions) (*dataset.Rows, error) {
		o.Standard = r
		return dataset.ReadInputs(ctx, "-", o)
	})
}

// ReadCSV reads rows of a table: a header with the names of the training data's columns, in any order and
// among others, and numbers in their units; or just D numbers a line.
func (p *Posterior) ReadCSV(ctx context.Context, r io.Reader) (*Rows, error) {
	return p.Read(ctx, r, &ReadOptions{Name: "the table"})
}

// ReadPicture reads a PNG or JPEG file, which is fitted to the inputs of the network.
func (p *Posterior) ReadPicture(ctx context.Context, r io.Reader) (*Rows, error) {
	return p.Read(ctx, r, &ReadOptions{Name: "the picture"})
}

// Picture is a picture, which is fitted to the inputs of the network. The options may be nil.
func (p *Posterior) Picture(ctx context.Context, img image.Image, o *ReadOptions) (*Rows, error) {
	return p.take("the picture", o, func(o *dataset.InputOptions) (*dataset.Rows, error) { return o.Drawn(ctx, img) })
}

// Rows are the rows of x, N×D, in the units of the training data; pixels run from 0 to 255, whole numbers or not.
// Columns, if any are given, name those of x: those of the training data are taken by their names, in any order and
// among others, and one that is missing or there twice is an error. Without them the order is that of the training data.
// The numbers are copied, once.
func (p *Posterior) Rows(_ context.Context, x mat.Matrix, columns ...string) (*Rows, error) {
	return p.take("the rows", nil, func(o *dataset.InputOptions) (*dataset.Rows, error) { return o.Numbers(x, columns) })
}

// Records are rows by the names of the columns of the training data, in their units. A column that is
// missing is an error, and a name that is no column too.
func (p *Posterior) Records(_ context.Context, records []map[string]float64) (*Rows, error) {
	columns := p.problem.Examples.Data.Columns
	if columns == nil {
		return nil, fmt.Errorf("funcgp: records are for tables, but the inputs have shape %v; use Picture or Rows", p.problem.Examples.Data.Shape)
	}
	x := dense.View(dense.New(len(records), len(columns)))
	for i, r := range records {
		for j, name := range columns {
			v, ok := r[name]
			if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("funcgp: record %d has no number for column %q; give all of %s", i, name, option.QuoteList(columns))
			}
			x.Set(i, j, v)
		}
		for name := range r {
			if len(r) > len(columns) && !slices.Contains(columns, name) {
				return nil, fmt.Errorf("funcgp: record %d has %q, which is no column of the inputs; leave it out, as they are %s", i, name, option.QuoteList(columns))
			}
		}
	}
	return p.take("the records", nil, func(o *dataset.InputOptions) (*dataset.Rows, error) { return o.Numbers(x, nil) })
}

// Pool reads rows for which a label may be asked. source is a file or folder as gpexplain acquire takes it, or
// names data as Data.Source does. Of data it takes the training rows, without those of the posterior if it has
// the same data. Labels are not used. It is an error if no row is left.
func (p *Posterior) Pool(ctx context.Context, source string) (*Rows, error) {
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	asked, err := p.problem.Pool(ctx, job.FromContext(ctx), source)
	if err != nil {
		return nil, named(err)
	}
	return &Rows{asked, p}, nil
}

// TestRows are test rows of the data by their 0-based numbers in the original file; without numbers all. A number of a
// row that is no test row, or is of a class that is not among Classes, is an error.
func (p *Posterior) TestRows(ctx context.Context, index ...int) (*Rows, error) {
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	rows, err := p.problem.Examples.Test(0, index, "{index}")
	if err != nil {
		return nil, named(err)
	}
	return &Rows{rows, p}, nil
}

// TrainingRows are training rows by their numbers in the file of the data; without numbers all, in the order of Dual.
func (p *Posterior) TrainingRows(_ context.Context, index ...int) (*Rows, error) {
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	rows := p.problem.Examples.Train
	if index != nil {
		if _, err := p.problem.TrainPositions("TrainingRows", index); err != nil {
			return nil, named(err)
		}
		if rows, err = p.problem.Examples.Training(index, "TrainingRows"); err != nil {
			return nil, named(err)
		}
	}
	return &Rows{rows, p}, nil
}

// Inputs returns the numbers of the rows as they are in the data, N×D.
func (r *Rows) Inputs(ctx context.Context) (*mat.Dense, error) {
	end, err := r.own.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	x, err := r.asked.Read(ctx)
	return x, named(err)
}

// Targets are the label of row i as a number, or its targets; NaN where they are unknown.
func (r *Rows) Targets(i int) []float64 {
	rows := r.asked
	if w := rows.Width(); rows.Labels == nil && w > 1 {
		return slices.Clone(rows.Targets[i*w : (i+1)*w])
	}
	return []float64{label(rows, i)}
}

// Select returns the rows that a query asks for. If it names none, Select returns the first count test rows of
// the kept classes, or all of them for a count of 0.
func (p *Posterior) Select(ctx context.Context, o *Query, count int) (*Rows, error) {
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	asked, err := o.pick(ctx, job.FromContext(ctx), p.problem, count)
	if err != nil {
		return nil, p.named(err)
	}
	return &Rows{asked, p}, nil
}

// ReadRowNumbers reads the numbers of rows from a file, one a line.
func ReadRowNumbers(ctx context.Context, path string) ([]int, error) {
	rows, err := dataset.ReadRows(ctx, path)
	return rows, named(err)
}
