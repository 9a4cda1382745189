package gp_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Dense algebra, as the equations write it.
var (
	column         = testkit.Column
	vec            = testkit.Vec
	product        = testkit.Product
	plus           = testkit.Plus
	inverse        = testkit.Inverse
	identity       = testkit.Identity
	logDet         = testkit.LogDet
	whole          = testkit.Whole
	flat           = testkit.Flat
	diagonalBlocks = testkit.DiagonalBlocks
	requireNumber  = testkit.RequireNumber
)

// A problem is a small random linearized network with data, prior and
// likelihood. θ* is not a mode and μ₀ is not zero.
type problem struct {
	name                   string
	train, test            *linearize.Batch
	y                      *mat.Dense
	lik                    gp.Likelihood
	theta, mean, variance  []float64
	n, t, c, p             int
	kernel                 denseKernel
	prior                  ntk.Kernel // of a problem that has no kernel
	jTrain, jTest, fTrain  *mat.Dense // N·C×P, T·C×P, N·C×1
	sigma, sigmaInv, shift *mat.Dense // Σ₀, Σ₀⁻¹, μ₀−θ* as P×1
	priorTrain, priorTest  *mat.Dense // m, stacked
	kTrain, kCross, kTest  *mat.Dense
}

// problems are one of each likelihood, with 1, 2 and 4 outputs, and cases with
// saturated sites, where Λ is zero or singular.
func problems(t *testing.T) []*problem {
	t.Helper()
	cov := mat.NewSymDense(2, []float64{0.3, 0.1, 0.1, 0.2})
	gauss1 := testref.Must(glm.NewGaussian(0.2))(t)
	gauss2 := testref.Must(glm.NewGaussianMatrix(cov))(t)
	return []*problem{
		newProblem("gaussian", 1, 1, gauss1, 1),
		newProblem("gaussian-full-covariance", 2, 2, gauss2, 1),
		newProblem("bernoulli", 3, 1, glm.Bernoulli{}, 1),
		newProblem("bernoulli-saturated", 4, 1, glm.Bernoulli{}, 900),
		newProblem("bernoulli-two", 5, 2, glm.Bernoulli{}, 1),
		newProblem("categorical", 6, 4, glm.Categorical{}, 1),
		newProblem("categorical-saturated", 7, 4, glm.Categorical{}, 900),
		newProblem("poisson", 8, 1, glm.Poisson{}, 0.5),
		newProblemOf("heteroscedastic", 10, 60, 2, glm.Heteroscedastic{}, 0.5), // more targets than parameters, which cannot fit them all
		largeProblem(),
	}
}

// largeProblem has several panels and tiles of every kind, each with a rest.
func largeProblem() *problem {
	return newProblemOf("several-panels", 9, 180, 3, glm.Categorical{}, 1)
}

// newProblem draws a problem whose outputs are of size scale.
func newProblem(name string, seed uint64, c int, lik gp.Likelihood, scale float64) *problem {
	return newProblemOf(name, seed, 14, c, lik, scale)
}

func newProblemOf(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64) *problem {
	rng := rand.New(rand.NewPCG(seed, 17))
	q := &problem{name: name, lik: lik, n: n, t: 6, c: c}
	q.train, q.test = randomBatch(rng, q.n, c, scale), randomBatch(rng, q.t, c, scale)
	q.p = q.train.P
	for range q.p {
		q.theta = append(q.theta, rng.NormFloat64())
		q.mean = append(q.mean, 0.3*rng.NormFloat64())
		q.variance = append(q.variance, math.Exp(0.5*rng.NormFloat64()))
	}
	q.y = targets(rng, lik, q.train.F)
	q.kernel = denseKernel{densePrior: densePrior{q.mean, q.variance}, theta: q.theta}
	q.fill()
	return q
}

