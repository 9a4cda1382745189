package gp

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/par"
)

// A blockDiag is a block-diagonal matrix of N blocks, C×C each: R or Λ.
type blockDiag struct {
	c      int
	blocks []float64 // N·C·C
	diag   []float64 // N·C, where all blocks are diagonal; else nil
}

// newBlockDiag shares the memory of m, N·C×C, where it is contiguous.
func newBlockDiag(m *mat.Dense) blockDiag {
	_, c := m.Dims()
	if raw := m.RawMatrix(); raw.Stride != c {
		m = mat.DenseCopyOf(m)
	}
	b := blockDiag{c: c, blocks: m.RawMatrix().Data}
	if diag, ok := b.diagonal(); ok {
		b.diag = diag
	}
	return b
}

// diagonal returns the diagonal where nothing else is stored.
func (b blockDiag) diagonal() (diag []float64, ok bool) {
	diag = make([]float64, len(b.blocks)/b.c)
	for i := range diag {
		for j, v := range b.blocks[i*b.c : (i+1)*b.c] {
			switch {
			case j == i%b.c:
				diag[i] = v
			case v != 0:
				return nil, false
			}
		}
	}
	return diag, true
}

// block returns block n, row-major.
func (b blockDiag) block(n int) []float64 {
	return b.blocks[n*b.c*b.c : (n+1)*b.c*b.c]
}

// mulRow replaces the row x, whose first entry stands over the first column
// of block n, by x·R.
func (b blockDiag) mulRow(x []float64, n int) {
	if b.diag != nil {
		scaleRow(x, b.diag[n*b.c:])
		return
	}
	var small [16]float64
	tmp := sized(small[:], b.c)
	for ; len(x) > 0; x, n = x[b.c:], n+1 {
		copy(tmp, x)
		clear(x[:b.c])
		for a, row := 0, b.block(n); a < b.c; a, row = a+1, row[b.c:] {
			for j, v := range row[:b.c] {
				x[j] += tmp[a] * v
			}
		}
	}
}

// mulTransRow replaces the row x by x·Rᵀ.
func (b blockDiag) mulTransRow(x []float64, n int) {
	if b.diag != nil {
		scaleRow(x, b.diag[n*b.c:])
		return
	}
	var small [16]float64
	tmp := sized(small[:], b.c)
	for ; len(x) > 0; x, n = x[b.c:], n+1 {
		copy(tmp, x)
		for j, row := 0, b.block(n); j < b.c; j, row = j+1, row[b.c:] {
			sum := 0.0
			for a, v := range row[:b.c] {
				sum += tmp[a] * v
			}
			x[j] = sum
		}
	}
}

// sized returns n numbers, from small where it is long enough.
func sized(small []float64, n int) []float64 {
	if n <= len(small) {
		return small[:n]
	}
	return make([]float64, n)
}

func scaleRow(x, by []float64) {
	by = by[:len(x)]
	for i := range x {
		x[i] *= by[i]
	}
}

// eachRow calls f on every row of g.
func eachRow(workers int, g blas64.General, f func(row []float64)) {
	const rows = 32 // a tile, so that handing out costs little
	par.Do(context.Background(), workers, par.Tiles(g.Rows, rows), func(t int) error {
		lo, hi := par.Bounds(t, g.Rows, rows)
		for i := lo; i < hi; i++ {
			f(g.Data[i*g.Stride : i*g.Stride+g.Cols])
		}
		return nil
	})
}
