package linearize

import (
	"gonum.org/v1/gonum/mat"
)

// A Span says where one parameter tensor is in θ: at positions Offset to Offset+Rows·Cols−1, as a matrix stored row
// by row.
type Span struct {
	Name       string // name of the tensor
	Offset     int
	Rows, Cols int
	Transposed bool // the tensor is a weight stored in×out instead of out×in
}

// Len returns the number of parameters in the span.
func (s Span) Len() int { return s.Rows * s.Cols }

// A Block is the Jacobian of all N·C outputs in some of the parameters, in a form that saves memory. Every
// parameter is in one Block of a Batch. Row n·C+c belongs to output c of example n. A Block is read-only.
type Block interface {
	// Spans returns where the block's parameters are in θ. The block's columns are the parameters of its spans, one
	// span after the other.
	Spans() []Span
	// TileTo writes the block to dst as a dense matrix, N·C×Width, with the block's own columns. It overwrites all
	// of dst.
	TileTo(dst *mat.Dense)
	// JacobianTo writes the block into its columns of dst, N·C×P.
	JacobianTo(dst *mat.Dense)
	// AddMulVec adds J v to dst; v has P numbers, dst N·C.
	AddMulVec(dst, v []float64)
	// AddMulTransVec adds Jᵀ u to dst; u has N·C numbers, dst P.
	AddMulTransVec(dst, u []float64)
	// Slice returns a view of examples i to j−1.
	Slice(i, j int) Block
	// Output returns a view of output c alone, with C = 1.
	Output(c int) Block
}

// Width returns the number of a block's parameters, which are its own columns.
func Width(b Block) int {
	w := 0
	for _, s := range b.Spans() {
		w += s.Len()
	}
	return w
}

// scatterTile writes the block's own columns, with the given number of rows, into its columns of dst.
func scatterTile(dst *mat.Dense, b Block, rows int) {
	tile := mat.NewDense(rows, Width(b), nil)
	b.TileTo(tile)
	for i := range rows {
		src, row := tile.RawRowView(i), dst.RawRowView(i)
		for _, s := range b.Spans() {
			copy(row[s.Offset:s.Offset+s.Len()], src)
			src = src[s.Len():]
		}
	}
}