// fill computes everything dense and dumb.
func (q *problem) fill() {
	q.jTrain, q.jTest = new(mat.Dense), new(mat.Dense)
	q.train.JacobianTo(q.jTrain)
	q.test.JacobianTo(q.jTest)
	q.sigma, q.sigmaInv, q.shift = mat.NewDense(q.p, q.p, nil), mat.NewDense(q.p, q.p, nil), mat.NewDense(q.p, 1, nil)
	for i, v := range q.variance {
		q.sigma.Set(i, i, v)
		q.sigmaInv.Set(i, i, 1/v)
		q.shift.Set(i, 0, q.mean[i]-q.theta[i])
	}
	q.fTrain = column(q.train.F)
	q.priorTrain = plus(q.fTrain, 1, product(q.jTrain, q.shift))
	q.priorTest = plus(column(q.test.F), 1, product(q.jTest, q.shift))
	q.kTrain = product(q.jTrain, q.sigma, q.jTrain.T())
	q.kCross = product(q.jTest, q.sigma, q.jTrain.T())
	q.kTest = product(q.jTest, q.sigma, q.jTest.T())
}

// randomBatch has an Outer block with weight and bias and a Full block in two
// spans on both sides of it.
func randomBatch(rng *rand.Rand, n, c int, scale float64) *linearize.Batch {
	const in, out, a, b = 3, 4, 5, 6
	weight := linearize.Span{Name: "w", Offset: a, Rows: out, Cols: in}
	bias := linearize.Span{Name: "b", Offset: a + in*out, Rows: 1, Cols: out}
	return &linearize.Batch{
		X: random(rng, n, 2, 1), F: random(rng, n, c, scale), P: a + in*out + out + b,
		Blocks: []linearize.Block{
			&linearize.Outer{A: random(rng, n, in, 1), G: random(rng, n*c, out, 0.5), Weight: &weight, Bias: &bias, C: c},
			&linearize.Full{J: random(rng, n*c, a+b, 0.5), C: c, Params: []linearize.Span{
				{Name: "u", Offset: 0, Rows: 1, Cols: a}, {Name: "v", Offset: a + in*out + out, Rows: 1, Cols: b}}},
		},
	}
}

func targets(rng *rand.Rand, lik gp.Likelihood, f *mat.Dense) *mat.Dense {
	n, c := f.Dims()
	y := mat.NewDense(n, c, nil)
	switch lik.(type) {
	case glm.Categorical:
		y = mat.NewDense(n, 1, nil)
		for i := range n {
			y.Set(i, 0, float64(rng.IntN(c)))
		}
	case glm.Heteroscedastic:
		y = random(rng, n, c/2, 1)
	case glm.Bernoulli:
		y.Apply(func(_, _ int, _ float64) float64 { return float64(rng.IntN(2)) }, y)
	case glm.Poisson:
		y.Apply(func(_, _ int, _ float64) float64 { return float64(rng.IntN(5)) }, y)
	default:
		y.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, y)
	}
	return y
}

func random(rng *rand.Rand, r, c int, scale float64) *mat.Dense {
	m := mat.NewDense(r, c, nil)
	m.Apply(func(_, _ int, _ float64) float64 { return scale * rng.NormFloat64() }, m)
	return m
}

// A densePrior is N(mean, diag(variance)).
type densePrior struct{ mean, variance []float64 }

var _ ntk.Prior = densePrior{}

func (p densePrior) MeanTo(dst []float64)     { copy(dst, p.mean) }
func (p densePrior) VarianceTo(dst []float64) { copy(dst, p.variance) }

// A denseKernel forms J and multiplies: slow, short and obviously right. Where
// to > 0 only the parameters [from, to) take part: a group kernel.
type denseKernel struct {
	densePrior
	theta    []float64
	from, to int
}

var _ ntk.Kernel = denseKernel{}

// MeanTo writes m = F + J(μ₀−θ*) (E2).
func (k denseKernel) MeanTo(dst []float64, b *linearize.Batch) {
	d := make([]float64, len(k.theta))
	for i := range d {
		d[i] = k.mean[i] - k.theta[i]
	}
	b.MulVecTo(dst, d)
	for i, v := range column(b.F).RawMatrix().Data {
		dst[i] += v
	}
}

