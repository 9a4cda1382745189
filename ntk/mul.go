package ntk

import (
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

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
	zero(out)
	if p := k.newPlan(a, b, x); p.cost+x.entries()*float64(cols) < k.factorsCost(a, x, cols) {
		p.mul(out, right)
		return
	}
	for lo := 0; lo < cols; lo += mulCols {
		hi := min(cols, lo+mulCols)
		k.mulFactors(columnsOf(out, lo, hi), a, b, columnsOf(right, lo, hi))
	}
}

const (
	mulCols   = 64 // columns of v taken at a time
	mulRanges = 8  // ranges of examples whose sums are taken side by side
)

// factorsCost is that of J_a Σ₀ J_bᵀ v for v with that many columns.
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
		}
		cost += width * (float64(cols) + fillCost) * x.rows()
	}
	return cost
}

// mul adds κ(a, b) v to dst, a row of tiles a worker.
func (p *plan) mul(dst, v blas64.General) {
	x := p.extent
	ca, cb := x.ca, x.cb
	p.eachPass(func(ps *pass) {
		p.k.each(ps.i.len(), tileExamples(x.na, ca), func(s *scratch, part examples) {
			i := examples{ps.i.lo + part.lo, ps.i.lo + part.hi}
			ps.j.split(tileExamples(x.nb, cb), func(j examples) {
				tile := s.general(slotTile, i.len()*ca, j.len()*cb)
				zero(tile)
				ps.add(tile, i, j, s)
				if p.a == p.b && i == j {
					mirror(tile, 0, tile.Rows, 0, tile.Cols)
				}
				mul(tile, rowsOf(v, j.lo*cb, j.hi*cb), 1, rowsOf(dst, i.lo*ca, i.hi*ca))
			})
		})
	})
}

// mulFactors adds J_a Σ₀ J_bᵀ v to dst, block by block.
func (k *NTK) mulFactors(dst blas64.General, a, b *linearize.Batch, v blas64.General) {
	p := &plan{k: k, a: a, b: b, extent: extentOf(a, b)}
	for i := range a.Blocks {
		x, okX := a.Blocks[i].(*linearize.Outer)
		y, okY := b.Blocks[i].(*linearize.Outer)
		if okX && okY {
			k.mulOuter(dst, x, y, v)
			continue
		}
		p.columns(i, 0, a.Blocks[i].Spans()...)
	}
	for _, all := range p.pieces {
		all.eachCut(p.mulWidth(v.Cols), func(pc piece) { p.mulPiece(dst, pc, v) })
	}
}

// mulWidth is how many columns of the Jacobian are taken at a time: those of
// one example fit a worker, and the sums over ranges the budget.
func (p *plan) mulWidth(cols int) int {
	c := max(p.extent.ca, p.extent.cb)
	return max(1, min(partFloats/c, p.k.budget/8/(mulRanges+1)/cols))
}

// mulPiece adds X_a Σ₀ X_bᵀ v for the columns X of a piece.
func (p *plan) mulPiece(dst blas64.General, pc piece, v blas64.General) {
	width, ca, cb := pc.width(), p.extent.ca, p.extent.cb
	// X_bᵀ v
	u := p.k.sumRanges(p.extent.nb, width, v.Cols, func(sum blas64.General, e examples, s *scratch) {
		pc.eachPart(p.b, e, s, func(x blas64.General, part examples) {
			transMul(x, rowsOf(v, part.lo*cb, part.hi*cb), 1, sum)
		})
	})
	for i := range width {
		floats.Scale(p.k.variance[pc.lo+i], row(u, i))
	}
	p.k.each(p.extent.na, chunk, func(s *scratch, e examples) {
		pc.eachPart(p.a, e, s, func(x blas64.General, part examples) {
			mul(x, u, 1, rowsOf(dst, part.lo*ca, part.hi*ca))
		})
	})
}

// sumRanges returns the rows×cols sum of what add adds for all n examples, in
// chunks. A few fixed ranges of examples are summed side by side and their
// sums in order.
func (k *NTK) sumRanges(n, rows, cols int, add func(sum blas64.General, e examples, s *scratch)) blas64.General {
	size := max(chunk, (n+mulRanges-1)/mulRanges)
	sums := make([]blas64.General, par.Tiles(n, size))
	k.run(len(sums), func(s *scratch, i int) {
		lo, hi := par.Bounds(i, n, size)
		sums[i] = general(make([]float64, rows*cols), rows, cols)
		examples{lo, hi}.split(chunk, func(e examples) { add(sums[i], e, s) })
	})
	total := sums[0].Data
	for _, sum := range sums[1:] {
		floats.Add(total, sum.Data)
	}
	return sums[0]
}

