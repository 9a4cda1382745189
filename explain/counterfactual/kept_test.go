package counterfactual_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/linearize"
)

var _ counterfactual.Base = (*kept.Posterior)(nil)

// With the covariance of kept rows alone the mode of the changed data is that of all rows
// (E16), as a refit finds it. The data come tile by tile.
func TestKeptRows(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		t.Run(q.Name, func(t *testing.T) {
			for _, strength := range []float64{0, .3} {
				data := testkit.InTiles(q.Train, 7)
				post, err := kept.Refit(t.Context(), data, q.Y, q.Likelihood, q.Prior, q.Theta, &kept.Options{Strength: strength})
				require.NoError(t, err)
				m, err := counterfactual.New(t.Context(), post, q.Kernel, q.Y, q.Likelihood, nil)
				require.NoError(t, err)
				for _, ch := range []counterfactual.Change{
					counterfactual.Without(3),
					counterfactual.Without(0, 5, 6, 7, 11),
					{Remove: []int{2}, Relabel: []counterfactual.Label{{Row: 1, Y: otherLabel(q, 1)}}, Add: q.Test.Slice(0, 1), AddY: dense.Slice(q.Y, 4, 5)},
				} {
					requireRefit(t, q, m, ch, 1e-7)
				}
			}
		})
	}
}

// With all rows kept the removal of a set to first order is that of the exact posterior;
// with some, that of one example is what InfluenceTo says.
func TestKeptRowsToFirstOrder(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		t.Run(q.Name, func(t *testing.T) {
			exact, err := model(t, q).At(t.Context(), q.Test)
			require.NoError(t, err)
			post, err := kept.Refit(t.Context(), q.Train, q.Y, q.Likelihood, q.Prior, q.Theta, nil)
			require.NoError(t, err)
			m, err := counterfactual.New(t.Context(), post, q.Kernel, q.Y, q.Likelihood, nil)
			require.NoError(t, err)
			rows, err := m.At(t.Context(), q.Test)
			require.NoError(t, err)
			var got, want mat.Dense
			for _, out := range [][]int{{4}, {1, 3, 9, 15}} {
				require.NoError(t, rows.WithoutTo(t.Context(), &got, out))
				require.NoError(t, exact.WithoutTo(t.Context(), &want, out))
				testkit.RequireClose(t, "without", &got, &want, 1e-7)
			}
			some, err := kept.Refit(t.Context(), q.Train, q.Y, q.Likelihood, q.Prior, q.Theta, &kept.Options{Strength: .3})
			require.NoError(t, err)
			for i := range q.N {
				var joint, h, single mat.Dense
				x, err := linearize.Gather(t.Context(), q.Train, []int{i})
				require.NoError(t, err)
				require.NoError(t, some.InfluenceTo(t.Context(), &h, &single, []int{i}, x))
				require.NoError(t, some.JointRemovalTo(t.Context(), &joint, []int{i}))
				testkit.RequireClose(t, "q", &joint, &single, 1e-10)
			}
		})
	}
}
