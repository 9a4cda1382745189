package ntk

import (
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// embeddingTerm is the term of a table of which examples read rows v_t: entry
// (nc, n'c') is Σ_v h_ncvᵀ diag(σ²_v) h_n'c'v, where h_ncv is the sum of the
// gradients g_nct at the positions of example n that read row v.
type embeddingTerm struct {
	a, b     *linearize.Embedding
	level    float64        // the variance, if all parameters have one
	variance blas64.General // the variances, rows×E, if they differ; otherwise without rows
}

var _ term = (*embeddingTerm)(nil)

func (t *embeddingTerm) addTile(dst blas64.General, i, j examples, s *scratch) {
	left, right := readings(t.a, i), readings(t.b, j)
	for len(left) > 0 && len(right) > 0 {
		switch v, w := left[0].row, right[0].row; {
		case v < w:
			_, left = cutRow(left)
		case w < v:
			_, right = cutRow(right)
		default:
			var l, r []reading
			l, left = cutRow(left)
			r, right = cutRow(right)
			// Add the products of the sums x of a and y of b in the same row of the table.
			x := sumRow(t.a, i, l, slotLeft, s)
			y := sumRow(t.b, j, r, slotRight, s)
			level := t.level
			if t.variance.Rows > 0 {
				level = 1
				for i := range x.g.Rows {
					floats.Mul(dense.Row(x.g, i), dense.Row(t.variance, x.row))
				}
			}
			products := s.general(slotOuter, x.g.Rows, y.g.Rows)
			mulTrans(level, x.g, y.g, 0, products)
			ca, cb := t.a.C, t.b.C
			for i := range products.Rows {
				d, p := dense.Row(dst, int(x.examples[i/ca])*ca+i%ca), dense.Row(products, i)
				for m, n := range y.examples {
					floats.Add(d[int(n)*cb:(int(n)+1)*cb], p[m*cb:(m+1)*cb])
				}
			}
		}
	}
}

func (t *embeddingTerm) addDiag(dst blas64.General, e examples, s *scratch) {
	for n := range e.len() {
		one := examples{e.lo + n, e.lo + n + 1}
		t.addTile(dense.Rows(dst, n*t.a.C, (n+1)*t.a.C), one, one, s)
	}
}

// A reading says that an example reads a row of a table at a position. The
// example is counted from the first of a tile.
type reading struct{ row, example, position int32 }

// readings returns what the examples e read, sorted by row, then by example and
// position.
func readings(b *linearize.Embedding, e examples) []reading {
	var list []reading
	for n := range e.len() {
		b.Each(e.lo+n, func(t, row int) { list = append(list, reading{int32(row), int32(n), int32(t)}) })
	}
	// The sort is stable: examples and positions stay in order.
	slices.SortStableFunc(list, func(a, b reading) int { return int(a.row) - int(b.row) })
	return list
}

// cutRow returns the readings of the first row, and the others.
func cutRow(list []reading) (first, rest []reading) {
	n := 1
	for n < len(list) && list[n].row == list[0].row {
		n++
	}
	return list[:n], list[n:]
}

// rowSums holds the gradients of some examples in one row of a table: C rows of
// g for each of the examples.
type rowSums struct {
	row      int
	examples []int32
	g        blas64.General // len(examples)·C × E
}

// sumRow adds up the gradients of each example in the row of the list.
func sumRow(b *linearize.Embedding, e examples, list []reading, slot int, s *scratch) rowSums {
	sums := rowSums{row: int(list[0].row)}
	for k, r := range list {
		if k == 0 || r.example != list[k-1].example {
			sums.examples = append(sums.examples, r.example)
		}
	}
	sums.g = s.general(slot, len(sums.examples)*b.C, b.Table.Cols)
	at := -1
	for k, r := range list {
		first := k == 0 || r.example != list[k-1].example
		if first {
			at++
		}
		for c := range b.C {
			g, sum := b.Gradient((e.lo+int(r.example))*b.C+c, int(r.position)), dense.Row(sums.g, at*b.C+c)
			if first {
				copy(sum, g)
			} else {
				floats.Add(sum, g)
			}
		}
	}
	return sums
}

// embedding plans the table of block i.
func (p *plan) embedding(i int, a, b *linearize.Embedding) {
	level, one := p.k.level(&a.Table)
	if one && level == 0 {
		return
	}
	// The cost of the products of gradients in the same row of a table. As many rows are taken to be
	// common to two examples as if each read random ones.
	x := p.extent
	_, positions := a.Index.Dims()
	e, read := float64(a.Table.Cols), float64(min(positions, a.Table.Rows))
	cost := read*read/float64(a.Table.Rows)*(e+hadamardCost)*x.entries() + fillCost*float64(positions)*e*x.rows()
	if cost > columnsCost(a.Table.Len(), p.extent) {
		p.columns(i, 0, a.Table)
		return
	}
	t := &embeddingTerm{a: a, b: b, level: level}
	if !one {
		t.variance = p.k.tableVariance(&a.Table)
	}
	p.add(t, cost)
}

// A lookupTerm is the term of a table whose Jacobian is formed on one side, as that of a sum
// over examples is: entry (nc, m) is Σ_t g_nctᵀ diag(σ²_v) j_mv, where v is the row that
// example n reads at position t and j_mv the part of row m of the formed Jacobian that
// belongs to it.
type lookupTerm struct {
	table    *linearize.Embedding
	formed   *linearize.Full
	variance blas64.General // rows×E
	swapped  bool           // a has the formed Jacobian, and b the table
}

var _ term = (*lookupTerm)(nil)

func (t *lookupTerm) addTile(dst blas64.General, i, j examples, s *scratch) {
	if t.swapped {
		i, j = j, i
	}
	e, c := t.table.Table.Cols, t.table.C
	formed, scaled := j.of(t.formed.J, t.formed.C), s.general(slotLeft, 1, e)
	for n := range i.len() * c {
		from := i.lo*c + n
		t.table.Each(from/c, func(at, row int) {
			g := dense.Row(scaled, 0)
			floats.MulTo(g, t.table.Gradient(from, at), dense.Row(t.variance, row))
			for m := range formed.Rows {
				product := dense.Dot(g, dense.Row(formed, m)[row*e:(row+1)*e])
				if t.swapped {
					dst.Data[m*dst.Stride+n] += product
				} else {
					dst.Data[n*dst.Stride+m] += product
				}
			}
		})
	}
}

func (t *lookupTerm) addDiag(blas64.General, examples, *scratch) {
	panic("ntk: blocks of two kinds have no diagonal")
}

// lookup plans a table whose Jacobian is formed on one side, and reports whether that is
// cheaper than columns.
func (p *plan) lookup(table *linearize.Embedding, formed *linearize.Full, swapped bool) bool {
	_, positions := table.Index.Dims()
	cost := float64(positions*table.Table.Cols) * dotCost * p.extent.entries()
	if len(formed.Params) != 1 || cost > columnsCost(table.Table.Len(), p.extent) {
		return false
	}
	if level, one := p.k.level(&table.Table); !one || level > 0 {
		p.add(&lookupTerm{table, formed, p.k.tableVariance(&table.Table), swapped}, cost)
	}
	return true
}

// tableVariance returns the variances of a table, rows×E.
func (k *NTK) tableVariance(s *linearize.Span) blas64.General {
	return dense.Of(k.variance[s.Offset:s.Offset+s.Len()], s.Rows, s.Cols)
}

// embeddingFactors calls do with the factors of block i, a table, for a range of its
// rows at a time.
func (k *NTK) embeddingFactors(i int, b *linearize.Embedding, v blas64.General, do func(f factor)) {
	if level, one := k.level(&b.Table); one && level == 0 {
		return
	}
	size := max(1, k.budget/8/(mulRanges+1)/(v.Cols*b.Table.Cols))
	for lo := 0; lo < b.Table.Rows; lo += size {
		f := &embeddingFactor{k: k, block: i, lo: lo, hi: min(b.Table.Rows, lo+size), e: b.Table.Cols, right: v.Cols}
		// J_bᵀ v
		f.u = k.sumRanges(v.Rows/b.C, f.hi-f.lo, f.right*f.e, func(sum blas64.General, e examples, _ *scratch) {
			for i := e.lo * b.C; i < e.hi*b.C; i++ {
				weights := dense.Row(v, i)
				f.each(b, i, func(g, u []float64) {
					for r, w := range weights {
						dense.Axpy(u[r*f.e:(r+1)*f.e], w, g)
					}
				}, sum)
			}
		})
		// Multiply by the prior variances.
		variance := k.tableVariance(&b.Table)
		for row := range f.u.Rows {
			for r := range f.right {
				floats.Mul(dense.Row(f.u, row)[r*f.e:(r+1)*f.e], dense.Row(variance, f.lo+row))
			}
		}
		do(f)
	}
}

// An embeddingFactor belongs to rows [lo, hi) of a table. u has a row for each of
// them, and E columns for each column of v, one column of v after the other.
type embeddingFactor struct {
	k      *NTK
	block  int
	lo, hi int
	e      int // columns of the table
	right  int // columns of v
	u      blas64.General
}

// each calls do for the positions of row i of b's Jacobian that read one of the
// factor's rows, with the gradient there and the row of u.
func (f *embeddingFactor) each(b *linearize.Embedding, i int, do func(g, u []float64), u blas64.General) {
	b.Each(i/b.C, func(t, row int) {
		if row >= f.lo && row < f.hi {
			do(b.Gradient(i, t), dense.Row(u, row-f.lo))
		}
	})
}

// addTo implements factor.
func (f *embeddingFactor) addTo(dst blas64.General, a *linearize.Batch) {
	b, ok := a.Blocks[f.block].(*linearize.Embedding)
	if !ok {
		f.columns(&a.Blocks[f.block].Spans()[0]).addTo(dst, a)
		return
	}
	f.k.each(a.Len(), chunk, func(_ *scratch, e examples) {
		for i := e.lo * b.C; i < e.hi*b.C; i++ {
			d := dense.Row(dst, i)
			f.each(b, i, func(g, u []float64) {
				for r := range d {
					d[r] += dense.Dot(g, u[r*f.e:(r+1)*f.e])
				}
			}, f.u)
		}
	})
}

// columns returns f for a batch in which the table's block is of another kind.
func (f *embeddingFactor) columns(table *linearize.Span) *pieceFactor {
	at := f.lo * f.e
	u := dense.New((f.hi-f.lo)*f.e, f.right)
	for j := range u.Rows {
		for r := range f.right {
			u.Data[j*u.Stride+r] = f.u.Data[j/f.e*f.u.Stride+r*f.e+j%f.e]
		}
	}
	return &pieceFactor{k: f.k, pc: piece{block: f.block, at: at, lo: table.Offset + at, hi: table.Offset + f.hi*f.e}, u: u}
}
