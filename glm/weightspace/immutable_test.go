package weightspace_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
)

// A posterior answers to the last bit as before after a refit from it that was
// finished and after one that was cancelled in its second step.
func TestRefitLeavesItsReceiver(t *testing.T) {
	eachSpaceProblem(t, func(t *testing.T, q *spaceProblem) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop := false
		w := q.fit(t, &weightspace.Options{Progress: func(stage string, done, _ int) {
			if stop && stage == gp.StageNewton && done == 2 {
				cancel()
			}
		}})
		before := q.answers(t, w)
		refit, err := w.Refit(t.Context(), q.y, q.lik)
		require.NoError(t, err)
		require.Equal(t, before, q.answers(t, w))
		after := q.answers(t, refit)
		stop = true
		if _, err = w.Refit(ctx, q.y, q.lik); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Equal(t, before, q.answers(t, w))
		require.Equal(t, after, q.answers(t, refit))
	})
}
