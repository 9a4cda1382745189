package sparse_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testdense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// subsetOfData is the approximation of a posterior of a subset of data, which
// no option takes.
const subsetOfData = sparse.FITC + 1

// Dense algebra, as the equations write it.
var (
	column         = testdense.Column
	vec            = testdense.Vec
	product        = testdense.Product
	plus           = testdense.Plus
	inverse        = testdense.Inverse
	identity       = testdense.Identity
	logDet         = testdense.LogDet
	whole          = testdense.Whole
	diagonalBlocks = testdense.DiagonalBlocks
	requireNumber  = testdense.RequireNumber
)

// A problem is a small random linearized network with data, a prior in groups
// and a likelihood. θ* is not a mode and μ₀ is not zero.
type problem struct {
	name           string
	train, test    *linearize.Batch
	y              *mat.Dense
	lik            gp.Likelihood
	theta          []float64
	prior          *ntk.Layerwise
	kernel         *ntk.NTK
	n, t, c        int
	kTrain, kCross *mat.Dense // NC×NC, TC×NC
	kTest          *mat.Dense
	mTrain, mTest  *mat.Dense // m, stacked
}

// problems have 1 to 4 outputs and every likelihood, among them saturated
// sites, whose Λ is zero or singular.
func problems(t *testing.T) []*problem {
	t.Helper()
	gauss, err := glm.NewGaussian(0.2)
	require.NoError(t, err)
	full, err := glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{0.3, 0.1, 0.1, 0.2}))
	require.NoError(t, err)
	return []*problem{
		newProblem("gaussian", 1, 20, 1, gauss, 1),
		newProblem("gaussian-full-covariance", 2, 20, 2, full, 1),
		newProblem("bernoulli", 3, 20, 1, glm.Bernoulli{}, 1),
		newProblem("bernoulli-saturated", 4, 20, 1, glm.Bernoulli{}, 900),
		newProblem("poisson", 5, 20, 1, glm.Poisson{}, 0.5),
		newProblem("categorical", 6, 20, 3, glm.Categorical{}, 1),
		newProblem("categorical-saturated", 7, 20, 4, glm.Categorical{}, 900),
	}
}

func newProblem(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64) *problem {
	return newProblemOf(name, seed, n, c, lik, scale, 12)
}

// newProblemOf has width² or so parameters: fewer than N·C make K singular.
func newProblemOf(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64, width int) *problem {
	rng := rand.New(rand.NewPCG(seed, 23))
	layers := []gptest.Layer{{In: width, Out: width}, {Out: width}, {In: width / 2, Out: width, NoBias: true}}
	q := &problem{name: name, lik: lik, n: n, t: 6, c: c}
	q.train = gptest.RandomBatch(rng, n, c, layers...)
	q.test = gptest.Another(rng, q.train, q.t)
	for _, b := range []*linearize.Batch{q.train, q.test} {
		b.F.Scale(scale, b.F)
		b.X.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, b.X)
	}
	for range q.train.P {
		q.theta = append(q.theta, 0.2*rng.NormFloat64())
	}
	groups := ntk.ByTensor(ntk.Spans(q.train), 1)
	for i := range groups {
		groups[i].Precision = 10 * math.Exp(0.5*rng.NormFloat64())
	}
	var err error
	if q.prior, err = ntk.NewLayerwise(q.train.P, groups, []float64{0.1}); err != nil {
		panic(err)
	}
	q.kernel = ntk.New(q.prior, q.theta, nil)
	q.y = targets(rng, lik, q.train.F)
	q.fill()
	return q
}

// fill computes the prior dense.
func (q *problem) fill() {
	p := q.train.P
	mean, variance := make([]float64, p), make([]float64, p)
	q.prior.MeanTo(mean)
	q.prior.VarianceTo(variance)
	sigma, shift := mat.NewDense(p, p, nil), mat.NewDense(p, 1, nil)
	for i := range p {
		sigma.Set(i, i, variance[i])
		shift.Set(i, 0, mean[i]-q.theta[i])
	}
	var j, jt mat.Dense
	q.train.JacobianTo(&j)
	q.test.JacobianTo(&jt)
	q.kTrain, q.kCross, q.kTest = product(&j, sigma, j.T()), product(&jt, sigma, j.T()), product(&jt, sigma, jt.T())
	q.mTrain, q.mTest = plus(column(q.train.F), 1, product(&j, shift)), plus(column(q.test.F), 1, product(&jt, shift))
}

