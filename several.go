package funcgp

import (
	"slices"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// sharedData caches the data that several networks share, if their problems read the data in the same way.
type sharedData struct {
	as   string // how they were read
	data *dataset.Data
}

// alike returns an error unless the problems are about outputs of the same meaning and the same training rows.
func (p *problem) alike(q *problem) error {
	a, b := q.Model.Name, p.Model.Name
	differ := func(format string, args ...any) error {
		return option.Errorf("%s and %s cannot be averaged: %s", a, b, option.Textf(format, args...))
	}
	wantD, _, _ := q.Model.Net.Dims()
	gotD, _, _ := p.Model.Net.Dims()
	classes, names := q.Task.Ungrouped()
	ownClasses, ownNames := p.Task.Ungrouped()
	switch {
	case wantD != gotD:
		return differ("one takes %d numbers, the other %d; leave one of them out", wantD, gotD)
	case q.Model.Outputs != p.Model.Outputs:
		return differ("they have %d and %d outputs; leave one of them out", q.Model.Outputs, p.Model.Outputs)
	case q.Task.Likelihood.Name() != p.Task.Likelihood.Name():
		return differ("one has the %s likelihood, the other %s; give {likelihood}, or leave one of them out", q.Task.Likelihood.Name(), p.Task.Likelihood.Name())
	case !slices.Equal(q.Task.LabelNames, p.Task.LabelNames):
		return differ("the outputs of one are for the labels %s, of the other for %s; give {target} or {class-names} if that is wrong, or leave one of them out", job.JoinNames(q.Task.LabelNames), job.JoinNames(p.Task.LabelNames))
	case !slices.Equal(classes, ownClasses) || !slices.Equal(names, ownNames):
		return differ("one tells the classes %s apart, the other %s; give {classes} or {class-names} if that is wrong, or leave one of them out", q.Task.list(), p.Task.list())
	case p.Examples.Data.Source != q.Examples.Data.Source || !slices.Equal(p.Examples.Train.Index, q.Examples.Train.Index):
		return differ("the training rows are not the same, %d of %s and %d of %s; give the rows that both have with {train-count} or {train-index}, or leave one of them out",
			q.Examples.Train.Len(), q.Examples.Data.Source, p.Examples.Train.Len(), p.Examples.Data.Source)
	}
	return nil
}

// sameOutputs returns an error unless the same classes are told apart.
func (p *problem) sameOutputs(q *problem) error {
	a, b := q.Task.Grouping.Report(), p.Task.Grouping.Report()
	if (a == nil) != (b == nil) || a != nil && !slices.Equal(a.Kept, b.Kept) {
		return option.Errorf("%s and %s have other most probable classes; name those to tell apart with {outputs} LIST", q.Model.Name, p.Model.Name)
	}
	return nil
}
