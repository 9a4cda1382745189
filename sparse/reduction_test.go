package sparse_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/sparse"
)

// Covariances by a root of K_ZZ⁻¹ − A⁻¹ (PredictTo) are those by I − A'⁻¹ (JointTo), on
// several panels of the root, with fewer data than features, where there is no root, and
// with as many.
func TestCovariancesByRoot(t *testing.T) {
	q := newProblemOf("panels", 5, 100, 3, glm.Bernoulli{}, 1, 20)
	var rows []int
	for i := range 90 {
		rows = append(rows, i)
	}
	for _, m := range []int{20, 90} {
		z := q.inducing(t, rows[:m]...)
		for _, data := range []int{100, 15} {
			s := q.Sites(t)
			for i := data; i < q.N; i++ { // flat sites
				for a := range q.C {
					for b := range q.C {
						s.Lambda.Set(i*q.C+a, b, 0)
						s.Root.Set(i*q.C+a, b, 0)
					}
					s.Residual.Set(i, a, 0)
				}
			}
			p, err := sparse.Fit(t.Context(), q.Kernel, q.Train, s, z, nil)
			require.NoError(t, err)
			var cov, joint, prior mat.Dense
			require.NoError(t, p.PredictTo(t.Context(), nil, &cov, q.Test))
			require.NoError(t, p.JointTo(t.Context(), nil, &joint, q.Test))
			q.Kernel.DiagTo(&prior, q.Test)
			largest := mat.Max(&prior)
			require.Less(t, mat.Max(&cov), largest)
			requireClose(t, "covariance", &cov, diagonalBlocks(&joint, q.C), 1e-10)
			for _, workers := range []int{1, 3} {
				p, err := sparse.Fit(t.Context(), q.Kernel, q.Train, s, z, &sparse.Options{Workers: workers})
				require.NoError(t, err)
				var again mat.Dense
				require.NoError(t, p.PredictTo(t.Context(), nil, &again, q.Test))
				require.True(t, mat.Equal(&cov, &again), "%d workers", workers)
			}
		}
	}
}
