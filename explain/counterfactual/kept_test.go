package counterfactual_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
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
