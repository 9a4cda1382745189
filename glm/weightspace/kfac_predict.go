package weightspace

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
)

// PredictTo writes f(x;θ*) at the T examples of x, T×C, and the covariance
// J(x) Q⁻¹ J(x)ᵀ of each example's outputs, T·C×C. A nil destination is skipped, an
// empty one is sized. Its scratch memory is about 64 MiB, or that of one example.
// A NaN or Inf is a *gp.NotFiniteError.
func (w *Kronecker) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := w.checkInputs(x)
	if t == 0 {
		return nil
	}
	if err := w.meanTo(ctx, mean, x); err != nil {
		return err
	}
	dense.SizeTo(cov, t*c, c)
	if cov == nil {
		return nil
	}
	step := w.tile(x)
	for lo := 0; lo < t; lo += step {
		hi := min(lo+step, t)
		part := dense.Slice(cov, lo*c, hi*c)
		if err := w.marginalsTo(ctx, part, x.Slice(lo, hi)); err != nil {
			return err
		}
		if err := checkMatrix("predictive covariance", part); err != nil {
			at := err.(*gp.NotFiniteError)
			at.Row, at.Output = lo+at.Row/c, at.Row%c
			return at
		}
	}
	return ctx.Err()
}

// meanTo writes f(x;θ*), unless mean is nil.
func (w *Kronecker) meanTo(ctx context.Context, mean *mat.Dense, x *linearize.Batch) error {
	dense.SizeTo(mean, x.Len(), x.Outputs())
	if mean != nil {
		mean.Copy(x.F)
		if err := checkMatrix("predictive mean", mean); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// checkInputs returns the numbers of examples and outputs of x. It panics where x
// does not fit the training examples.
func (w *Kronecker) checkInputs(x *linearize.Batch) (t, c int) {
	if t = x.Len(); t > 0 && (x.Outputs() != w.c || x.P != len(w.theta)) {
		panic("weightspace: inputs do not fit the training examples")
	}
	return t, w.c
}

// tile returns the number of examples of x that are projected at once.
func (w *Kronecker) tile(x *linearize.Batch) int {
	floats := 1
	for _, l := range w.layers {
		n := 3*l.size()*w.c + l.size()
		if _, ok := l.in(x); ok {
			n = 3 * (w.c*l.out + l.cols())
		}
		floats = max(floats, n)
	}
	for _, b := range w.blocks {
		floats = max(floats, 2*len(b.index)*w.c)
	}
	return max(1, panelBytes/8/floats)
}

// in returns the block of x with the factors of the layer, if x has one.
func (l *kroneckerLayer) in(x *linearize.Batch) (*linearize.Outer, bool) {
	for _, k := range x.Blocks {
		if o, ok := k.(*linearize.Outer); ok && sameSpan(o.Weight, l.weight) && sameSpan(o.Bias, l.bias) {
			return o, true
		}
	}
	return nil, false
}

func sameSpan(a, b *linearize.Span) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// marginalsTo writes the covariance of each example's outputs.
func (w *Kronecker) marginalsTo(ctx context.Context, cov *mat.Dense, x *linearize.Batch) error {
	cov.Zero()
	for k := range w.layers {
		p, err := w.project(ctx, k, x)
		if err != nil {
			return err
		}
		if err := p.weigh(ctx, w.o.Workers); err != nil {
			return err
		}
		each(w.o.Workers, x.Len(), func(n int) { addSquare(cov, n, w.c, p.example(n, w.c)) })
	}
	for _, b := range w.blocks {
		v, err := b.half(ctx, w.o.Workers, x)
		if err != nil {
			return err
		}
		each(w.o.Workers, x.Len(), func(n int) { addSquare(cov, n, w.c, dense.Rows(v, n*w.c, (n+1)*w.c)) })
	}
	raw := cov.RawMatrix()
	for n := range x.Len() {
		mirrorLower(dense.Rows(raw, n*w.c, (n+1)*w.c))
	}
	return ctx.Err()
}

// addSquare adds the lower triangle of Z Zᵀ to block n of cov.
func addSquare(cov *mat.Dense, n, c int, z blas64.General) {
	block := dense.Rows(cov.RawMatrix(), n*c, (n+1)*c)
	fblas.Syrk1(blas.NoTrans, 1, z, 1, blas64.Symmetric{Uplo: blas.Lower, N: c, Stride: block.Stride, Data: block.Data})
}

// mirrorLower copies the lower triangle of a square matrix to the upper one.
func mirrorLower(g blas64.General) {
	for i := range g.Rows {
		for j := range i {
			g.Data[j*g.Stride+i] = g.Data[i*g.Stride+j]
		}
	}
}

// JointTo writes the mean, T×C, and the joint covariance of all outputs of all
// examples of x, T·C×T·C. A layer takes up to 64 MiB besides the result, or one row
// of its matrix for all examples. It fails with a *gp.MemoryError where that is more
// than Options.MaxMemory.
func (w *Kronecker) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := w.checkInputs(x)
	if t == 0 {
		return nil
	}
	if cov != nil {
		if err := w.checkJoint(x); err != nil {
			return err
		}
	}
	dense.SizeTo(cov, t*c, t*c)
	if err := w.meanTo(ctx, mean, x); err != nil || cov == nil {
		return err
	}
	cov.Zero()
	for k := range w.layers {
		p, err := w.project(ctx, k, x)
		if err != nil {
			return err
		}
		if err := p.addJoint(ctx, w.o.Workers, cov, c); err != nil {
			return err
		}
	}
	for _, b := range w.blocks {
		v, err := b.half(ctx, w.o.Workers, x)
		if err != nil {
			return err
		}
		if err := addJointSquare(ctx, w.o.Workers, cov, v); err != nil {
			return err
		}
	}
	mirrorLower(cov.RawMatrix())
	if err := checkMatrix("predictive covariance", cov); err != nil {
		at := err.(*gp.NotFiniteError)
		at.Row, at.Output = at.Row/c, at.Row%c
		return at
	}
	return ctx.Err()
}

// addJointSquare adds the lower triangle of Z Zᵀ to cov.
func addJointSquare(ctx context.Context, workers int, cov *mat.Dense, z blas64.General) error {
	g := cov.RawMatrix()
	return fblas.SyrkContext(ctx, workers, blas.NoTrans, 1, z, 1, blas64.Symmetric{Uplo: blas.Lower, N: g.Rows, Stride: g.Stride, Data: g.Data})
}

// checkJoint plans the memory of JointTo.
func (w *Kronecker) checkJoint(x *linearize.Batch) error {
	width := 0 // of the columns of an example's output that are held at once
	for _, l := range w.layers {
		n := 3 * l.size()
		if _, ok := l.in(x); ok {
			n = 2 * (l.out + l.cols())
		}
		width = max(width, n)
	}
	for _, b := range w.blocks {
		width = max(width, 2*len(b.index))
	}
	return gp.CheckMemory("a joint covariance", gp.TestExamples, x.Len(), w.o.MaxMemory, func(t int) int64 {
		rows := memory.Mul(int64(t), int64(w.c))
		return memory.Add(panelBytes, memory.Mul(8, memory.Mul(rows, memory.Add(rows, int64(width)))))
	})
}
