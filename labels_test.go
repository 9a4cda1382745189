package funcgp_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// TestLabels checks what a program is told of rows in memory that have any number of labels, also from a saved posterior.
func TestLabels(t *testing.T) {
	net := testref.Must(network.Seeded(1, network.Shape{2}, network.Dense{Units: 4}, network.Tanh, network.Dense{Units: 3}))(t)
	x, y := mat.NewDense(30, 2, nil), mat.NewDense(30, 3, nil)
	for i := range 30 {
		x.SetRow(i, []float64{float64(i%5) - 2, float64(i) / 10})
		y.SetRow(i, []float64{float64(i % 2), float64(i / 3 % 2), float64(i / 15)})
	}
	data := funcgp.Data{X: x, Y: y, ClassNames: []string{"odd", "third", "late"}}
	p := testref.Must(funcgp.Fit(t.Context(), funcgp.Model{Network: net}, data, &funcgp.FitOptions{Standardize: "no", Prior: funcgp.Precision(1), Force: true}))(t)
	path := t.TempDir() + "/a.gp"
	require.NoError(t, p.Save(t.Context(), path, &funcgp.SaveOptions{Bundle: true}))
	again := testref.Must(funcgp.Open(t.Context(), path, nil))(t)
	var all [2][]funcgp.Prediction
	for k, p := range []*funcgp.Posterior{p, again} {
		require.Equal(t, data.ClassNames, p.Labels())
		require.Equal(t, p.Labels(), p.Info().Labels)
		require.Nil(t, p.Classes())
		rows := testref.Must(p.Rows(t.Context(), x.Slice(0, 4, 0, 2).(*mat.Dense)))(t)
		all[k] = testref.Must(p.Predict(t.Context(), rows))(t)
		e := testref.Must(p.Explain(t.Context(), rows, &funcgp.ExplainOptions{For: "late", Only: true, Top: 30}))(t)[3]
		late := e.Main()
		require.Len(t, e.Outputs, 1)
		require.Equal(t, "late", late.Name)
		sum := 0.0
		for _, c := range late.Contributions {
			sum += float64(c.Value)
		}
		require.InDelta(t, float64(late.ContributionSum), sum, 1e-9)
		require.InDelta(t, float64(e.Prediction.Mean[2]), float64(late.PriorMean)+sum+float64(late.Remainder), 1e-9)
		_, err := p.SmallestFlip(t.Context(), rows, 0, 0)
		require.ErrorContains(t, err, "and no class; use")
		for _, err := range p.Predictions(t.Context(), rows, &funcgp.PredictOptions{Coverage: .9}) {
			require.ErrorContains(t, err, "several labels")
		}
	}
	for i, q := range all[0] {
		require.Equal(t, -1, q.Best())
		require.False(t, q.Class.Finite() || q.Margin().Finite())
		require.Len(t, q.Probability, 3)
		require.Equal(t, q.Probability, all[1][i].Probability)
		require.Equal(t, q.ProbabilitySD, all[1][i].ProbabilitySD)
	}
	suspects := testref.Must(p.Audit(t.Context(), 3))(t)
	require.Len(t, suspects.Mislabelled[0].Residual, 3)
	require.Contains(t, string(testref.Must(json.Marshal(p.Info()))(t)), `"labels":["odd","third","late"]`)
}
