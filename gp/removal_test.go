package gp_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/linearize"
)

// What InfluenceTo says of some training examples is what PredictTo and
// RemovalTo say of them.
func TestInfluenceTo(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		e := q.refit(t, nil)
		all := make([]float64, q.n*q.c)
		require.NoError(t, testkit.RemovalTo(t.Context(), e, all))
		rows := []int{0, 3, 4, q.n - 1}
		b, err := linearize.Gather(t.Context(), q.train, rows)
		require.NoError(t, err)
		var cov, h, step mat.Dense
		require.NoError(t, e.PredictTo(t.Context(), nil, &cov, b))
		require.NoError(t, e.InfluenceTo(t.Context(), &h, &step, rows, b))
		requireClose(t, "h", &h, &cov, 1e-10)
		want := mat.NewDense(len(rows), q.c, nil)
		for i, r := range rows {
			want.SetRow(i, all[r*q.c:(r+1)*q.c])
		}
		requireClose(t, "q", &step, want, 1e-10)
	})
}
