package dense

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// A limit bounds a call. The zero limit is none.
type limit struct {
	ctx     context.Context // nil never ends
	workers int             // goroutines; 0 means GOMAXPROCS
}

func (l limit) err() error {
	if l.ctx == nil {
		return nil
	}
	return l.ctx.Err()
}

// foreign runs an implementation that is not ours, which cannot be stopped.
func (l limit) foreign(do func()) error {
	if err := l.err(); err != nil {
		return err
	}
	do()
	return nil
}

// GemmContext is Gemm on at most workers goroutines (0 means GOMAXPROCS). It
// looks at ctx between panels and then returns ctx.Err(), with C undefined.
func GemmContext(ctx context.Context, workers int, tA, tB blas.Transpose, alpha float64, a, b blas64.General, beta float64, c blas64.General) error {
	return gemm(tA, tB, alpha, a, b, beta, c, limit{ctx, workers})
}

// GemmUpperContext computes C = A T as GemmContext does, for half the work, where T is
// upper triangular and stored with zeros below its diagonal. It gives the bits of Gemm
// for finite numbers.
func GemmUpperContext(ctx context.Context, workers int, a, t, c blas64.General) error {
	return gemmUpper(a, t, c, limit{ctx, workers})
}

// SymmContext is Symm as GemmContext is Gemm.
func SymmContext(ctx context.Context, workers int, s blas.Side, alpha float64, a blas64.Symmetric, b blas64.General, beta float64, c blas64.General) error {
	return symm(s, alpha, a, b, beta, c, limit{ctx, workers})
}

// SyrkContext is Syrk as GemmContext is Gemm.
func SyrkContext(ctx context.Context, workers int, t blas.Transpose, alpha float64, a blas64.General, beta float64, c blas64.Symmetric) error {
	return syrk(t, alpha, a, beta, c, limit{ctx, workers})
}

// TrsmContext is Trsm as GemmContext is Gemm.
func TrsmContext(ctx context.Context, workers int, s blas.Side, tA blas.Transpose, alpha float64, a blas64.Triangular, b blas64.General) error {
	return trsm(s, tA, alpha, a, b, limit{ctx, workers})
}

// PotrfContext is Potrf as GemmContext is Gemm. Where err is not nil, ok says
// nothing.
func PotrfContext(ctx context.Context, workers int, a blas64.Symmetric) (t blas64.Triangular, ok bool, err error) {
	return potrf(a, limit{ctx, workers})
}

// PstrfContext is Pstrf as GemmContext is Gemm. Where err is not nil, the rest
// says nothing.
func PstrfContext(ctx context.Context, workers int, a blas64.Symmetric, piv []int, tol float64) (t blas64.Triangular, rank int, err error) {
	return pstrf(a, piv, tol, limit{ctx, workers})
}
