package cg

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testref"
)

// B v against the dense B.
func TestSystem(t *testing.T) {
	eachTestCase(t, func(t *testing.T, s *testCase) {
		n := s.data.n * s.data.c
		solver := s.solver(n)
		got := matrixOf(t, n, func(ctx context.Context, dst, v blas64.General) error {
			return solver.mulTo(ctx, dst, v, dense.New(n, n))
		})
		requireNear(t, "B", got, s.b, 1e-13)
	})
}

// Solutions, residuals, and the bounds on the error e: ‖e‖ ≤ ‖ρ‖ and
// eᵀBe ≤ ρᵀP⁻¹ρ ≤ ‖ρ‖².
func TestSolve(t *testing.T) {
	eachTestCase(t, func(t *testing.T, s *testCase) {
		n := s.data.n * s.data.c
		v := mat.NewDense(n, 4, nil)
		v.Apply(func(i, j int, _ float64) float64 {
			if j == 2 {
				return 0 // a right-hand side of zeros
			}
			return math.Cos(float64(i*j + i))
		}, v)
		var want mat.Dense
		require.NoError(t, want.Solve(s.b, v))
		for _, tol := range []float64{0.1, 1e-4, 1e-11} {
			solver, x := s.solver(4), dense.New(n, 4)
			out := testref.Must(solver.solve(t.Context(), x, v.RawMatrix(), tol))(t)
			require.LessOrEqual(t, out.Residual, tol)
			var e, be, rho mat.Dense
			e.Sub(dense.View(x), &want)
			be.Mul(s.b, &e)
			// ρ = −B e, to the rounding of v and of B x
			rho.Add(dense.View(solver.res), &be)
			require.LessOrEqual(t, mat.Norm(&rho, math.Inf(1)), 1e-12*mat.Norm(v, math.Inf(1)))
			bounds := testref.Must(solver.errors(t.Context()))(t)
			for j := range 4 {
				norm := mat.Norm(dense.View(solver.res).ColView(j), 2)
				require.LessOrEqual(t, mat.Norm(e.ColView(j), 2), norm+1e-12)
				require.LessOrEqual(t, mat.Dot(e.ColView(j), be.ColView(j)), bounds[j]*(1+1e-9)+1e-20)
				require.LessOrEqual(t, bounds[j], norm*norm*(1+1e-9)+1e-20)
			}
			require.Zero(t, bounds[2])
		}
	})
}

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
		rules = testref.Must(newLanczos(s.solver(k), root, k, 1, 0).run(t.Context()))(t)
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
