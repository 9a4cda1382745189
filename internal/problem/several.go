package problem

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// mostNetworks bounds the files of --model and --posterior.
const mostNetworks = 1000

// A Source of a problem is one network: its flags, and the file of its saved posterior, "" where one is fitted.
type Source struct {
	Flags     *Flags
	Posterior string
}

// Several returns the networks that --model or posterior, which is --posterior, lists with commas between them. A file
// whose name has commas is one. A file that is named twice is an error.
func (s *Flags) Several(posterior string) ([]Source, error) {
	models, err := listed("{model}", s.Model.File)
	if err != nil {
		return nil, err
	}
	posteriors, err := listed("{posterior}", posterior)
	if err != nil {
		return nil, err
	}
	switch {
	case len(posteriors) > 1 && s.Model.File != "":
		return nil, job.Usagef("{posterior} with several files and {model} exclude each other: each posterior remembers its network; leave {model} out")
	case len(models) > 1 && len(posteriors) == 1 && posterior != "":
		return nil, job.Usagef("{model} with several networks and {posterior} exclude each other: a posterior is of one network; give {posterior} a file for each, or leave it out")
	}
	var list []Source
	var shared sharedData
	for k := range max(len(models), len(posteriors)) {
		f := *s
		f.Data.shared = &shared
		one := Source{Flags: &f, Posterior: posterior}
		if len(models) > 1 {
			f.Model.File = models[k]
		}
		if len(posteriors) > 1 {
			one.Posterior = posteriors[k]
		}
		list = append(list, one)
	}
	return list, nil
}

// listed splits a list of files; one file, or none, is a list of one.
func listed(flag option.Text, text string) ([]string, error) {
	if _, err := os.Stat(text); err == nil || !strings.Contains(text, ",") {
		return []string{text}, nil
	}
	names := strings.Split(text, ",")
	if len(names) > mostNetworks {
		return nil, job.Usagef("%s lists %d files; give at most %d", flag, len(names), mostNetworks)
	}
	for k, name := range names {
		names[k] = strings.TrimSpace(name)
		if names[k] == "" {
			return nil, job.Usagef("%s %s has an empty name between its commas", flag, job.Cut(text, 60))
		}
		for _, other := range names[:k] {
			if sameFile(other, names[k]) {
				return nil, job.Usagef("%s names %s twice; a network counts once in a mean", flag, job.Cut(names[k], 60))
			}
		}
	}
	return names, nil
}

// sameFile tells whether two paths name one file.
func sameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// OpenSeveral opens the problems of several networks, which must be about the same function of the same rows. warned
// are what is said on reading each.
func OpenSeveral(ctx context.Context, c *job.Job, sources []Source) (list []*Problem, warned []linearize.Warnings, err error) {
	for _, s := range sources {
		before := c.Warnings
		c.Warnings = nil
		p, err := Open(ctx, c, s.Flags, s.Posterior)
		warned, c.Warnings = append(warned, c.Warnings), before
		if err != nil {
			return nil, nil, err
		}
		for k, other := range list {
			if err := p.Alike(other); err != nil {
				return nil, nil, err
			}
			if p.Model.Path == "" && other.Model.Path == "" || p.Model.Path != "" && sameFile(p.Model.Path, other.Model.Path) {
				return nil, nil, fmt.Errorf("%s and %s are posteriors of the same network, %s; the mean needs one of each network", sources[k].Posterior, s.Posterior, p.Model.Name)
			}
		}
		list = append(list, p)
	}
	return list, warned, nil
}

// Alike returns an error unless the problems are about outputs of the same meaning and the same training rows.
func (p *Problem) Alike(q *Problem) error {
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
		return differ("the outputs of one are for the labels %s, of the other for %s; give {target} or {class-names} if that is wrong, or leave one of them out", JoinNames(q.Task.LabelNames), JoinNames(p.Task.LabelNames))
	case !slices.Equal(classes, ownClasses) || !slices.Equal(names, ownNames):
		return differ("one tells the classes %s apart, the other %s; give {classes} or {class-names} if that is wrong, or leave one of them out", q.Task.list(), p.Task.list())
	case p.Examples.Data.Source != q.Examples.Data.Source || !slices.Equal(p.Examples.Train.Index, q.Examples.Train.Index):
		return differ("the training rows are not the same, %d of %s and %d of %s; give the rows that both have with {train-count} or {train-index}, or leave one of them out",
			q.Examples.Train.Len(), q.Examples.Data.Source, p.Examples.Train.Len(), p.Examples.Data.Source)
	}
	return nil
}

// SameOutputs returns an error unless the same classes are told apart.
func (p *Problem) SameOutputs(q *Problem) error {
	a, b := q.Task.Grouping.Report(), p.Task.Grouping.Report()
	if (a == nil) != (b == nil) || a != nil && !slices.Equal(a.Kept, b.Kept) {
		return option.Errorf("%s and %s have other most probable classes; name those to tell apart with {outputs} LIST", q.Model.Name, p.Model.Name)
	}
	return nil
}
