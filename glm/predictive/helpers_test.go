package predictive

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/testref"
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

// likelihoodCase is a likelihood with a way to draw targets and outputs for it.
type likelihoodCase struct {
	name   string
	lik    glm.Likelihood
	c      int
	target func(rng *rand.Rand) []float64
}

func likelihoodCases(t testing.TB) []likelihoodCase {
	rng := testref.Rand(11)
	gaussian := func(g *glm.Gaussian, err error) *glm.Gaussian { return testref.Must(g, err)(t) }
	normal := func(c int) func(*rand.Rand) []float64 {
		return func(rng *rand.Rand) []float64 { return testref.Vec(rng, c, 1) }
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
	cov := testref.Cov(rng, 4, 6, 0.7)
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
