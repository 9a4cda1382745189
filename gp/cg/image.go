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

// A imageSum sums Jᵀv for the columns of v, and holds the result as a batch of
// one example a column, whose Jacobian it is. Its memory is used again.
type imageSum struct {
	workers int
	tile    []float64
	batch   *linearize.Batch
	parts   []blas64.General // of the Jacobian, block by block
}

// imageFloats bounds the columns of the Jacobian that are made at once,
// unless one example has more.
const imageFloats = 1 << 21

// of returns the image of v, N·C×k, over all examples.
func (m *imageSum) of(ctx context.Context, d *data, v blas64.General) (*linearize.Batch, error) {
	m.batch = nil
	err := d.each(ctx, func(first int, b *linearize.Batch) error {
		if m.batch == nil {
			m.reset(b, v.Cols)
		}
		if err := m.add(ctx, b, d.rowsFor(v, first, b)); err != nil {
			return err
		}
		return nil
	})
	return m.batch, err
}

// reset makes the image zero, for k columns and the network of b.
func (m *imageSum) reset(b *linearize.Batch, k int) {
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
func (m *imageSum) part(lo, hi int) *imageSum {
	p := &imageSum{workers: m.workers, batch: m.batch.Slice(lo, hi)}
	for _, g := range m.parts {
		p.parts = append(p.parts, dense.Rows(g, lo, hi))
	}
	return p
}

// add adds vᵀJ for the examples of b.
func (m *imageSum) add(ctx context.Context, b *linearize.Batch, v blas64.General) error {
	c := b.Outputs()
	for i, block := range b.Blocks {
		width := linearize.Width(block)
		step := max(1, imageFloats/(c*max(1, width)))
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

// tileOf returns the block's rows of examples [lo, hi) as they are, or made.
func (m *imageSum) tileOf(block linearize.Block, lo, hi, c, width int) blas64.General {
	if full, ok := block.(*linearize.Full); ok {
		return dense.Rows(full.J.RawMatrix(), lo*c, hi*c)
	}
	tile := dense.In(m.tile, (hi-lo)*c, width)
	if len(tile.Data) > len(m.tile) {
		m.tile = tile.Data
	}
	const examples = 16 // on one worker at a time
	// Without a deadline or an error from the work there is nothing to return.
	_ = par.Do(context.Background(), m.workers, par.Tiles(hi-lo, examples), func(t int) error {
		i, j := par.Bounds(t, hi-lo, examples)
		block.Slice(lo+i, lo+j).TileTo(dense.View(dense.Rows(tile, i*c, j*c)))
		return nil
	})
	return tile
}
