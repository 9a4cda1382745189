package sparse_test

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// Shared helpers under short names.
var (
	column         = testkit.Column
	vec            = testkit.Vec
	product        = testkit.Product
	plus           = testkit.Plus
	inverse        = testkit.Inverse
	identity       = testkit.Identity
	logDet         = testkit.LogDet
	whole          = testkit.Whole
	diagonalBlocks = testkit.DiagonalBlocks
	flat           = testkit.Flat
	targets        = testkit.Targets
	difference     = testkit.Difference
	crossOf        = testkit.CrossOf
	written        = testkit.Written
	contributions  = testkit.Contributions
	requireClose   = testkit.RequireClose
	requireNumber  = testkit.RequireNumber
)

// A problem is a random problem with posteriors through inducing examples.
type problem struct{ *testkit.Problem }

func problems(t *testing.T) []*problem {
	t.Helper()
	var all []*problem
	for _, q := range testkit.Problems(t) {
		all = append(all, &problem{q})
	}
	return all
}

func newProblem(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64) *problem {
	return &problem{testkit.NewProblem(name, seed, n, c, lik, scale)}
}

func newProblemOf(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64, width int) *problem {
	return &problem{testkit.NewProblemOf(name, seed, n, c, lik, scale, width)}
}

// each runs f for every problem.
func each(t *testing.T, f func(t *testing.T, q *problem)) {
	for _, q := range problems(t) {
		t.Run(q.Name, func(t *testing.T) { f(t, q) })
	}
}

// inducing are the training examples in rows.
func (q *problem) inducing(t *testing.T, rows ...int) *sparse.Inducing {
	t.Helper()
	b := testref.Must(q.Train.Gather(t.Context(), rows))(t)
	return &sparse.Inducing{Rows: rows, Batch: b}
}

// some are seven inducing examples, out of order.
func (q *problem) some(t *testing.T) *sparse.Inducing { return q.inducing(t, 9, 2, 17, 5, 0, 12, 13) }

// all are all of them, out of order.
func (q *problem) all(t *testing.T) *sparse.Inducing {
	return q.inducing(t, rand.New(rand.NewPCG(1, 2)).Perm(q.N)...)
}

func (q *problem) fit(t *testing.T, z *sparse.Inducing, o *sparse.Options) *sparse.Posterior {
	t.Helper()
	return testref.Must(sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), z, o))(t)
}

func (q *problem) refit(t *testing.T, z *sparse.Inducing, o *sparse.Options) *sparse.Posterior {
	t.Helper()
	return testref.Must(sparse.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), z, o))(t)
}

// groups are the kernels of the prior's groups.
func (q *problem) groups() []ntk.Kernel {
	var g []ntk.Kernel
	for i := range q.Kernel.Groups() {
		g = append(g, q.Kernel.GroupKernel(i))
	}
	return g
}

// linear is the option under which means are m + K_*Z A⁻¹ c.
func linear() *sparse.Options { return &sparse.Options{Mean: gp.LinearGaussian} }

// A dense is E13 with explicit inverses, given the rows of K that belong to
// the inducing examples.
type dense struct {
	q          *problem
	zz, zn, zt *mat.Dense // K_ZZ, K_Zn, K_Z*
	lambda, b  *mat.Dense
	d          *mat.Dense // blocks k_ii − q_ii, N·C×N·C
	a, aInv    *mat.Dense // K_ZZ + K_Zn Λ K_nZ
	w          *mat.Dense // A⁻¹ c
	s          *gp.Sites
}

func (q *problem) dense(t *testing.T, s *gp.Sites, z *sparse.Inducing) *dense {
	t.Helper()
	var rows []int
	for i, r := range z.Rows {
		if z.Pairs() {
			rows = append(rows, r*q.C+floats.MaxIdx(z.Directions.RawRowView(i)))
			continue
		}
		for a := range q.C {
			rows = append(rows, r*q.C+a)
		}
	}
	e := &dense{q: q, s: s, zn: pick(q.KTrain, rows), zt: pick(mat.DenseCopyOf(q.KCross.T()), rows), lambda: whole(s.Lambda)}
	e.zz = mat.DenseCopyOf(pick(mat.DenseCopyOf(e.zn.T()), rows).T())
	residual := plus(q.KTrain, -1, product(e.zn.T(), inverse(t, e.zz), e.zn))
	e.d = blockDiagonal(residual, q.C)
	e.b = plus(column(s.Residual), 1, product(e.lambda, plus(column(s.F), -1, q.MTrain)))
	e.a = plus(e.zz, 1, product(e.zn, e.lambda, e.zn.T()))
	e.aInv = inverse(t, e.a)
	e.w = product(e.aInv, e.zn, e.b)
	return e
}

func (e *dense) mean() *mat.Dense { return plus(e.q.MTest, 1, product(e.zt.T(), e.w)) }

func (e *dense) cov(t *testing.T) *mat.Dense {
	return plus(e.q.KTest, -1, product(e.zt.T(), plus(inverse(t, e.zz), -1, e.aInv), e.zt))
}

// cross is K_*Z A⁻¹ K_Zn.
func (e *dense) cross() *mat.Dense { return product(e.zt.T(), e.aInv, e.zn) }

// evidence is the log density that the linear-Gaussian model with kernel
// Q gives the sites' expansions: (E8) by its own formula.
func (e *dense) evidence(t *testing.T) float64 {
	return evidence(t, e.q, e.s, product(e.zn.T(), inverse(t, e.zz), e.zn))
}

// evidence is (E8) for a kernel over the training examples.
func evidence(t *testing.T, q *problem, s *gp.Sites, k *mat.Dense) float64 {
	lambda := whole(s.Lambda)
	b := plus(column(s.Residual), 1, product(lambda, plus(column(s.F), -1, q.MTrain)))
	bk := plus(identity(q.N*q.C), 1, product(lambda, k))
	alpha := product(inverse(t, bk), b)
	d := plus(plus(q.MTrain, 1, product(k, alpha)), -1, column(s.F))
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
