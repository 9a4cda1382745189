package linearize

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// Embedding is the Jacobian of a table such as nn.Embedding, from which each example reads one row at each of T
// positions. v_nt is the row that example n reads at position t, and g_nct is the gradient of output c in what is
// read there. Then ∂f_nc/∂(row v) = Σ_{t: v_nt = v} g_nct, which is zero for a row that is not read.
type Embedding struct {
	Index *mat.Dense // N×T: rows v_nt, integers from 0 to Table.Rows−1, or −1 where no row is read
	G     *mat.Dense // N·C × T·E: the gradients g_nct, position by position
	Table Span       // rows×E
	C     int        // outputs
}

var _ Block = (*Embedding)(nil)

// Spans returns the span of the table.
func (b *Embedding) Spans() []Span { return []Span{b.Table} }

// Each calls do for every position t of example n where a row of the table is read, with that row.
func (b *Embedding) Each(n int, do func(t, row int)) {
	for t, v := range b.Index.RawRowView(n) {
		if v >= 0 {
			do(t, int(v))
		}
	}
}

// Gradient returns g_nct, E numbers, for row i = n·C+c of the Jacobian.
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

// add adds u times row i of the Jacobian to dst, which has the layout of the table.
func (b *Embedding) add(dst []float64, i int, u float64) {
	e := b.Table.Cols
	b.Each(i/b.C, func(t, v int) { dense.Axpy(dst[v*e:(v+1)*e], u, b.Gradient(i, t)) })
}

// AddMulVec implements Block: (J v)_nc = Σ_t g_ncᵀ v_row, with v_row the part of v for the row read at position t.
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

// An IndexError reports an example that reads a row outside a table of the network. Forward and Linearize of a
// network.Network return it.
type IndexError struct {
	Row    int     // row of the inputs
	Column int     // column of the inputs with the index, or −1 where the network computes the index
	Index  float64 // the index
	Table  string  // name of the table in the model
	Rows   int     // rows of the table
	// FromStart says that no index is below 0. Otherwise −1 is the last row.
	FromStart bool
}

var _ error = (*IndexError)(nil)

// Error names the row, the column, the index and the valid range.
func (e *IndexError) Error() string {
	place := fmt.Sprintf("input row %d holds %v in column %d", e.Row, e.Index, e.Column)
	if e.Column < 0 {
		place = fmt.Sprintf("input row %d leads to the index %v", e.Row, e.Index)
	}
	fromEnd := ""
	if !e.FromStart {
		fromEnd = fmt.Sprintf(" (−1 to −%d from its end)", e.Rows)
	}
	return fmt.Sprintf("network: %s, but table %q has the rows 0 to %d%s; correct the data", place, e.Table, e.Rows-1, fromEnd)
}
