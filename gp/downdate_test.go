package gp_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testkit"
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
			d, err := e.Downdate(t.Context(), out)
			require.NoError(t, err)
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
