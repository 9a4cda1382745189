package glm_test

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testref"
)

// Every likelihood of this package and one of a user's own. The tolerance is
// h⁴ = 1e-12 times a fifth derivative, and rounding eps·|log p|/h.
func TestLikelihoodsConform(t *testing.T) {
	gaussian := testref.Must(glm.NewGaussian(0.3))(t)
	vector := testref.Must(glm.NewGaussianVector([]float64{0.1, 1, 7}))(t)
	matrix := testref.Must(glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{1, 0.6, 0.6, 0.5})))(t)
	overdispersed := testref.Must(glm.NewNegativeBinomial(1.7))(t)
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
		{"negative-binomial/1", overdispersed, 1, mat.NewDense(3, 1, []float64{0, 1, 11})},
		{"negative-binomial/3", overdispersed, 3, mat.NewDense(2, 3, []float64{0, 1, 11, 3, 2, 0})},
		{"heteroscedastic/1", glm.Heteroscedastic{}, 2, mat.NewDense(3, 1, []float64{-1.3, 0, 2.1})},
		{"heteroscedastic/2", glm.Heteroscedastic{}, 4, mat.NewDense(2, 2, []float64{-1.3, 0, 2.1, 0.4})},
		{"own", probitBernoulli{}, 1, mat.NewDense(2, 1, []float64{0, 1})},
	} {
		t.Run(c.name, func(t *testing.T) {
			gptest.Likelihood(t, gptest.LikelihoodCase{Likelihood: c.lik, Outputs: c.outputs, Y: c.y, Scale: scaleOf(c.lik), Tol: 1e-10, Quadrature: normalTargets})
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

// normalTargets are the three-point Gauss–Hermite nodes of each target of a
// heteroscedastic likelihood, −√3, 0 and √3 in units of σ with weights 1/6, 2/3 and 1/6,
// which are exact for polynomials of degree 5; those of r rᵀ have degree 4.
func normalTargets(f []float64) (targets [][]float64, weights []float64) {
	targets, weights = [][]float64{nil}, []float64{1}
	k := len(f) / 2
	for j := range k {
		var more [][]float64
		var w []float64
		for i, y := range targets {
			for _, node := range [][2]float64{{-math.Sqrt(3), 1. / 6}, {0, 2. / 3}, {math.Sqrt(3), 1. / 6}} {
				more = append(more, append(slices.Clone(y), f[j]+math.Exp(f[k+j]/2)*node[0]))
				w = append(w, weights[i]*node[1])
			}
		}
		targets, weights = more, w
	}
	return targets, weights
}
