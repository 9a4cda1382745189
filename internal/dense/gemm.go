package dense

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Gemm computes C = α op(A) op(B) + β C. With β = 0 it overwrites C without reading it; with α = 0 it does not read
// A and B.
func Gemm(tA, tB blas.Transpose, alpha float64, a, b blas64.General, beta float64, c blas64.General) {
	gemm(tA, tB, alpha, a, b, beta, c, limit{})
}

// Gemm1 is Gemm on the caller's goroutine, for use in work that is already
// parallel. It gives the same bits.
func Gemm1(tA, tB blas.Transpose, alpha float64, a, b blas64.General, beta float64, c blas64.General) {
	gemm(tA, tB, alpha, a, b, beta, c, limit{workers: 1})
}

func gemm(tA, tB blas.Transpose, alpha float64, a, b blas64.General, beta float64, c blas64.General, l limit) error {
	if foreign() {
		return l.foreign(func() { blas64.Gemm(tA, tB, alpha, a, b, beta, c) })
	}
	checkGeneral(a)
	checkGeneral(b)
	checkGeneral(c)
	m, k := dims(tA, a)
	kb, n := dims(tB, b)
	if k != kb || m != c.Rows || n != c.Cols {
		panic(badShape)
	}
	return product{
		a: rowsOf(tA, a), b: columnsOf(tB, b), c: c.Data, ldc: c.Stride,
		m: m, n: n, k: k, alpha: alpha, beta: beta,
	}.run(l)
}

// gemmUpper computes C = A T for the upper triangular T = t.
func gemmUpper(a, t, c blas64.General, l limit) error {
	if foreign() {
		return l.foreign(func() { blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, a, t, 0, c) })
	}
	checkGeneral(a)
	checkGeneral(t)
	checkGeneral(c)
	if t.Rows != t.Cols || a.Cols != t.Rows || a.Rows != c.Rows || t.Cols != c.Cols {
		panic(badShape)
	}
	return product{
		a: rowsOf(blas.NoTrans, a), b: columnsOf(blas.NoTrans, t), c: c.Data, ldc: c.Stride,
		m: c.Rows, n: c.Cols, k: t.Rows, alpha: 1, staircase: true,
	}.run(l)
}

// dims returns the rows and columns of op(A).
func dims(t blas.Transpose, a blas64.General) (rows, cols int) {
	if isTrans(t) {
		return a.Cols, a.Rows
	}
	return a.Rows, a.Cols
}

// rowsOf returns the operand with the rows of op(A).
func rowsOf(t blas.Transpose, a blas64.General) operand {
	if isTrans(t) {
		return operand{data: a.Data, rs: 1, cs: a.Stride}
	}
	return operand{data: a.Data, rs: a.Stride, cs: 1}
}

// columnsOf returns the operand whose rows are the columns of op(A).
func columnsOf(t blas.Transpose, a blas64.General) operand {
	o := rowsOf(t, a)
	o.rs, o.cs = o.cs, o.rs
	return o
}
