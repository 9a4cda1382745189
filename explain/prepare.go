package explain

import (
	"context"

	"github.com/funcgp/funcgp/linearize"
)

// Prepare computes the posterior variance of every training example, as
// Options.Similar does. Afterwards Explain and ExplainTargets may be called by several
// goroutines at a time.
func (e *Explainer) Prepare(ctx context.Context) error { return e.knowAll(ctx) }

// ExplainTargets is Explain with targets in place of Options.Targets. It fails where
// one names an output that does not exist.
func (e *Explainer) ExplainTargets(ctx context.Context, x *linearize.Batch, targets []Target) ([][]Explanation, error) {
	for _, t := range targets {
		if err := t.valid(e.c); err != nil {
			return nil, err
		}
	}
	return e.explain(ctx, x, func(int) []Target { return targets })
}
