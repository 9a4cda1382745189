package cg

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// Φ is a partial Cholesky factor: Q ⪯ K whatever its rank, rest holds the
// blocks of K − Q, and more features leave less.
func TestFeatures(t *testing.T) {
	for _, c := range []int{1, 3} {
		last := math.Inf(1)
		for _, rank := range []int{c, 5, 12, 30, 60} {
			s := newTestCase(t, 20, c, rank)
			require.LessOrEqual(t, s.features.phi.Cols, rank)
			var rest mat.Dense
			rest.Sub(s.k, s.q())
			values, _ := eigen(t, &rest)
			scale := mat.Max(s.k)
			require.GreaterOrEqual(t, values[0], -1e-11*scale)
			for i := range 20 * c {
				for a := range c {
					require.InDelta(t, rest.At(i, i/c*c+a), s.features.rest[i*c+a], 1e-12*scale)
				}
			}
			_, left := s.features.left(s.lambda)
			require.LessOrEqual(t, left, last)
			last = left
		}
		require.Less(t, last, 1.0)
	}
}

// Two features cannot be made of examples with three outputs.
func TestFeaturesOfWholeExamples(t *testing.T) {
	require.Zero(t, newTestCase(t, 20, 3, 2).features.phi.Cols)
	require.Equal(t, 3, newTestCase(t, 20, 3, 5).features.phi.Cols)
}