func targets(rng *rand.Rand, lik gp.Likelihood, f *mat.Dense) *mat.Dense {
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
	}
	y.Apply(func(_, _ int, _ float64) float64 { return draw() }, y)
	return y
}

// each runs f for every problem.
func each(t *testing.T, f func(t *testing.T, q *problem)) {
	for _, q := range problems(t) {
		t.Run(q.name, func(t *testing.T) { f(t, q) })
	}
}

func (q *problem) sites(t *testing.T) *gp.Sites {
	t.Helper()
	s, err := gp.NewSites(q.y, q.train.F, q.lik)
	require.NoError(t, err)
	return s
}

// inducing are the training examples in rows.
func (q *problem) inducing(t *testing.T, rows ...int) *sparse.Inducing {
	t.Helper()
	b, err := q.train.Gather(t.Context(), rows)
	require.NoError(t, err)
	return &sparse.Inducing{Rows: rows, Batch: b}
}

// some are seven inducing examples, out of order.
func (q *problem) some(t *testing.T) *sparse.Inducing { return q.inducing(t, 9, 2, 17, 5, 0, 12, 13) }

// all are all of them, out of order.
func (q *problem) all(t *testing.T) *sparse.Inducing {
	return q.inducing(t, rand.New(rand.NewPCG(1, 2)).Perm(q.n)...)
}

func (q *problem) fit(t *testing.T, z *sparse.Inducing, o *sparse.Options) *sparse.Posterior {
	t.Helper()
	p, err := sparse.Fit(t.Context(), q.kernel, q.train, q.sites(t), z, o)
	require.NoError(t, err)
	return p
}

func (q *problem) refit(t *testing.T, z *sparse.Inducing, o *sparse.Options) *sparse.Posterior {
	t.Helper()
	p, err := sparse.Refit(t.Context(), q.kernel, q.train, q.y, q.lik, z, o)
	require.NoError(t, err)
	return p
}

// groups are the kernels of the prior's groups.
func (q *problem) groups() []ntk.Kernel {
	var g []ntk.Kernel
	for i := range q.kernel.Groups() {
		g = append(g, q.kernel.GroupKernel(i))
	}
	return g
}

// linear is the option under which means are m + K_*Z A⁻¹ c.
func linear(a sparse.Approximation) *sparse.Options {
	return &sparse.Options{Approximation: a, Mean: gp.LinearGaussian}
}

// A dense is E13 with explicit inverses, given the rows of K that belong to
// the inducing examples.
type dense struct {
	q             *problem
	zz, zn, zt    *mat.Dense // K_ZZ, K_Zn, K_Z*
	lambda, b     *mat.Dense // FITC: those of the corrected sites
	d             *mat.Dense // blocks k_ii − q_ii, N·C×N·C
	a, aInv       *mat.Dense // K_ZZ + K_Zn Λ K_nZ
	w             *mat.Dense // A⁻¹ c
	siteDet, quad float64    // FITC: Σ log det(I+ΛD), Σ bᵀDb̃
	s             *gp.Sites
}

func (q *problem) dense(t *testing.T, s *gp.Sites, z *sparse.Inducing, fitc bool) *dense {
	t.Helper()
	var rows []int
	for i, r := range z.Rows {
		if z.Pairs() {
			rows = append(rows, r*q.c+z.Outputs[i])
			continue
		}
		for a := range q.c {
			rows = append(rows, r*q.c+a)
		}
	}
	e := &dense{q: q, s: s, zn: pick(q.kTrain, rows), zt: pick(mat.DenseCopyOf(q.kCross.T()), rows), lambda: whole(s.Lambda)}
	e.zz = mat.DenseCopyOf(pick(mat.DenseCopyOf(e.zn.T()), rows).T())
	residual := plus(q.kTrain, -1, product(e.zn.T(), inverse(t, e.zz), e.zn))
	e.d = blockDiagonal(residual, q.c)
	e.b = plus(column(s.Residual), 1, product(e.lambda, plus(column(s.F), -1, q.mTrain)))
	if fitc {
		// Λ̃ = (I + ΛD)⁻¹Λ, b̃ = (I + ΛD)⁻¹b
		ld := plus(identity(q.n*q.c), 1, product(e.lambda, e.d))
		b := e.b
		e.b, e.lambda = product(inverse(t, ld), b), product(inverse(t, ld), e.lambda)
		e.siteDet, e.quad = logDet(ld), dot(b, product(e.d, e.b))
	}
	e.a = plus(e.zz, 1, product(e.zn, e.lambda, e.zn.T()))
	e.aInv = inverse(t, e.a)
	e.w = product(e.aInv, e.zn, e.b)
	return e
}

