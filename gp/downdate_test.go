package gp_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// sets are sets of training examples to take out, none and all among them.
func sets(rng *rand.Rand, n int) [][]int {
	list := [][]int{nil, {0}, {n - 1}, {1, 2, n - 2}}
	for _, size := range []int{n / 2, n - 1, n} {
		list = append(list, slices.Sorted(slices.Values(rng.Perm(n)[:size])))
	}
	return list
}

// rowsWithout are the stacked indices of the outputs of the examples that stay.
func rowsWithout(n, c int, out []int) []int {
	var at []int
	for i := range n * c {
		if !slices.Contains(out, i/c) {
			at = append(at, i)
		}
	}
	return at
}

// pick is the given rows and columns of a matrix.
func pick(m *mat.Dense, rows, cols []int) *mat.Dense {
	to := mat.NewDense(len(rows), len(cols), nil)
	for i, r := range rows {
		for j, c := range cols {
			to.Set(i, j, m.At(r, c))
		}
	}
	return to
}

// A Downdate solves with B of the examples that stay (E4), one row or several at a time, and
// its Λ is theirs.
func TestDowndate(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		e := q.refit(t, nil)
		rng := rand.New(rand.NewPCG(8, 1))
		root, lambda := whole(e.Sites().Root), whole(e.Sites().Lambda)
		for _, out := range sets(rng, q.n) {
			d := testref.Must(e.Downdate(t.Context(), out))(t)
			stay := rowsWithout(q.n, q.c, out)
			want := mat.NewDense(q.n*q.c, q.n*q.c, nil)
			if len(stay) > 0 {
				r := pick(root, stay, stay)
				b := plus(identity(len(stay)), 1, product(r.T(), pick(q.kTrain, stay, stay), r))
				w := product(r, inverse(t, b), r.T())
				for i, a := range stay {
					for j, b := range stay {
						want.Set(a, b, w.At(i, j))
					}
				}
			}
			v := testkit.RandomMatrix(rng, 3, q.n*q.c)
			one := mat.DenseCopyOf(v.Slice(1, 2, 0, q.n*q.c))
			expected := product(v, want)
			require.NoError(t, d.SolveTo(t.Context(), v))
			requireClose(t, "R B⁻¹ Rᵀ", v, expected, 1e-8)
			require.NoError(t, d.SolveTo(t.Context(), one))
			requireClose(t, "R B⁻¹ Rᵀ of one", one, mat.DenseCopyOf(expected.Slice(1, 2, 0, q.n*q.c)), 1e-8)

			var l mat.Dense
			d.LambdaTo(&l)
			kept := mat.NewDense(q.n*q.c, q.n*q.c, nil)
			for _, a := range stay {
				for _, b := range stay {
					kept.Set(a, b, lambda.At(a, b))
				}
			}
			requireClose(t, "Λ", whole(&l), kept, 1e-12)
		}
	})
}

// MulKernelTo multiplies with K.
func TestMulKernelTo(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		e := q.refit(t, nil)
		rng := rand.New(rand.NewPCG(9, 1))
		for _, rows := range []int{1, 4} {
			v := testkit.RandomMatrix(rng, rows, q.n*q.c)
			var got mat.Dense
			require.NoError(t, e.MulKernelTo(t.Context(), &got, v))
			requireClose(t, "K v", &got, product(v, q.kTrain), 1e-12)
		}
	})
}

// What InfluenceTo says of some training examples is what PredictTo and
// RemovalTo say of them.
func TestInfluenceTo(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		e := q.refit(t, nil)
		all := make([]float64, q.n*q.c)
		require.NoError(t, testkit.RemovalTo(t.Context(), e, all))
		rows := []int{0, 3, 4, q.n - 1}
		b := testref.Must(linearize.Gather(t.Context(), q.train, rows))(t)
		var cov, h, step mat.Dense
		require.NoError(t, e.PredictTo(t.Context(), nil, &cov, b))
		require.NoError(t, e.InfluenceTo(t.Context(), &h, &step, rows, b))
		requireClose(t, "h", &h, &cov, 1e-10)
		want := mat.NewDense(len(rows), q.c, nil)
		for i, r := range rows {
			want.SetRow(i, all[r*q.c:(r+1)*q.c])
		}
		requireClose(t, "q", &step, want, 1e-10)
	})
}