// mulOuter adds the part of a dense layer, a range of its results at a time.
func (k *NTK) mulOuter(dst blas64.General, a, b *linearize.Outer, v blas64.General) {
	w, wOK := k.level(a.Weight)
	beta, betaOK := k.level(a.Bias)
	if wOK && betaOK && w == 0 && beta == 0 {
		return
	}
	_, out := a.G.Dims()
	in := 0
	if a.Weight != nil {
		_, in = a.A.Dims()
	}
	perResult := v.Cols * (in + 1)
	size := max(1, min(partFloats/(chunk*v.Cols), k.budget/8/(mulRanges+1)/perResult))
	for lo := 0; lo < out; lo += size {
		m := outerMul{a: a, b: b, lo: lo, hi: min(out, lo+size), in: in, right: v.Cols}
		m.variance(k)
		m.add(k, dst, v)
	}
}

// outerMul multiplies by the part of a dense layer that belongs to its
// results [lo, hi).
type outerMul struct {
	a, b       *linearize.Outer
	lo, hi, in int
	right      int            // columns of v
	weight     blas64.General // variances, (hi-lo)×in
	bias       []float64      // variances
}

func (m *outerMul) variance(k *NTK) {
	_, out := m.a.G.Dims()
	if m.a.Weight != nil {
		m.weight = rowsOf(k.weightVariance(m.a.Weight, m.in, out), m.lo, m.hi)
	}
	if s := m.a.Bias; s != nil {
		m.bias = k.variance[s.Offset+m.lo : s.Offset+m.hi]
	}
}

// add adds to dst. The sums have a row for each column r of v and result o,
// r·(hi−lo)+o, and a column for each input and one for the bias.
func (m *outerMul) add(k *NTK, dst, v blas64.General) {
	rows, _ := m.b.G.Dims()
	u := k.sumRanges(rows/m.b.C, m.right*(m.hi-m.lo), m.in+1, func(sum blas64.General, e examples, s *scratch) {
		z := m.combine(v, e, s)
		if m.in > 0 {
			// Σ_n z_n a_nᵀ
			transMul(z, e.of(m.b.A, 1), 1, columnsOf(sum, 0, m.in))
		}
		for i := range z.Cols {
			for n := range z.Rows {
				sum.Data[i*sum.Stride+m.in] += z.Data[n*z.Stride+i]
			}
		}
	})
	m.scale(u)
	rows, _ = m.a.G.Dims()
	k.each(rows/m.a.C, chunk, func(s *scratch, e examples) { m.project(dst, u, e, s) })
}

// combine returns z_{n,ro} = Σ_c v_{nc,r} g_{nc,o}.
func (m *outerMul) combine(v blas64.General, e examples, s *scratch) blas64.General {
	width := m.hi - m.lo
	z := s.general(slotLeft, e.len(), m.right*width)
	zero(z)
	g := columnsOf(e.of(m.b.G, m.b.C), m.lo, m.hi)
	for i := range g.Rows {
		zz, gg := row(z, i/m.b.C), row(g, i)
		for r, x := range row(v, e.lo*m.b.C+i) {
			floats.AddScaled(zz[r*width:(r+1)*width], x, gg)
		}
	}
	return z
}

// scale multiplies the sums by the prior variances.
func (m *outerMul) scale(u blas64.General) {
	width := m.hi - m.lo
	for i := range u.Rows {
		x := row(u, i)
		for p := range m.in {
			x[p] *= m.weight.Data[i%width*m.weight.Stride+p]
		}
		if m.bias == nil {
			x[m.in] = 0
		} else {
			x[m.in] *= m.bias[i%width]
		}
	}
}

// project adds Σ_o g_{nc,o} (U_r a_n + u_r)_o to dst_{nc,r}.
func (m *outerMul) project(dst, u blas64.General, e examples, s *scratch) {
	width := m.hi - m.lo
	y := s.general(slotLeft, e.len(), u.Rows)
	for n := range y.Rows {
		for i := range u.Rows {
			y.Data[n*y.Stride+i] = u.Data[i*u.Stride+m.in]
		}
	}
	if m.in > 0 {
		mulTrans(1, e.of(m.a.A, 1), columnsOf(u, 0, m.in), 1, y)
	}
	g := columnsOf(e.of(m.a.G, m.a.C), m.lo, m.hi)
	for i := range g.Rows {
		yy, d := row(y, i/m.a.C), row(dst, e.lo*m.a.C+i)
		for r := range d {
			d[r] += floats.Dot(row(g, i), yy[r*width:(r+1)*width])
		}
	}
}
