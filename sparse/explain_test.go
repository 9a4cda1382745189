package sparse_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/sparse"
)

// A prediction of a sparse posterior is explained over all training examples,
// whatever the tiles they come in, and both sums close.
func TestExplainedOverAllData(t *testing.T) {
	both(t, func(t *testing.T, q *problem, a sparse.Approximation) {
		p, err := sparse.Refit(t.Context(), q.Kernel, testkit.InTiles(q.Train, 6), q.Y, q.Likelihood, q.some(t), &sparse.Options{Approximation: a})
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
	})
}

// The examples outside a subset of data have no part in a prediction, and
// removing them changes nothing.
func TestExplainedOverSubset(t *testing.T) {
	q := problems(t)[5]
	z := q.some(t)
	p := testref.Must(sparse.RefitSubset(t.Context(), q.Kernel, q.Train, pick(q.Y, z.Rows), q.Likelihood, z, nil))(t)
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
