package cg

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// P⁻¹, its root and its determinant against dense ones.
func TestPreconditioner(t *testing.T) {
	eachTestCase(t, func(t *testing.T, s *testCase) {
		n := s.data.n * s.data.c
		p := unit(n)
		if s.features.phi.Cols > 0 {
			p = s.plusIdentity(s.q())
		}
		var m mat.Dense
		m.Mul(matrixOf(t, n, s.pre.solveTo), p)
		requireNear(t, "P⁻¹P", &m, unit(n), 1e-10)
		want, _ := mat.LogDet(p)
		require.InDelta(t, want, s.pre.logDet, 1e-10*(1+want))
		root := s.pre.inverseRoot()
		y := matrixOf(t, n, root.mulTo)
		requireNear(t, "Yᵀ", matrixOf(t, n, root.mulTransTo), y.T(), 1e-12)
		m.Product(y, p, y.T())
		requireNear(t, "Y P Yᵀ", &m, unit(n), 1e-10)
		// P ⪯ B
		m.Product(y, s.b, y.T())
		values, _ := eigen(t, &m)
		require.GreaterOrEqual(t, values[0], 1-1e-10)
	})
}
