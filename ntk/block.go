package ntk

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// A tile of the kernel has at most mostRows rows and columns, and fewer, down to
// fewRows, where there would be only a few tiles. It has at least one example.
// Within a tile, terms are formed for termRows rows and columns at a time, so that
// their products stay in the second-level cache.
const (
	fewRows  = 96
	mostRows = 480
	termRows = 240

	panelRows = 24
)

// BlockTo implements Kernel.
func (k *NTK) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	k.checkPair(a, b)
	ca, cb := a.Outputs(), b.Outputs()
	if !sizeTo(dst, a.Len()*ca, b.Len()*cb) {
		return
	}
	k.blockPlan(a, b).to(dst.RawMatrix())
}

// BlockContextTo is BlockTo that stops between tiles when ctx is done. It then
// returns ctx.Err() and leaves dst undefined.
func (k *NTK) BlockContextTo(ctx context.Context, dst *mat.Dense, a, b *linearize.Batch) error {
	k.checkPair(a, b)
	if !sizeTo(dst, a.Len()*a.Outputs(), b.Len()*b.Outputs()) {
		return ctx.Err()
	}
	p := k.blockPlan(a, b)
	p.ctx = ctx
	p.to(dst.RawMatrix())
	return ctx.Err()
}

// to writes the whole block, or stops when the context is done. Products of many columns
// are those of the whole block, so that each operand is packed once; the rest goes tile
// by tile.
func (p *plan) to(dst blas64.General) {
	ca, cb := p.extent.ca, p.extent.cb
	p.eachPass(func(ps *pass) {
		all := dense.Cols(dense.Rows(dst, ps.i.lo*ca, ps.i.hi*ca), ps.j.lo*cb, ps.j.hi*cb)
		started := false // whether dst holds the products of many columns in memory
		for _, t := range ps.direct {
			if !ps.first || t.w < wideProduct {
				continue
			}
			beta := 0.0
			if started {
				beta = 1
			}
			x, y := t.columns(ps.i, ps.j)
			ps.wholeProduct(t.variance, x, y, beta, all)
			started = true
		}
		// Find the tiles of the pass. Where a is b, these are the tiles on and above the diagonal.
		var tiles []tile
		x := ps.extent
		ps.i.split(tileExamples(x.na, x.ca), func(i examples) {
			ps.j.split(tileExamples(x.nb, x.cb), func(j examples) {
				if ps.a != ps.b || j.lo >= i.lo {
					tiles = append(tiles, tile{i, j})
				}
			})
		})
		p.k.runUntil(p.ctx, len(tiles), func(s *scratch, n int) {
			i, j := tiles[n].i, tiles[n].j
			tile := dense.Cols(dense.Rows(dst, i.lo*ca, i.hi*ca), j.lo*cb, j.hi*cb)
			if ps.first {
				if !started {
					dense.Zero(tile)
				}
				ps.addDirect(tile, i, j, wideProduct)
				ps.addTerms(tile, i, j, s)
			}
			if ps.left.Cols < wideProduct {
				ps.addColumns(tile, i, j)
			}
		})
		if ps.left.Cols >= wideProduct {
			ps.wholeProduct(1, ps.left, ps.right, 1, all)
		}
		if !ps.last || p.a != p.b {
			return
		}
		p.k.runUntil(p.ctx, len(tiles), func(_ *scratch, n int) {
			i, j := tiles[n].i, tiles[n].j
			mirror(dst, i.lo*ca, i.hi*ca, j.lo*cb, j.hi*cb)
		})
	})
}

// wideProduct is the number of columns from which a product is that of the whole block.
const wideProduct = 256

// wholeProduct writes dst = α x yᵀ + β dst on all workers. Where a is b, x is y and only
// the upper triangle is written.
func (ps *pass) wholeProduct(alpha float64, x, y blas64.General, beta float64, dst blas64.General) {
	// The only error is that of the context, which the caller checks.
	if ps.a == ps.b {
		upper := blas64.Symmetric{N: dst.Rows, Stride: dst.Stride, Data: dst.Data, Uplo: blas.Upper}
		_ = dense.SyrkContext(ps.ctx, blas.NoTrans, alpha, x, beta, upper)
		return
	}
	_ = dense.GemmContext(ps.ctx, blas.NoTrans, blas.Trans, alpha, x, y, beta, dst)
}

