package cg

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// A jacobianSum computes vᵀJ, the sum of the Jacobians of all examples weighted by
// the columns of v. The result is a batch that has, for each column, one example
// with this Jacobian. The next sum overwrites it.
type jacobianSum struct {
	workers int
	tile    []float64
	batch   *linearize.Batch
	parts   []blas64.General // the Jacobian, block by block
}

// tileFloats bounds the entries of the Jacobian that are formed at once, unless
// one example has more.
const tileFloats = 1 << 21

// of returns vᵀJ over all examples; v is N·C×k.
func (m *jacobianSum) of(ctx context.Context, d *data, v blas64.General) (*linearize.Batch, error) {
	m.batch = nil
	err := d.each(ctx, func(first int, b *linearize.Batch) error {
		if m.batch == nil {
			m.reset(b, v.Cols)
		}
		return m.add(ctx, b, d.rowsFor(v, first, b))
	})
	return m.batch, err
}

// reset makes the sum zero, for k columns and the network of b.
func (m *jacobianSum) reset(b *linearize.Batch, k int) {
	m.batch = &linearize.Batch{F: mat.NewDense(k, 1, nil), P: b.P}
	if m.parts == nil {
		m.parts = make([]blas64.General, len(b.Blocks))
	}
	for i, block := range b.Blocks {
		m.parts[i] = dense.In(m.parts[i].Data, k, linearize.Width(block))
		clear(m.parts[i].Data)
		m.batch.Blocks = append(m.batch.Blocks, &linearize.Full{J: dense.View(m.parts[i]), Params: block.Spans(), C: 1})
	}
}

// part returns a view of examples [lo, hi).
func (m *jacobianSum) part(lo, hi int) *jacobianSum {
	p := &jacobianSum{workers: m.workers, batch: m.batch.Slice(lo, hi)}
	for _, g := range m.parts {
		p.parts = append(p.parts, dense.Rows(g, lo, hi))
	}
	return p
}

// add adds vᵀJ of the examples of b.
func (m *jacobianSum) add(ctx context.Context, b *linearize.Batch, v blas64.General) error {
	c := b.Outputs()
	for i, block := range b.Blocks {
		width := linearize.Width(block)
		step := max(1, tileFloats/(c*max(1, width)))
		for lo := 0; lo < b.Len(); lo += step {
			hi := min(lo+step, b.Len())
			// Σ_i v_iᵀJ_i
			err := fblas.GemmContext(ctx, m.workers, blas.Trans, blas.NoTrans, 1, dense.Rows(v, lo*c, hi*c), m.tileOf(block, lo, hi, c, width), 1, m.parts[i])
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// tileOf returns the block's Jacobian of examples [lo, hi): a view where the block
// is a linearize.Full, and otherwise a matrix formed in m.tile.
func (m *jacobianSum) tileOf(block linearize.Block, lo, hi, c, width int) blas64.General {
	if full, ok := block.(*linearize.Full); ok {
		return dense.Rows(full.J.RawMatrix(), lo*c, hi*c)
	}
	tile := dense.In(m.tile, (hi-lo)*c, width)
	if len(tile.Data) > len(m.tile) {
		m.tile = tile.Data
	}
	const examples = 16 // on one worker at a time
	// Neither the context nor the work returns an error.
	_ = par.Do(context.Background(), m.workers, par.Tiles(hi-lo, examples), func(t int) error {
		i, j := par.Bounds(t, hi-lo, examples)
		block.Slice(lo+i, lo+j).TileTo(dense.View(dense.Rows(tile, i*c, j*c)))
		return nil
	})
	return tile
}
