package dense

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"
)

const (
	badShape     = "dense: dimension mismatch"
	badStride    = "dense: stride smaller than a row"
	badTranspose = "dense: illegal transpose"
	badSide      = "dense: illegal side"
	badUplo      = "dense: illegal triangle"
	badDiag      = "dense: illegal diagonal"
	negative     = "dense: negative dimension"
	shortData    = "dense: slice shorter than the matrix"
	badPivots    = "dense: pivots of another length than the matrix"
)

// foreign tells whether the caller has set another implementation in blas64.
func foreign() bool {
	_, own := blas64.Implementation().(gonum.Implementation)
	return !own
}

// checkMatrix panics unless data holds a rows × cols matrix. The kernels rely on this check, because they do not
// check indices.
func checkMatrix(rows, cols, stride int, data []float64) {
	switch {
	case rows < 0 || cols < 0:
		panic(negative)
	case stride < max(1, cols):
		panic(badStride)
	case rows > 0 && cols > 0 && len(data) < cols || rows > 1 && cols > 0 && (len(data)-cols)/stride < rows-1:
		panic(shortData)
	}
}

func checkGeneral(a blas64.General) { checkMatrix(a.Rows, a.Cols, a.Stride, a.Data) }

func checkUplo(u blas.Uplo) {
	if u != blas.Lower && u != blas.Upper {
		panic(badUplo)
	}
}

func isTrans(t blas.Transpose) bool {
	if t != blas.NoTrans && t != blas.Trans && t != blas.ConjTrans {
		panic(badTranspose)
	}
	return t != blas.NoTrans
}

func partOf(u blas.Uplo) part {
	checkUplo(u)
	if u == blas.Lower {
		return lower
	}
	return upper
}
