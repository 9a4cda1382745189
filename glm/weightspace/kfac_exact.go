package weightspace

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// An exactBlock is the dense precision of some parameters in a Kronecker posterior, in the whitened form H̃.
type exactBlock struct {
	index []int // positions in θ
	h     precision
}

// exactly adds a block of the parameters index with the given entries of JᵀΛJ. It calls jlj for i ≤ j only.
func (w *Kronecker) exactly(ctx context.Context, index []int, jlj func(i, j int) float64) error {
	b := &exactBlock{index: index}
	n := len(index)
	b.h.identity(n)
	for i, p := range index {
		for j := i; j < n; j++ {
			// H̃ = I + Σ₀^½ JᵀΛJ Σ₀^½
			b.h.data[i*n+j] += w.white.Root[p] * jlj(i, j) * w.white.Root[index[j]]
		}
	}
	if err := b.h.factor(ctx, n); err != nil {
		return err
	}
	w.blocks, w.logDet = append(w.blocks, b), w.logDet+b.h.logDet
	return nil
}

// halfOf returns V = J Σ₀^½ U⁻¹ of a block. V Vᵀ is the block's part of the joint covariance.
func (w *Kronecker) halfOf(ctx context.Context, b *exactBlock, x *linearize.Batch) (blas64.General, error) {
	v := jacobianColumns(x, b.index)
	for i := range v.Rows {
		row := dense.Row(v, i)
		for j, p := range b.index {
			row[j] *= w.white.Root[p]
		}
	}
	return v, b.h.half(ctx, v)
}

// A columnReader reads the columns of the Jacobian for given positions in θ, from batches with the same blocks.
type columnReader struct {
	g    group
	from []int // for each position its column in g; nil if they are in the same order
}

func newColumnReader(b *linearize.Batch, at []int) *columnReader {
	r := &columnReader{g: groupOf(b, "", at)}
	if slices.Equal(r.g.index, at) {
		return r
	}
	place := make(map[int]int, len(at))
	for i, p := range r.g.index {
		place[p] = i
	}
	for _, p := range at {
		r.from = append(r.from, place[p])
	}
	return r
}

// to writes the columns for the examples of b to dst. scratch has the size of dst.
func (r *columnReader) to(dst, scratch blas64.General, b *linearize.Batch) {
	if r.from == nil {
		r.g.columnsTo(dst, b)
		return
	}
	r.g.columnsTo(scratch, b)
	for i := range dst.Rows {
		pick(dense.Row(dst, i), dense.Row(scratch, i), r.from)
	}
}

// jacobianColumns returns the columns of the Jacobian for the positions at in θ, N·C × len(at).
func jacobianColumns(b *linearize.Batch, at []int) blas64.General {
	c, r := b.Outputs(), newColumnReader(b, at)
	out := dense.New(b.Len()*c, len(at))
	each(b.Len(), func(n int) {
		r.to(dense.Rows(out, n*c, (n+1)*c), dense.New(c, len(at)), b.Slice(n, n+1))
	})
	return out
}
