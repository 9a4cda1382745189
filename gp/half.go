package gp

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
)

// halfRowsTo writes the given rows of K R U⁻¹, whole examples of them, where t holds
// those of U⁻¹. Because RᵀKR = B − I and B = UᵀU,
//
//	R_iᵀ [K R U⁻¹]_i = [Uᵀ]_i − (1 + jitter)[U⁻¹]_i,
//
// so that the rows need no solve but in the dead directions, which R_iᵀ maps to zero or
// nearly so: saturated sites, and for a softmax the common shift of all outputs. It
// writes the right side, divides by R_iᵀ in the live directions, and adds the part in
// the dead ones by a solve for each. Both terms of the difference are proportional to
// R_i beside the diagonal, so their quotient keeps its digits where R_i is small.
func (e *rowSolver) halfRowsTo(ctx context.Context, v, t blas64.General, rows []int) error {
	c, f := e.outputs(), e.f
	if c >= wide && f.r.diag == nil {
		for k, i := range rows {
			e.g.rowTo(dense.Row(v, k), i)
		}
		return f.half(ctx, v)
	}
	const tile = 64 // columns of v for which a part of U stays in the cache
	one := 1 + f.jitter
	err := par.Do(ctx, par.Tiles(v.Cols, tile), func(p int) error {
		lo, hi := par.Bounds(p, v.Cols, tile)
		for k, i := range rows {
			to, inverse := dense.Row(v, k), dense.Row(t, k)
			for j := lo; j < min(i, hi); j++ {
				to[j] = f.u.Data[j*f.u.Stride+i]
			}
			for j := max(i, lo); j < hi; j++ {
				to[j] = -one * inverse[j]
			}
			if i < lo || i >= hi {
				continue
			}
			// Below a few roundings of 1 the difference is rounding alone, and what it
			// contributes to K R U⁻¹ is less than a rounding of K.
			if u := f.u.Data[i*f.u.Stride+i]; u*u-one > 4*epsilon*one {
				to[i] += u
			} else {
				to[i] = 0
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	split := make([]rootSplit, len(rows)/c)
	err = par.Do(ctx, len(split), func(k int) error {
		split[k] = newRootSplit(f.r.block(rows[k*c]/c), c)
		split[k].divide(dense.Rows(v, k*c, (k+1)*c))
		return nil
	})
	if err != nil {
		return err
	}
	var dead []int // the direction of each solve, as its example's place
	first := make([]int, len(split))
	for k, s := range split {
		if first[k] = len(dead); s.dead != nil {
			_, n := s.dead.Dims()
			dead = append(dead, slices.Repeat([]int{k}, n)...)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	some := slices.Compact(slices.Clone(dead)) // the examples with dead directions
	x := dense.New(len(dead), e.g.n)
	err = par.Do(ctx, len(some), func(p int) error {
		k, row := some[p], make([]float64, e.g.n)
		for a := range c {
			e.g.rowTo(row, rows[k*c+a])
			for j, q := range split[k].dead.RawRowView(a) {
				floats.AddScaled(dense.Row(x, first[k]+j), q, row)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := f.half(ctx, x); err != nil {
		return err
	}
	return par.Do(ctx, len(some), func(p int) error {
		k := some[p]
		for a := range c {
			for j, q := range split[k].dead.RawRowView(a) {
				floats.AddScaled(dense.Row(v, k*c+a), q, dense.Row(x, first[k]+j))
			}
		}
		return nil
	})
}

// epsilon is the distance from 1 to the next float64.
const epsilon = 0x1p-52

// A rootSplit tells how to divide by R_iᵀ.
type rootSplit struct {
	inverse *mat.Dense // pseudo-inverse of R_iᵀ over the live directions, C×C
	dead    *mat.Dense // orthonormal directions that R_iᵀ maps nearly to zero, C×any; nil for none
}

const (
	// alive is the smallest singular value, of R_iᵀ with rows scaled to length one,
	// that is divided by. Division by smaller ones would lose digits.
	alive = 1e-2
	// smallRoot is the length of a row of R_iᵀ up to which it counts as zero, because
	// products of its entries would underflow.
	smallRoot = 1e-140
)

// newRootSplit splits R_i, C×C. It scales the rows of R_iᵀ to length one: the rows of
// Uᵀ and U⁻¹ have the same scale, and with it their rounding.
func newRootSplit(root []float64, c int) rootSplit {
	scale, a := make([]float64, c), mat.NewDense(c, c, nil)
	for j := range c {
		row := a.RawRowView(j)
		for k := range c {
			row[k] = root[k*c+j]
		}
		if scale[j] = floats.Norm(row, 2); scale[j] > smallRoot {
			floats.Scale(1/scale[j], row)
		} else {
			clear(row)
		}
	}
	p, values, q := singular(a)
	live := 0
	for live < c && values[live] >= alive {
		live++
	}
	s := rootSplit{inverse: mat.NewDense(c, c, nil)}
	for k := range live {
		for i := range c {
			for j := range c {
				if scale[j] > smallRoot {
					s.inverse.Set(i, j, s.inverse.At(i, j)+q.At(i, k)*p.At(j, k)/values[k]/scale[j])
				}
			}
		}
	}
	if live < c {
		s.dead = mat.DenseCopyOf(q.Slice(0, c, live, c))
	}
	return s
}

// singular returns the singular vectors and values of a, a = P diag(values) Qᵀ. Where
// they are not found, all values are zero.
func singular(a *mat.Dense) (p *mat.Dense, values []float64, q *mat.Dense) {
	c, _ := a.Dims()
	var svd mat.SVD
	if c == 1 || !svd.Factorize(a, mat.SVDFull) {
		p, values, q = mat.NewDense(c, c, nil), make([]float64, c), mat.NewDense(c, c, nil)
		for j := range c {
			p.Set(j, j, 1)
			q.Set(j, j, 1)
		}
		if c == 1 {
			p.Set(0, 0, math.Copysign(1, a.At(0, 0)))
			values[0] = math.Abs(a.At(0, 0))
		}
		return p, values, q
	}
	p, q = new(mat.Dense), new(mat.Dense)
	svd.UTo(p)
	svd.VTo(q)
	return p, svd.Values(nil), q
}

// divide replaces the rows g, C×N·C, by the part of R_i⁻ᵀg in the live directions.
func (s rootSplit) divide(g blas64.General) {
	if g.Rows == 1 {
		floats.Scale(s.inverse.At(0, 0), g.Data)
		return
	}
	const tile = 256
	before := dense.New(g.Rows, min(tile, g.Cols))
	for p := range par.Tiles(g.Cols, tile) {
		lo, hi := par.Bounds(p, g.Cols, tile)
		to := dense.Cols(g, lo, hi)
		part := dense.Cols(before, 0, hi-lo)
		dense.Copy(part, to)
		dense.Gemm1(blas.NoTrans, blas.NoTrans, 1, s.inverse.RawMatrix(), part, 0, to)
	}
}
