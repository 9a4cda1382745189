package graph

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
)

// Gemm writes op(A) op(B) + beta·C to c, on the calling goroutine. tA and tB say whether op transposes A and B.
func Gemm(tA, tB bool, a, b blas64.General, beta float64, c blas64.General) {
	gemm(false, tA, tB, a, b, beta, c)
}

// gemm is Gemm, on several goroutines if team.
func gemm(team, tA, tB bool, a, b blas64.General, beta float64, c blas64.General) {
	tr := func(t bool) blas.Transpose {
		if t {
			return blas.Trans
		}
		return blas.NoTrans
	}
	if team {
		dense.Gemm(tr(tA), tr(tB), 1, a, b, beta, c)
		return
	}
	dense.Gemm1(tr(tA), tr(tB), 1, a, b, beta, c)
}

// gramTo writes beta·dst + GᵀA, m×k, with G t×m and A t×k. If transposed, it
// writes beta·dst + AᵀG, k×m, instead.
func gramTo(dst, g, a []float64, t, m, k int, transposed bool, beta float64, team bool) {
	if transposed {
		g, a, m, k = a, g, k, m
	}
	gemm(team, true, false, dense.Of(g, t, m), dense.Of(a, t, k), beta, dense.Of(dst, m, k))
}
