package nearest_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/nearest"
)

// TestNearestOfATrainedNetwork trains a network to the optimum at a precision: there the mode of
// the linearized model is the network, so that this precision is the nearest one, at about no
// distance.
func TestNearestOfATrainedNetwork(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(3, 4))
	x := mat.NewDense(40, 2, nil)
	x.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, x)
	for name, c := range map[string]struct {
		lik     glm.Likelihood
		outputs int
		y       func(a, b float64) float64
	}{
		"bernoulli": {glm.Bernoulli{}, 1, func(a, b float64) float64 {
			if a+b*b+0.5*rng.NormFloat64() > 0.5 {
				return 1
			}
			return 0
		}},
		"categorical": {glm.Categorical{}, 3, func(a, b float64) float64 { return math.Round(1 + math.Tanh(a+b)) }},
		"poisson":     {glm.Poisson{}, 1, func(a, b float64) float64 { return math.Round(math.Exp(a / 2)) }},
	} {
		y := mat.NewDense(40, 1, nil)
		for i := range 40 {
			y.Set(i, 0, c.y(x.At(i, 0), x.At(i, 1)))
		}
		const delta = 0.5
		net, err := network.Sequential(network.Shape{2}, network.Dense{Units: 6}, network.Tanh, network.Dense{Units: c.outputs})
		require.NoError(t, err)
		_, _, params := net.Dims()
		precision := make([]float64, params)
		for i := range precision {
			precision[i] = delta
		}
		net, _, err = train.MAP(ctx, net, x, y, c.lik, &train.Options{Precision: precision, LBFGS: 3000, Tolerance: 1e-7})
		require.NoError(t, err)
		best, modes, err := nearest.Find(ctx, net, x, y, c.lik)
		require.NoError(t, err)
		// The distance grows linearly on both sides, and log δ is found to a tenth.
		require.InDelta(t, math.Log(delta), math.Log(best.Precision), 0.11, name)
		require.Less(t, best.Distance, 0.02, name)
		for _, m := range modes {
			require.GreaterOrEqual(t, m.Distance, best.Distance, name)
		}
	}
}

// TestDistance checks that what all logits share counts for a softmax and nothing else.
func TestDistance(t *testing.T) {
	f := mat.NewDense(2, 2, []float64{1, 2, 3, 5})
	g := mat.NewDense(2, 2, []float64{11, 12, 3, 4})
	// Centred: f is ∓.5 and ∓1, g is ∓.5 and ∓.5.
	require.InDelta(t, math.Sqrt(2*0.25/(2*0.25+2*1)), nearest.Distance(g, f, glm.Categorical{}), 1e-15)
	require.InDelta(t, math.Sqrt((100+100+1)/(1+4+9+25.0)), nearest.Distance(g, f, glm.Bernoulli{}), 1e-15)
}
