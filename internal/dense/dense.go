package dense

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/vector"
)

// New returns a rows×cols matrix of zeros.
func New(rows, cols int) blas64.General { return Of(make([]float64, rows*cols), rows, cols) }

// Of returns data as a rows×cols matrix without gaps.
func Of(data []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(1, cols), Data: data}
}

// In returns a rows×cols matrix in the memory of data, or in new memory where data is too short.
func In(data []float64, rows, cols int) blas64.General {
	if len(data) < rows*cols {
		return New(rows, cols)
	}
	return Of(data[:rows*cols], rows, cols)
}

// Rows returns a view of rows lo to hi−1 of g.
func Rows(g blas64.General, lo, hi int) blas64.General {
	if g.Rows = hi - lo; g.Rows == 0 {
		g.Data = nil
		return g
	}
	g.Data = g.Data[lo*g.Stride : (hi-1)*g.Stride+g.Cols]
	return g
}

// Cols returns a view of columns lo to hi−1 of g.
func Cols(g blas64.General, lo, hi int) blas64.General {
	if g.Cols = hi - lo; g.Rows == 0 || g.Cols == 0 {
		g.Data = nil
		return g
	}
	g.Data = g.Data[lo : (g.Rows-1)*g.Stride+hi]
	return g
}

// Row returns row i of g.
func Row(g blas64.General, i int) []float64 { return g.Data[i*g.Stride : i*g.Stride+g.Cols] }

// View returns g as a *mat.Dense in the same memory. Without rows the result is empty.
func View(g blas64.General) *mat.Dense {
	if g.Rows == 0 {
		return new(mat.Dense)
	}
	g.Data = g.Data[:(g.Rows-1)*g.Stride+g.Cols]
	var m mat.Dense
	m.SetRawMatrix(g)
	return &m
}

// Vector returns v as a vector in the same memory.
func Vector(v []float64) blas64.Vector { return blas64.Vector{N: len(v), Inc: 1, Data: v} }

// RowOf returns v as a matrix of one row in the same memory.
func RowOf(v []float64) *mat.Dense { return mat.NewDense(1, len(v), v) }

// Slice returns a view of rows lo to hi−1 of m, empty where lo == hi, and nil if m is nil.
func Slice(m *mat.Dense, lo, hi int) *mat.Dense {
	if m == nil {
		return nil
	}
	return View(Rows(m.RawMatrix(), lo, hi))
}

// Every returns a view of rows first, first+step, … of m, and nil if m is nil.
func Every(m *mat.Dense, first, step int) *mat.Dense {
	if m == nil {
		return nil
	}
	raw := m.RawMatrix()
	return View(blas64.General{Rows: raw.Rows / step, Cols: raw.Cols, Stride: raw.Stride * step, Data: raw.Data[first*raw.Stride:]})
}

// Stack returns the rows of all parts below one another in a new matrix, and nil if a part is nil.
func Stack(parts []*mat.Dense) *mat.Dense {
	rows, cols := 0, 0
	for _, p := range parts {
		if p == nil {
			return nil
		}
		r, c := p.Dims()
		rows, cols = rows+r, max(cols, c)
	}
	if rows == 0 || cols == 0 {
		return new(mat.Dense)
	}
	out := mat.NewDense(rows, cols, nil)
	at := 0
	for _, p := range parts {
		for i := range Count(p) {
			copy(out.RawRowView(at), p.RawRowView(i))
			at++
		}
	}
	return out
}

// Count returns the number of rows of m.
func Count(m *mat.Dense) int {
	r, _ := m.Dims()
	return r
}

// Is tells whether m is r×c.
func Is(m *mat.Dense, r, c int) bool {
	mr, mc := m.Dims()
	return mr == r && mc == c
}

// SizeTo sizes dst to r×c if it is empty, and panics if it has another size. It does nothing for a nil dst.
func SizeTo(dst *mat.Dense, r, c int) {
	switch {
	case dst == nil || r == 0 && dst.IsEmpty():
	case dst.IsEmpty():
		dst.ReuseAs(r, c)
	case !Is(dst, r, c):
		panic("dense: destination has a wrong size")
	}
}

