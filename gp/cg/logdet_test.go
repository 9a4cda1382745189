package cg

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// After every step zᵀ log(M) z is between both rules, and at the end they
// agree.
func TestLanczos(t *testing.T) {
	eachTestCase(t, func(t *testing.T, s *testCase) {
		const k = 3
		n := s.data.n * s.data.c
		root := s.pre.inverseRoot()
		y := matrixOf(t, n, root.mulTo)
		var m mat.Dense
		m.Product(y, s.b, y.T())
		l := newLanczos(s.solver(k), root, k, 1, 0)
		want := logQuadratic(t, &m, mat.DenseCopyOf(dense.View(l.v)))
		rules := make([]rule, k)
		for step := range 12 {
			require.NoError(t, l.step(t.Context()))
			for j := range rules {
				require.NoError(t, l.rule(&rules[j], j))
				tol := 1e-10 * (1 + want[j])
				require.LessOrEqual(t, rules[j].lower, want[j]+tol, "step %d", step)
				require.GreaterOrEqual(t, rules[j].upper, want[j]-tol, "step %d", step)
			}
		}
		rules, err := newLanczos(s.solver(k), root, k, 1, 0).run(t.Context())
		require.NoError(t, err)
		for j, r := range rules {
			// A hundredth of the standard error, which is below the value.
			require.InDelta(t, want[j], r.upper, 0.01*(1+want[j]))
		}
	})
}

// logQuadratic returns n zᵀ log(m) z for unit vectors z.
func logQuadratic(t *testing.T, m, z *mat.Dense) []float64 {
	t.Helper()
	n, k := z.Dims()
	values, v := eigen(t, m)
	var vz mat.Dense
	vz.Mul(v.T(), z)
	out := make([]float64, k)
	for i, e := range values {
		for j := range k {
			out[j] += float64(n) * vz.At(i, j) * vz.At(i, j) * math.Log(e)
		}
	}
	return out
}

// The eigenvalues and first components are those of the dense solver, for
// matrices of ordinary and of graded size, and with zeros beside the diagonal.
func TestTridiagonalEigen(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, n := range []int{1, 2, 3, 17, 60} {
		for _, grade := range []float64{1, 3} {
			diag, off := make([]float64, n), make([]float64, n-1)
			whole := mat.NewSymDense(n, nil)
			for i := range n {
				size := math.Pow(grade, float64(-i))
				diag[i] = size * (2 + rng.Float64())
				whole.SetSym(i, i, diag[i])
				if i < n-1 {
					if i != 7 {
						off[i] = size * rng.Float64() / 2
					}
					whole.SetSym(i, i+1, off[i])
				}
			}
			values, first, ok := tridiagonalEigen(diag, off)
			require.True(t, ok)
			var eig mat.EigenSym
			require.True(t, eig.Factorize(whole, true))
			var v mat.Dense
			eig.VectorsTo(&v)
			order := make([]int, n)
			for i := range order {
				order[i] = i
			}
			slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
			for i, want := range eig.Values(nil) {
				require.InDelta(t, want, values[order[i]], 1e-13*mat.Max(whole))
				require.InDelta(t, math.Abs(v.At(0, i)), math.Abs(first[order[i]]), 1e-10)
			}
		}
	}
}
