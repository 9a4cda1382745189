package sparse_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/sparse"
)

// Repeated examples with other targets under a wide prior make sums that do not
// close: that is a warning with the number. Where there is none, they close.
func TestOpenSumsAreWarnedOf(t *testing.T) {
	warned := 0
	for _, precision := range []float64{1, 1e-4, 1e-8} {
		q := &problem{testkit.Conflicting(t, precision)}
		for _, a := range approximations {
			p := q.refit(t, q.inducing(t, 0, 1, 2, 3, 4, 5, 6), &sparse.Options{Approximation: a})
			warned += q.RequireHonest(t, p, p.Warnings(), gp.Raw)
		}
	}
	require.Positive(t, warned)
}
