package score

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func randomVec(rng *rand.Rand, n int, scale float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = scale * rng.NormFloat64()
	}
	return v
}

// randomCov returns a random c×c covariance A Aᵀ of the given rank.
func randomCov(rng *rand.Rand, c, rank int, scale float64) *mat.Dense {
	a := mat.NewDense(c, rank, randomVec(rng, c*rank, scale/math.Sqrt(float64(rank))))
	var s mat.Dense
	s.Mul(a, a.T())
	return &s
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// randomPosterior returns f, T×C, and cov, T·C×C.
func randomPosterior(seed uint64, t, c int, scale float64) (f, cov *mat.Dense) {
	rng := newRand(seed)
	f = mat.NewDense(t, c, randomVec(rng, t*c, 2))
	cov = mat.NewDense(t*c, c, nil)
	for i := range t {
		cov.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Copy(randomCov(rng, c, c+2, scale))
	}
	return f, cov
}

func logPredictive(t testing.TB, l predictive.Link, lik glm.Likelihood, y, f, cov *mat.Dense) []float64 {
	t.Helper()
	n, _ := f.Dims()
	dst := make([]float64, n)
	require.NoError(t, l.LogPredictiveTo(dst, lik, y, f, cov))
	return dst
}
