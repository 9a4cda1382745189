package dense

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Symm computes C = α A B + β C (Left) or α B A + β C, A symmetric. It reads
// only A's own triangle.
func Symm(s blas.Side, alpha float64, a blas64.Symmetric, b blas64.General, beta float64, c blas64.General) {
	symm(s, alpha, a, b, beta, c, limit{})
}

func symm(s blas.Side, alpha float64, a blas64.Symmetric, b blas64.General, beta float64, c blas64.General, l limit) error {
	if foreign() {
		return l.foreign(func() { blas64.Symm(s, alpha, a, b, beta, c) })
	}
	checkMatrix(a.N, a.N, a.Stride, a.Data)
	checkGeneral(b)
	checkGeneral(c)
	g := product{
		c: c.Data, ldc: c.Stride, m: c.Rows, n: c.Cols, k: a.N,
		alpha: alpha, beta: beta,
	}
	sym := operand{data: a.Data, rs: a.Stride, cs: 1, part: partOf(a.Uplo)}
	switch {
	case s == blas.Left && a.N == b.Rows:
		g.a, g.b = sym, columnsOf(blas.NoTrans, b)
	case s == blas.Right && a.N == b.Cols:
		g.a, g.b = rowsOf(blas.NoTrans, b), sym
	case s != blas.Left && s != blas.Right:
		panic(badSide)
	default:
		panic(badShape)
	}
	if b.Rows != c.Rows || b.Cols != c.Cols {
		panic(badShape)
	}
	return g.run(l)
}
