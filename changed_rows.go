package funcgp

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"golang.org/x/text/unicode/norm"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// TrainPositions returns the positions of these rows of the original file among the training rows. An unknown row, or
// one that is listed twice, is an error that names the flag.
func (p *problem) TrainPositions(flag option.Text, rows []int) ([]int, error) {
	train := p.Examples.Train
	at := make(map[int]int, train.Len())
	for i, row := range train.Index {
		at[row] = i
	}
	out, seen := make([]int, len(rows)), make(map[int]bool, len(rows))
	for k, row := range rows {
		i, ok := at[row]
		switch {
		case !ok:
			return nil, job.FullErrorf("%s: %s row %d of %s is not among the %d training rows; name rows of the data that were trained on", flag, train.Part, row, train.File, train.Len())
		case seen[row]:
			return nil, job.FullErrorf("%s names training row %d twice; name it once", flag, row)
		}
		out[k], seen[row] = i, true
	}
	return out, nil
}

// WithLabel adds the named label to the targets y of a row, or removes the label if the row has it. It returns
// the label in words and whether the row has the label afterwards, as 0 or 1.
func (p *problem) WithLabel(y []float64, label string) (words string, now result.Float, err error) {
	k := slices.Index(p.Task.LabelNames, norm.NFC.String(label))
	if k < 0 {
		return "", 0, fmt.Errorf("%s is not one of the labels %s", label, job.Cut(job.JoinNames(p.Task.LabelNames), 60))
	}
	if y[k] > .5 {
		y[k] = 0
		return "not " + label, 0, nil
	}
	y[k] = 1
	return label, 1, nil
}

// CheckLeft returns an error if no training rows remain, or if only one class remains where there were two. y
// has the targets of all rows after a change, and gone marks the rows that are left out.
func (p *problem) CheckLeft(flag option.Text, y *mat.Dense, gone []bool) error {
	if !slices.Contains(gone, false) {
		return job.FullErrorf("%s names all %d training rows; leave some to learn from", flag, len(gone))
	}
	if p.Task.Classes == nil {
		return nil
	}
	before, after := map[float64]bool{}, map[float64]bool{}
	for i, g := range gone {
		before[p.Examples.Y.At(i, 0)] = true
		if !g {
			after[y.At(i, 0)] = true
		}
	}
	if len(before) < 2 || len(after) > 1 {
		return nil
	}
	for k := range after {
		return p.Task.oneClass(flag+" leaves", int(k))
	}
	return nil
}

// WithoutRows is the problem without these training rows of the original file, for a fit. Errors
// name the flag.
func (p *problem) WithoutRows(flag option.Text, rows []int) (*problem, error) {
	at, err := p.TrainPositions(flag, rows)
	if err != nil {
		return nil, err
	}
	gone := make([]bool, p.Examples.Train.Len())
	for _, i := range at {
		gone[i] = true
	}
	if err := p.CheckLeft(flag, p.Examples.Y, gone); err != nil {
		return nil, err
	}
	var left []int
	for i, g := range gone {
		if !g {
			left = append(left, p.Examples.Train.Index[i])
		}
	}
	return p.changedRows(p.Examples.Data, left, flag)
}

// At returns the problem with a fixed prior precision, which the fit does not search for.
func (p *problem) At(precision float64) *problem {
	q, t := *p, *p.Task
	if t.Precision, t.FoundPrior = precision, false; t.Prior != nil {
		t.Prior = t.Prior.At(precision)
	}
	q.Task = &t
	return &q
}

// changedRows is the problem with these training rows, for a fit.
func (p *problem) changedRows(d *dataset.Data, rows []int, flag option.Text) (*problem, error) {
	q, e := *p, *p.Examples
	q.Examples, e.Data = &e, d
	var err error
	if e.Train, err = e.Training(rows, flag); err != nil {
		return nil, err
	}
	if p.Saved != nil && p.asked.Fit.Seed == 0 {
		q.Seed = p.Saved.Header.Seed
	}
	if e.Y, err = q.Targets(e.Train); err == nil {
		e.fitted = p.Task.objective(e.Train, e.Y, q.Model.Outputs)
	}
	return &q, err
}

