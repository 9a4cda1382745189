package dense

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Syrk computes one triangle of C = α A Aᵀ + β C (NoTrans) or C = α Aᵀ A + β C. It neither reads nor writes the
// other triangle.
func Syrk(t blas.Transpose, alpha float64, a blas64.General, beta float64, c blas64.Symmetric) {
	syrk(t, alpha, a, beta, c, limit{})
}

// Syrk1 is Syrk on the caller's goroutine. It gives the same bits.
func Syrk1(t blas.Transpose, alpha float64, a blas64.General, beta float64, c blas64.Symmetric) {
	syrk(t, alpha, a, beta, c, limit{workers: 1})
}

func syrk(t blas.Transpose, alpha float64, a blas64.General, beta float64, c blas64.Symmetric, l limit) error {
	if foreign() {
		return l.foreign(func() { blas64.Syrk(t, alpha, a, beta, c) })
	}
	checkGeneral(a)
	checkMatrix(c.N, c.N, c.Stride, c.Data)
	n, k := dims(t, a)
	if n != c.N {
		panic(badShape)
	}
	o := rowsOf(t, a)
	return product{
		a: o, b: o, c: c.Data, ldc: c.Stride,
		m: n, n: n, k: k, alpha: alpha, beta: beta,
		part: partOf(c.Uplo), same: true,
	}.run(l)
}