// SetAt writes v to element (i, j) of m, and does nothing for a nil m.
func SetAt(m *mat.Dense, i, j int, v float64) {
	if m != nil {
		m.Set(i, j, v)
	}
}

// Flat returns a copy of m, N×C, as one vector in row order.
func Flat(m *mat.Dense) []float64 {
	n, c := m.Dims()
	v := make([]float64, 0, n*c)
	for i := range n {
		v = append(v, m.RawRowView(i)...)
	}
	return v
}

// Contiguous returns the numbers of m in row order. It copies them only where there are gaps between the rows.
func Contiguous(m *mat.Dense) []float64 {
	raw := m.RawMatrix()
	if raw.Stride != raw.Cols {
		return Flat(m)
	}
	return raw.Data[:raw.Rows*raw.Cols]
}

// EachRow calls f on every row of g, on several goroutines.
func EachRow(g blas64.General, f func(i int, row []float64)) {
	const rows = 32 // rows in a tile: enough that distributing tiles costs little
	// Neither f nor a context that never ends gives an error.
	_ = par.Do(context.Background(), par.Tiles(g.Rows, rows), func(t int) error {
		lo, hi := par.Bounds(t, g.Rows, rows)
		for i := lo; i < hi; i++ {
			f(i, Row(g, i))
		}
		return nil
	})
}

// TransposeTo writes aᵀ to dst.
func TransposeTo(dst, a blas64.General) {
	i := 0
	for ; i+4 <= a.Rows; i += 4 {
		interleave4(dst.Data, i, dst.Stride, Row(a, i), Row(a, i+1), Row(a, i+2), Row(a, i+3))
	}
	for ; i < a.Rows; i++ {
		for j, v := range Row(a, i) {
			dst.Data[j*dst.Stride+i] = v
		}
	}
}

// Copy copies src into the first columns of dst, which has as many rows as src.
func Copy(dst, src blas64.General) {
	for i := range src.Rows {
		copy(Row(dst, i), Row(src, i))
	}
}

// Zero sets all elements of g to 0.
func Zero(g blas64.General) {
	for i := range g.Rows {
		clear(Row(g, i))
	}
}

// Axpy adds alpha·x to dst.
func Axpy(dst []float64, alpha float64, x []float64) { vector.Axpy(dst, alpha, x) }

// Dot returns Σ x_i y_i, added in order.
func Dot(x, y []float64) float64 {
	s := 0.0
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

// CopyTo sizes dst as SizeTo does, and writes the r×c numbers of v into it row by row. It does nothing for a nil
// dst.
func CopyTo(dst *mat.Dense, r, c int, v []float64) {
	if SizeTo(dst, r, c); dst != nil {
		dst.Copy(mat.NewDense(r, c, v))
	}
}

// Range returns 0, 1, …, n−1.
func Range(n int) []int {
	v := make([]int, n)
	for i := range v {
		v[i] = i
	}
	return v
}

// NotFinite returns the index of the first NaN or Inf, or −1.
func NotFinite(v []float64) int {
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return i
		}
	}
	return -1
}

// LogDet returns log det UᵀU = 2 Σ log u_ii.
func LogDet(u blas64.Triangular) float64 {
	sum := 0.0
	for i := range u.N {
		sum += math.Log(u.Data[i*u.Stride+i])
	}
	return 2 * sum
}

// Diagonal returns a copy of the diagonal of a square matrix.
func Diagonal(g blas64.General) []float64 {
	d := make([]float64, g.Rows)
	for i := range d {
		d[i] = g.Data[i*g.Stride+i]
	}
	return d
}

// Lower returns the lower triangle of a square matrix as a symmetric matrix in the same memory.
func Lower(g blas64.General) blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Lower, N: g.Rows, Stride: g.Stride, Data: g.Data}
}

// MirrorLower copies the elements below the diagonal of a square matrix to those above it.
func MirrorLower(g blas64.General) {
	for i := range g.Rows {
		for j := range i {
			g.Data[j*g.Stride+i] = g.Data[i*g.Stride+j]
		}
	}
}
