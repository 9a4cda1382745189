package dense

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Trsm solves op(A) X = α B (Left) or X op(A) = α B for a triangular A. X replaces B. It reads only the referenced
// triangle of A, and not the diagonal of a unit one. Rows are multiplied by the reciprocal of the diagonal element,
// as in gonum.
func Trsm(s blas.Side, tA blas.Transpose, alpha float64, a blas64.Triangular, b blas64.General) {
	trsm(s, tA, alpha, a, b, limit{})
}

func trsm(s blas.Side, tA blas.Transpose, alpha float64, a blas64.Triangular, b blas64.General, l limit) error {
	if foreign() {
		return l.foreign(func() { blas64.Trsm(s, tA, alpha, a, b) })
	}
	checkMatrix(a.N, a.N, a.Stride, a.Data)
	checkGeneral(b)
	checkUplo(a.Uplo)
	if a.Diag != blas.NonUnit && a.Diag != blas.Unit {
		panic(badDiag)
	}
	// M = op(A), by rows.
	m := rowsOf(tA, blas64.General{Data: a.Data, Stride: a.Stride})
	x := system{
		t: m.data, trs: m.rs, tcs: m.cs, n: a.N, unit: a.Diag == blas.Unit,
		forward: (a.Uplo == blas.Lower) != isTrans(tA),
		x:       b.Data, ldx: b.Stride,
	}
	n := b.Rows
	switch s {
	case blas.Left:
		x.left, x.cols, x.xrs, x.xcs = true, b.Cols, b.Stride, 1
	case blas.Right:
		// X M = α B is Mᵀ Xᵀ = α Bᵀ.
		n = b.Cols
		x.cols, x.xrs, x.xcs = b.Rows, 1, b.Stride
		x.trs, x.tcs, x.forward = m.cs, m.rs, !x.forward
	default:
		panic(badSide)
	}
	if n != a.N {
		panic(badShape)
	}
	return x.solve(alpha, l)
}
