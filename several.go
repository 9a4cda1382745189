package funcgp

import (
	"context"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
)

// sharedData are the data that the problems of several networks share where they read them alike.
type sharedData struct {
	as   string // how they were read
	data *dataset.Data
}

// A openSource of a problem is one network: its options, and the file of its saved posterior, "" where one is fitted.
type openSource struct {
	Flags     *asked
	Posterior string
}

// openSeveral opens the problems of several networks, which must be about the same function of the same rows. warned
// are what is said on reading each.
func openSeveral(ctx context.Context, c *job.Job, sources []openSource) (list []*problem, warned []linearize.Warnings, err error) {
	var shared sharedData
	for _, s := range sources {
		s.Flags.Data.shared = &shared
		before := c.Warnings
		c.Warnings = nil
		p, err := openProblem(ctx, c, s.Flags, s.Posterior)
		warned, c.Warnings = append(warned, c.Warnings), before
		if err != nil {
			return nil, nil, err
		}
		for k, other := range list {
			if err := p.Alike(other); err != nil {
				return nil, nil, err
			}
			if p.Model.Path == "" && other.Model.Path == "" || p.Model.Path != "" && job.SameFile(p.Model.Path, other.Model.Path) {
				return nil, nil, fmt.Errorf("%s and %s are posteriors of the same network, %s; the mean needs one of each network", sources[k].Posterior, s.Posterior, p.Model.Name)
			}
		}
		list = append(list, p)
	}
	return list, warned, nil
}

// Alike returns an error unless the problems are about outputs of the same meaning and the same training rows.
func (p *problem) Alike(q *problem) error {
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

// SameOutputs returns an error unless the same classes are told apart.
func (p *problem) SameOutputs(q *problem) error {
	a, b := q.Task.Grouping.Report(), p.Task.Grouping.Report()
	if (a == nil) != (b == nil) || a != nil && !slices.Equal(a.Kept, b.Kept) {
		return option.Errorf("%s and %s have other most probable classes; name those to tell apart with {outputs} LIST", q.Model.Name, p.Model.Name)
	}
	return nil
}
