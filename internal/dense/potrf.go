package dense

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Potrf factors A = UᵀU (Upper) or LLᵀ (Lower) in place of the referenced triangle. It neither reads nor writes the
// other triangle. ok is false where a pivot is not positive or is NaN; the triangle then has a partial factor.
func Potrf(a blas64.Symmetric) (t blas64.Triangular, ok bool) {
	t, ok, _ = potrf(a, limit{})
	return t, ok
}

// Potrf1 is Potrf on the caller's goroutine. It gives the same bits.
func Potrf1(a blas64.Symmetric) (t blas64.Triangular, ok bool) {
	t, ok, _ = potrf(a, limit{workers: 1})
	return t, ok
}

func potrf(a blas64.Symmetric, l limit) (t blas64.Triangular, ok bool, err error) {
	checkMatrix(a.N, a.N, a.Stride, a.Data)
	checkUplo(a.Uplo)
	ok, err = factor(a, l)
	return triangleOf(a), ok, err
}

func triangleOf(a blas64.Symmetric) blas64.Triangular {
	return blas64.Triangular{N: a.N, Stride: a.Stride, Data: a.Data, Uplo: a.Uplo, Diag: blas.NonUnit}
}

// factor factors the leading half, solves for the block beside it, subtracts this block's product with its
// transpose from the trailing half, and factors that.
func factor(a blas64.Symmetric, l limit) (ok bool, err error) {
	if a.N <= leaf {
		return factorLeaf(a), nil
	}
	n := half(a.N)
	a11, a22 := a, a
	a11.N, a22.N = n, a.N-n
	a22.Data = a.Data[n*a.Stride+n:]
	if ok, err := factor(a11, l); !ok || err != nil {
		return false, err
	}
	beside := blas64.General{Rows: a22.N, Cols: n, Stride: a.Stride}
	side, trans := blas.Left, blas.Trans
	if a.Uplo == blas.Lower {
		// L21 = A21 L11⁻ᵀ, A22 − L21 L21ᵀ
		beside.Data = a.Data[n*a.Stride:]
		side, trans = blas.Right, blas.NoTrans
	} else {
		// U12 = U11⁻ᵀ A12, A22 − U12ᵀ U12
		beside.Data, beside.Rows, beside.Cols = a.Data[n:], n, a22.N
	}
	if err := trsm(side, blas.Trans, 1, triangleOf(a11), beside, l); err != nil {
		return false, err
	}
	if err := syrk(trans, -1, beside, 1, a22, l); err != nil {
		return false, err
	}
	return factor(a22, l)
}

// half returns where a matrix of order n is split: at a multiple of depth if there are more than two such blocks,
// and otherwise at a multiple of a cache line.
func half(n int) int {
	if n > 2*depth {
		return roundUp(n/2, depth)
	}
	return roundUp(n/2, line)
}
