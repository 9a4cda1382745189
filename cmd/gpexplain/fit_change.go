package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
)

// checkChange refuses flags of a change of the training rows that do not go together.
func (s *fitVerb) checkChange(c *cobra.Command) error {
	f := c.Flags()
	for _, name := range []string{"without", "append", "append-index"} {
		switch {
		case !f.Changed(name):
		case f.Lookup(name).Value.String() == "":
			return job.Usagef("--%s is empty; give it a value or leave it out", name)
		case s.posterior.File == "":
			return job.Usagef("--%s changes the training rows of a saved posterior; give --posterior FILE", name)
		}
	}
	switch {
	case s.posterior.File == "":
		return nil
	case s.without == "" && s.more == "":
		return job.Usagef("--posterior is for --without or --append, which change its training rows; give one of them")
	case s.without != "" && s.more != "":
		return job.Usagef("--without and --append exclude each other; do one after the other")
	case s.moreIndex != "" && s.more == "":
		return job.Usagef("--append-index is for --append")
	case s.checkpoint != "":
		return job.Usagef("--checkpoint is not for --posterior; leave it out")
	}
	return nil
}

// again fits the posterior of the problem's file with other training rows.
func (s *fitVerb) again(ctx context.Context, c *console.Console, p *problem.Problem) (*problem.Problem, *inference.Posterior, error) {
	s.inputs = s.inputs || p.Saved.Header.Inputs
	flag := "--append"
	old := p
	var err error
	if s.more != "" {
		var inside bool
		if p, inside, err = p.WithRows(ctx, c.Job, s.more, s.moreIndex); err != nil {
			return nil, nil, err
		}
		if inside && !s.inputs {
			s.inputs = true
			c.Note("%s holds the training inputs, as they are from several files", s.out)
		}
	} else {
		flag = "--without " + s.without
		rows, err := dataset.ReadRows(ctx, s.without)
		if err != nil {
			return nil, nil, err
		}
		if p, err = p.WithoutRows(flag, rows); err != nil {
			return nil, nil, err
		}
	}
	q, err := inference.FitAgain(ctx, c.Job, old, p, flag, s.calibration.Method)
	return p, q, err
}
