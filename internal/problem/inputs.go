package problem

import (
	"context"
	"fmt"
	"image"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/picture"
)

// RowFlags say which rows to predict or explain.
type RowFlags struct {
	Index, TestIndex, Input, Invert string
	All                             bool
}

// mostListed bounds the rows of --index.
const mostListed = 1 << 20

// Check refuses flags that are wrong without opening a file.
func (s *RowFlags) Check() error {
	given := map[string]bool{"index": s.Index != "", "test-index": s.TestIndex != "", "all": s.All, "input": s.Input != ""}
	if err := job.Exclusive(func(flag string) bool { return given[flag] }, "index", "test-index", "all", "input"); err != nil {
		return err
	}
	if s.Invert != "" && s.Input == "" {
		return job.Usagef("--invert is for --input")
	}
	if s.Invert != "" && s.Invert != "yes" && s.Invert != "no" {
		return job.Usagef("--invert=%s must be yes or no", s.Invert)
	}
	if k, err := strconv.Atoi(s.Index); err == nil && k < 0 {
		return job.Usagef("--index %d must be 0 or more", k)
	}
	if _, ok := ParseRows(s.Index, mostListed); !ok && s.Index != "" {
		return job.Usagef("--index %q must list rows such as 24 or 1,2,5-9", s.Index)
	}
	return nil
}

// Absolute asks for the same with absolute paths, for a file.
func (s RowFlags) Absolute() (_ RowFlags, err error) {
	if s.TestIndex, err = absolute(s.TestIndex); err == nil {
		s.Input, err = absolute(s.Input)
	}
	return s, err
}

// Asked are the rows that flags ask for.
type Asked struct {
	*dataset.Subset
	File  string   // of --input, "" for test rows
	Notes []string // what was done to the rows of the file
}

// Select returns the rows that the flags ask for, and where they ask for none the first count kept test rows, 0 for
// all.
func (s *RowFlags) Select(ctx context.Context, c *job.Job, p *Problem, count int) (*Asked, error) {
	o := dataset.SelectOptions{Count: count}
	switch {
	case s.Input != "":
		return s.inputs(ctx, c, p)
	case s.Index != "":
		rows, _ := ParseRows(s.Index, mostListed) // which Check has let pass
		o = dataset.SelectOptions{Rows: rows, From: "--index"}
	case s.TestIndex != "":
		rows, err := dataset.ReadRows(ctx, s.TestIndex)
		if err != nil {
			return nil, err
		}
		o = dataset.SelectOptions{Rows: rows, From: s.TestIndex}
	case s.All:
		o.Count = 0
	}
	rows, err := p.Examples.Test(o)
	return &Asked{Subset: rows}, err
}

// inputs reads the rows of --input, and says what was done to them.
func (s *RowFlags) inputs(ctx context.Context, c *job.Job, p *Problem) (*Asked, error) {
	o := dataset.InputOptions{MaxBytes: gp.MemoryBudget(p.Limits.Memory)}
	switch s.Invert {
	case "yes":
		o.Invert = picture.Yes
	case "no":
		o.Invert = picture.No
	}
	if s.Input == "-" {
		o.Standard = inputfile.Standard(ctx)
	}
	in, err := p.Read(ctx, s.Input, o)
	if err != nil {
		return nil, err
	}
	for _, note := range in.Notes {
		c.Note("%s", note)
	}
	return in, nil
}

// Read reads the inputs of rows of one's own, as --input does.
func (p *Problem) Read(ctx context.Context, path string, o dataset.InputOptions) (*Asked, error) {
	return p.own(&o, path, func() (*dataset.Inputs, error) { return dataset.ReadInputs(ctx, path, &o) })
}

// Numbers are rows of one's own in memory: see dataset.InputOptions.Numbers.
func (p *Problem) Numbers(x mat.Matrix, columns []string, o dataset.InputOptions) (*Asked, error) {
	return p.own(&o, o.Name, func() (*dataset.Inputs, error) { return o.Numbers(x, columns) })
}

