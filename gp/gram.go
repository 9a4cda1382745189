package gp

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A gram holds two triangular matrices in one buffer of n rows of n+1 numbers.
// The lower triangle is K with its diagonal. The upper triangle, one column to
// the right, is B and then its Cholesky factor U.
type gram struct {
	n    int
	data []float64
}

func newGram(n int) gram { return gram{n: n, data: make([]float64, n*(n+1))} }

// copyGram returns a copy of K without a factor, or an error if there is not enough free memory. what names the
// operation in the error.
func (e *rowSolver) copyGram(ctx context.Context, what string) (gram, error) {
	c, g := e.outputs(), e.g
	if err := CheckMemory(what, TrainingExamples, e.x.Len(), e.o.Memory, func(n int) int64 { return Bytes(n, c) }); err != nil {
		return gram{}, err
	}
	to := newGram(g.n)
	err := par.Do(ctx, g.n, func(i int) error {
		copy(to.data[i*(g.n+1):][:i+1], g.data[i*(g.n+1):])
		return nil
	})
	if err != nil {
		return gram{}, stopped("copying the kernel", err)
	}
	return to, nil
}

// kernel returns K, lower triangle.
func (g gram) kernel() blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Lower, N: g.n, Stride: g.n + 1, Data: g.data}
}

// upper returns the upper triangle, B or its factor, with its diagonal.
func (g gram) upper() blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Upper, N: g.n, Stride: g.n + 1, Data: g.data[1:]}
}

// tile returns K[i0:i1, j0:j1] as a view. Its entries above K's diagonal belong
// to the other triangle.
func (g gram) tile(i0, i1, j0, j1 int) blas64.General {
	lo, hi := i0*(g.n+1)+j0, (i1-1)*(g.n+1)+j1
	return blas64.General{Rows: i1 - i0, Cols: j1 - j0, Stride: g.n + 1, Data: g.data[lo:hi]}
}

// panelRows is the number of rows of K that are formed at once. It is large
// enough for efficient matrix products and small enough to stop soon after a
// cancel.
const panelRows = 512

// form fills the lower triangle with κ(x, x), a panel of rows at a time.
func (g gram) form(ctx context.Context, k ntk.Kernel, x *linearize.Batch, o *Options) error {
	n, c := x.Len(), x.Outputs()
	step := max(1, panelRows/c)
	for p := range par.Tiles(n, step) {
		lo, hi := par.Bounds(p, n, step)
		if lo > 0 {
			if err := tileTo(ctx, k, dense.View(g.tile(lo*c, hi*c, 0, lo*c)), x, lo, hi, 0, lo); err != nil {
				return err
			}
		}
		// The mirrored half of a diagonal tile falls into the other triangle.
		if err := tileTo(ctx, k, dense.View(g.tile(lo*c, hi*c, lo*c, hi*c)), x, lo, hi, lo, hi); err != nil {
			return err
		}
		if err := g.checkRows(lo*c, hi*c, c); err != nil {
			return err
		}
		o.Show(StageKernel, hi, n)
	}
	return nil
}

// blockTo writes κ(a, b) unless ctx is done.
func blockTo(ctx context.Context, k ntk.Kernel, dst *mat.Dense, a, b *linearize.Batch) error {
	if err := ntk.BlockContextTo(ctx, k, dst, a, b); err != nil {
		return stopped("forming the kernel", err)
	}
	return nil
}

// A gramKernel is a kernel that has its values between the examples of one batch in
// memory, as package gp/evidence has.
type gramKernel interface {
	// GramTo writes the kernel between the examples [i0, i1) and [j0, j1) of x, or
	// returns false where it does not have that of x.
	GramTo(dst *mat.Dense, x *linearize.Batch, i0, i1, j0, j1 int) bool
}

// tileTo writes the kernel between the examples [i0, i1) and [j0, j1) of x unless ctx
// is done.
func tileTo(ctx context.Context, k ntk.Kernel, dst *mat.Dense, x *linearize.Batch, i0, i1, j0, j1 int) error {
	if s, ok := k.(gramKernel); ok && ctx.Err() == nil && s.GramTo(dst, x, i0, i1, j0, j1) {
		return nil
	}
	rows := x.Slice(i0, i1)
	if i0 == j0 && i1 == j1 {
		return blockTo(ctx, k, dst, rows, rows)
	}
	return blockTo(ctx, k, dst, rows, x.Slice(j0, j1))
}

// checkRows returns a *NotFiniteError for the first NaN or Inf in K's rows.
func (g gram) checkRows(lo, hi, c int) error {
	return par.Do(context.Background(), hi-lo, func(t int) error {
		i := lo + t
		row := g.data[i*(g.n+1):][:i+1]
		if j := dense.NotFinite(row); j >= 0 {
			return &NotFiniteError{What: "kernel", Row: i / c, Output: i % c, Value: row[j], Remedy: tooLarge}
		}
		return nil
	})
}

// rowTo writes the whole row i of K.
func (g gram) rowTo(dst []float64, i int) {
	copy(dst, g.data[i*(g.n+1):][:i+1])
	for j := i + 1; j < g.n; j++ {
		dst[j] = g.data[j*(g.n+1)+i]
	}
}

// mulVecTo writes K v. The speed of memory bounds products with one vector, so
// gonum's routines for them are as fast as any.
func (g gram) mulVecTo(dst, v []float64) {
	dense.Symv(1, g.kernel(), dense.Vector(v), 0, dense.Vector(dst))
}