// BlockTo writes J_a Σ₀ J_bᵀ (E2).
func (k denseKernel) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	ja, jb := k.scaled(a), k.scaled(b)
	dst.Mul(ja, jb.T())
	if a == b {
		n, _ := dst.Dims()
		for i := range n {
			for j := range i {
				dst.Set(j, i, dst.At(i, j))
			}
		}
	}
}

// DiagTo writes the C×C diagonal blocks of J Σ₀ Jᵀ.
func (k denseKernel) DiagTo(dst *mat.Dense, b *linearize.Batch) {
	j, c := k.scaled(b), b.Outputs()
	for i := range b.Len() {
		ji := j.Slice(i*c, (i+1)*c, 0, b.P)
		dst.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Mul(ji, ji.T())
	}
}

// scaled returns J Σ₀^½.
func (k denseKernel) scaled(b *linearize.Batch) *mat.Dense {
	var j mat.Dense
	b.JacobianTo(&j)
	j.Apply(func(_, p int, v float64) float64 {
		if k.to > 0 && (p < k.from || p >= k.to) {
			return 0
		}
		return v * math.Sqrt(k.variance[p])
	}, &j)
	return &j
}

// requireClose fails where an entry differs by more than rel times the
// largest entry of want.
func requireClose(t *testing.T, what string, got, want mat.Matrix, rel float64) {
	t.Helper()
	r, c := want.Dims()
	gr, gc := got.Dims()
	require.Equal(t, [2]int{r, c}, [2]int{gr, gc}, what)
	scale := mat.Max(want)
	scale = math.Max(scale, -mat.Min(want))
	for i := range r {
		for j := range c {
			if d := math.Abs(got.At(i, j) - want.At(i, j)); !(d <= rel*scale) {
				t.Fatalf("%s: entry (%d, %d) is %v, want %v; off by %.3g of the largest, tolerance %.3g",
					what, i, j, got.At(i, j), want.At(i, j), d/scale, rel)
			}
		}
	}
}

// sites expands the likelihood at θ*.
func (q *problem) sites(t *testing.T) *gp.Sites {
	t.Helper()
	return testref.Must(gp.NewSites(gp.NewTargets(q.y, q.lik), q.train.F))(t)
}

func (q *problem) fit(t *testing.T, o *gp.Options) *gp.Exact {
	t.Helper()
	e := testref.Must(gp.Fit(t.Context(), q.kernel, q.train, q.sites(t), o))(t)
	require.Empty(t, e.Warnings())
	return e
}

func (q *problem) refit(t *testing.T, o *gp.Options) *gp.Exact {
	t.Helper()
	e := testref.Must(gp.Refit(t.Context(), q.kernel, q.train, gp.NewTargets(q.y, q.lik), o))(t)
	require.Empty(t, e.Warnings())
	return e
}

// weights returns the mean and the covariance of the weight-space posterior
// given sites: H = Σ₀⁻¹ + JᵀΛJ, H(v − μ₀) = Jᵀ(r + Λ(f − m)).
func (q *problem) weights(t *testing.T, s *gp.Sites) (mean, cov *mat.Dense) {
	t.Helper()
	lambda := whole(s.Lambda)
	b := plus(column(s.Residual), 1, product(lambda, plus(column(s.F), -1, q.priorTrain)))
	cov = inverse(t, plus(q.sigmaInv, 1, product(q.jTrain.T(), lambda, q.jTrain)))
	return plus(vec(q.mean), 1, product(cov, q.jTrain.T(), b)), cov
}

// each runs f for every problem.
func each(t *testing.T, f func(t *testing.T, q *problem)) {
	for _, q := range problems(t) {
		t.Run(q.name, func(t *testing.T) { f(t, q) })
	}
}

// linearGaussian is (E8) of a posterior.
func linearGaussian(t testing.TB, e *gp.Exact) gp.Evidence {
	return testref.Must(e.EvidenceLinearGaussian(t.Context()))(t)
}
