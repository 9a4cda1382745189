package sparse

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/par"
)

// general returns a rows×cols matrix in data, or in new memory where data is
// too short.
func general(rows, cols int, data []float64) blas64.General {
	if len(data) < rows*cols {
		data = make([]float64, rows*cols)
	}
	return blas64.General{Rows: rows, Cols: cols, Stride: max(1, cols), Data: data[:rows*cols]}
}

// rowsOf returns rows [lo, hi) of g as a view; lo < hi.
func rowsOf(g blas64.General, lo, hi int) blas64.General {
	g.Data = g.Data[lo*g.Stride : (hi-1)*g.Stride+g.Cols]
	g.Rows = hi - lo
	return g
}

// cols returns columns [lo, hi) of g as a view; lo < hi.
func cols(g blas64.General, lo, hi int) blas64.General {
	g.Data = g.Data[lo : (g.Rows-1)*g.Stride+hi]
	g.Cols = hi - lo
	return g
}

// transposeTo writes aᵀ.
func transposeTo(dst, a blas64.General) {
	for i := range dst.Rows {
		row := dst.Data[i*dst.Stride:][:dst.Cols]
		for j := range row {
			row[j] = a.Data[j*a.Stride+i]
		}
	}
}

func dense(g blas64.General) *mat.Dense {
	m := new(mat.Dense)
	m.SetRawMatrix(g)
	return m
}

func vector(v []float64) blas64.Vector { return blas64.Vector{N: len(v), Inc: 1, Data: v} }

// contiguous returns m with no gap between its rows.
func contiguous(m *mat.Dense) []float64 {
	raw := m.RawMatrix()
	if raw.Stride != raw.Cols {
		raw = mat.DenseCopyOf(m).RawMatrix()
	}
	return raw.Data[:raw.Rows*raw.Cols]
}

// eachRow calls f on every row of g.
func eachRow(workers int, g blas64.General, f func(i int, row []float64)) {
	const rows = 32 // a tile, so that handing out costs little
	// Without a deadline or an error from f there is nothing to return.
	_ = par.Do(context.Background(), workers, par.Tiles(g.Rows, rows), func(t int) error {
		lo, hi := par.Bounds(t, g.Rows, rows)
		for i := lo; i < hi; i++ {
			f(i, g.Data[i*g.Stride:i*g.Stride+g.Cols])
		}
		return nil
	})
}

// sizeTo sizes an empty dst and panics at a wrong size; nil is skipped.
func sizeTo(dst *mat.Dense, r, c int) {
	switch {
	case dst == nil || r == 0 && dst.IsEmpty():
	case dst.IsEmpty():
		dst.ReuseAs(r, c)
	default:
		if dr, dc := dst.Dims(); dr != r || dc != c {
			panic("sparse: destination has a wrong size")
		}
	}
}

// sub returns rows [lo, hi) of m, or nil.
func sub(m *mat.Dense, lo, hi int) *mat.Dense {
	if m == nil {
		return nil
	}
	return dense(rowsOf(m.RawMatrix(), lo, hi))
}
