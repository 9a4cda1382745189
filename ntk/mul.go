package ntk

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// MulTo implements MulToer. It multiplies by J_bᵀ, Σ₀ and J_a in turn or, for
// very many columns of v, by the kernel tile by tile, whichever costs less.
func (k *NTK) MulTo(dst *mat.Dense, a, b *linearize.Batch, v *mat.Dense) {
	k.checkPair(a, b)
	x := extentOf(a, b)
	rows, cols := v.Dims()
	if rows != x.nb*x.cb {
		panic("ntk: right side has wrong size")
	}
	if rows == 0 {
		dst.Zero() // a sum over no examples
		return
	}
	if !sizeTo(dst, x.na*x.ca, cols) {
		return
	}
	out, right := dst.RawMatrix(), v.RawMatrix()
	dense.Zero(out)
	if p := k.newPlan(a, b, x); p.cost+x.entries()*float64(cols) < k.factorsCost(a, x, cols) {
		p.mul(out, right)
		return
	}
	for lo := 0; lo < cols; lo += mulCols {
		hi := min(cols, lo+mulCols)
		k.eachFactor(b, dense.Cols(right, lo, hi), func(f factor) { f.addTo(dense.Cols(out, lo, hi), a) })
	}
}

const (
	mulCols   = 64 // columns of v taken at a time
	mulRanges = 8  // ranges of examples whose sums are taken side by side
)

// factorsCost is the cost of J_a Σ₀ J_bᵀ v for v with cols columns.
func (k *NTK) factorsCost(a *linearize.Batch, x extent, cols int) float64 {
	cost := 0.0
	for _, block := range a.Blocks {
		width := float64(linearize.Width(block))
		switch v := block.(type) {
		case *linearize.Outer:
			cost += width * float64(cols) * float64(x.na+x.nb)
			continue
		case *linearize.Conv:
			cost += formingCost(factorsOf(v), x)
		case *linearize.Embedding:
			_, positions := v.Index.Dims()
			cost += float64(positions*v.Table.Cols*cols) * x.rows()
			continue
		}
		cost += width * (float64(cols) + fillCost) * x.rows()
	}
	return cost
}

// mul adds κ(a, b) v to dst. Each worker takes one row of tiles at a time.
func (p *plan) mul(dst, v blas64.General) {
	x := p.extent
	ca, cb := x.ca, x.cb
	p.eachPass(func(ps *pass) {
		p.k.each(ps.i.len(), tileExamples(x.na, ca), func(s *scratch, part examples) {
			i := examples{ps.i.lo + part.lo, ps.i.lo + part.hi}
			ps.j.split(tileExamples(x.nb, cb), func(j examples) {
				tile := s.general(slotTile, i.len()*ca, j.len()*cb)
				dense.Zero(tile)
				ps.add(tile, i, j, s)
				if p.a == p.b && i == j {
					mirror(tile, 0, tile.Rows, 0, tile.Cols)
				}
				mul(tile, dense.Rows(v, j.lo*cb, j.hi*cb), 1, dense.Rows(dst, i.lo*ca, i.hi*ca))
			})
		})
	})
}

// A factor is Σ₀ J_bᵀ v for some of the parameters.
type factor interface {
	// addTo adds the part of J_a Σ₀ J_bᵀ v for those parameters to dst.
	addTo(dst blas64.General, a *linearize.Batch)
}

