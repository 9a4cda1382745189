package main

import (
	"context"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
)

// runSeveral explains the mean output of several networks. Their posteriors are made one
// after another, so that one is in memory at a time.
func (s *explainVerb) runSeveral(ctx context.Context, c *console.Console) error {
	o, err := s.options()
	if err != nil {
		return err
	}
	list, warned, err := problem.OpenSeveral(ctx, c.Job, s.sources)
	if err != nil {
		return err
	}
	rows, err := s.which.Select(ctx, c.Job, list[0], 1)
	if err != nil {
		return err
	}
	asked := rows
	var posteriors []*funcgp.Posterior
	for k := range list {
		p, subset, err := list[k].GroupedFor(ctx, c.Job, asked)
		if err != nil {
			return err
		}
		if list[k] = p; k == 0 {
			rows = subset
		}
		posteriors = append(posteriors, funcgp.Deferred(c.Job, p, func(ctx context.Context) (*inference.Posterior, error) {
			c.Warnings = warned[k]
			return inference.Answer(ctx, c.Job, p, s.common.Inference(), s.common.Calibrate())
		}))
	}
	of := funcgp.RowsOf(posteriors[0], rows)
	explanations, err := funcgp.ExplainMean(ctx, posteriors, of, o)
	if err != nil {
		return err
	}
	return s.tabulate(ctx, c, list, posteriors[0], of, func(show func(i int, x *funcgp.Explanation) error) error {
		for i := range explanations {
			if err := show(i, &explanations[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
