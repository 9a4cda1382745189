package cg

import (
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// A batchBuilder copies batches of a Source into one batch of all its n examples.
type batchBuilder struct {
	n     int
	batch *linearize.Batch
}

// add copies the examples of b, the first of which is example first.
func (s *batchBuilder) add(first int, b *linearize.Batch) {
	if s.batch == nil {
		s.batch = &linearize.Batch{F: s.rows(b.F, b), P: b.P}
		for _, block := range b.Blocks {
			s.batch.Blocks = append(s.batch.Blocks, s.block(block, b))
		}
	}
	copyRows(s.batch.F, first, b.F)
	for i, block := range b.Blocks {
		switch to := s.batch.Blocks[i].(type) {
		case *linearize.Outer:
			from := block.(*linearize.Outer)
			copyRows(to.A, first, from.A)
			copyRows(to.G, first*to.C, from.G)
		case *linearize.Conv:
			from := block.(*linearize.Conv)
			copyRows(to.X, first, from.X)
			copyRows(to.G, first*to.C, from.G)
		case *linearize.Embedding:
			from := block.(*linearize.Embedding)
			copyRows(to.Index, first, from.Index)
			copyRows(to.G, first*to.C, from.G)
		case *linearize.Full:
			block.TileTo(dense.View(dense.Rows(to.J.RawMatrix(), first*to.C, (first+b.Len())*to.C)))
		}
	}
}

// block returns a block of the same kind for all examples, or a linearize.Full
// where the kind is not one of package linearize.
func (s *batchBuilder) block(block linearize.Block, b *linearize.Batch) linearize.Block {
	switch v := block.(type) {
	case *linearize.Outer:
		all := *v
		all.A, all.G = s.rows(v.A, b), s.rows(v.G, b)
		return &all
	case *linearize.Conv:
		all := *v
		all.X, all.G = s.rows(v.X, b), s.rows(v.G, b)
		return &all
	case *linearize.Embedding:
		all := *v
		all.Index, all.G = s.rows(v.Index, b), s.rows(v.G, b)
		return &all
	}
	return &linearize.Full{J: mat.NewDense(s.n*b.Outputs(), linearize.Width(block), nil), Params: block.Spans(), C: b.Outputs()}
}

// rows returns a matrix for all examples that is shaped as m is for those of b. It
// returns nil where m is nil.
func (s *batchBuilder) rows(m *mat.Dense, b *linearize.Batch) *mat.Dense {
	if m == nil {
		return nil
	}
	r, c := m.Dims()
	return mat.NewDense(r/b.Len()*s.n, c, nil)
}

// copyRows copies src to the rows of dst from at on.
func copyRows(dst *mat.Dense, at int, src *mat.Dense) {
	if src == nil {
		return
	}
	r, _ := src.Dims()
	for i := range r {
		copy(dst.RawRowView(at+i), src.RawRowView(i))
	}
}