// WithRows is the problem with the training rows of other data, for a fit: all rows of its
// classes, or the rows in an index file if it is not "". Rows of the posterior's own data keep their numbers, and none
// may be a training row; other rows are counted on from the last one. Where they are of
// several files, the result is Joined.
func (p *problem) WithRows(ctx context.Context, c *job.Job, name, index string) (q *problem, err error) {
	const flag option.Text = "{append}"
	f := *p.asked
	own, err := filepath.Abs(f.Data.source())
	other, also := filepath.Abs(name)
	same := (p.Saved == nil || !p.Saved.Header.Inputs) && err == nil && also == nil && own == other
	d := p.Examples.Data
	added := d
	if !same {
		f.Data.Source, f.Data.TestFile, f.Data.ValidFile, f.Data.Split = name, "", "", nil
		if d.Names != nil && f.Data.ClassNames == nil { // of which the rows added may have some
			for _, k := range p.Examples.classes {
				f.Data.ClassNames = append(f.Data.ClassNames, d.Names[k])
			}
		}
		if added, err = openData(ctx, c, &f, p.Model); err != nil {
			return nil, err
		}
		switch {
		case d.Images() != added.Images() || !slices.Equal(added.Shape, d.Shape) && d.Images():
			return nil, job.FullErrorf("{append=%s}: a row has the shape %v, but those of %s have %v; give rows like these", name, added.Shape, d.Source, d.Shape)
		case !slices.Equal(added.Columns, d.Columns):
			return nil, job.FullErrorf("{append=%s}: its columns are %s, but those of %s are %s; give rows like these, with {target} and {id} where the columns are not told apart", name, option.QuoteList(added.Columns), d.Source, option.QuoteList(d.Columns))
		case (added.Names != nil) != (d.Names != nil) || p.Task.Classes != nil && !added.IntegerLabels:
			return nil, job.FullErrorf("{append=%s}: its labels are of another kind than those of %s; write both in one way", name, d.Source)
		case len(added.Train.Shares)*d.Train.Len() != len(d.Train.Shares)*added.Train.Len():
			return nil, job.FullErrorf("{append=%s}: either its labels or those of %s are shares of the classes; give both in one way", name, d.Source)
		case (added.Train.Weights != nil) != (d.Train.Weights != nil):
			return nil, job.FullErrorf("{append=%s}: either its rows or those of %s have no weights; give both {row-weights}, or neither", name, d.Source)
		case (added.Train.IDs != nil) != (d.Train.IDs != nil):
			return nil, job.FullErrorf("{append=%s}: either its rows or those of %s have no names; give both an {id}, or neither", name, d.Source)
		}
	}
	classes := p.Examples.classes
	if d.Names != nil && classes != nil { // other data may number them in another way
		classes = nil
		for _, k := range p.Examples.classes {
			i, ok := slices.BinarySearch(added.Names, d.Names[k])
			if !ok {
				return nil, job.FullErrorf("{append}: %s does not know the class %s; give {class-names}", added.Source, d.Names[k])
			}
			classes = append(classes, i)
		}
	}
	if !same && d.Names == nil {
		added.AddClasses(classes)
	}
	var list []int
	if index != "" {
		if list, err = dataset.ReadRows(ctx, index); err != nil {
			return nil, err
		}
	} else if classes != nil && !leftOutKnown(&f.Data, p.Model, added, p.Saved) {
		if err := checkLeftOut(c, p.Model, added, classes, added.Train); err != nil {
			return nil, err
		}
	}
	rows, err := added.Train.Pick(classes, list, option.Plain(index))
	if err != nil {
		return nil, err
	}
	if !same {
		return p.joined(ctx, added, rows, name)
	}
	all := slices.Clone(p.Examples.Train.Index)
	old := map[int]bool{}
	for _, r := range all {
		old[r] = true
	}
	for _, r := range rows.Index {
		switch {
		case !old[r]:
			all = append(all, r)
		case index != "":
			return nil, job.FullErrorf("%s: row %d of %s is a training row already; leave it out", index, r, name)
		}
	}
	if len(all) == len(old) {
		return nil, job.FullErrorf("%s %s: all of its rows are training rows already; name other data", flag, name)
	}
	return p.changedRows(d, all, flag)
}

// Joined tells whether the training rows are from several files, so that a file of the posterior must hold them.
func (p *problem) Joined() bool { return p.dataFiles != nil }

// joined returns the problem with training rows added from data other than the posterior's own.
func (p *problem) joined(ctx context.Context, added *dataset.Data, rows *dataset.Rows, name string) (*problem, error) {
	d := p.Examples.Data
	all, err := p.Examples.Train.Kept(ctx, nil)
	if err != nil {
		return nil, err
	}
	more, err := rows.Kept(ctx, nil)
	if err != nil {
		return nil, err
	}
	if d.GreyLevels() != added.GreyLevels() || len(more.Targets)*all.Len() != len(all.Targets)*more.Len() {
		return nil, job.FullErrorf("{append=%s}: its inputs or targets are of another kind than those of %s; give rows like these", name, d.Source)
	}
	first := d.Train.Row(d.Train.Len()-1) + 1
	if first > math.MaxInt32-more.Len() {
		return nil, job.FullErrorf("{append=%s}: there are too many rows", name)
	}
	for i, y := range more.Targets {
		if more.Names == nil {
			break
		}
		k, ok := slices.BinarySearch(d.Names, more.Names[int(y)])
		if !ok {
			return nil, job.FullErrorf("{append=%s}: its label %s is not one of those of %s; leave such rows out", name, more.Names[int(y)], d.Source)
		}
		more.Targets[i] = float64(k)
	}
	all = all.Join(more, first)
	of := d.Source + " and " + name
	to, err := d.WithTrain(all, of)
	if err != nil {
		return nil, err
	}
	if d.Names == nil {
		to.AddClasses(p.Examples.classes) // of which some may have no row
	}
	// The rows keep their order, and the rows of other data follow.
	order := slices.Concat(p.Examples.Train.Index, all.Index[p.Examples.Train.Len():])
	q, err := p.changedRows(to, order, "{append}")
	if err != nil {
		return nil, err
	}
	q.dataFiles = d.Files()
	return q, nil
}
