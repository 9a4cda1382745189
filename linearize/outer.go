package linearize

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// Outer is the Jacobian of a dense layer z = W a + β that is applied once to each example: ∂f_nc/∂W = g_nc a_nᵀ and
// ∂f_nc/∂β = g_nc, with g_nc = ∂f_nc/∂z_n.
type Outer struct {
	A      *mat.Dense // N×in: the layer's inputs a_n; nil if Weight is nil
	G      *mat.Dense // N·C×out: the gradients g_nc
	Weight *Span      // out×in, or in×out if Transposed; nil if the weight is not a parameter
	Bias   *Span      // out numbers; nil if there is no bias or it is not a parameter
	C      int        // outputs
}

var _ Block = (*Outer)(nil)

// Spans returns the span of the weight, then that of the bias.
func (o *Outer) Spans() []Span { return spansOf(o.Weight, o.Bias) }

// spansOf returns the spans in ptrs that are not nil.
func spansOf(ptrs ...*Span) []Span {
	var s []Span
	for _, p := range ptrs {
		if p != nil {
			s = append(s, *p)
		}
	}
	return s
}

// TileTo implements Block.
func (o *Outer) TileTo(dst *mat.Dense) {
	rows, out := o.G.Dims()
	for i := range rows {
		g, row := o.G.RawRowView(i), dst.RawRowView(i)
		if o.Weight != nil {
			outerRow(row[:o.Weight.Len()], g, o.A.RawRowView(i/o.C), o.Weight.Transposed)
			row = row[o.Weight.Len():]
		}
		if o.Bias != nil {
			copy(row[:out], g)
		}
	}
}

// outerRow writes g aᵀ, or a gᵀ if transposed, row by row.
func outerRow(dst, g, a []float64, transposed bool) {
	if transposed {
		g, a = a, g
	}
	for i, gv := range g {
		row := dst[i*len(a) : (i+1)*len(a)]
		for j, av := range a {
			row[j] = gv * av
		}
	}
}

// JacobianTo implements Block.
func (o *Outer) JacobianTo(dst *mat.Dense) { scatterTile(dst, o, dense.Count(o.G)) }

// AddMulVec implements Block: (J v)_nc = g_ncᵀ (V a_n + v_β).
func (o *Outer) AddMulVec(dst, v []float64) {
	rows, out := o.G.Dims()
	if rows == 0 {
		return
	}
	z := mat.NewDense(rows/o.C, out, nil)
	if o.Weight != nil {
		dense.Gemm(blas.NoTrans, transIf(!o.Weight.Transposed), 1, o.A.RawMatrix(), o.Weight.of(v), 0, z.RawMatrix())
	}
	for i := range rows / o.C {
		if o.Bias != nil {
			dense.Axpy(z.RawRowView(i), 1, v[o.Bias.Offset:o.Bias.Offset+out])
		}
	}
	for i := range rows {
		dst[i] += dense.Dot(o.G.RawRowView(i), z.RawRowView(i/o.C))
	}
}

// AddMulTransVec implements Block: with z_n = Σ_c u_nc g_nc it adds Σ_n z_n a_nᵀ for the weight and Σ_n z_n for the
// bias.
func (o *Outer) AddMulTransVec(dst, u []float64) {
	rows, out := o.G.Dims()
	if rows == 0 {
		return
	}
	z := mat.NewDense(rows/o.C, out, nil)
	for i := range rows {
		dense.Axpy(z.RawRowView(i/o.C), u[i], o.G.RawRowView(i))
	}
	if w := o.Weight; w != nil {
		l, r := z, o.A
		if w.Transposed {
			l, r = o.A, z
		}
		dense.Gemm(blas.Trans, blas.NoTrans, 1, l.RawMatrix(), r.RawMatrix(), 1, w.of(dst))
	}
	if b := o.Bias; b != nil {
		for i := range dense.Count(z) {
			dense.Axpy(dst[b.Offset:b.Offset+b.Len()], 1, z.RawRowView(i))
		}
	}
}

// of returns the part of v, P numbers, that belongs to the span, as its stored matrix.
func (s *Span) of(v []float64) blas64.General {
	return blas64.General{Rows: s.Rows, Cols: s.Cols, Stride: max(1, s.Cols), Data: v[s.Offset : s.Offset+s.Len()]}
}

func transIf(t bool) blas.Transpose {
	if t {
		return blas.Trans
	}
	return blas.NoTrans
}

// Slice implements Block.
func (o *Outer) Slice(i, j int) Block {
	s := *o
	s.A, s.G = dense.Slice(o.A, i, j), dense.Slice(o.G, i*o.C, j*o.C)
	return &s
}

// Output implements Block.
func (o *Outer) Output(c int) Block {
	s := *o
	s.G, s.C = dense.Every(o.G, c, o.C), 1
	return &s
}
