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
