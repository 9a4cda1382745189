package weightspace_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/internal/testref"
)

// On a model that is linear in θ the moments of f are those of the posterior.
func TestDrawIsAllOfBNN(t *testing.T) {
	for _, c := range []int{1, 2} {
		net, x, y, w := linearModel(t, c)
		lik := likOf(c)
		bnn := weightspace.NewBNN(net, w)
		bnn.Samples, bnn.Seed = 4000, 3
		d := testref.Must(bnn.Draw(t.Context(), lik, y, x))(t)
		b := testref.Must(net.Linearize(t.Context(), x))(t)
		var f, cov mat.Dense
		require.NoError(t, w.PredictTo(t.Context(), &f, &cov, b))
		scale := mat.Max(&cov)
		require.True(t, mat.EqualApprox(&f, d.F, .1*scale))
		require.True(t, mat.EqualApprox(&cov, d.Cov, .1*scale))
		entropy, mutual := make([]float64, 12), make([]float64, 12)
		require.NoError(t, predictive.MonteCarlo{Samples: 4000}.EntropyTo(entropy, mutual, lik, &f, &cov))
		require.InDeltaSlice(t, entropy, d.Entropy, .03)
		require.InDeltaSlice(t, mutual, d.Mutual, .03)
		unlabelled := testref.Must(bnn.Draw(t.Context(), lik, nil, x))(t)
		require.Nil(t, unlabelled.LogDensity)
	}
}
