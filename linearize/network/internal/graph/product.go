package graph

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
)

// Gemm is the matrix product used inside one worker's tile.
func Gemm(tA, tB bool, a, b blas64.General, beta float64, c blas64.General) {
	tr := func(t bool) blas.Transpose {
		if t {
			return blas.Trans
		}
		return blas.NoTrans
	}
	fblas.Gemm1(tr(tA), tr(tB), 1, a, b, beta, c)
}

// gramTo writes beta·dst + Gᵀ A, m×k, or its transpose, with G T×m and A T×k.
func gramTo(dst, g, a []float64, t, m, k int, transposed bool, beta float64) {
	if transposed {
		g, a, m, k = a, g, k, m
	}
	Gemm(true, false, dense.Of(g, t, m), dense.Of(a, t, k), beta, dense.Of(dst, m, k))
}
