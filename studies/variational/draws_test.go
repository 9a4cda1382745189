package variational_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/studies/variational"
)

// Draws of the Laplace posterior have the precision that weightspace forms from whole Jacobians.
func TestLaplaceDraws(t *testing.T) {
	q := testkit.OpenReference(t, "categorical")
	theta := q.Net.Theta()
	got, err := variational.LaplaceDraws(t.Context(), q.Train, q.Y, q.Likelihood, q.Prior, theta, nil)
	require.NoError(t, err)
	sites, err := gp.NewSites(gp.NewTargets(q.Y, q.Likelihood), q.Train.F)
	require.NoError(t, err)
	want, err := weightspace.Fit(t.Context(), q.Train, sites, q.Prior, theta, nil)
	require.NoError(t, err)
	samples := mat.NewDense(4000, len(theta), nil)
	require.NoError(t, got.SampleTo(t.Context(), samples, rand.New(rand.NewPCG(1, 2))))
	for k := range theta {
		v := make([]float64, len(theta))
		v[k] = 1
		require.InEpsilon(t, got.Quadratic(v), stat.Variance(mat.Col(nil, k, samples), nil), 0.2)
	}
	var cov mat.Dense
	require.NoError(t, want.PredictTo(t.Context(), nil, &cov, q.Test))
	c := q.Test.Outputs()
	j := make([]float64, len(theta))
	for i := range q.Test.Len() * c {
		u := make([]float64, q.Test.Len()*c)
		u[i] = 1
		q.Test.MulTransVecTo(j, u)
		require.InEpsilon(t, cov.At(i, i%c), got.Quadratic(j), 1e-9)
	}
}

// By many draws the refinement is that whose expectations are integrals: means of f within a part of the posterior
// standard deviation, and variances within that noise.
func TestRefineDraws(t *testing.T) {
	for _, diagonal := range []bool{false, true} {
		q := testkit.OpenReference(t, "categorical")
		theta := q.Net.Theta()
		got, err := variational.RefineDraws(t.Context(), q.Train, q.Y, q.Likelihood, q.Prior, theta, &variational.DrawsOptions{Diagonal: diagonal, Steps: 20, Draws: 4096})
		require.NoError(t, err)
		var want gp.Latent
		o := &variational.Options{Tolerance: 1e-6}
		if diagonal {
			want, err = variational.RefineDiagonal(t.Context(), q.Train, q.Y, q.Likelihood, q.Prior, theta, o)
		} else {
			want, err = variational.RefineWeights(t.Context(), q.Train, q.Y, q.Likelihood, q.Prior, theta, o)
		}
		require.NoError(t, err)
		var mean, cov mat.Dense
		require.NoError(t, want.PredictTo(t.Context(), &mean, &cov, q.Train))
		at := func(theta []float64) []float64 {
			f, d := make([]float64, q.Train.Len()*q.Train.Outputs()), make([]float64, len(theta))
			for i := range d {
				d[i] = theta[i] - q.Net.Theta()[i]
			}
			q.Train.MulVecTo(f, d)
			for i, v := range q.Train.F.RawMatrix().Data {
				f[i] += v
			}
			return f
		}
		c := q.Train.Outputs()
		for i, m := range at(got.Center()) {
			v := cov.At(i, i%c)
			require.InDelta(t, mean.RawMatrix().Data[i], m, .06*math.Sqrt(v), "diagonal %v", diagonal)
			u, j := make([]float64, q.Train.Len()*c), make([]float64, len(theta))
			u[i] = 1
			q.Train.MulTransVecTo(j, u)
			require.InEpsilon(t, v, got.Quadratic(j), .03, "diagonal %v", diagonal)
		}
	}
}
