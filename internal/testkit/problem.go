package testkit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Problem is a small random linearized network with data, a prior in groups
// and a likelihood. θ* is not a mode and μ₀ is not zero.
type Problem struct {
	Name           string
	Train, Test    *linearize.Batch
	Y              *mat.Dense
	Likelihood     gp.Likelihood
	Theta          []float64
	Prior          *ntk.Layerwise
	Kernel         *ntk.NTK
	N, T, C        int        // training examples, test examples, outputs
	KTrain, KCross *mat.Dense // NC×NC, TC×NC
	KTest          *mat.Dense // TC×TC
	MTrain, MTest  *mat.Dense // m, stacked
}

// Problems returns problems with 1 to 4 outputs and every likelihood. Some sites are saturated,
// with a Λ that is zero or singular.
func Problems(t *testing.T) []*Problem {
	t.Helper()
	gauss := testref.Must(glm.NewGaussian(0.2))(t)
	full := testref.Must(glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{0.3, 0.1, 0.1, 0.2})))(t)
	return []*Problem{
		NewProblem("gaussian", 1, 20, 1, gauss, 1),
		NewProblem("gaussian-full-covariance", 2, 20, 2, full, 1),
		NewProblem("bernoulli", 3, 20, 1, glm.Bernoulli{}, 1),
		NewProblem("bernoulli-saturated", 4, 20, 1, glm.Bernoulli{}, 900),
		NewProblem("poisson", 5, 20, 1, glm.Poisson{}, 0.5),
		NewProblem("categorical", 6, 20, 3, glm.Categorical{}, 1),
		NewProblem("categorical-saturated", 7, 20, 4, glm.Categorical{}, 900),
		NewProblem("several-labels", 9, 20, 3, glm.Bernoulli{}, 1),
	}
}

// Targets returns Y with the likelihood.
func (q *Problem) Targets() *gp.Targets { return gp.NewTargets(q.Y, q.Likelihood) }

// Heteroscedastic returns a problem with two outputs and a likelihood with Fisher information. It
// has more targets than parameters, so that the means cannot fit them all.
func Heteroscedastic() *Problem {
	return NewProblemOf("heteroscedastic", 8, 60, 2, glm.Heteroscedastic{}, 0.5, 4)
}

// NewProblem draws a problem of n examples and c outputs of size scale.
func NewProblem(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64) *Problem {
	return NewProblemOf(name, seed, n, c, lik, scale, 12)
}

// NewProblemOf draws a problem with about width² parameters. With fewer than N·C parameters K is singular.
func NewProblemOf(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64, width int) *Problem {
	rng := rand.New(rand.NewPCG(seed, 23))
	layers := []gptest.Layer{{In: width, Out: width}, {Out: width}, {In: width / 2, Out: width, NoBias: true}}
	q := &Problem{Name: name, Likelihood: lik, N: n, T: 6, C: c}
	q.Train = gptest.RandomBatch(rng, n, c, layers...)
	q.Test = gptest.Another(rng, q.Train, q.T)
	for _, b := range []*linearize.Batch{q.Train, q.Test} {
		b.F.Scale(scale, b.F)
		b.X.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, b.X)
	}
	for range q.Train.P {
		q.Theta = append(q.Theta, 0.2*rng.NormFloat64())
	}
	groups := ntk.ByTensor(ntk.Spans(q.Train), 1)
	for i := range groups {
		groups[i].Precision = 10 * math.Exp(0.5*rng.NormFloat64())
	}
	var err error
	if q.Prior, err = ntk.NewLayerwise(q.Train.P, groups, []float64{0.1}); err != nil {
		panic(err)
	}
	q.Kernel = ntk.New(q.Prior, q.Theta)
	q.Y = Targets(rng, lik, q.Train.F)
	q.Fill()
	return q
}

// Fill computes the prior means and kernels with dense matrices.
func (q *Problem) Fill() {
	p := q.Train.P
	mean, variance := make([]float64, p), make([]float64, p)
	q.Prior.MeanTo(mean)
	q.Prior.VarianceTo(variance)
	sigma, shift := mat.NewDense(p, p, nil), mat.NewDense(p, 1, nil)
	for i := range p {
		sigma.Set(i, i, variance[i])
		shift.Set(i, 0, mean[i]-q.Theta[i])
	}
	var j, jt mat.Dense
	q.Train.JacobianTo(&j)
	q.Test.JacobianTo(&jt)
	q.KTrain, q.KCross, q.KTest = Product(&j, sigma, j.T()), Product(&jt, sigma, j.T()), Product(&jt, sigma, jt.T())
	q.MTrain, q.MTest = Plus(Column(q.Train.F), 1, Product(&j, shift)), Plus(Column(q.Test.F), 1, Product(&jt, shift))
}

// Targets draws random targets of a likelihood for outputs f, N×C.
func Targets(rng *rand.Rand, lik gp.Likelihood, f *mat.Dense) *mat.Dense {
	n, c := f.Dims()
	y := mat.NewDense(n, c, nil)
	draw := func() float64 { return rng.NormFloat64() }
	switch lik.(type) {
	case glm.Categorical:
		y = mat.NewDense(n, 1, nil)
		draw = func() float64 { return float64(rng.IntN(c)) }
	case glm.Bernoulli:
		draw = func() float64 { return float64(rng.IntN(2)) }
	case glm.Poisson:
		draw = func() float64 { return float64(rng.IntN(5)) }
	case glm.Heteroscedastic:
		y = mat.NewDense(n, c/2, nil)
	}
	y.Apply(func(_, _ int, _ float64) float64 { return draw() }, y)
	return y
}

// Sites returns the sites at f(θ*).
func (q *Problem) Sites(t *testing.T) *gp.Sites {
	t.Helper()
	return testref.Must(gp.NewSites(q.Targets(), q.Train.F))(t)
}

// CrossOf returns all columns of a cross-kernel, computed in tiles of size examples.
func CrossOf(t *testing.T, d gp.Dual, x, train *linearize.Batch, size int, terms gp.Terms) *mat.Dense {
	t.Helper()
	q := testref.Must(d.Cross(t.Context(), x))(t)
	n, c := train.Len(), train.Outputs()
	out := mat.NewDense(x.Len()*c, n*c, nil)
	for lo := 0; lo < n; lo += size {
		hi := min(lo+size, n)
		var tile mat.Dense
		require.NoError(t, q.TileTo(t.Context(), &tile, lo, train.Slice(lo, hi), terms))
		out.Slice(0, x.Len()*c, lo*c, hi*c).(*mat.Dense).Copy(&tile)
	}
	return out
}