func (e *dense) mean() *mat.Dense { return plus(e.q.mTest, 1, product(e.zt.T(), e.w)) }

func (e *dense) cov(t *testing.T) *mat.Dense {
	return plus(e.q.kTest, -1, product(e.zt.T(), plus(inverse(t, e.zz), -1, e.aInv), e.zt))
}

// cross is K_*Z A⁻¹ K_Zn.
func (e *dense) cross() *mat.Dense { return product(e.zt.T(), e.aInv, e.zn) }

// evidence is the log density that the linear-Gaussian model with kernel
// Q, FITC: Q + D, gives the sites' expansions: (E8) by its own formula.
func (e *dense) evidence(t *testing.T, fitc bool) float64 {
	k := product(e.zn.T(), inverse(t, e.zz), e.zn)
	if fitc {
		k = plus(k, 1, e.d)
	}
	return evidence(t, e.q, e.s, k)
}

// evidence is (E8) for a kernel over the training examples.
func evidence(t *testing.T, q *problem, s *gp.Sites, k *mat.Dense) float64 {
	lambda := whole(s.Lambda)
	b := plus(column(s.Residual), 1, product(lambda, plus(column(s.F), -1, q.mTrain)))
	bk := plus(identity(q.n*q.c), 1, product(lambda, k))
	alpha := product(inverse(t, bk), b)
	d := plus(plus(q.mTrain, 1, product(k, alpha)), -1, column(s.F))
	return s.LogLik + dot(column(s.Residual), d) - dot(d, product(lambda, d))/2 - dot(alpha, product(k, alpha))/2 - logDet(bk)/2
}

// pick returns rows of m.
func pick(m *mat.Dense, rows []int) *mat.Dense {
	_, c := m.Dims()
	out := mat.NewDense(len(rows), c, nil)
	for i, r := range rows {
		out.SetRow(i, m.RawRowView(r))
	}
	return out
}

func dot(a, b mat.Matrix) float64 { return product(a.T(), b).At(0, 0) }

func blockDiagonal(m *mat.Dense, c int) *mat.Dense { return whole(diagonalBlocks(m, c)) }

func flat(m mat.Matrix) []float64 { return mat.DenseCopyOf(m).RawMatrix().Data }

// requireClose fails where an entry differs by more than rel times the
// largest entry of want.
func requireClose(t *testing.T, what string, got, want mat.Matrix, rel float64) {
	t.Helper()
	r, c := want.Dims()
	gr, gc := got.Dims()
	require.Equal(t, [2]int{r, c}, [2]int{gr, gc}, what)
	d, scale := difference(got, want)
	if !(d <= rel*scale) {
		t.Fatalf("%s: off by %.3g of the largest, tolerance %.3g", what, d/scale, rel)
	}
}

// difference returns the largest difference and the largest entry of want.
func difference(got, want mat.Matrix) (d, scale float64) {
	r, c := want.Dims()
	for i := range r {
		for j := range c {
			e := math.Abs(got.At(i, j) - want.At(i, j))
			if math.IsNaN(e) {
				e = math.Inf(1)
			}
			d, scale = math.Max(d, e), math.Max(scale, math.Abs(want.At(i, j)))
		}
	}
	return d, scale
}

// crossOf returns all columns of a cross-kernel, by tiles of so many examples.
func crossOf(t *testing.T, d gp.Dual, x, train *linearize.Batch, size int, terms gp.Terms) *mat.Dense {
	t.Helper()
	q, err := d.Cross(t.Context(), x)
	require.NoError(t, err)
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
