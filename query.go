package funcgp

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/picture"
)

// A Query chooses the rows to answer for, by at most one of Index, TestIndex, Input and All. Without any of
// these they are the first test rows, and the caller chooses how many.
type Query struct {
	Index     string // test rows by their 0-based numbers in the file of the data, such as 24 or 1,2,5-9
	TestIndex string // a file that lists such numbers, one a line
	Input     string // a file with rows of one's own, a folder of pictures, or - for standard input
	Invert    string // of Input: yes or no, whether pictures are dark ink on light paper; "" finds out
	All       bool   // all test rows
}

// mostAsked bounds the rows of Query.Index.
const mostAsked = 1 << 20

// Check returns an error for a wrong query, without opening a file.
func (s *Query) Check() error {
	given := map[string]bool{"index": s.Index != "", "test-index": s.TestIndex != "", "all": s.All, "input": s.Input != ""}
	if err := job.Exclusive(func(flag string) bool { return given[flag] }, "index", "test-index", "all", "input"); err != nil {
		return err
	}
	if s.Invert != "" && s.Input == "" {
		return job.Usagef("{invert} is for {input}")
	}
	if _, err := invert(s.Invert); err != nil {
		return err
	}
	if k, err := strconv.Atoi(s.Index); err == nil && k < 0 {
		return job.Usagef("{index=%d} must be 0 or more", k)
	}
	if _, ok := job.ParseRows(s.Index, mostAsked); !ok && s.Index != "" {
		return job.Usagef("{index=%q} must list rows such as 24 or 1,2,5-9", s.Index)
	}
	return nil
}

// invert parses the choice of inverting pictures: yes, no, or "" to decide by their borders.
func invert(choice string) (picture.Choice, error) {
	switch choice {
	case "":
		return picture.Auto, nil
	case "yes":
		return picture.Yes, nil
	case "no":
		return picture.No, nil
	}
	return 0, job.Usagef("{invert}=%s must be yes or no", choice)
}

// Absolute returns the query with absolute paths, so that it can be saved in a file.
func (s Query) Absolute() (_ Query, err error) {
	if s.TestIndex, err = absolute(s.TestIndex); err == nil {
		s.Input, err = absolute(s.Input)
	}
	return s, err
}

// pick returns the rows that the query asks for. If it names none, pick returns the first count test rows of
// the kept classes, or all of them for a count of 0.
func (s *Query) pick(ctx context.Context, c *job.Job, p *problem, count int) (*dataset.Rows, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	var rows []int
	var from option.Text
	switch {
	case s.Input != "":
		return s.inputs(ctx, c, p)
	case s.Index != "":
		rows, _ = job.ParseRows(s.Index, mostAsked) // which is right, by Check
		from = "{index}"
	case s.TestIndex != "":
		var err error
		if rows, err = dataset.ReadRows(ctx, s.TestIndex); err != nil {
			return nil, err
		}
		from = option.Plain(s.TestIndex)
	case s.All:
		count = 0
	}
	return p.Examples.Test(count, rows, from)
}

// inputs reads the rows of Query.Input, and says what was done to them.
func (s *Query) inputs(ctx context.Context, c *job.Job, p *problem) (*dataset.Rows, error) {
	o := dataset.InputOptions{MaxBytes: gp.MemoryBudget(p.Memory)}
	o.Invert, _ = invert(s.Invert) // which Check has let pass
	if s.Input == "-" {
		o.Standard = inputfile.Standard(ctx)
	}
	in, err := dataset.ReadInputs(ctx, s.Input, p.Own(o))
	if err != nil {
		return nil, err
	}
	in.File = s.Input
	for _, note := range in.Notes {
		c.Note("%s", note)
	}
	return in, nil
}

// Own returns the options for reading rows of the caller's own: they must be like the rows of the data, with
// the columns that an input takes.
func (p *problem) Own(o dataset.InputOptions) *dataset.InputOptions {
	o.Like, o.ID, o.Spare = p.Examples.Data, p.Examples.Data.ID, p.Model.spareColumns()
	return &o
}

// severalOf returns the targets of row i of a subset if the row has several, and nil otherwise.
func severalOf(rows *dataset.Rows, i int) []result.Float {
	width := rows.Width()
	if width < 2 {
		return nil
	}
	return result.Floats(rows.Targets[i*width : (i+1)*width])
}

// label is the data's own label or target of row i; NaN where it is unknown, or where a row has several.
func label(rows *dataset.Rows, i int) float64 {
	switch {
	case rows.Labels != nil:
		return float64(rows.Labels[i])
	case rows.Width() == 1:
		return rows.Targets[i]
	}
	return math.NaN()
}

// Pool reads rows whose labels are not used. name is a file or folder as Query.Input takes it, or data as Data.Source
// names them. Of data it takes the training rows, without those of this problem if it has the same data.
func (p *problem) Pool(ctx context.Context, c *job.Job, name string) (*dataset.Rows, error) {
	kind, _, _ := strings.Cut(name, ":")
	isData := kind == "digits" || name == "mnist"
	if info, err := os.Stat(name); !isData && err == nil && info.IsDir() {
		idx, _ := filepath.Glob(filepath.Join(name, "*-ubyte*"))
		isData = len(idx) > 0
	}
	var pool *dataset.Rows
	var err error
	if isData {
		pool, err = p.poolOfData(ctx, c, name)
	} else {
		pool, err = (&Query{Input: name}).inputs(ctx, c, p)
	}
	if err != nil {
		return nil, err
	}
	if pool.Len() == 0 {
		return nil, job.FullErrorf("{pool=%s}: there is no row that the posterior is not trained on; give another pool", name)
	}
	return pool, nil
}

func (p *problem) poolOfData(ctx context.Context, c *job.Job, name string) (*dataset.Rows, error) {
	d, err := dataset.Open(ctx, name, &dataset.OpenOptions{Seed: p.Seed, MaxBytes: gp.MemoryBudget(p.Memory), Progress: c.Show})
	c.Clear()
	if err != nil {
		return nil, err
	}
	if p.Model.takesWholeAlone() {
		d.TakeWhole()
	}
	if !slices.Equal(d.Shape, p.Examples.Data.Shape) {
		return nil, job.FullErrorf("{pool=%s}: a row has the shape %v, but those of %s have %v; give rows like these", name, d.Shape, p.Examples.Data.Source, p.Examples.Data.Shape)
	}
	rows, err := d.Train.Select(p.Examples.classes, 0)
	if err != nil || fingerprint(d.Train) != fingerprint(p.Examples.Data.Train) {
		return rows, err
	}
	var left []int
	for i, r := range rows.Index {
		if !slices.Contains(p.Examples.Train.Index, r) {
			left = append(left, i)
		}
	}
	rows = rows.At(left)
	rows.Notes = []string{fmt.Sprintf("%s: %s rows that are no training rows", name, job.Count(len(left)))}
	return rows, nil
}
