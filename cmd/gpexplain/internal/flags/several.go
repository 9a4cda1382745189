package flags

import (
	"os"
	"strings"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/job"
)

// mostNetworks bounds the files of --model and --posterior.
const mostNetworks = 1000

// Several returns the networks that --model or --posterior lists with commas between them. A file whose name has commas
// is one. A file that is named twice is an error.
func (s *Common) Several() ([]funcgp.Source, error) {
	models, err := listed("--model", s.Model.File)
	if err != nil {
		return nil, err
	}
	posteriors, err := listed("--posterior", s.File)
	if err != nil {
		return nil, err
	}
	switch {
	case len(posteriors) > 1 && s.Model.File != "":
		return nil, job.Usagef("--posterior with several files and --model exclude each other: each posterior remembers its network; leave --model out")
	case len(models) > 1 && len(posteriors) == 1 && s.File != "":
		return nil, job.Usagef("--model with several networks and --posterior exclude each other: a posterior is of one network; give --posterior a file for each, or leave it out")
	}
	var list []funcgp.Source
	for k := range max(len(models), len(posteriors)) {
		one := funcgp.Source{Model: s.Model, Data: s.Data, Fit: s.Fit, File: s.File}
		if len(models) > 1 {
			one.Model.File = models[k]
		}
		if len(posteriors) > 1 {
			one.File = posteriors[k]
		}
		list = append(list, one)
	}
	return list, nil
}

// listed splits a list of files; one file, or none, is a list of one.
func listed(flag, text string) ([]string, error) {
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
			if job.SameFile(other, names[k]) {
				return nil, job.Usagef("%s names %s twice; a network counts once in a mean", flag, job.Cut(names[k], 60))
			}
		}
	}
	return names, nil
}
