package gp

import (
	"context"
	"math"
	"runtime"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
)

// A factor is the Cholesky factor of B = I + RᵀKR = UᵀU (E4) with the root R.
// Each row of a matrix A that it solves for is one right-hand side.
type factor struct {
	u      blas64.Triangular
	r      blockDiag
	logDet float64 // log det B
	jitter float64 // what was added to B's diagonal
	mean   float64 // mean of B's diagonal
}

// jitters are the numbers that are added to B's diagonal, one after the other
// until B has a factor, relative to the mean of the diagonal.
var jitters = [...]float64{0, 1e-13, 1e-11, 1e-9, 1e-7}

// factorize builds B in g's upper triangle and factors it there. It keeps K.
func factorize(ctx context.Context, g gram, r blockDiag) (*factor, error) {
	f := &factor{r: r}
	for _, rel := range jitters {
		if err := buildB(ctx, g, r); err != nil {
			return nil, stopped("building I + RᵀKR", err)
		}
		b := g.upper()
		if err := checkDiagonal(b, r.c); err != nil {
			return nil, err
		}
		sum := 0.0
		for i := range b.N {
			sum += b.Data[i*b.Stride+i]
		}
		if f.mean = sum / float64(b.N); math.IsInf(sum, 0) {
			f.mean = math.MaxFloat64 / float64(b.N) // the sum has overflowed: a lower bound
		}
		f.jitter = rel * f.mean
		for i := range b.N {
			b.Data[i*b.Stride+i] += f.jitter
		}
		u, ok, err := dense.PotrfContext(ctx, b)
		if err != nil {
			return nil, stopped("factoring I + RᵀKR", err)
		}
		if f.u = u; ok {
			f.logDet = dense.LogDet(f.u)
			return f, checkDiagonal(b, r.c)
		}
	}
	return nil, &NotPDError{What: "I + RᵀKR", N: g.n, Jitter: f.jitter, Reason: notCovariance}
}

// buildB writes B = I + RᵀKR (E4) into the upper triangle, tile by tile.
func buildB(ctx context.Context, g gram, r blockDiag) error {
	const most = 64 // two tiles of scratch stay in the cache
	step := max(1, most/r.c) * r.c
	tiles := par.Tiles(g.n, step)
	workers := min(runtime.GOMAXPROCS(0), tiles)
	ld := (step + 15) &^ 15 // whole vectors; what lies beyond a row is not used
	scratch := make([]float64, workers*2*step*ld)
	// block writes rows of tile i and columns of tile j ≥ i of B.
	block := func(i, j int, one, two []float64) {
		i0, i1 := par.Bounds(i, g.n, step)
		j0, j1 := par.Bounds(j, g.n, step)
		rows, cols := i1-i0, j1-j0
		// K_ij, whose transpose is stored
		k, rk := dense.Of(one, rows, ld), dense.Of(two, rows, ld)
		dense.TransposeTo(k, blas64.General{Rows: cols, Cols: rows, Stride: g.n + 1, Data: g.data[j0*(g.n+1)+i0:]})
		if i == j { // of which only the lower triangle is K's
			for a := range rows {
				for b := range a {
					k.Data[a*ld+b] = k.Data[b*ld+a]
				}
			}
		}
		r.mixRows(rk, k, i0/r.c)
		// R_jᵀ (R_iᵀ K_ij)ᵀ = (R_iᵀ K_ij R_j)ᵀ
		kr, rkr := dense.Of(one, cols, ld), dense.Of(two, cols, ld)
		dense.TransposeTo(kr, dense.Cols(rk, 0, cols))
		r.mixRows(rkr, kr, j0/r.c)
		to := blas64.General{Rows: rows, Cols: cols, Stride: g.n + 1, Data: g.data[1+i0*(g.n+1)+j0:]}
		if i < j {
			dense.TransposeTo(to, dense.Cols(rkr, 0, rows))
			return
		}
		for b := range rows {
			for a := b; a < cols; a++ {
				to.Data[b*to.Stride+a] = rkr.Data[a*ld+b]
			}
			to.Data[b*to.Stride+b]++
		}
	}
	return par.DoWorker(ctx, workers, tiles, func(w, i int) error {
		s := scratch[w*2*step*ld:][: 2*step*ld : 2*step*ld]
		for j := i; j < tiles; j++ {
			block(i, j, s[:step*ld], s[step*ld:])
		}
		return nil
	})
}

// checkDiagonal returns a *NotFiniteError where B or its factor, which lies in
// the same place, has passed the range of a float64.
func checkDiagonal(b blas64.Symmetric, c int) error {
	for i := range b.N {
		if v := b.Data[i*b.Stride+i]; math.IsNaN(v) || math.IsInf(v, 0) {
			return &NotFiniteError{What: "I + RᵀKR", Row: i / c, Output: i % c, Value: v, Remedy: tooLarge}
		}
	}
	return nil
}

// half replaces A by A R U⁻¹, so that A R B⁻¹ RᵀAᵀ is the product of the
// result with its transpose.
func (f *factor) half(ctx context.Context, a blas64.General) error {
	if err := f.r.mul(ctx, a); err != nil {
		return err
	}
	return dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, f.u, a)
}

// transHalf replaces A, which half has made, by A U⁻ᵀ Rᵀ: both make A R B⁻¹ Rᵀ.
func (f *factor) transHalf(ctx context.Context, a blas64.General) error {
	if err := dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, f.u, a); err != nil {
		return stopped("solving for a gain", err)
	}
	if err := f.r.mulTrans(ctx, a); err != nil {
		return stopped("solving for a gain", err)
	}
	return nil
}

// fullVec replaces v by R B⁻¹ Rᵀv.
func (f *factor) fullVec(v []float64) {
	f.r.mulRow(v, 0)
	dense.Solve(f.u, v)
	f.r.mulTransRow(v, 0)
}

// inverseRowsTo writes the given rows of U⁻¹; rows[0] is the smallest.
func (f *factor) inverseRowsTo(ctx context.Context, dst blas64.General, rows []int) error {
	for i, at := range rows {
		row := dst.Data[i*dst.Stride:][:dst.Cols]
		clear(row)
		row[at] = 1
	}
	// Each row of U⁻¹ has the zeros before its first number that the row of I has, because U is upper triangular.
	lo := rows[0]
	if dst.Rows == 1 { // which is a matter of reading U, as Trsv does
		dense.Trsv(blas.Trans, f.tail(lo), dense.Vector(dense.Row(dst, 0)[lo:]))
		return ctx.Err()
	}
	return dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, f.tail(lo), dense.Cols(dst, lo, dst.Cols))
}

// inverseTailTo writes rows [lo, lo+dst.Rows) of B⁻¹ from column lo on, and the squared
// length of each of these rows of U⁻¹, which is the diagonal entry of B⁻¹.
func (f *factor) inverseTailTo(ctx context.Context, dst blas64.General, diag []float64, lo int) error {
	dense.Zero(dst)
	for i := range dst.Rows {
		dst.Data[i*dst.Stride+i] = 1
	}
	tail := f.tail(lo)
	if err := dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, tail, dst); err != nil {
		return err
	}
	for i := range diag {
		row := dense.Row(dst, i)[i:]
		diag[i] = floats.Dot(row, row)
	}
	// Column j of U⁻¹U⁻ᵀ takes only columns k ≥ j of U⁻¹.
	return dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, tail, dst)
}

// tail returns the factor's rows and columns from lo on.
func (f *factor) tail(lo int) blas64.Triangular {
	return blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: f.u.N - lo, Stride: f.u.Stride, Data: f.u.Data[lo*f.u.Stride+lo:]}
}
