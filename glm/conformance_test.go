package glm_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp/gptest"
)

// Every likelihood of this package and one of a user's own. The tolerance is
// h⁴ = 1e-12 times a fifth derivative, and rounding eps·|log p|/h.
func TestLikelihoodsConform(t *testing.T) {
	gaussian, err := glm.NewGaussian(0.3)
	require.NoError(t, err)
	vector, err := glm.NewGaussianVector([]float64{0.1, 1, 7})
	require.NoError(t, err)
	matrix, err := glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{1, 0.6, 0.6, 0.5}))
	require.NoError(t, err)
	for _, c := range []struct {
		name    string
		lik     glm.Likelihood
		outputs int
		y       *mat.Dense
	}{
		{"gaussian/1", gaussian, 1, mat.NewDense(3, 1, []float64{-1.3, 0, 2.1})},
		{"gaussian/3", gaussian, 3, mat.NewDense(2, 3, []float64{-1.3, 0, 2.1, 0.4, 0.5, -3})},
		{"gaussian-vector/3", vector, 3, mat.NewDense(2, 3, []float64{-1.3, 0, 2.1, 0.4, 0.5, -3})},
		{"gaussian-matrix/2", matrix, 2, mat.NewDense(2, 2, []float64{-1.3, 0, 2.1, 0.4})},
		{"bernoulli/1", glm.Bernoulli{}, 1, mat.NewDense(2, 1, []float64{0, 1})},
		{"bernoulli/3", glm.Bernoulli{}, 3, mat.NewDense(3, 3, []float64{0, 1, 1, 1, 0, 0, 0.2, 0.9, 0.5})},
		{"categorical/2", glm.Categorical{}, 2, mat.NewDense(2, 1, []float64{0, 1})},
		{"categorical/5", glm.Categorical{}, 5, mat.NewDense(5, 1, []float64{0, 1, 2, 3, 4})},
		{"poisson/1", glm.Poisson{}, 1, mat.NewDense(3, 1, []float64{0, 1, 11})},
		{"poisson/3", glm.Poisson{}, 3, mat.NewDense(2, 3, []float64{0, 1, 11, 3, 2, 0})},
		{"own", probitBernoulli{}, 1, mat.NewDense(2, 1, []float64{0, 1})},
	} {
		t.Run(c.name, func(t *testing.T) {
			gptest.Likelihood(t, gptest.LikelihoodCase{Likelihood: c.lik, Outputs: c.outputs, Y: c.y, Scale: scaleOf(c.lik), Tol: 1e-10})
		})
	}
}

// The probit likelihood's log Φ as written there loses its digits where Φ is
// near 1, and is −Inf beyond f = 38.
func scaleOf(lik glm.Likelihood) float64 {
	if _, ok := lik.(probitBernoulli); ok {
		return 0.5
	}
	return 2
}
