package calibration

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/linearize/network"
)

// The README shows what was recorded.
func TestRender(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.md")
	require.NoError(t, Run(t.Context(), io.Discard, []string{"-render", "results.json", "-table", path}))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), string(text))
}

// Logits that are twice too large are best at a temperature of about two.
func TestTemperature(t *testing.T) {
	const n = 4000
	held, y := mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		f := 4 * (float64(i%200)/100 - 1)
		held.Set(i, 0, 2*f)
		if math.Mod(float64(i)*.6180339887, 1) < 1/(1+math.Exp(-f)) {
			y.Set(i, 0, 1)
		}
	}
	p := &problem{lik: glm.Bernoulli{}, valid: part{held, y}, test: part{held, y}}
	got, err := p.temper(held, held)
	require.NoError(t, err)
	require.InDelta(t, 2, float64(got.Temperature), .1)
}

// The mean of a network with itself is the network.
func TestMeanOfEqualNetworks(t *testing.T) {
	f := mat.NewDense(3, 3, []float64{1, 0, 2, -1, 3, .5, 0, 0, 0})
	p := &problem{lik: glm.Categorical{}, test: part{f, mat.NewDense(3, 1, []float64{2, 1, 0})}}
	got, err := p.mean([]*mat.Dense{f, f})
	require.NoError(t, err)
	want, err := score.ScoreOf(nil, p.lik, p.test.y, f, nil)
	require.NoError(t, err)
	require.InDelta(t, want.NLL, float64(got.NLL), 1e-14)
	require.InDelta(t, want.ECE, float64(got.ECE), 1e-14)
}

// Descent without decay lowers the loss, and its order depends on the seed alone.
func TestDescent(t *testing.T) {
	p, err := openFriedman(t.Context(), nil, 0)
	require.NoError(t, err)
	start, err := network.Seeded(1, p.recipe.shape, p.recipe.layers...)
	require.NoError(t, err)
	s := &sgd{rate: 1e-4, momentum: .9, batch: 50, epochs: 3}
	nll := func(net *network.Network) float64 {
		f, err := forward(t.Context(), net, p.train.x)
		require.NoError(t, err)
		v, err := score.ScoreOf(nil, p.lik, p.train.y, f, nil)
		require.NoError(t, err)
		return v.NLL
	}
	one, err := s.train(t.Context(), start, p.train, p.lik, 1)
	require.NoError(t, err)
	two, err := s.train(t.Context(), start, p.train, p.lik, 1)
	require.NoError(t, err)
	require.Less(t, nll(one), .8*nll(start))
	require.Equal(t, one.Theta(), two.Theta())
}
