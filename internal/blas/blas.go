// Package blas is the one door to dense linear algebra: matrix products,
// triangular solves and Cholesky factors on blas64 types. The signatures are
// those of gonum's blas64 and lapack64.
package blas

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// Gemm computes C = α op(A) op(B) + β C.
func Gemm(tA, tB blas.Transpose, alpha float64, a, b blas64.General, beta float64, c blas64.General) {
	blas64.Gemm(tA, tB, alpha, a, b, beta, c)
}

// Syrk computes one triangle of C = α A Aᵀ + β C (NoTrans) or α Aᵀ A + β C.
func Syrk(t blas.Transpose, alpha float64, a blas64.General, beta float64, c blas64.Symmetric) {
	blas64.Syrk(t, alpha, a, beta, c)
}

// Symm computes C = α A B + β C (Left) or α B A + β C, A symmetric.
func Symm(s blas.Side, alpha float64, a blas64.Symmetric, b blas64.General, beta float64, c blas64.General) {
	blas64.Symm(s, alpha, a, b, beta, c)
}

// Trsm solves op(A) X = α B (Left) or X op(A) = α B, A triangular; X replaces B.
func Trsm(s blas.Side, tA blas.Transpose, alpha float64, a blas64.Triangular, b blas64.General) {
	blas64.Trsm(s, tA, alpha, a, b)
}

// Potrf factors A = UᵀU or LLᵀ in place of the referenced triangle. ok is
// false where A is not positive definite.
func Potrf(a blas64.Symmetric) (t blas64.Triangular, ok bool) {
	return lapack64.Potrf(a)
}
