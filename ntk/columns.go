package ntk

import (
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// A piece is a range [lo, hi) of θ inside one span of a block, whose columns of
// the Jacobian are formed. It starts at column at of the block.
type piece struct{ block, at, lo, hi int }

func (p piece) width() int { return p.hi - p.lo }

// cut returns the piece's first width columns and the rest.
func (p piece) cut(width int) (first, rest piece) {
	first, rest = p, p
	first.hi = min(p.hi, p.lo+width)
	rest.lo = first.hi
	rest.at += first.width()
	return first, rest
}

// fill writes the piece's columns of the examples' Jacobian to dst, unscaled.
func (p piece) fill(dst blas64.General, b *linearize.Batch, e examples, s *scratch) {
	switch v := b.Blocks[p.block].(type) {
	case *linearize.Full:
		copyColumns(dst, e.of(v.J, v.C), p.at)
	case *linearize.Outer:
		fillOuter(dst, v, p.at, e)
	case *linearize.Conv:
		fillConv(dst, v, p.at, e, s)
	case *linearize.Embedding:
		// Write elements at, at+1, … of the gradient in the table.
		at := p.at
		cols := v.Table.Cols
		dense.Zero(dst)
		for i := range dst.Rows {
			d := dense.Row(dst, i)
			from := e.lo*v.C + i
			v.Each(from/v.C, func(t, row int) {
				lo, hi := max(row*cols, at), min((row+1)*cols, at+len(d))
				if lo < hi {
					floats.Add(d[lo-at:hi-at], v.Gradient(from, t)[lo-row*cols:hi-row*cols])
				}
			})
		}
	default:
		fillTile(dst, v, p.at, e, s)
	}
}

// copyColumns copies columns at, at+1, … of src.
func copyColumns(dst, src blas64.General, at int) {
	for i := range dst.Rows {
		copy(dense.Row(dst, i), src.Data[i*src.Stride+at:])
	}
}

// tileFloats bounds the size of a tile that is formed whole to copy some of its
// columns, unless one example has more numbers.
const tileFloats = 1 << 20

// fillTile forms all columns of the block for a few examples at a time. It copies the columns to dst whose index is
// at least at.
func fillTile(dst blas64.General, b linearize.Block, at int, e examples, s *scratch) {
	c, width := dst.Rows/e.len(), linearize.Width(b)
	e.split(max(1, tileFloats/(c*width)), func(part examples) {
		tile := s.dense(slotTile, part.len()*c, width)
		b.Slice(part.lo, part.hi).TileTo(tile)
		lo := (part.lo - e.lo) * c
		copyColumns(dense.Rows(dst, lo, lo+part.len()*c), tile.RawMatrix(), at)
	})
}

// fillOuter writes elements at, at+1, … of vec(g aᵀ), followed by g for the bias.
func fillOuter(dst blas64.General, o *linearize.Outer, at int, e examples) {
	g := e.of(o.G, o.C)
	if o.Weight == nil {
		copyColumns(dst, g, at)
		return
	}
	if at >= o.Weight.Len() {
		copyColumns(dst, g, at-o.Weight.Len())
		return
	}
	a := e.of(o.A, 1)
	for i := range dst.Rows {
		left, right := dense.Row(g, i), dense.Row(a, i/o.C)
		if o.Weight.Transposed {
			left, right = right, left
		}
		// Elements at, at+1, … of the row-major left rightᵀ.
		to := dense.Row(dst, i)
		for r, j := at/len(right), at%len(right); len(to) > 0; r, j = r+1, 0 {
			n := min(len(right)-j, len(to))
			l := left[r]
			for k, v := range right[j : j+n] {
				to[k] = l * v
			}
			to = to[n:]
		}
	}
}

// eachPart forms the piece's columns for a few of the examples at a time, and calls
// do with them.
func (p piece) eachPart(b *linearize.Batch, e examples, s *scratch, do func(x blas64.General, part examples)) {
	c := b.Outputs()
	e.split(max(1, partFloats/(c*p.width())), func(part examples) {
		x := s.general(slotColumns, part.len()*c, p.width())
		p.fill(x, b, part, s)
		do(x, part)
	})
}

// eachCut calls do with parts of the piece of at most width columns.
func (p piece) eachCut(width int, do func(piece)) {
	for p.width() > 0 {
		first, rest := p.cut(width)
		do(first)
		p = rest
	}
}

// scaleColumns multiplies column j by scale[j].
func scaleColumns(g blas64.General, scale []float64) {
	for i := range g.Rows {
		for j, v := range dense.Row(g, i) {
			g.Data[i*g.Stride+j] = v * scale[j]
		}
	}
}
