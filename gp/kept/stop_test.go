package kept_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
)

// A tile asks its context between parts of the kernel, and forms none after it is cancelled.
func TestTileStops(t *testing.T) {
	q := testkit.NewProblemOf("tile", 3, 700, 2, glm.Categorical{}, 1, 4)
	p := fit(t, q, nil)
	cross, err := p.Cross(t.Context(), q.Test)
	require.NoError(t, err)
	for _, terms := range []gp.Terms{gp.Posterior, gp.Raw} {
		testkit.Stops(t, "tile", 8, func(ctx context.Context) error { return cross.TileTo(ctx, new(mat.Dense), 0, q.Train, terms) })
	}
}
