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

// fillTile forms all columns of the block for a few examples at a time, and copies
// those from column at on.
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

// fillConv writes elements at, at+1, … of Σ_t g_t p_tᵀ in the order of the stored
// weight, followed by the gradient of the bias.
func fillConv(dst blas64.General, v *linearize.Conv, at int, e examples, s *scratch) {
	if v.Weight == nil || at >= v.Weight.Len() {
		bias := *v
		bias.Weight = nil
		if v.Weight != nil {
			at -= v.Weight.Len()
		}
		fillTile(dst, &bias, at, e, s)
		return
	}
	f := factorsOf(v)
	e.split(max(1, factorFloats/(f.t*max(f.k, v.C*f.m))), func(part examples) {
		some := v.Slice(part.lo, part.hi).(*linearize.Conv)
		lo := (part.lo - e.lo) * v.C
		// Write the columns of the weight from at on for all n examples of v.
		dst := dense.Rows(dst, lo, lo+part.len()*v.C)
		n := part.len()
		patches, gradients := s.dense(slotPatches, n*f.t, f.k), s.dense(slotGradients, n*some.C*f.t, f.m)
		have := -1
		f.rectangles(some.Weight.Transposed, at, dst.Cols, func(r rectangle) {
			if r.group != have {
				some.FactorsTo(patches, gradients, r.group)
				have = r.group
			}
			for i := range n {
				p := dense.Rows(patches.RawMatrix(), i*f.t, (i+1)*f.t)
				g := dense.Rows(gradients.RawMatrix(), i*some.C*f.t, (i+1)*some.C*f.t)
				// Write the rectangle of Σ_t g_t p_tᵀ, or of its transpose, for every output of an example: p is
				// T×k and g C·T×m. All outputs take one product.
				dst := dense.Rows(dst, i*some.C, (i+1)*some.C)
				transposed := some.Weight.Transposed
				c, rows, cols := dst.Rows, r.row1-r.row0, r.col1-r.col0
				if transposed {
					// rows × C·cols: the outputs side by side
					all := s.general(slotLeft, rows, c*cols)
					transMul(dense.Cols(p, r.row0, r.row1), sideBySide(g, c, r.col0, r.col1, s), 0, all)
					for o := range c {
						for i := range rows {
							copy(dense.Row(dst, o)[r.at+i*cols:], dense.Row(all, i)[o*cols:(o+1)*cols])
						}
					}
					continue
				}
				// C·rows × cols: the outputs one below the other
				all := s.general(slotLeft, c*rows, cols)
				transMul(sideBySide(g, c, r.row0, r.row1, s), dense.Cols(p, r.col0, r.col1), 0, all)
				for o := range c {
					copy(dense.Row(dst, o)[r.at:], all.Data[o*rows*cols:(o+1)*rows*cols])
				}
			}
		})
	})
}

// factorFloats bounds the patches or gradients gathered at a time, unless one
// example has more.
const factorFloats = 1 << 16

// factorsOf returns the sizes of v's weight.
func factorsOf(v *linearize.Conv) factors {
	t, k, m := v.Factors()
	return factors{groups: v.Groups(), t: t, k: k, m: m}
}

// sideBySide returns columns [lo, hi) of the c matrices that lie one below the
// other in g.
func sideBySide(g blas64.General, c, lo, hi int, s *scratch) blas64.General {
	if c == 1 {
		return dense.Cols(g, lo, hi)
	}
	t, width := g.Rows/c, hi-lo
	all := s.general(slotRight, t, c*width)
	for o := range c {
		for i := range t {
			copy(dense.Row(all, i)[o*width:(o+1)*width], dense.Row(g, o*t+i)[lo:hi])
		}
	}
	return all
}

// A rectangle is a part of one group's matrix. Its first element is number at of
// the elements that rectangles splits.
type rectangle struct{ group, row0, row1, col0, col1, at int }

// rectangles splits the n elements from lo on of the stored weight, groups of
// row-major matrices, into rectangles whose elements are consecutive.
func (f factors) rectangles(transposed bool, lo, n int, do func(rectangle)) {
	rows, cols := f.m, f.k
	if transposed {
		rows, cols = cols, rows
	}
	for at := 0; at < n; {
		r, j := (lo+at)/cols, (lo+at)%cols
		rect := rectangle{group: r / rows, row0: r % rows, col0: j, at: at}
		if full := (n - at) / cols; j == 0 && full > 0 {
			rect.row1, rect.col1 = min(rows, rect.row0+full), cols
		} else {
			rect.row1, rect.col1 = rect.row0+1, min(cols, j+n-at)
		}
		do(rect)
		at += (rect.row1 - rect.row0) * (rect.col1 - rect.col0)
	}
}

// partFloats bounds the numbers in the columns that a worker forms at a time,
// unless one example has more.
const partFloats = 1 << 19

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
