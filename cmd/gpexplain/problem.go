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
