package linearize

import (
	"context"

	"github.com/funcgp/funcgp/internal/par"
)

// Products multiply the Jacobian of N training examples by vectors, without forming it.
type Products interface {
	// MulVecTo writes J v to dst; v has P numbers, dst N·C.
	MulVecTo(ctx context.Context, dst, v []float64) error
	// MulTransVecTo writes Jᵀ u to dst; u has N·C numbers, dst P.
	MulTransVecTo(ctx context.Context, dst, u []float64) error
}

// ProductsOf returns the products with the examples of src. Each product takes one pass over src.
func ProductsOf(src Source) Products { return passes{src} }

type passes struct{ src Source }

// productExamples is the number of examples in a tile of a product with J.
const productExamples = 64

// MulVecTo implements Products.
func (p passes) MulVecTo(ctx context.Context, dst, v []float64) error {
	return ordered(ctx, p.src, func(first int, b *Batch) error {
		c := b.Outputs()
		return par.Do(ctx, par.Tiles(b.Len(), productExamples), func(t int) error {
			lo, hi := par.Bounds(t, b.Len(), productExamples)
			b.Slice(lo, hi).MulVecTo(dst[(first+lo)*c:(first+hi)*c], v)
			return nil
		})
	})
}

// MulTransVecTo implements Products.
func (p passes) MulTransVecTo(ctx context.Context, dst, u []float64) error {
	clear(dst)
	return ordered(ctx, p.src, func(first int, b *Batch) error {
		c := b.Outputs()
		for _, k := range b.Blocks {
			k.AddMulTransVec(dst, u[first*c:(first+b.Len())*c])
		}
		return nil
	})
}
