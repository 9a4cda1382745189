package linearize

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// Embedding is the Jacobian of a table of which each example reads a row at each
// of T positions, as nn.Embedding does: with v_nt the row read at position t and
// g_nct the gradient of output c in what is read there, ∂f_nc/∂(row v) is
// Σ_{t: v_nt = v} g_nct, and zero for rows that are not read.
type Embedding struct {
	Index *mat.Dense // N×T: the rows v_nt, whole numbers from 0 below Table.Rows; −1 where none is read
	G     *mat.Dense // N·C × T·E: the gradients g_nct, position by position
	Table Span       // rows×E
	C     int        // outputs
}

var _ Block = (*Embedding)(nil)

// Spans returns the table's span.
func (b *Embedding) Spans() []Span { return []Span{b.Table} }

// Each calls do for every position of example n at which a row of the table is read,
// with the row.
func (b *Embedding) Each(n int, do func(t, row int)) {
	for t, v := range b.Index.RawRowView(n) {
		if v >= 0 {
			do(t, int(v))
		}
	}
}

// Gradient returns g_nct, length E, of row i = n·C+c of the Jacobian.
func (b *Embedding) Gradient(i, t int) []float64 {
	e := b.Table.Cols
	return b.G.RawRowView(i)[t*e : (t+1)*e]
}

// TileTo implements Block.
func (b *Embedding) TileTo(dst *mat.Dense) {
	for i := range dense.Count(b.G) {
		row := dst.RawRowView(i)
		clear(row)
		b.add(row, i, 1)
	}
}

// JacobianTo implements Block.
func (b *Embedding) JacobianTo(dst *mat.Dense) {
	for i := range dense.Count(b.G) {
		row := dst.RawRowView(i)[b.Table.Offset:][:b.Table.Len()]
		clear(row)
		b.add(row, i, 1)
	}
}

// add adds u times row i of the Jacobian to dst, laid out as the table.
func (b *Embedding) add(dst []float64, i int, u float64) {
	e := b.Table.Cols
	b.Each(i/b.C, func(t, v int) { dense.Axpy(dst[v*e:(v+1)*e], u, b.Gradient(i, t)) })
}

// AddMulVec implements Block: (J v)_nc is the sum over the positions of g_nct
// times the part of v that belongs to the row read there.
func (b *Embedding) AddMulVec(dst, v []float64) {
	e, table := b.Table.Cols, v[b.Table.Offset:][:b.Table.Len()]
	for i := range dense.Count(b.G) {
		b.Each(i/b.C, func(t, row int) { dst[i] += dense.Dot(b.Gradient(i, t), table[row*e:(row+1)*e]) })
	}
}

// AddMulTransVec implements Block.
func (b *Embedding) AddMulTransVec(dst, u []float64) {
	table := dst[b.Table.Offset:][:b.Table.Len()]
	for i := range dense.Count(b.G) {
		b.add(table, i, u[i])
	}
}

// Slice implements Block.
func (b *Embedding) Slice(i, j int) Block {
	s := *b
	s.Index, s.G = dense.Slice(b.Index, i, j), dense.Slice(b.G, i*b.C, j*b.C)
	return &s
}

// Output implements Block.
func (b *Embedding) Output(c int) Block {
	s := *b
	s.G, s.C = dense.Every(b.G, c, b.C), 1
	return &s
}

// An IndexError says that an example reads a row that a table of a network does not have.
// Forward and Linearize of a network.Network return one.
type IndexError struct {
	Row    int     // of the inputs
	Column int     // of the inputs, that holds the index, or −1 where the network computes it
	Index  float64 // the index
	Table  string  // the table's name in the model
	Rows   int     // of the table
}

var _ error = (*IndexError)(nil)

// Error names row, column, index and range.
func (e *IndexError) Error() string {
	place := fmt.Sprintf("input row %d holds %v in column %d", e.Row, e.Index, e.Column)
	if e.Column < 0 {
		place = fmt.Sprintf("input row %d leads to the index %v", e.Row, e.Index)
	}
	return fmt.Sprintf("network: %s, but table %q has the rows 0 to %d (−1 to −%d from its end); correct the data", place, e.Table, e.Rows-1, e.Rows)
}
