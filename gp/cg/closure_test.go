package cg_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/linearize"
)

// Repeated examples with other targets under a wide prior make sums that do not
// close: that is a warning with the number, as is the distance from the mode.
// Where there is no warning, they close.
func TestOpenSumsAreWarnedOf(t *testing.T) {
	warned := 0
	for _, precision := range []float64{1, 1e-4, 1e-8} {
		q := &problem{testkit.Conflicting(t, precision)}
		p := q.refitPosterior(t, nil)
		n := q.RequireHonest(t, p, p.Warnings(), gp.Posterior)
		if warned += n; n > 0 {
			require.Greater(t, linearize.FindWarning(p.Warnings(), "refit-steps").Value, 1e-8)
			require.NotNil(t, linearize.FindWarning(p.Warnings(), "refit-gap"))
			require.NotNil(t, linearize.FindWarning(p.Warnings(), "solve-residual"))
		}
	}
	require.Positive(t, warned)
}

// Missing sites say so.
func TestMissingSites(t *testing.T) {
	q := problems(t)[2]
	require.PanicsWithValue(t, "sites: the sites of the examples are missing", func() { _, _ = cg.Fit(t.Context(), q.Kernel, q.Train, &gp.Sites{}, nil) })
}
