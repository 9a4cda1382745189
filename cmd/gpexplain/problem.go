package main

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
)

// A problem is what a posterior is computed from. It is made once and never
// changed.
type problem struct {
	model    *model
	task     *task
	examples *examples
	saved    *savedFile // the posterior to answer from; nil where one is fitted
	limits   limitFlags
}

// openProblem reads the model, the saved posterior of a file if it is not "",
// and the data, and decides what the outputs mean and which rows to train on.
func openProblem(ctx context.Context, c *console, f *commonFlags, posteriorFile string) (*problem, error) {
	m, err := readModel(ctx, c, &f.model)
	if err != nil {
		return nil, err
	}
	var saved *savedFile
	if posteriorFile != "" {
		if saved, err = openSaved(ctx, c, posteriorFile, f); err != nil {
			return nil, err
		}
		m = m.withMetadata(saved.metadata(m.meta))
	}
	d, err := openData(ctx, c, &f.data, f.limits.memory)
	if err == nil && saved != nil {
		d, err = saved.data(d)
	}
	if err != nil {
		return nil, err
	}
	if want, _, _ := m.net.Dims(); elements(d.Shape) != want {
		return nil, fmt.Errorf("%s: an input has %d numbers (shape %v), but %s takes %d (shape %v); give --data that the model was trained on", d.Source, elements(d.Shape), d.Shape, m.name, want, m.net.InputShape())
	}
	t, err := chooseTask(&f.task, f.data.classes, m, d)
	if err != nil && saved != nil {
		return nil, fmt.Errorf("%s: its likelihood and classes do not go with %s and %s; give --data that it was fitted on, or fit it again", saved.path, m.name, d.Source)
	}
	if err != nil {
		return nil, err
	}
	train, err := chooseRows(ctx, c, &f.data, m, t, d, saved)
	if err != nil {
		return nil, err
	}
	e, err := newExamples(m, t, d, train)
	if err != nil {
		return nil, err
	}
	return &problem{m, t, e, saved, f.limits}, nil
}

// linearize linearizes the examples [lo, hi) of some rows.
func (p *problem) linearize(ctx context.Context, rows *dataset.Subset, lo, hi int) (*linearize.Batch, error) {
	return p.model.net.Linearize(ctx, p.examples.inputs(rows, lo, hi))
}

// targets returns the targets of rows as the likelihood takes them.
func (p *problem) targets(rows *dataset.Subset) (*mat.Dense, error) {
	return p.task.targets(rows, p.model, p.examples.data)
}

// trainNames name the training rows, for messages.
func (p *problem) trainNames() rowNames { return namesOf(p.examples.train, 0, p.examples.train.Len()) }

// examples are the data as a network sees them.
type examples struct {
	data    *dataset.Data
	train   *dataset.Subset
	y       *mat.Dense       // training targets
	scaling *dataset.Scaling // of the inputs; nil for images
	classes []int            // those whose rows are kept; nil keeps all
}

// openData reads the data, or makes them.
func openData(ctx context.Context, c *console, f *dataFlags, memory int64) (*dataset.Data, error) {
	o := f.options(memory)
	o.Progress = c.show
	d, err := dataset.Open(ctx, f.name, o)
	c.bar.clear()
	return d, err
}

// newExamples chooses the scaling of the inputs and forms the training
// targets.
func newExamples(m *model, t *task, d *dataset.Data, train *dataset.Subset) (*examples, error) {
	e := &examples{data: d, train: train, classes: t.classes}
	if !d.Images() {
		e.scaling = m.meta.scaling
		if e.scaling == nil {
			var err error
			if e.scaling, err = dataset.NewScaling(train.Matrix()); err != nil {
				return nil, fmt.Errorf("%s: %w", d.Source, err)
			}
		} else if n := elements(d.Shape); len(e.scaling.Mean) != n {
			return nil, fmt.Errorf("%s: its metadata entry %s scales %d features, but the data have %d; give --data that the model was trained on", m.name, keyScaling, len(e.scaling.Mean), n)
		}
	}
	var err error
	e.y, err = t.targets(train, m, d)
	return e, err
}

// elements is the product of a shape.
func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// inputs returns the inputs of the examples [lo, hi) of some rows as the
// network wants them, (hi−lo)×D.
func (e *examples) inputs(rows *dataset.Subset, lo, hi int) *mat.Dense {
	return e.scaled(rows.Set.Matrix(rows.Pos[lo:hi]))
}

// inputsOf returns the inputs of the examples at these positions of some rows,
// in the order of the positions.
func (e *examples) inputsOf(rows *dataset.Subset, at []int) *mat.Dense {
	pos := make([]int, len(at))
	for i, r := range at {
		pos[i] = rows.Pos[r]
	}
	return e.scaled(rows.Set.Matrix(pos))
}

// scaled scales inputs in place.
func (e *examples) scaled(x *mat.Dense) *mat.Dense {
	e.scaling.Apply(x)
	return x
}

// source gives rows linearized anew in each pass.
func (e *examples) source(m *model, rows *dataset.Subset) linearize.Source {
	return linearize.NewSource(m.net, rows.Len(), linearize.Tile(m.outputs), func(lo, hi int) (*mat.Dense, error) { return e.inputs(rows, lo, hi), nil })
}

// testPart is the part that predictions are made for: the test rows, or where
// there are none the validation rows.
func (e *examples) testPart() *dataset.Set {
	if e.data.Test.Len() == 0 && e.data.Valid.Len() > 0 {
		return e.data.Valid
	}
	return e.data.Test
}

// test picks test rows of the classes.
func (e *examples) test(o dataset.SelectOptions) (*dataset.Subset, error) {
	part := e.testPart()
	if part.Len() == 0 && !e.data.Images() {
		return nil, fmt.Errorf("%s: there are no test rows; give --split K or --test-data FILE", e.data.Source)
	}
	o.Classes = e.classes
	return part.Select(&o)
}

// label is the data's own label or target of row i.
func label(rows *dataset.Subset, i int) float64 {
	if rows.Labels != nil {
		return float64(rows.Labels[i])
	}
	return rows.Targets[i]
}

func labels(rows *dataset.Subset) []float64 {
	out := make([]float64, rows.Len())
	for i := range out {
		out[i] = label(rows, i)
	}
	return out
}
