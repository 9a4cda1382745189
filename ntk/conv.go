package ntk

import (
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// contraction is the term of a weight of one variance used at T positions:
// variance · Σ_tt' (g_t·g_t')(p_t·p_t'), summed over its groups.
type contraction struct {
	a, b     *linearize.Conv
	variance float64
}

// contractionRows bounds the rows of the products of factors, unless one
// example has more.
const contractionRows = 256

func (t *contraction) addTile(dst blas64.General, i, j examples, s *scratch) {
	f, ca, cb := factorsOf(t.a), t.a.C, t.b.C
	size := max(1, contractionRows/(f.t*max(ca, cb)))
	for group := range f.groups {
		i.split(size, func(ii examples) {
			pa, ga := gather(t.a, f, ii, group, s, slotPatches, slotGradients)
			j.split(size, func(jj examples) {
				pb, gb := gather(t.b, f, jj, group, s, slotPatches2, slotGradients2)
				inner := s.general(slotInner, pa.Rows, pb.Rows)
				mulTrans(t.variance, pa, pb, 0, inner)
				outer := s.general(slotOuter, ga.Rows, gb.Rows)
				mulTrans(1, ga, gb, 0, outer)
				part := dense.Rows(dst, (ii.lo-i.lo)*ca, (ii.hi-i.lo)*ca)
				// Add Σ_tt' inner_{nt,n't'} outer_{nct,n'c't'} to dst_{nc,n'c'}.
				dst := dense.Cols(part, (jj.lo-j.lo)*cb, (jj.hi-j.lo)*cb)
				t := f.t
				for i := range dst.Rows {
					d := dense.Row(dst, i)
					for at := range t {
						in, out := dense.Row(inner, i/ca*t+at), dense.Row(outer, i*t+at)
						for j := range d {
							n := j / cb * t
							d[j] += floats.Dot(in[n:n+t], out[j*t:(j+1)*t])
						}
					}
				}
			})
		})
	}
}

// gather returns a group's patches and gradients of some examples.
func gather(v *linearize.Conv, f factors, e examples, group int, s *scratch, slotP, slotG int) (p, g blas64.General) {
	patches, gradients := s.dense(slotP, e.len()*f.t, f.k), s.dense(slotG, e.len()*v.C*f.t, f.m)
	v.Slice(e.lo, e.hi).(*linearize.Conv).FactorsTo(patches, gradients, group)
	return patches.RawMatrix(), gradients.RawMatrix()
}

func (t *contraction) addDiag(dst blas64.General, e examples, s *scratch) {
	for n := range e.len() {
		one := examples{e.lo + n, e.lo + n + 1}
		t.addTile(dense.Rows(dst, n*t.a.C, (n+1)*t.a.C), one, one, s)
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
