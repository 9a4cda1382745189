package explain

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// Prepare computes the posterior variance of every training example, as
// Options.Similar does, and with Options.ErrorBars what these take of every example.
// Afterwards goroutines that call Explain and ExplainTargets do not wait for one another.
func (e *Explainer) Prepare(ctx context.Context) error {
	if err := e.knowAll(ctx); err != nil {
		return err
	}
	return e.knowSpread(ctx, slices.Repeat([]bool{true}, e.n))
}

// ExplainTargets is Explain with targets in place of Options.Targets. cov is the posterior
// covariance of each row of x, T·C×C, as gp.Latent.PredictTo gives it, so that it is not
// computed again; nil computes it. It fails where a target names an output that does not
// exist.
func (e *Explainer) ExplainTargets(ctx context.Context, x *linearize.Batch, cov *mat.Dense, targets []Target) ([][]Explanation, error) {
	for _, t := range targets {
		if err := t.valid(e.c); err != nil {
			return nil, err
		}
	}
	if cov != nil {
		if r, c := cov.Dims(); r != x.Len()*e.c || c != e.c {
			panic("explain: covariance of another size than the rows")
		}
	}
	return e.explain(ctx, x, cov, func(int) []Target { return targets })
}
