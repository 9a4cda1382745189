package dense

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/vector"
)

// Gemv computes y = α op(A) x + β y.
func Gemv(t blas.Transpose, alpha float64, a blas64.General, x blas64.Vector, beta float64, y blas64.Vector) {
	blas64.Gemv(t, alpha, a, x, beta, y)
}

// Trsv solves op(A) x = b for a triangular A. x replaces b. A contiguous x is solved by reading A row by row.
func Trsv(t blas.Transpose, a blas64.Triangular, x blas64.Vector) {
	if foreign() || x.Inc != 1 {
		blas64.Trsv(t, a, x)
		return
	}
	checkMatrix(a.N, a.N, a.Stride, a.Data)
	checkUplo(a.Uplo)
	if x.N != a.N {
		panic(badShape)
	}
	v := x.Data[:a.N]
	forward := (a.Uplo == blas.Lower) != isTrans(t)
	for step := range v {
		i := step
		if !forward {
			i = a.N - 1 - step
		}
		row := a.Data[i*a.Stride : i*a.Stride+a.N]
		rest := v[i+1:] // unknowns that the row's part of the triangle multiplies
		part := row[i+1:]
		if a.Uplo == blas.Lower {
			rest, part = v[:i], row[:i]
		}
		if !isTrans(t) {
			v[i] -= vector.Dot(part, rest)
		}
		if a.Diag == blas.NonUnit {
			v[i] /= row[i]
		}
		if isTrans(t) {
			vector.Axpy(rest, -v[i], part)
		}
	}
}

// Symv computes y = α A x + β y for a symmetric A. Where x and y are contiguous, it reads each stored row once.
func Symv(alpha float64, a blas64.Symmetric, x blas64.Vector, beta float64, y blas64.Vector) {
	if foreign() || x.Inc != 1 || y.Inc != 1 || alpha == 0 {
		blas64.Symv(alpha, a, x, beta, y)
		return
	}
	checkMatrix(a.N, a.N, a.Stride, a.Data)
	checkUplo(a.Uplo)
	if x.N != a.N || y.N != a.N {
		panic(badShape)
	}
	v, w := x.Data[:a.N], y.Data[:a.N]
	if beta == 0 {
		clear(w)
	} else if beta != 1 {
		for i := range w {
			w[i] *= beta
		}
	}
	for i := range w {
		row := a.Data[i*a.Stride : i*a.Stride+a.N]
		lo, hi := i+1, a.N // the row's elements besides the diagonal
		if a.Uplo == blas.Lower {
			lo, hi = 0, i
		}
		w[i] += alpha * (row[i]*v[i] + vector.Dot(row[lo:hi], v[lo:hi]))
		vector.Axpy(w[lo:hi], alpha*v[i], row[lo:hi])
	}
}

// Solve replaces x by (UᵀU)⁻¹x for an upper triangular U.
func Solve(u blas64.Triangular, x []float64) {
	Trsv(blas.Trans, u, Vector(x))
	Trsv(blas.NoTrans, u, Vector(x))
}
