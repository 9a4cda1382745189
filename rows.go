package funcgp

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize/network"
)

// Rows are inputs in the units of the data, each checked to be what the network takes.
type Rows struct {
	asked *problem.Asked
	own   *Posterior
}

// Len is the number of rows.
func (r *Rows) Len() int { return r.asked.Len() }

// Slice is the rows from lo to below hi.
func (r *Rows) Slice(lo, hi int) *Rows {
	asked := *r.asked
	asked.Subset = asked.Subset.Slice(lo, hi)
	return &Rows{&asked, r.own}
}

// Notes say what was done to pictures to fit them to the network.
func (r *Rows) Notes() []string { return append([]string(nil), r.asked.Notes...) }

// held are the rows of d in memory. Their inputs have the shape that the network takes, if it is known.
func (d *Data) held(net *network.Network) (*dataset.Data, error) {
	n, dim := d.X.Dims()
	if d.Y == nil || d.Y.RawMatrix().Rows != n {
		return nil, fmt.Errorf("funcgp: X has %d rows, and Y must have as many", n)
	}
	r := &dataset.Stored{Shape: []int{dim}, Columns: d.Columns, X: dense.Contiguous(mat.DenseCopyOf(d.X)), Targets: dense.Contiguous(mat.DenseCopyOf(d.Y))}
	for i := range n {
		r.Rows = append(r.Rows, i)
	}
	if net != nil && len(net.InputShape()) > 1 {
		r.Shape = net.InputShape()
	} else if r.Columns == nil {
		for j := range dim {
			r.Columns = append(r.Columns, fmt.Sprint(j))
		}
	}
	if d.Weights != nil {
		if len(d.Weights) != n {
			return nil, fmt.Errorf("funcgp: %d Weights for %d rows X; give one for each", len(d.Weights), n)
		}
		for i, w := range d.Weights {
			if !(w >= 0) || math.IsInf(w, 1) {
				return nil, fmt.Errorf("funcgp: the weight of row %d is %v; give numbers of 0 or more", i, w)
			}
		}
		r.Weights = slices.Clone(d.Weights)
	}
	r.Integer = len(r.Targets) == n && !slices.ContainsFunc(r.Targets, func(y float64) bool { return y != math.Trunc(y) })
	for _, v := range slices.Concat(r.X, r.Targets) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("funcgp: X or Y has %v; leave such rows out", v)
		}
	}
	out, err := r.Data("the rows").WithTrain(r, "the rows")
	if err != nil {
		return nil, named(err)
	}
	if d.Weights != nil {
		out.Weights = "Weights"
	}
	return out, nil
}

// read reads rows of one's own from in, which errors and notes call name.
func (p *Posterior) read(ctx context.Context, in io.Reader, name string) (*Rows, error) {
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	asked, err := p.problem.Read(ctx, "-", dataset.InputOptions{MaxBytes: gp.MemoryBudget(p.problem.Limits.Memory), Standard: in, Name: name})
	if err != nil {
		return nil, named(err)
	}
	asked.File = "rows"
	return &Rows{asked, p}, nil
}

// ReadCSV reads rows of a table: a header with the names of the training data's columns, in any order and
// among others, and numbers in their units; or just D numbers a line.
func (p *Posterior) ReadCSV(ctx context.Context, r io.Reader) (*Rows, error) {
	return p.read(ctx, r, "the table")
}

// ReadPicture reads a PNG or JPEG file, which is fitted to the inputs of the network.
func (p *Posterior) ReadPicture(ctx context.Context, r io.Reader) (*Rows, error) {
	return p.read(ctx, r, "the picture")
}

// Picture is a picture, which is fitted to the inputs of the network.
func (p *Posterior) Picture(ctx context.Context, img image.Image) (*Rows, error) {
	var file bytes.Buffer
	if err := png.Encode(&file, img); err != nil {
		return nil, named(err)
	}
	return p.read(ctx, &file, "the picture")
}

// Rows are the rows of x, N×D, in the units of the training data; pixels run from 0 to 255. Columns, if any are given,
// name those of x: those of the training data are taken by their names, in any order and among others, and one that is
// missing or there twice is an error. Without them the order is that of the training data.
func (p *Posterior) Rows(ctx context.Context, x mat.Matrix, columns ...string) (*Rows, error) {
	n, d := x.Dims()
	places := make([]int, d)
	for j := range places {
		places[j] = j
	}
	if want := p.problem.Examples.Data.Columns; columns != nil {
		if want == nil {
			return nil, fmt.Errorf("funcgp: the inputs have shape %v, and their numbers no names; leave the columns out", p.problem.Examples.Data.Shape)
		}
		if len(columns) != d {
			return nil, fmt.Errorf("funcgp: %d names of columns, but x has %d; name each", len(columns), d)
		}
		var err error
		if places, err = dataset.Places(columns, want, nil, "the columns of x", 0); err != nil {
			return nil, named(err)
		}
	}
	var b bytes.Buffer
	for i := range n {
		for k, j := range places {
			if k > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.FormatFloat(x.At(i, j), 'g', -1, 64))
		}
		b.WriteByte('\n')
	}
	return p.read(ctx, &b, "the rows")
}

// Records are rows by the names of the columns of the training data, in their units. A column that is
// missing is an error, and a name that is no column too.
func (p *Posterior) Records(ctx context.Context, records []map[string]float64) (*Rows, error) {
	columns := p.problem.Examples.Data.Columns
	if columns == nil {
		return nil, fmt.Errorf("funcgp: records are for tables, but the inputs have shape %v; use Picture or Rows", p.problem.Examples.Data.Shape)
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(columns) // a bytes.Buffer takes everything
	line := make([]string, len(columns))
	for i, r := range records {
		for j, name := range columns {
			v, ok := r[name]
			if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("funcgp: record %d has no number for column %q; give all of %s", i, name, dataset.QuoteList(columns))
			}
			line[j] = strconv.FormatFloat(v, 'g', -1, 64)
		}
		for name := range r {
			if len(r) > len(columns) && !slices.Contains(columns, name) {
				return nil, fmt.Errorf("funcgp: record %d has %q, which is no column of the inputs; leave it out, as they are %s", i, name, dataset.QuoteList(columns))
			}
		}
		_ = w.Write(line)
	}
	w.Flush()
	return p.read(ctx, &b, "the records")
}

// TestRows are test rows of the data by their 0-based numbers in the original file; without numbers all. A number of a
// row that is no test row, or is of a class that is not among Classes, is an error.
func (p *Posterior) TestRows(ctx context.Context, index ...int) (*Rows, error) {
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	rows, err := p.problem.Examples.Test(dataset.SelectOptions{Rows: index, From: "TestRows"})
	if err != nil {
		return nil, named(err)
	}
	return &Rows{&problem.Asked{Subset: rows}, p}, nil
}