// eachFactor calls do with factors that add up to κ(·, b) v. It holds only one of
// them at a time.
func (k *NTK) eachFactor(b *linearize.Batch, v blas64.General, do func(f factor)) {
	p := &plan{k: k, b: b, extent: extentOf(b, b), ctx: context.Background()}
	for i := range b.Blocks {
		switch block := b.Blocks[i].(type) {
		case *linearize.Outer:
			k.outerFactors(i, block, v, do)
		case *linearize.Embedding:
			k.embeddingFactors(i, block, v, do)
		default:
			p.columns(i, 0, block.Spans()...)
		}
	}
	// The columns taken at a time have at most partFloats numbers for an example, and the sums over
	// ranges of examples stay within the budget.
	cb := p.extent.cb
	width := max(1, min(partFloats/cb, k.budget/8/(mulRanges+1)/v.Cols))
	for _, all := range p.pieces {
		all.eachCut(width, func(pc piece) {
			// X_bᵀ v
			u := p.k.sumRanges(p.extent.nb, pc.width(), v.Cols, func(sum blas64.General, e examples, s *scratch) {
				pc.eachPart(p.b, e, s, func(x blas64.General, part examples) {
					transMul(x, dense.Rows(v, part.lo*cb, part.hi*cb), 1, sum)
				})
			})
			for i := range u.Rows {
				floats.Scale(p.k.variance[pc.lo+i], dense.Row(u, i))
			}
			do((&pieceFactor{k: p.k, pc: pc, u: u}))
		})
	}
}

// A pieceFactor is Σ₀ X_bᵀ v for the columns X of a piece.
type pieceFactor struct {
	k  *NTK
	pc piece
	u  blas64.General // width × columns of v
}

// addTo implements factor. The columns of a Full block are read in place.
func (f *pieceFactor) addTo(dst blas64.General, a *linearize.Batch) {
	c := a.Outputs()
	f.k.each(a.Len(), chunk, func(s *scratch, e examples) {
		if full, ok := a.Blocks[f.pc.block].(*linearize.Full); ok {
			mul(dense.Cols(e.of(full.J, c), f.pc.at, f.pc.at+f.pc.width()), f.u, 1, dense.Rows(dst, e.lo*c, e.hi*c))
			return
		}
		f.pc.eachPart(a, e, s, func(x blas64.General, part examples) {
			mul(x, f.u, 1, dense.Rows(dst, part.lo*c, part.hi*c))
		})
	})
}

// sumRanges returns the rows×cols sum of what add adds for all n examples, a chunk
// at a time. A few fixed ranges of examples are summed concurrently, and their
// sums are added in order.
func (k *NTK) sumRanges(n, rows, cols int, add func(sum blas64.General, e examples, s *scratch)) blas64.General {
	size := max(chunk, (n+mulRanges-1)/mulRanges)
	sums := make([]blas64.General, par.Tiles(n, size))
	k.runUntil(context.Background(), len(sums), func(s *scratch, i int) {
		lo, hi := par.Bounds(i, n, size)
		sums[i] = dense.Of(make([]float64, rows*cols), rows, cols)
		examples{lo, hi}.split(chunk, func(e examples) { add(sums[i], e, s) })
	})
	total := sums[0].Data
	for _, sum := range sums[1:] {
		floats.Add(total, sum.Data)
	}
	return sums[0]
}

// outerFactors calls do with the factors of the dense layer b, block i, for a range
// of its results at a time.
func (k *NTK) outerFactors(i int, b *linearize.Outer, v blas64.General, do func(f factor)) {
	w, wOK := k.level(b.Weight)
	beta, betaOK := k.level(b.Bias)
	if wOK && betaOK && w == 0 && beta == 0 {
		return
	}
	rows, out := b.G.Dims()
	in := inputs(b)
	perResult := v.Cols * (in + 1)
	size := max(1, min(partFloats/(chunk*v.Cols), k.budget/8/(mulRanges+1)/perResult))
	for lo := 0; lo < out; lo += size {
		f := &outerFactor{k: k, block: i, lo: lo, hi: min(out, lo+size), in: in, right: v.Cols}
		width := f.hi - f.lo
		// J_bᵀ v
		f.u = k.sumRanges(rows/b.C, in+1, v.Cols*width, func(sum blas64.General, e examples, s *scratch) {
			// Compute z_{n,ro} = Σ_c v_{nc,r} g_{nc,o}.
			z := s.general(slotLeft, e.len(), v.Cols*width)
			dense.Zero(z)
			g := dense.Cols(e.of(b.G, b.C), f.lo, f.hi)
			for i := range g.Rows {
				zz, gg := dense.Row(z, i/b.C), dense.Row(g, i)
				for r, x := range dense.Row(v, e.lo*b.C+i) {
					floats.AddScaled(zz[r*width:(r+1)*width], x, gg)
				}
			}
			if in > 0 {
				// Σ_n a_n z_nᵀ
				transMul(e.of(b.A, 1), z, 1, dense.Rows(sum, 0, in))
			}
			for n := range z.Rows {
				floats.Add(dense.Row(sum, in), dense.Row(z, n))
			}
		})
		// Multiply by the prior variances.
		if b.Weight != nil {
			variance := dense.Rows(k.weightVariance(b.Weight, in, out), f.lo, f.hi) // width×in
			for p := range in {
				for i, x := range dense.Row(f.u, p) {
					f.u.Data[p*f.u.Stride+i] = x * variance.Data[i%width*variance.Stride+p]
				}
			}
		}
		last := dense.Row(f.u, in)
		for i := range last {
			if b.Bias == nil {
				last[i] = 0
			} else {
				last[i] *= k.variance[b.Bias.Offset+f.lo+i%width]
			}
		}
		do(f)
	}
}

