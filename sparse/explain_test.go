package sparse_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/sparse"
)

// A prediction of a sparse posterior is explained over all training examples,
// whatever the tiles they come in, and both sums close.
func TestExplainedOverAllData(t *testing.T) {
	each(t, func(t *testing.T, q *problem) { requireExplained(t, q, q.some(t)) })
}

// requireExplained checks the explanations of a refit through z, which it returns.
func requireExplained(t *testing.T, q *problem, z *sparse.Inducing) *sparse.Posterior {
	t.Helper()
	p, err := sparse.Refit(t.Context(), q.Kernel, testkit.InTiles(q.Train, 6), q.Targets(), z, nil)
	require.NoError(t, err)
	e := testref.Must(explain.New(p, q.Kernel, &explain.Options{Top: q.N}))(t)
	rows := testref.Must(e.Explain(t.Context(), q.Test))(t)
	var mean mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, nil, q.Test))
	scale := mat.Norm(&mean, 2) + mat.Norm(q.MTest, 2)
	for i, row := range rows {
		for c, x := range row {
			require.InDelta(t, mean.At(i, c), x.PriorMean+x.Sum, 1e-9*scale)
			require.InDelta(t, x.Sum, x.RawSum, 1e-9*scale)
			require.Len(t, x.Terms, q.N)
		}
	}
	return p
}

// The examples outside a subset of data have no part in a prediction, and
// removing them changes nothing.
func TestExplainedOverSubset(t *testing.T) {
	q := problems(t)[5]
	z := q.some(t)
	p := testref.Must(sparse.RefitSubset(t.Context(), q.Kernel, q.Train, gp.NewTargets(pick(q.Y, z.Rows), q.Likelihood), z, nil))(t)
	e := testref.Must(explain.New(p, q.Kernel, &explain.Options{Top: q.N}))(t)
	rows := testref.Must(e.Explain(t.Context(), q.Test))(t)
	used := map[int]bool{}
	for _, r := range z.Rows {
		used[r] = true
	}
	for _, term := range rows[0][0].Terms {
		require.Equal(t, used[term.Index], term.Value != 0)
		require.Equal(t, used[term.Index], term.Raw != 0)
		require.Equal(t, used[term.Index], term.Removal != 0)
	}
}

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
			p := testref.Must(sparse.Fit(t.Context(), q.Kernel, q.Train, s, z, nil))(t)
			var cov, joint, prior mat.Dense
			require.NoError(t, p.PredictTo(t.Context(), nil, &cov, q.Test))
			require.NoError(t, p.JointTo(t.Context(), nil, &joint, q.Test))
			q.Kernel.DiagTo(&prior, q.Test)
			largest := mat.Max(&prior)
			require.Less(t, mat.Max(&cov), largest)
			requireClose(t, "covariance", &cov, diagonalBlocks(&joint, q.C), 1e-10)
			for _, procs := range []int{1, 3} {
				testref.Procs(t, procs)
				p, err := sparse.Fit(t.Context(), q.Kernel, q.Train, s, z, nil)
				require.NoError(t, err)
				var again mat.Dense
				require.NoError(t, p.PredictTo(t.Context(), nil, &again, q.Test))
				require.True(t, mat.Equal(&cov, &again), "%d processors", procs)
			}
		}
	}
}
