package main

import (
	"context"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/console"
)

// runSeveral explains the mean output of several networks. Their posteriors are made one
// after another, so that one is in memory at a time.
func (s *explainVerb) runSeveral(ctx context.Context, c *console.Console) error {
	sessions, err := funcgp.StartEach(ctx, s.sources)
	if err != nil {
		return err
	}
	var posteriors []*funcgp.Posterior
	var rows *funcgp.Rows // of the first
	for k, session := range sessions {
		own, err := session.Select(ctx, &s.which, 1)
		if err != nil {
			return err
		}
		p, err := session.Deferred(ctx, own)
		if err != nil {
			return err
		}
		if posteriors = append(posteriors, p); k == 0 {
			rows = own
		}
	}
	explanations, err := funcgp.ExplainMean(ctx, posteriors, rows, &s.o)
	if err != nil {
		return err
	}
	return s.tabulate(ctx, c, posteriors, rows, func(show func(i int, x *funcgp.Explanation) error) error {
		for i := range explanations {
			if err := show(i, &explanations[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
