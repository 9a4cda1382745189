package weightspace

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/mat"

	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// PredictTo writes the mean of the T examples of x, T×C, and the covariance
// J(x) Q⁻¹ J(x)ᵀ of each example's outputs, T·C×C. Its scratch memory is about 64 MiB,
// or that of one example. A NaN or Inf is a *gp.NotFiniteError.
func (w *Kronecker) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	return w.eachTile(ctx, mean, cov, x, func(cov *mat.Dense, _ int, tile *linearize.Batch) error {
		for lo, step := 0, w.tile(x); lo < tile.Len(); lo += step {
			hi := min(lo+step, tile.Len())
			if err := w.marginalsTo(ctx, dense.Slice(cov, lo*w.c, hi*w.c), tile.Slice(lo, hi)); err != nil {
				return err
			}
		}
		return nil
	})
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
	for k, l := range w.layers {
		if l.next == nil && !l.isIn(x) {
			if err := w.addRowMarginals(ctx, cov, l, x); err != nil {
				return err
			}
			continue
		}
		p, err := w.project(ctx, k, x)
		if err != nil {
			return err
		}
		z, err := p.half(ctx, w.o.Workers, w.c)
		if err != nil {
			return err
		}
		if err := addMarginals(ctx, w.o.Workers, cov, z, w.c); err != nil {
			return err
		}
	}
	for _, b := range w.blocks {
		v, err := w.halfOf(ctx, b, x)
		if err != nil {
			return err
		}
		if err := addMarginals(ctx, w.o.Workers, cov, v, w.c); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// JointTo writes the mean, T×C, and the joint covariance of all outputs of all
// examples of x, T·C×T·C. It fails with a *gp.MemoryError where that and the
// projection of a layer are more than Options.MaxMemory.
func (w *Kronecker) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	return w.joint(ctx, mean, cov, x, w.jointWidth(x), func() error {
		cov.Zero()
		for k := range w.layers {
			p, err := w.project(ctx, k, x)
			if err != nil {
				return err
			}
			if err := p.addJoint(ctx, w.o.Workers, cov, w.c); err != nil {
				return err
			}
		}
		for _, b := range w.blocks {
			v, err := w.halfOf(ctx, b, x)
			if err != nil {
				return err
			}
			if err := fblas.SyrkContext(ctx, w.o.Workers, blas.NoTrans, 1, v, 1, lower(cov)); err != nil {
				return err
			}
		}
		mirrorLower(cov)
		return nil
	})
}

// jointWidth returns the number of columns of T·C rows that JointTo takes at once.
func (w *Kronecker) jointWidth(x *linearize.Batch) int {
	if x.Len() == 0 {
		return 0
	}
	width := 0
	for _, l := range w.layers {
		n := 3 * l.size()
		if l.isIn(x) {
			n = 2 * (l.out + l.cols())
		}
		width = max(width, n)
	}
	for _, b := range w.blocks {
		width = max(width, 2*len(b.index))
	}
	return width + panelBytes/8/(x.Len()*w.c)
}