// blockPlan is the plan of κ(a, b). The choice of its methods does not depend on the number of
// examples of a where these are not b's, so that a row of the block has the same bits whichever
// others are computed with it.
func (k *NTK) blockPlan(a, b *linearize.Batch) *plan {
	x := extentOf(a, b)
	chosen := x
	if !x.same {
		chosen.na = x.nb
	}
	p := k.newPlan(a, b, chosen)
	p.extent = x
	return p
}

func extentOf(a, b *linearize.Batch) extent {
	return extent{na: a.Len(), nb: b.Len(), ca: a.Outputs(), cb: b.Outputs(), same: a == b}
}

// mirror copies the part of rows [i0, i1) and columns [j0, j1) that is above
// the diagonal to below it.
func mirror(g blas64.General, i0, i1, j0, j1 int) {
	const edge = 16
	for j := j0; j < j1; j += edge {
		for i := i0; i < min(i1, j+edge); i += edge {
			for c := j; c < min(j+edge, j1); c++ {
				d := g.Data[c*g.Stride : c*g.Stride+min(c, i1)]
				for r := i; r < min(i+edge, len(d)); r++ {
					d[r] = g.Data[r*g.Stride+c]
				}
			}
		}
	}
}

// A pass adds a part of the plan to a part of the kernel, that of the examples i
// of a and j of b. It adds the product of the columns in memory and, if it is the
// first pass for these examples, the terms.
type pass struct {
	*plan
	pieces      []piece        // whose columns are in memory
	i, j        examples       // ranges of a and of b
	left, right blas64.General // the columns of i and of j
	first, last bool           // whether this is the first or the last pass for i and j
}

// eachPass calls do with passes that add up to the plan. All columns are computed
// once. Those of the batch with more rows are computed for ranges of examples as
// large as the budget allows, against the whole of the other.
func (p *plan) eachPass(do func(*pass)) {
	ps, x := &pass{plan: p}, p.extent
	// Group the pieces so that the columns of the batch with fewer rows fit half the budget. There is
	// always one chunk.
	most := max(1, p.k.budget/16/min(x.na*x.ca, x.nb*x.cb))
	chunks, room := [][]piece{nil}, most
	for _, rest := range p.pieces {
		for rest.width() > 0 {
			if room == 0 {
				chunks, room = append(chunks, nil), most
			}
			var first piece
			first, rest = rest.cut(room)
			chunks[len(chunks)-1] = append(chunks[len(chunks)-1], first)
			room -= first.width()
		}
	}
	for n, pieces := range chunks {
		width := 0
		for _, pc := range pieces {
			width += pc.width()
		}
		ps.pieces, ps.first, ps.last = pieces, n == 0, n == len(chunks)-1
		ps.i, ps.j = examples{0, x.na}, examples{0, x.nb}
		switch {
		case p.a == p.b:
			ps.left = p.fill(ps.left.Data, pieces, width, p.a, ps.i)
			ps.right = ps.left
			do(ps)
		case x.na*x.ca <= x.nb*x.cb:
			ps.left = p.fill(ps.left.Data, pieces, width, p.a, ps.i)
			ps.j.split(p.panel(width, x.nb, x.cb), func(part examples) {
				ps.j, ps.right = part, p.fill(ps.right.Data, pieces, width, p.b, part)
				do(ps)
			})
		default:
			ps.right = p.fill(ps.right.Data, pieces, width, p.b, ps.j)
			ps.i.split(p.panel(width, x.na, x.ca), func(part examples) {
				ps.i, ps.left = part, p.fill(ps.left.Data, pieces, width, p.a, part)
				do(ps)
			})
		}
	}
}

// panel returns how many of n examples with c outputs have columns that fit in
// half the budget. Where that is more than a tile, it is a whole number of tiles.
func (p *plan) panel(width, n, c int) int {
	if width == 0 {
		return n
	}
	fit, tile := p.k.budget/16/(width*c), tileExamples(n, c)
	if fit > tile {
		fit -= fit % tile
	}
	return max(1, fit)
}