// Drawn is a picture of one's own in memory: see dataset.InputOptions.Drawn.
func (p *Problem) Drawn(ctx context.Context, img image.Image, o dataset.InputOptions) (*Asked, error) {
	return p.own(&o, o.Name, func() (*dataset.Inputs, error) { return o.Drawn(ctx, img) })
}

// own are the rows that read returns once it is said what they must be like.
func (p *Problem) own(o *dataset.InputOptions, file string, read func() (*dataset.Inputs, error)) (*Asked, error) {
	o.Like, o.ID, o.Spare = p.Examples.Data, p.Examples.Data.ID, p.Model.spareColumns()
	in, err := read()
	if err != nil {
		return nil, err
	}
	rows, err := in.Set.Select(nil)
	return &Asked{rows, file, in.Notes}, err
}

// SeveralOf are the targets of row i of a subset where it has several, else nil.
func SeveralOf(rows *dataset.Subset, i int) []result.Float {
	width := rows.Set.Width()
	if width < 2 {
		return nil
	}
	return result.Floats(rows.Targets[i*width : (i+1)*width])
}

// Label is the data's own label or target of row i; NaN where it is unknown, or where a row has several.
func Label(rows *dataset.Subset, i int) float64 {
	switch {
	case rows.Labels != nil:
		return float64(rows.Labels[i])
	case rows.Set.Width() == 1:
		return rows.Targets[i]
	}
	return math.NaN()
}

// Pool reads rows whose labels are not used: a file or folder as --input takes it, or the training rows of data as
// --data names them, without the training rows of this problem where it has the same data.
func (p *Problem) Pool(ctx context.Context, c *job.Job, name string) (*Asked, error) {
	kind, _, _ := strings.Cut(name, ":")
	isData := kind == "digits" || name == "mnist"
	if info, err := os.Stat(name); !isData && err == nil && info.IsDir() {
		idx, _ := filepath.Glob(filepath.Join(name, "*-ubyte*"))
		isData = len(idx) > 0
	}
	var pool *Asked
	var err error
	if isData {
		pool, err = p.poolOfData(ctx, c, name)
	} else {
		pool, err = (&RowFlags{Input: name}).inputs(ctx, c, p)
	}
	if err != nil {
		return nil, err
	}
	if pool.Len() == 0 {
		return nil, job.FullErrorf("--pool %s: there is no row that the posterior is not trained on; give another pool", name)
	}
	return pool, nil
}

func (p *Problem) poolOfData(ctx context.Context, c *job.Job, name string) (*Asked, error) {
	d, err := dataset.Open(ctx, name, &dataset.OpenOptions{Seed: p.Limits.Seed, MaxBytes: gp.MemoryBudget(p.Limits.Memory), Progress: c.Show})
	c.Clear()
	if err != nil {
		return nil, err
	}
	if p.Model.takesWholeAlone() {
		d.TakeWhole()
	}
	if !slices.Equal(d.Shape, p.Examples.Data.Shape) {
		return nil, job.FullErrorf("--pool %s: a row has the shape %v, but those of %s have %v; give rows like these", name, d.Shape, p.Examples.Data.Source, p.Examples.Data.Shape)
	}
	o := &dataset.SelectOptions{Classes: p.Examples.classes, From: "--pool"}
	rows, err := d.Train.Select(o)
	if err != nil || Fingerprint(d.Train) != Fingerprint(p.Examples.Data.Train) {
		return &Asked{Subset: rows, File: name}, err
	}
	for _, r := range rows.Rows {
		if !slices.Contains(p.Examples.Train.Rows, r) {
			o.Rows = append(o.Rows, r)
		}
	}
	if o.Rows == nil {
		return &Asked{Subset: &dataset.Subset{Set: d.Train}, File: name}, nil
	}
	rows, err = d.Train.Select(o)
	return &Asked{Subset: rows, File: name, Notes: []string{fmt.Sprintf("%s: %s rows that are no training rows", name, job.Count(len(o.Rows)))}}, err
}
