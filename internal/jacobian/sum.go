// Package jacobian computes sums of the Jacobians of many examples, weighted by the rows of a matrix. Posterior
// means, and posterior covariances with an input, are such sums.
package jacobian

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// A Sum adds up vᵀJ: the Jacobians of many examples, weighted by the columns of v. The result is a batch. It has
// one example with one output for each column, and its Jacobian is the sum.
type Sum struct {
	Batch *linearize.Batch // the sum; its outputs F are zero
	Parts []blas64.General // its Jacobian, block by block
	tile  []float64
}

// tileFloats is the most entries of the Jacobian that are formed at once, unless one example has more.
const tileFloats = 1 << 21

// Reset sets the sum to zero, for k columns and the network of b. It overwrites the previous sum.
func (m *Sum) Reset(b *linearize.Batch, k int) {
	m.Batch = &linearize.Batch{F: mat.NewDense(k, 1, nil), P: b.P}
	if m.Parts == nil {
		m.Parts = make([]blas64.General, len(b.Blocks))
	}
	for i, block := range b.Blocks {
		m.Parts[i] = dense.In(m.Parts[i].Data, k, linearize.Width(block))
		clear(m.Parts[i].Data)
		m.Batch.Blocks = append(m.Batch.Blocks, &linearize.Full{J: dense.View(m.Parts[i]), Params: block.Spans(), C: 1})
	}
}

// Copy sets the sum to the Jacobian of b, with one column for each output of each example.
func (m *Sum) Copy(b *linearize.Batch) {
	m.Reset(b, b.Len()*b.Outputs())
	for i, block := range b.Blocks {
		block.TileTo(dense.View(m.Parts[i]))
	}
}

// Add adds vᵀJ for the examples of b. v has one row for each output of each example.
func (m *Sum) Add(ctx context.Context, b *linearize.Batch, v blas64.General) error {
	c := b.Outputs()
	for i, block := range b.Blocks {
		if table, ok := block.(*linearize.Embedding); ok {
			// For a table, add each gradient times its weights to the row of the table that is read there. The
			// other rows, nearly all of them, are not formed. A worker computes some columns of v, so the sums do
			// not depend on the number of processors.
			part := m.Parts[i]
			const columns = 4
			e := table.Table.Cols
			if err := par.Do(ctx, par.Tiles(v.Cols, columns), func(tile int) error {
				lo, hi := par.Bounds(tile, v.Cols, columns)
				for i := range v.Rows {
					weights := dense.Row(v, i)
					table.Each(i/table.C, func(t, row int) {
						g := table.Gradient(i, t)
						for r := lo; r < hi; r++ {
							dense.Axpy(dense.Row(part, r)[row*e:(row+1)*e], weights[r], g)
						}
					})
				}
				return nil
			}); err != nil {
				return err
			}
			continue
		}
		width := linearize.Width(block)
		step := max(1, tileFloats/(c*max(1, width)))
		for lo := 0; lo < b.Len(); lo += step {
			hi := min(lo+step, b.Len())
			// Σ_i v_iᵀJ_i
			err := dense.GemmContext(ctx, blas.Trans, blas.NoTrans, 1, dense.Rows(v, lo*c, hi*c), m.tileOf(block, lo, hi, c, width), 1, m.Parts[i])
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// tileOf returns the block's Jacobian for examples lo to hi−1: a view for a linearize.Full, and otherwise a matrix
// in m.tile.
func (m *Sum) tileOf(block linearize.Block, lo, hi, c, width int) blas64.General {
	if full, ok := block.(*linearize.Full); ok {
		return dense.Rows(full.J.RawMatrix(), lo*c, hi*c)
	}
	tile := dense.In(m.tile, (hi-lo)*c, width)
	if len(tile.Data) > len(m.tile) {
		m.tile = tile.Data
	}
	const examples = 16 // examples of one worker at a time
	// Neither the work nor a context that never ends gives an error.
	_ = par.Do(context.Background(), par.Tiles(hi-lo, examples), func(t int) error {
		i, j := par.Bounds(t, hi-lo, examples)
		block.Slice(lo+i, lo+j).TileTo(dense.View(dense.Rows(tile, i*c, j*c)))
		return nil
	})
	return tile
}

// Bytes returns the memory in bytes of a copy of the examples of b. A block of a type from another package than
// linearize counts as a linearize.Full.
func Bytes(b *linearize.Batch) int64 {
	sum := matBytes(b.F)
	for _, block := range b.Blocks {
		switch v := block.(type) {
		case *linearize.Outer:
			sum += matBytes(v.A) + matBytes(v.G)
		case *linearize.Conv:
			sum += matBytes(v.X) + matBytes(v.G)
		case *linearize.Embedding:
			sum += matBytes(v.Index) + matBytes(v.G)
		default:
			sum += 8 * int64(b.Len()) * int64(b.Outputs()) * int64(linearize.Width(block))
		}
	}
	return sum
}

func matBytes(m *mat.Dense) int64 {
	if m == nil {
		return 0
	}
	r, c := m.Dims()
	return 8 * int64(r) * int64(c)
}
