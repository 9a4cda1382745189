package blas

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Gemv computes y = α op(A) x + β y.
func Gemv(t blas.Transpose, alpha float64, a blas64.General, x blas64.Vector, beta float64, y blas64.Vector) {
	blas64.Gemv(t, alpha, a, x, beta, y)
}

// Trsv solves op(A) x = b, A triangular; x replaces b.
func Trsv(t blas.Transpose, a blas64.Triangular, x blas64.Vector) { blas64.Trsv(t, a, x) }

// Symv computes y = α A x + β y, A symmetric.
func Symv(alpha float64, a blas64.Symmetric, x blas64.Vector, beta float64, y blas64.Vector) {
	blas64.Symv(alpha, a, x, beta, y)
}
