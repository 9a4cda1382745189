package main

import (
	"context"

	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
)

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
	q, err := inference.FitAgain(ctx, c.Job, old, p, flag, s.calibrate)
	return p, q, err
}
