package weightspace_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/weightspace"
)

// One pass over the draws gives what the methods of BNN give in several, and on a model
// that is linear in θ the moments of f are those of the posterior.
func TestDrawIsAllOfBNN(t *testing.T) {
	for _, c := range []int{1, 2} {
		net, x, y, w := linearModel(t, c)
		lik := likOf(c)
		bnn := weightspace.NewBNN(net, w)
		bnn.Samples, bnn.Seed = 4000, 3
		d, err := bnn.Draw(t.Context(), lik, y, x)
		require.NoError(t, err)
		var mean, aleatoric, epistemic mat.Dense
		require.NoError(t, bnn.PredictTo(t.Context(), &mean, nil, lik, x))
		require.NoError(t, bnn.SplitTo(t.Context(), &aleatoric, &epistemic, lik, x))
		require.True(t, mat.Equal(&mean, d.Mean) && mat.Equal(&aleatoric, d.Aleatoric) && mat.EqualApprox(&epistemic, d.Epistemic, 1e-15))
		logp := make([]float64, 12)
		require.NoError(t, bnn.LogPredictiveTo(t.Context(), logp, lik, y, x))
		require.Equal(t, logp, d.LogDensity)

		b, err := net.Linearize(t.Context(), x)
		require.NoError(t, err)
		var f, cov mat.Dense
		require.NoError(t, w.PredictTo(t.Context(), &f, &cov, b))
		scale := mat.Max(&cov)
		require.True(t, mat.EqualApprox(&f, d.F, .1*scale))
		require.True(t, mat.EqualApprox(&cov, d.Cov, .1*scale))
		entropy, mutual := make([]float64, 12), make([]float64, 12)
		require.NoError(t, predictive.MonteCarlo{Samples: 4000}.EntropyTo(entropy, mutual, lik, &f, &cov))
		require.InDeltaSlice(t, entropy, d.Entropy, .03)
		require.InDeltaSlice(t, mutual, d.Mutual, .03)
		unlabelled, err := bnn.Draw(t.Context(), lik, nil, x)
		require.NoError(t, err)
		require.Nil(t, unlabelled.LogDensity)
	}
}

// Predictions at several inputs covary as the function values of the posterior do.
func TestJointOfBNN(t *testing.T) {
	net, x, _, w := linearModel(t, 1)
	lik, err := glm.NewGaussian(0.5)
	require.NoError(t, err)
	bnn := weightspace.NewBNN(net, w)
	bnn.Samples = 20000
	var mean, aleatoric, epistemic, f, cov mat.Dense
	require.NoError(t, bnn.JointTo(t.Context(), &mean, &aleatoric, &epistemic, lik, x))
	b, err := net.Linearize(t.Context(), x)
	require.NoError(t, err)
	require.NoError(t, w.JointTo(t.Context(), &f, &cov, b))
	scale := mat.Max(&cov)
	require.True(t, mat.EqualApprox(&f, &mean, .05*scale))
	require.True(t, mat.EqualApprox(&cov, &epistemic, .05*scale))
	require.InDelta(t, .5, aleatoric.At(3, 0), 1e-12)
}
