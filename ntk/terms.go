package ntk

import (
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/vector"
	"github.com/funcgp/funcgp/linearize"
)

// A term is one addend of κ(a, b) that is formed entry by entry from products
// of a block's factors, a tile of examples at a time.
type term interface {
	// addTile adds the term for a's examples i and b's examples j to dst.
	addTile(dst blas64.General, i, j examples, s *scratch)
	// addDiag adds the C×C blocks κ(x_n, x_n) of the examples e to dst, one below
	// the other, at least on and above their diagonals. It is called where a is b.
	addDiag(dst blas64.General, e examples, s *scratch)
}

var (
	_ term = (*outerTerm)(nil)
	_ term = (*perOutput)(nil)
	_ term = (*contraction)(nil)
)

// outerTerm is the term of a dense layer whose weight has one variance w and whose
// bias has one variance β: ((A Aᵀ·w + β) ⊗ 1_{C×C}) ∘ G Gᵀ.
type outerTerm struct {
	a, b    *linearize.Outer
	w, beta float64
}

func (t *outerTerm) addTile(dst blas64.General, i, j examples, s *scratch) {
	inner := s.general(slotInner, i.len(), j.len())
	for n := range inner.Data {
		inner.Data[n] = t.beta
	}
	// A Aᵀ·w + β
	mulTrans(t.w, i.of(t.a.A, 1), j.of(t.b.A, 1), 1, inner)
	if c := t.a.C; c >= wide && c == t.b.C && diagonals(i.of(t.a.G, c), c) && diagonals(j.of(t.b.G, c), c) {
		// Add (inner ⊗ 1_{C×C}) ∘ a bᵀ to dst, where a and b consist of diagonal blocks.
		a := i.of(t.a.G, c)
		b := j.of(t.b.G, c)
		c := a.Cols
		for i := range dst.Rows {
			o, d := i%c, dense.Row(dst, i)
			for j, v := range dense.Row(inner, i/c) {
				at := j*c + o
				d[at] += v * (a.Data[i*a.Stride+o] * b.Data[at*b.Stride+o])
			}
		}
		return
	}
	outer := s.general(slotOuter, dst.Rows, dst.Cols)
	mulTrans(1, i.of(t.a.G, t.a.C), j.of(t.b.G, t.b.C), 0, outer)
	// Add (inner ⊗ 1_{ca×cb}) ∘ outer to dst.
	ca := t.a.C
	cb := t.b.C
	for i := range dst.Rows {
		d, in, out := dense.Row(dst, i), dense.Row(inner, i/ca), dense.Row(outer, i)
		if cb == 1 {
			in, out = in[:len(d)], out[:len(d)]
			for j, v := range in {
				d[j] += v * out[j]
			}
			continue
		}
		for _, v := range in {
			dd, oo := d[:cb], out[:cb]
			for c, g := range oo {
				dd[c] += v * g
			}
			d, out = d[cb:], out[cb:]
		}
	}
}

// wide is the number of outputs C from which the C² products of an example's
// gradients are computed by a matrix product, or from the diagonals alone where
// the gradients are diagonal matrices.
const wide = 32

// diagonals tells whether each block of c rows of g is a diagonal matrix, as
// the gradients of a network's last layer are.
func diagonals(g blas64.General, c int) bool {
	if g.Cols != c {
		return false
	}
	for i := range g.Rows {
		for o, v := range dense.Row(g, i) {
			if v != 0 && o != i%c {
				return false
			}
		}
	}
	return true
}

func (t *outerTerm) addDiag(dst blas64.General, e examples, s *scratch) {
	a, g := e.of(t.a.A, 1), e.of(t.a.G, t.a.C)
	level := s.floats(slotLeft, g.Cols)
	for n := range e.len() {
		// w‖a‖² + β
		v := t.w*floats.Dot(dense.Row(a, n), dense.Row(a, n)) + t.beta
		for o := range level {
			level[o] = v
		}
		addWeighted(dense.Rows(dst, n*t.a.C, (n+1)*t.a.C), dense.Rows(g, n*t.a.C, (n+1)*t.a.C), level, s)
	}
}

// addWeighted adds g diag(level) gᵀ to dst, on and above the diagonal or everywhere.
func addWeighted(dst, g blas64.General, level []float64, s *scratch) {
	switch {
	case g.Rows < wide:
	case diagonals(g, g.Rows):
		for c, v := range level {
			w := g.Data[c*g.Stride+c]
			dst.Data[c*dst.Stride+c] += v * w * w
		}
		return
	default:
		weighted := s.general(slotOuter, g.Rows, g.Cols)
		for c := range g.Rows {
			floats.MulTo(dense.Row(weighted, c), level, dense.Row(g, c))
		}
		mulTrans(1, weighted, g, 1, dst)
		return
	}
	weighted := s.floats(slotOuter, g.Cols)
	for c := range g.Rows {
		floats.MulTo(weighted, level, dense.Row(g, c))
		for d := c; d < g.Rows; d++ {
			dst.Data[c*dst.Stride+d] += vector.Dot(weighted, dense.Row(g, d))
		}
	}
}

