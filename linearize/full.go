package linearize

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// Full is the Jacobian in some parameters as a dense matrix: for scales of a normalization, tied weights,
// convolutions with few weights, and parameters without a better structure.
type Full struct {
	J      *mat.Dense // N·C × total length of the spans
	Params []Span     // the columns of J, one span after the other
	C      int        // outputs
}

var _ Block = (*Full)(nil)

// Spans implements Block.
func (f *Full) Spans() []Span { return f.Params }

// TileTo implements Block.
func (f *Full) TileTo(dst *mat.Dense) {
	for i := range dense.Count(f.J) {
		copy(dst.RawRowView(i), f.J.RawRowView(i))
	}
}

// JacobianTo implements Block.
func (f *Full) JacobianTo(dst *mat.Dense) { scatterTile(dst, f, dense.Count(f.J)) }

// AddMulVec implements Block.
func (f *Full) AddMulVec(dst, v []float64) {
	at := 0
	for _, s := range f.Params {
		f.gemv(blas.NoTrans, at, s.Len(), v[s.Offset:s.Offset+s.Len()], dst)
		at += s.Len()
	}
}

// AddMulTransVec implements Block.
func (f *Full) AddMulTransVec(dst, u []float64) {
	at := 0
	for _, s := range f.Params {
		f.gemv(blas.Trans, at, s.Len(), u, dst[s.Offset:s.Offset+s.Len()])
		at += s.Len()
	}
}

// gemv adds op(J[:, at:at+width]) x to y.
func (f *Full) gemv(t blas.Transpose, at, width int, x, y []float64) {
	j := f.J.RawMatrix()
	if j.Rows == 0 {
		return
	}
	cols := blas64.General{Rows: j.Rows, Cols: width, Stride: j.Stride, Data: j.Data[at:]}
	nx, ny := width, j.Rows
	if t == blas.Trans {
		nx, ny = ny, nx
	}
	dense.Gemv(t, 1, cols, blas64.Vector{N: nx, Inc: 1, Data: x}, 1, blas64.Vector{N: ny, Inc: 1, Data: y})
}

// Slice implements Block.
func (f *Full) Slice(i, j int) Block {
	return &Full{J: dense.Slice(f.J, i*f.C, j*f.C), Params: f.Params, C: f.C}
}

// Output implements Block.
func (f *Full) Output(c int) Block {
	return &Full{J: dense.Every(f.J, c, f.C), Params: f.Params, C: 1}
}
