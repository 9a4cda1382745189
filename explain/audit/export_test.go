package audit

import (
	"context"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
)

// Terms returns the terms of every training example in the prediction of each suspect
// without itself, and the direction w, for tests.
func Terms(ctx context.Context, d gp.Dual, lik glm.Likelihood, y *mat.Dense, o *Options) (terms map[int][]float64, weights map[int][]float64, err error) {
	a, err := newAuditor(d, lik, y, o)
	if err != nil {
		return nil, nil, err
	}
	if err := a.leaveOut(ctx); err != nil {
		return nil, nil, err
	}
	if err := a.score(ctx); err != nil {
		return nil, nil, err
	}
	a.rank()
	list, err := a.suspects(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := a.fillTerms(ctx, list); err != nil {
		return nil, nil, err
	}
	terms, weights = map[int][]float64{}, map[int][]float64{}
	for _, s := range list {
		i := a.rows[s.at]
		terms[i], weights[i] = s.terms, a.direction(&a.audit.Examples[s.at], s.at)
	}
	return terms, weights, nil
}

// SetMostTried sets how many examples choose a regression, until the test ends.
func SetMostTried(t *testing.T, n int) {
	last := mostTried
	mostTried = n
	t.Cleanup(func() { mostTried = last })
}
