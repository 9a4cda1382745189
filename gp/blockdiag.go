package gp

import (
	"context"
	"runtime"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/vector"
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

// diagonal returns the diagonal, and whether all other entries are zero.
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

// wide is the smallest number of outputs for which rows are multiplied by blocks with a matrix product. With so
// many, the C² multiply-adds for each row and block outweigh its overhead.
const wide = 32

// isWide tells whether the blocks are full and large.
func (b blockDiag) isWide() bool { return b.diag == nil && b.c >= wide }

// matrix returns block n as a matrix.
func (b blockDiag) matrix(n int) blas64.General { return dense.Of(b.block(n), b.c, b.c) }

// mul replaces the rows of a by a·R. Its error is ctx.Err().
func (b blockDiag) mul(ctx context.Context, a blas64.General) error {
	if b.isWide() {
		return b.mulWide(ctx, a, blas.NoTrans)
	}
	if b.diag != nil || a.Rows < fewRows {
		return eachRow(ctx, a, func(row []float64) { b.mulRow(row, 0) })
	}
	return b.mulMixed(ctx, a)
}

// fewRows is the smallest number of rows for which mulMixed is faster than mulRow, measured with 10 outputs.
// With 2 outputs that number is 6, and with 30 it is 24.
const fewRows = 16

// mulMixed does what mul does, through the transposes of blocks of a that have some rows and some columns.
func (b blockDiag) mulMixed(ctx context.Context, a blas64.General) error {
	const rows, cols = 64, 64
	step := max(1, cols/b.c) * b.c
	tiles := par.Tiles(a.Rows, rows)
	workers := min(runtime.GOMAXPROCS(0), tiles)
	scratch := make([]float64, workers*2*rows*step)
	return par.DoWorker(ctx, workers, tiles, func(w, i int) error {
		lo, hi := par.Bounds(i, a.Rows, rows)
		ld := (hi - lo + 15) &^ 15 // whole vectors; what lies beyond a row is not used
		s := scratch[w*2*rows*step:][:2*rows*step]
		for n := range par.Tiles(a.Cols, step) {
			first, last := par.Bounds(n, a.Cols, step)
			part := dense.Cols(dense.Rows(a, lo, hi), first, last)
			x, y := dense.Of(s, last-first, ld), dense.Of(s[rows*step:], last-first, ld)
			dense.TransposeTo(x, part)
			b.mixRows(y, x, first/b.c)
			dense.TransposeTo(part, dense.Cols(y, 0, hi-lo))
		}
		return nil
	})
}

// mulTrans replaces the rows of a by a·Rᵀ. Its error is ctx.Err().
func (b blockDiag) mulTrans(ctx context.Context, a blas64.General) error {
	if b.isWide() {
		return b.mulWide(ctx, a, blas.Trans)
	}
	return eachRow(ctx, a, func(row []float64) { b.mulTransRow(row, 0) })
}

// mulWide is mul, or mulTrans, by products of some rows with a block.
func (b blockDiag) mulWide(ctx context.Context, a blas64.General, t blas.Transpose) error {
	const rows = 128 // the product packs a block once for so many rows
	tiles := par.Tiles(a.Rows, rows)
	workers := min(runtime.GOMAXPROCS(0), tiles)
	scratch := make([]float64, workers*min(rows, a.Rows)*b.c)
	return par.DoWorker(ctx, workers, tiles, func(w, i int) error {
		lo, hi := par.Bounds(i, a.Rows, rows)
		before := dense.Of(scratch[w*min(rows, a.Rows)*b.c:][:(hi-lo)*b.c], hi-lo, b.c)
		for n := range a.Cols / b.c {
			part := dense.Cols(dense.Rows(a, lo, hi), n*b.c, (n+1)*b.c)
			dense.Copy(before, part)
			dense.Gemm1(blas.NoTrans, t, 1, before, b.matrix(n), 0, part)
		}
		return nil
	})
}

// mixRows writes Rᵀx to dst for the rows of x, which belong to the blocks from n on. It adds up in the same
// order as mulRow, but whole rows at a time.
func (b blockDiag) mixRows(dst, x blas64.General, n int) {
	c := b.c
	for first := 0; first < x.Rows; first, n = first+c, n+1 {
		if b.isWide() {
			dense.Gemm1(blas.Trans, blas.NoTrans, 1, b.matrix(n), dense.Rows(x, first, first+c), 0, dense.Rows(dst, first, first+c))
			continue
		}
		block := b.block(n)
		for j := range c {
			to := dst.Data[(first+j)*dst.Stride:][:dst.Cols]
			if b.diag != nil {
				floats.ScaleTo(to, block[j*c+j], x.Data[(first+j)*x.Stride:][:x.Cols])
				continue
			}
			clear(to)
			for a, at := j, first*x.Stride; a < len(block); a, at = a+c, at+x.Stride {
				vector.Axpy(to, block[a], x.Data[at:at+x.Cols])
			}
		}
	}
}

// mulRow replaces the row x by x·R. Its first entry belongs to the first row of
// block n.
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

// mulTransRow replaces the row x by x·Rᵀ, as mulRow does by x·R.
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

// leftMul replaces the C rows a by the product of block n and a.
func (b blockDiag) leftMul(a blas64.General, n int) {
	if b.diag != nil {
		for i := range a.Rows {
			floats.Scale(b.diag[n*b.c+i], dense.Row(a, i))
		}
		return
	}
	const tile = 256
	before := dense.New(b.c, min(tile, a.Cols))
	for p := range par.Tiles(a.Cols, tile) {
		lo, hi := par.Bounds(p, a.Cols, tile)
		to, part := dense.Cols(a, lo, hi), dense.Cols(before, 0, hi-lo)
		dense.Copy(part, to)
		dense.Gemm1(blas.NoTrans, blas.NoTrans, 1, b.matrix(n), part, 0, to)
	}
}

// sized returns n numbers, as a part of small where that is long enough.
func sized(small []float64, n int) []float64 {
	if n <= len(small) {
		return small[:n]
	}
	return make([]float64, n)
}

// scaleRow multiplies x by the first entries of by.
func scaleRow(x, by []float64) {
	by = by[:len(x)]
	for i := range x {
		x[i] *= by[i]
	}
}

// eachRow calls f on every row of g. Its error is ctx.Err().
func eachRow(ctx context.Context, g blas64.General, f func(row []float64)) error {
	const rows = 32 // a tile large enough that handing it to a worker costs little
	return par.Do(ctx, par.Tiles(g.Rows, rows), func(t int) error {
		lo, hi := par.Bounds(t, g.Rows, rows)
		for i := lo; i < hi; i++ {
			f(g.Data[i*g.Stride : i*g.Stride+g.Cols])
		}
		return nil
	})
}
