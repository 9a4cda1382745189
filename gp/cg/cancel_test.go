package cg_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/ntk"
)

// Building the preconditioner and solving stop between the panels of their
// products.
func TestStopsBetweenPanels(t *testing.T) {
	q := newProblemOf("many panels", 4, 400, 1, glm.Bernoulli{}, 1, 16)
	s, o := q.Sites(t), &cg.Options{Workers: 1, Rank: 300}
	testkit.Stops(t, "Fit", 30, func(ctx context.Context) error {
		_, err := cg.Fit(ctx, q.Kernel, q.Train, s, o)
		return err
	})
	testkit.Stops(t, "Refit", 30, func(ctx context.Context) error {
		_, err := cg.Refit(ctx, q.Kernel, q.Train, q.Y, q.Likelihood, o)
		return err
	})
}

// One worker is the caller: nothing that cg does starts a goroutine.
func TestWorkersBoundGoroutines(t *testing.T) {
	q := newProblemOf("one worker", 4, 400, 1, glm.Bernoulli{}, 1, 16)
	k := ntk.New(q.Prior, q.Theta, &ntk.Options{Workers: 1})
	s := q.Sites(t)
	testkit.NoGoroutines(t, func() {
		p, err := cg.Fit(t.Context(), k, q.Train, s, &cg.Options{Workers: 1, Rank: 300})
		require.NoError(t, err)
		var mean, cov, joint mat.Dense
		require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
		require.NoError(t, p.JointTo(t.Context(), &mean, &joint, q.Test))
	})
}
