package cg

import (
	"math"
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
