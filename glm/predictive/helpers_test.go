package predictive

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
)

// scaledMatrix returns s·m in a new matrix; nil stays nil.
func scaledMatrix(m *mat.Dense, s float64) *mat.Dense {
	if m == nil {
		return nil
	}
	to := mat.DenseCopyOf(m)
	for i := range to.RawMatrix().Rows {
		floats.Scale(s, to.RawRowView(i))
	}
	return to
}

// randomMoments returns means and covariances of n rows with c outputs.
func randomMoments(rng *rand.Rand, n, c int, spread, width float64) (mean, cov *mat.Dense) {
	mean, cov = mat.NewDense(n, c, randomVec(rng, n*c, spread)), mat.NewDense(n*c, c, nil)
	for i := range n {
		a := mat.NewDense(c, c, randomVec(rng, c*c, width))
		cov.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Mul(a, a.T())
	}
	return mean, cov
}

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

func symmetric(a *mat.Dense) *mat.SymDense {
	c, _ := a.Dims()
	s := mat.NewSymDense(c, nil)
	for i := range c {
		for j := i; j < c; j++ {
			s.SetSym(i, j, a.At(i, j))
		}
	}
	return s
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// likelihoodCase is a likelihood with a way to draw targets and outputs for it.
type likelihoodCase struct {
	name   string
	lik    glm.Likelihood
	c      int
	target func(rng *rand.Rand) []float64
}

func likelihoodCases(t testing.TB) []likelihoodCase {
	rng := newRand(11)
	gaussian := must[*glm.Gaussian](t)
	normal := func(c int) func(*rand.Rand) []float64 {
		return func(rng *rand.Rand) []float64 { return randomVec(rng, c, 1) }
	}
	each := func(c int, draw func(*rand.Rand) float64) func(*rand.Rand) []float64 {
		return func(rng *rand.Rand) []float64 {
			y := make([]float64, c)
			for i := range y {
				y[i] = draw(rng)
			}
			return y
		}
	}
	bit := func(rng *rand.Rand) float64 { return float64(rng.IntN(2)) }
	count := func(rng *rand.Rand) float64 { return float64(rng.IntN(12)) }
	class := func(c int) func(*rand.Rand) []float64 {
		return each(1, func(rng *rand.Rand) float64 { return float64(rng.IntN(c)) })
	}
	cov := randomCov(rng, 4, 6, 0.7)
	return []likelihoodCase{
		{"gaussian/1", gaussian(glm.NewGaussian(0.3)), 1, normal(1)},
		{"gaussian/3", gaussian(glm.NewGaussian(2.5)), 3, normal(3)},
		{"gaussian-vector/3", gaussian(glm.NewGaussianVector([]float64{0.1, 1, 7})), 3, normal(3)},
		{"gaussian-matrix/4", gaussian(glm.NewGaussianMatrix(symmetric(cov))), 4, normal(4)},
		{"bernoulli/1", glm.Bernoulli{}, 1, each(1, bit)},
		{"bernoulli/3", glm.Bernoulli{}, 3, each(3, bit)},
		{"bernoulli-fraction/2", glm.Bernoulli{}, 2, each(2, (*rand.Rand).Float64)},
		{"categorical/2", glm.Categorical{}, 2, class(2)},
		{"categorical/5", glm.Categorical{}, 5, class(5)},
		{"poisson/1", glm.Poisson{}, 1, each(1, count)},
		{"poisson/3", glm.Poisson{}, 3, each(3, count)},
		{"heteroscedastic/1", glm.Heteroscedastic{}, 2, normal(1)},
		{"heteroscedastic/2", glm.Heteroscedastic{}, 4, normal(2)},
	}
}

// dumbExpect is E g(f) for f ~ N(m, s²) by a trapezoid of 40001 points on
// [−12, 12] in z.
func dumbExpect(m, s float64, g func(f float64) float64) float64 {
	const n = 40001
	h := 24.0 / (n - 1)
	sum := 0.0
	for k := range n {
		z := -12 + h*float64(k)
		sum += g(m+s*z) * math.Exp(-0.5*z*z)
	}
	return sum * h / math.Sqrt(2*math.Pi)
}