// perOutput is the term of a dense layer's weight whose variances differ. It forms
// Σ_p σ²_op a_p a'_p for each result o of the layer. Entry (nc, n'c') is their sum
// over o, weighted with g_nco g_n'c'o.
type perOutput struct {
	a, b     *linearize.Outer
	variance blas64.General // out×in
}

// pairRows bounds the pairs of examples taken at a time, unless one example
// of a has more.
const pairRows = 192

func (t *perOutput) addTile(dst blas64.General, i, j examples, s *scratch) {
	most := max(1, partFloats/t.variance.Cols)
	j.split(most, func(jj examples) {
		i.split(max(1, min(pairRows, most)/jj.len()), func(ii examples) {
			// Compute Σ_p σ²_op a_p a'_p for each pair of examples and each o.
			a, b := ii.of(t.a.A, 1), jj.of(t.b.A, 1)
			products := s.general(slotLeft, ii.len()*jj.len(), t.variance.Cols)
			for n := range products.Rows {
				floats.MulTo(dense.Row(products, n), dense.Row(a, n/jj.len()), dense.Row(b, n%jj.len()))
			}
			inner := s.general(slotInner, products.Rows, t.variance.Rows)
			mulTrans(1, products, t.variance, 0, inner)
			for n := range ii.len() {
				at := ii.lo - i.lo + n
				part := dense.Cols(dense.Rows(dst, at*t.a.C, (at+1)*t.a.C), (jj.lo-j.lo)*t.b.C, (jj.hi-j.lo)*t.b.C)
				// Add Σ_o inner_jo g_nco g_jc'o to dst_{c,jc'} for an example n of a and all j.
				inner := dense.Rows(inner, n*jj.len(), (n+1)*jj.len())
				n := ii.lo + n
				if t.a.C >= wide {
					t.addWidePairs(part, inner, examples{n, n + 1}.of(t.a.G, t.a.C), jj, s)
					continue
				}
				weighted := s.floats(slotOuter, inner.Cols)
				gb := jj.of(t.b.G, t.b.C)
				for c := range t.a.C {
					d, g := dense.Row(part, c), t.a.G.RawRowView(n*t.a.C+c)
					for m := range inner.Rows {
						floats.MulTo(weighted, dense.Row(inner, m), g)
						for at := m * t.b.C; at < (m+1)*t.b.C; at++ {
							d[at] += vector.Dot(weighted, dense.Row(gb, at))
						}
					}
				}
			}
		})
	})
}

// addWidePairs adds the pairs of one example of a with the examples j for many outputs; g holds the gradients of the
// example of a.
func (t *perOutput) addWidePairs(dst, inner, g blas64.General, j examples, s *scratch) {
	gb := j.of(t.b.G, t.b.C)
	if t.b.C == t.a.C && diagonals(g, t.a.C) && diagonals(gb, t.b.C) {
		for m := range inner.Rows {
			for o, v := range dense.Row(inner, m) {
				dst.Data[o*dst.Stride+m*t.b.C+o] += v * g.Data[o*g.Stride+o] * gb.Data[(m*t.b.C+o)*gb.Stride+o]
			}
		}
		return
	}
	weighted := s.general(slotOuter, g.Rows, g.Cols)
	for m := range inner.Rows {
		for c := range g.Rows {
			floats.MulTo(dense.Row(weighted, c), dense.Row(inner, m), dense.Row(g, c))
		}
		mulTrans(1, weighted, dense.Rows(gb, m*t.b.C, (m+1)*t.b.C), 1, dense.Cols(dst, m*t.b.C, (m+1)*t.b.C))
	}
}

func (t *perOutput) addDiag(dst blas64.General, e examples, s *scratch) {
	a, g := e.of(t.a.A, 1), e.of(t.a.G, t.a.C)
	square := s.general(slotLeft, a.Rows, a.Cols)
	for n := range a.Rows {
		floats.MulTo(dense.Row(square, n), dense.Row(a, n), dense.Row(a, n))
	}
	// a_nᵀ Σ_o a_n, N×out
	level := s.general(slotRight, a.Rows, g.Cols)
	mulTrans(1, square, t.variance, 0, level)
	for n := range e.len() {
		addWeighted(dense.Rows(dst, n*t.a.C, (n+1)*t.a.C), dense.Rows(g, n*t.a.C, (n+1)*t.a.C), dense.Row(level, n), s)
	}
}
