package kept_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
)

// A countdown is a context that is cancelled once it was asked left times.
type countdown struct {
	context.Context
	left  int64
	asked atomic.Int64
}

func (c *countdown) Err() error {
	if c.asked.Add(1) > c.left {
		return context.Canceled
	}
	return nil
}

// A tile asks its context between parts of the kernel, and forms none after it is cancelled.
func TestTileStops(t *testing.T) {
	q := testkit.NewProblemOf("tile", 3, 700, 2, glm.Categorical{}, 1, 4)
	p := fit(t, q, nil)
	cross, err := p.Cross(t.Context(), q.Test)
	require.NoError(t, err)
	for _, terms := range []gp.Terms{gp.Posterior, gp.Raw} {
		tile := func(left int64) (int64, error) {
			ctx := &countdown{Context: t.Context(), left: left}
			err := cross.TileTo(ctx, new(mat.Dense), 0, q.Train, terms)
			return ctx.asked.Load(), err
		}
		whole, err := tile(1 << 30)
		require.NoError(t, err)
		require.Greater(t, whole, int64(8))
		asked, err := tile(whole / 2)
		require.ErrorIs(t, err, context.Canceled)
		require.LessOrEqual(t, asked, whole/2+8, "of %d", whole)
	}
}