// some are the training examples at these rows.
func (q *problem) some(t *testing.T, rows ...int) *linearize.Batch {
	t.Helper()
	return testref.Must(q.train.Gather(t.Context(), rows))(t)
}

var toys = []string{"snelson", "two-moons", "categorical", "categorical-diagonal-prior", "poisson", "gaussian-two-outputs"}

// The moments at the refit are those of PyTorch (E17). For a Gaussian likelihood
// they are those of the refits without each example.
func TestLeaveOneOutReferences(t *testing.T) {
	for _, name := range toys {
		t.Run(name, func(t *testing.T) {
			r := openReference(t, name)
			want := testref.Open(t, "selection/"+name)
			e := testref.Must(gp.Refit(t.Context(), r.Kernel, r.Train, r.Targets(), nil))(t)
			var mean, cov mat.Dense
			require.NoError(t, e.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(r.Train.Len()), r.Train))
			testref.RequireClose(t, flat(&mean), want.Floats("loo_first_order_mean"), 1e-8, "mean")
			testref.RequireClose(t, flat(&cov), want.Floats("loo_first_order_cov"), 1e-8, "covariance")
			if _, gaussian := r.Likelihood.(*glm.Gaussian); gaussian {
				testref.RequireClose(t, flat(&mean), want.Floats("loo_mean"), 1e-8, "mean of the refits")
				testref.RequireClose(t, flat(&cov), want.Floats("loo_cov"), 1e-8, "covariance of the refits")
			}
		})
	}
}

// The moments are one Newton step from those of a refit without the example: exact for
// a Gaussian, and for the other likelihoods much nearer to the refit than the posterior
// that has seen the example.
func TestLeaveOneOutIsOneNewtonStep(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		if q.n > 100 {
			t.Skip("as many refits as examples")
		}
		e := q.refit(t, nil)
		var mean, cov, seen mat.Dense
		require.NoError(t, e.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(q.n), q.train))
		require.NoError(t, e.PredictTo(t.Context(), &seen, nil, q.train))
		_, gaussian := q.lik.(*glm.Gaussian)
		near, far := 0.0, 0.0
		for i := range q.n {
			again := q.without(i).refit(t, nil)
			var m, v mat.Dense
			require.NoError(t, again.PredictTo(t.Context(), &m, &v, q.train.Slice(i, i+1)))
			if gaussian {
				requireClose(t, "mean", mean.Slice(i, i+1, 0, q.c), &m, 1e-9)
				requireClose(t, "covariance", cov.Slice(i*q.c, (i+1)*q.c, 0, q.c), &v, 1e-9)
			}
			for j := range q.c {
				near += math.Abs(mean.At(i, j) - m.At(0, j))
				far += math.Abs(seen.At(i, j) - m.At(0, j))
			}
		}
		t.Logf("distance from the refits: %.3g, without the step %.3g", near, far)
		require.Less(t, near, far/2)
	})
}

// The posterior at the mean of the network starts from there and from the residual
// there, also where θ* is no mode.
func TestLeaveOneOutOfNetworkMean(t *testing.T) {
	q := problems(t)[5]
	e := q.fit(t, nil)
	rows := []int{2, 7}
	var mean, cov mat.Dense
	require.NoError(t, e.LeaveOneOutTo(t.Context(), &mean, &cov, rows, q.some(t, rows...)))
	for at, i := range rows {
		var want mat.VecDense
		want.MulVec(cov.Slice(at*q.c, (at+1)*q.c, 0, q.c), e.Sites().Residual.RowView(i))
		want.SubVec(q.train.F.RowView(i), &want)
		requireClose(t, "mean", mean.RowView(at), &want, 1e-13)
	}
}
