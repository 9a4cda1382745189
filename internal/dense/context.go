package dense

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// A limit bounds a call in time and goroutines. The zero limit is no bound.
type limit struct {
	ctx     context.Context // nil never ends
	workers int             // 1 for the caller's goroutine alone; 0 for GOMAXPROCS goroutines
}

func (l limit) err() error {
	if l.ctx == nil {
		return nil
	}
	return l.ctx.Err()
}

// foreign runs another implementation, which cannot be stopped once it runs.
func (l limit) foreign(do func()) error {
	if err := l.err(); err != nil {
		return err
	}
	do()
	return nil
}

// GemmContext is Gemm that checks ctx between panels. If ctx is done, it returns ctx.Err(), and C is undefined.
func GemmContext(ctx context.Context, tA, tB blas.Transpose, alpha float64, a, b blas64.General, beta float64, c blas64.General) error {
	return gemm(tA, tB, alpha, a, b, beta, c, limit{ctx: ctx})
}

// GemmUpperContext computes C = A T for an upper triangular T that is stored with zeros below its diagonal. It
// takes half the work of GemmContext, and gives the bits of Gemm for finite numbers.
func GemmUpperContext(ctx context.Context, a, t, c blas64.General) error {
	return gemmUpper(a, t, c, limit{ctx: ctx})
}

// SymmContext is Symm with ctx as in GemmContext.
func SymmContext(ctx context.Context, s blas.Side, alpha float64, a blas64.Symmetric, b blas64.General, beta float64, c blas64.General) error {
	return symm(s, alpha, a, b, beta, c, limit{ctx: ctx})
}

// SyrkContext is Syrk with ctx as in GemmContext.
func SyrkContext(ctx context.Context, t blas.Transpose, alpha float64, a blas64.General, beta float64, c blas64.Symmetric) error {
	return syrk(t, alpha, a, beta, c, limit{ctx: ctx})
}

// TrsmContext is Trsm with ctx as in GemmContext.
func TrsmContext(ctx context.Context, s blas.Side, tA blas.Transpose, alpha float64, a blas64.Triangular, b blas64.General) error {
	return trsm(s, tA, alpha, a, b, limit{ctx: ctx})
}

// PotrfContext is Potrf with ctx as in GemmContext. If err is not nil, ok has no meaning.
func PotrfContext(ctx context.Context, a blas64.Symmetric) (t blas64.Triangular, ok bool, err error) {
	return potrf(a, limit{ctx: ctx})
}

// PstrfContext is Pstrf with ctx as in GemmContext. If err is not nil, t and rank have no meaning.
func PstrfContext(ctx context.Context, a blas64.Symmetric, piv []int, tol float64) (t blas64.Triangular, rank int, err error) {
	return pstrf(a, piv, tol, limit{ctx: ctx})
}
