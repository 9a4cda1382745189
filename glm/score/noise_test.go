package score_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/internal/testref"
)

// TestE21NoiseFactor compares the factor in closed form with the best of a fine grid of the summed log
// density, for one output and for two with a full noise covariance.
func TestE21NoiseFactor(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	one := testref.Must(glm.NewGaussian(0.3))(t)
	two := testref.Must(glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{0.3, 0.1, 0.1, 0.2})))(t)
	for c, lik := range map[int]*glm.Gaussian{1: one, 2: two} {
		const n = 40
		y, mean, cov := mat.NewDense(n, c, nil), mat.NewDense(n, c, nil), mat.NewDense(n*c, c, nil)
		for i := range n {
			root := mat.NewDense(c, c, nil)
			for a := range c {
				mean.Set(i, a, rng.NormFloat64())
				y.Set(i, a, mean.At(i, a)+2*rng.NormFloat64())
				for b := range c {
					root.Set(a, b, rng.NormFloat64())
				}
			}
			cov.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Mul(root, root.T())
		}
		y.Set(3, 0, math.NaN()) // such a row is left out
		got := testref.Must(score.NoiseFactor(lik, y, mean, cov, nil))(t)
		density := func(factor float64) float64 {
			scaled := testref.Must(lik.ScaleNoise(factor))(t)
			var wide mat.Dense
			wide.Scale(factor, cov)
			logp := make([]float64, n)
			y := mat.DenseCopyOf(y)
			y.SetRow(3, mean.RawRowView(3))
			require.NoError(t, predictive.Exact{}.LogPredictiveTo(logp, scaled, y, mean, &wide))
			sum := 0.0
			for i, v := range logp {
				if i != 3 {
					sum += v
				}
			}
			return sum
		}
		best := density(got)
		for _, part := range []float64{.5, .9, .99, 1.01, 1.1, 2} {
			require.Less(t, density(got*part), best, "%d outputs, %v", c, part)
		}
	}
	_, err := score.NoiseFactor(one, mat.NewDense(1, 1, []float64{math.NaN()}), mat.NewDense(1, 1, nil), mat.NewDense(1, 1, nil), nil)
	require.ErrorAs(t, err, new(*score.RowsError))
}

// TestMostLogLik checks that no function values make targets likelier than those that are meant.
func TestMostLogLik(t *testing.T) {
	gaussian := testref.Must(glm.NewGaussian(0.3))(t)
	overdispersed := testref.Must(glm.NewNegativeBinomial(2))(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, one := range []struct {
		lik glm.Likelihood
		y   *mat.Dense
	}{{overdispersed, mat.NewDense(3, 1, []float64{0, 1, 17})}, {gaussian, mat.NewDense(3, 2, []float64{1, 2, -1, 0, 4, 5})}, {glm.Poisson{}, mat.NewDense(3, 1, []float64{0, 1, 17})}, {glm.Bernoulli{}, mat.NewDense(3, 1, []float64{0, 1, 1})}} {
		most := glm.MostLogLik(one.lik, one.y, nil)
		largest := 0.0 // of each row apart, as the rows do not depend on each other
		for i := range 3 {
			best := math.Inf(-1)
			for range 100_000 {
				f := make([]float64, one.y.RawMatrix().Cols)
				for j := range f {
					f[j] = 6 * rng.NormFloat64()
				}
				best = math.Max(best, one.lik.LogProb(one.y.RawRowView(i), f))
			}
			largest += best
		}
		require.LessOrEqual(t, largest, most, one.lik.Name())
		require.Greater(t, largest, most-.1, one.lik.Name())
	}
}
