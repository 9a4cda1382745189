package weightspace

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
)

// addMarginals adds the C×C diagonal blocks of V Vᵀ to cov, T·C×C.
func addMarginals(ctx context.Context, cov *mat.Dense, v blas64.General, c int) error {
	return par.Do(ctx, v.Rows/c, func(n int) error {
		addSquare(cov, n, c, dense.Rows(v, n*c, (n+1)*c))
		return nil
	})
}

// addSquare adds V Vᵀ to the C×C block n of cov. V has C rows.
func addSquare(cov *mat.Dense, n, c int, v blas64.General) {
	for i := range c {
		for j := range i + 1 {
			// cov = J Σ₀^½ H̃⁻¹ Σ₀^½ Jᵀ
			s := cov.At(n*c+i, j) + floats.Dot(dense.Row(v, i), dense.Row(v, j))
			cov.Set(n*c+i, j, s)
			cov.Set(n*c+j, i, s)
		}
	}
}