// fill returns the scaled columns of the examples e. It uses buf if that is large
// enough.
func (p *plan) fill(buf []float64, pieces []piece, width int, b *linearize.Batch, e examples) blas64.General {
	c := b.Outputs()
	if cap(buf) < e.len()*c*width {
		buf = make([]float64, e.len()*c*width)
	}
	g := dense.Of(buf[:e.len()*c*width], e.len()*c, width)
	if width == 0 {
		return g
	}
	p.k.eachUntil(p.ctx, e.len(), chunk, func(s *scratch, part examples) {
		at, rows := 0, dense.Rows(g, part.lo*c, part.hi*c)
		for _, pc := range pieces {
			dst := dense.Cols(rows, at, at+pc.width())
			pc.fill(dst, b, examples{e.lo + part.lo, e.lo + part.hi}, s)
			scaleColumns(dst, p.k.roots(pc.lo, pc.hi))
			at += pc.width()
		}
	})
	return g
}

// add adds the pass's part of κ(a[i], b[j]) to dst. Where a is b and i is j, the
// part of dst below the diagonal is undefined afterwards.
func (ps *pass) add(dst blas64.General, i, j examples, s *scratch) {
	if ps.first {
		ps.addDirect(dst, i, j, math.MaxInt)
		ps.addTerms(dst, i, j, s)
	}
	ps.addColumns(dst, i, j)
}

// addDirect adds the products of fewer columns in memory than below.
func (ps *pass) addDirect(dst blas64.General, i, j examples, below int) {
	for _, t := range ps.direct {
		if t.w < below {
			x, y := t.columns(i, j)
			addProduct(dst, t.variance, x, y, ps.diagonal(i, j))
		}
	}
}

// diagonal tells whether κ(a[i], b[j]) is symmetric.
func (ps *pass) diagonal(i, j examples) bool { return ps.a == ps.b && i == j }

// addTerms adds the terms.
func (ps *pass) addTerms(dst blas64.General, i, j examples, s *scratch) {
	ca, cb := ps.extent.ca, ps.extent.cb
	i.even(termRows/ca, func(ii examples) {
		j.even(termRows/cb, func(jj examples) {
			if ps.diagonal(i, j) && jj.lo < ii.lo {
				return
			}
			part := dense.Cols(dense.Rows(dst, (ii.lo-i.lo)*ca, (ii.hi-i.lo)*ca), (jj.lo-j.lo)*cb, (jj.hi-j.lo)*cb)
			for _, t := range ps.terms {
				t.addTile(part, ii, jj, s)
			}
		})
	})
}

// addColumns adds the product of the columns in memory.
func (ps *pass) addColumns(dst blas64.General, i, j examples) {
	if ps.left.Cols == 0 {
		return
	}
	ca, cb := ps.extent.ca, ps.extent.cb
	x := dense.Rows(ps.left, (i.lo-ps.i.lo)*ca, (i.hi-ps.i.lo)*ca)
	y := dense.Rows(ps.right, (j.lo-ps.j.lo)*cb, (j.hi-ps.j.lo)*cb)
	// Σ_p √σ²_p J_ip · √σ²_p J_jp
	addProduct(dst, 1, x, y, ps.diagonal(i, j))
}

// addProduct adds α x yᵀ to dst. If diagonal is true, x is y and only the upper
// triangle is written.
func addProduct(dst blas64.General, alpha float64, x, y blas64.General, diagonal bool) {
	if diagonal {
		upper := blas64.Symmetric{N: dst.Rows, Stride: dst.Stride, Data: dst.Data, Uplo: blas.Upper}
		dense.Syrk1(blas.NoTrans, alpha, x, 1, upper)
		return
	}
	mulTrans(alpha, x, y, 1, dst)
}

// A tile is a rectangle of the kernel: examples of a and of b.
type tile struct{ i, j examples }

// tileExamples returns how many of n examples with c outputs make a tile. It must
// not depend on the number of processors.
func tileExamples(n, c int) int {
	rows := (n*c/8 + 47) / 48 * 48
	examples := max(1, min(max(rows, fewRows), mostRows)/c)
	// Examples that have rows for whole panels of the kernels of products, whose height divides panelRows.
	a, b := panelRows, c
	for b > 0 {
		a, b = b, a%b
	}
	if whole := panelRows / a; examples >= whole {
		return min((examples+whole-1)/whole*whole, max(mostRows/c/whole, 1)*whole)
	}
	return examples
}
