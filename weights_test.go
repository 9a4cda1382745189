package funcgp_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// TestWeights checks that weights of rows and of classes count as repeated rows (E23), and that a saved posterior has them.
func TestWeights(t *testing.T) {
	net := testref.Must(network.Seeded(1, network.Shape{2}, network.Dense{Units: 4}, network.Tanh, network.Dense{Units: 2}))(t)
	var rows, repeated, y, yRepeated []float64
	var weights []float64
	for i := range 30 {
		row, label, w := []float64{float64(i%5) - 2, float64(i) / 10}, float64(i/2%2), float64(i%3)
		rows, y, weights = append(rows, row...), append(y, label), append(weights, w)
		for range int(w * (1 + label)) {
			repeated, yRepeated = append(repeated, row...), append(yRepeated, label)
		}
	}
	o := &funcgp.FitOptions{Standardize: "no", Prior: funcgp.Precision(1), Calibrate: "none"}
	with := *o
	with.ClassWeights = "1=2"
	x := mat.NewDense(30, 2, rows)
	predict := func(p *funcgp.Posterior, err error) (out []float64) {
		require.NoError(t, err)
		defer p.Close()
		for _, q := range testref.Must(p.Predict(t.Context(), testref.Must(p.Rows(t.Context(), x))(t)))(t) {
			for _, v := range slices.Concat(q.Mean, q.Covariance[0]) {
				out = append(out, float64(v))
			}
		}
		return append(out, float64(p.Info().LogEvidence))
	}
	want := predict(funcgp.Fit(t.Context(), funcgp.Model{Network: net}, funcgp.Data{X: mat.NewDense(len(yRepeated), 2, repeated), Y: mat.NewDense(len(yRepeated), 1, yRepeated)}, o))
	data := funcgp.Data{X: x, Y: mat.NewDense(30, 1, y), Weights: weights}
	require.InDeltaSlice(t, want, predict(funcgp.Fit(t.Context(), funcgp.Model{Network: net}, data, &with)), 1e-8)

	p := testref.Must(funcgp.Fit(t.Context(), funcgp.Model{Network: net}, data, &with))(t)
	path := t.TempDir() + "/a.gp"
	require.NoError(t, p.Save(t.Context(), path, &funcgp.SaveOptions{Bundle: true}))
	require.NoError(t, p.Close())
	require.InDeltaSlice(t, want, predict(funcgp.Open(t.Context(), path, nil)), 1e-8)

	data.Weights = []float64{1}
	_, err := funcgp.Fit(t.Context(), funcgp.Model{Network: net}, data, &with)
	require.ErrorContains(t, err, "1 Weights for 30 rows")
	data.Weights = make([]float64, 30)
	_, err = funcgp.Fit(t.Context(), funcgp.Model{Network: net}, data, &with)
	require.ErrorContains(t, err, "all 30 training rows of the rows have the weight 0")
}