// inputs is the number of inputs of a dense layer, zero where its weight is no
// parameter.
func inputs(o *linearize.Outer) int {
	if o.Weight == nil {
		return 0
	}
	_, in := o.A.Dims()
	return in
}

// An outerFactor belongs to the results [lo, hi) of a dense layer. u has a row
// for each input and one for the bias, and a column for each column r of v and
// result o, r·(hi−lo)+o.
type outerFactor struct {
	k          *NTK
	block      int
	lo, hi, in int
	right      int // columns of v
	u          blas64.General
}

// addTo implements factor.
func (f *outerFactor) addTo(dst blas64.General, a *linearize.Batch) {
	o, ok := a.Blocks[f.block].(*linearize.Outer)
	if !ok {
		for _, pf := range f.columns(a.Blocks[f.block].Spans()) {
			pf.addTo(dst, a)
		}
		return
	}
	f.k.each(a.Len(), chunk, func(s *scratch, e examples) {
		// Add Σ_o g_{nc,o} (U_r a_n + u_r)_o to dst_{nc,r}.
		width := f.hi - f.lo
		y := s.general(slotLeft, e.len(), f.u.Cols)
		for n := range y.Rows {
			copy(dense.Row(y, n), dense.Row(f.u, f.in))
		}
		if f.in > 0 {
			mul(e.of(o.A, 1), dense.Rows(f.u, 0, f.in), 1, y)
		}
		g := dense.Cols(e.of(o.G, o.C), f.lo, f.hi)
		for i := range g.Rows {
			yy, d := dense.Row(y, i/o.C), dense.Row(dst, e.lo*o.C+i)
			for r := range d {
				d[r] += floats.Dot(dense.Row(g, i), yy[r*width:(r+1)*width])
			}
		}
	})
}

// columns returns f for a batch in which the layer is a block of another kind. The
// block's spans are the layer's weight, unless it has no inputs, and its bias.
func (f *outerFactor) columns(spans []linearize.Span) []*pieceFactor {
	var list []*pieceFactor
	width, at := f.hi-f.lo, 0
	add := func(s linearize.Span, entry func(j int) (o, p int)) {
		u := dense.Of(make([]float64, s.Len()*f.right), s.Len(), f.right)
		for j := range u.Rows {
			if o, p := entry(j); o >= f.lo && o < f.hi {
				for r := range u.Cols {
					u.Data[j*u.Stride+r] = f.u.Data[p*f.u.Stride+r*width+o-f.lo]
				}
			}
		}
		list = append(list, &pieceFactor{k: f.k, pc: piece{block: f.block, at: at, lo: s.Offset, hi: s.Offset + s.Len()}, u: u})
		at += s.Len()
	}
	if f.in > 0 {
		out := spans[0].Len() / f.in
		add(spans[0], func(j int) (o, p int) {
			if spans[0].Transposed {
				return j % out, j / out
			}
			return j / f.in, j % f.in
		})
		spans = spans[1:]
	}
	for _, s := range spans {
		add(s, func(j int) (o, p int) { return j, f.in })
	}
	return list
}
