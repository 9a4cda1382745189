package gp

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
)

// An own holds the rows of training example i that its removal needs, with
// B = UᵀU: V = [K R U⁻¹]_i, C×N·C, and T = [U⁻¹]_i from its column i·C on, before which
// it is zero. Where the posterior is built on kept rows, T has those that example i
// keeps. From these
//
//	h = κ_ii − V Vᵀ,  [B⁻¹]_ii = T Tᵀ,  R_iᵀh = T Vᵀ  (E6)
//	cov_−i = h + hR[B⁻¹]_ii⁻¹Rᵀh = κ_ii − V(I − Tᵀ(TTᵀ)⁻¹T)Vᵀ  (E17)
//
// The last form subtracts from κ_ii no more than κ_ii, so its rounding error stays
// that of κ_ii, with saturated sites as with a leverage near one, where h and
// I − R_iᵀhR_i have lost all digits.
type own struct {
	t, v blas64.General
}

// eachOwn calls do with the rows of each training example in rows, which ascend,
// from several goroutines. It forms them one panel after another, and do may
// overwrite them. progress is told of the examples done.
func (e *rowSolver) eachOwn(ctx context.Context, rows []int, progress func(done int), do func(at int, o own) error) error {
	n, c := len(rows), e.outputs()
	step := max(1, min(n, invertRows/c, e.tile/16/c/e.g.n))
	t, v := dense.New(step*c, e.g.n), dense.New(step*c, e.g.n)
	for p := range par.Tiles(n, step) {
		lo, hi := par.Bounds(p, n, step)
		at := stacked(rows[lo:hi], c)
		t.Rows, v.Rows = len(at), len(at)
		if err := e.ownRowsTo(ctx, own{t, v}, at); err != nil {
			return err
		}
		err := par.Do(ctx, hi-lo, func(k int) error {
			tail := dense.Cols(dense.Rows(t, k*c, (k+1)*c), rows[lo+k]*c, e.g.n)
			return do(lo+k, own{tail, dense.Rows(v, k*c, (k+1)*c)})
		})
		if err != nil {
			return err
		}
		progress(hi)
	}
	return nil
}

// ownRowsTo writes the given rows of U⁻¹ and of K R U⁻¹, whole examples of them.
func (e *rowSolver) ownRowsTo(ctx context.Context, o own, at []int) error {
	if err := e.f.inverseRowsTo(ctx, o.t, at); err != nil {
		return stopped("inverting the factor of I + RᵀKR", err)
	}
	if err := e.halfRowsTo(ctx, o.v, o.t, at); err != nil {
		return stopped("solving for a covariance", err)
	}
	return nil
}

// project makes the rows of T orthonormal, T = L Q, and removes their span from the rows of V. It returns the
// lower triangular L, and Y = V Qᵀ. ok is false if the rows of T are not independent.
func (o own) project() (l, y blas64.General, ok bool) {
	l, y = dense.New(o.t.Rows, o.t.Rows), dense.New(o.v.Rows, o.t.Rows)
	if !orthonormalize(o.t, l) {
		return l, y, false
	}
	for a := range o.v.Rows {
		row := dense.Row(o.v, a)[o.v.Cols-o.t.Cols:]
		for b := range o.t.Rows {
			q := dense.Row(o.t, b)
			s := floats.Dot(row, q)
			floats.AddScaled(row, -s, q)
			y.Data[a*y.Stride+b] = s
		}
	}
	return l, y, true
}

// orthonormalBlock is the number of rows whose part in the span of all rows before them
// is taken out at once, by matrix products.
const orthonormalBlock = 32

// orthonormalize replaces T by Q, with orthonormal rows, and writes L with T = L Q, lower
// triangular. It returns false where the rows of T are not independent.
func orthonormalize(t, l blas64.General) bool {
	for lo := 0; lo < t.Rows; lo += orthonormalBlock {
		hi := min(lo+orthonormalBlock, t.Rows)
		if lo > 0 {
			before, block := dense.Rows(t, 0, lo), dense.Rows(t, lo, hi)
			s := dense.New(hi-lo, lo)
			for range 2 {
				dense.Gemm1(blas.NoTrans, blas.Trans, 1, block, before, 0, s)
				dense.Gemm1(blas.NoTrans, blas.NoTrans, -1, s, before, 1, block)
				for a := range s.Rows {
					floats.Add(dense.Row(l, lo+a)[:lo], dense.Row(s, a))
				}
			}
		}
		for a := lo; a < hi; a++ {
			row := dense.Row(t, a)
			first, from := floats.Norm(row, 2), lo
			// The second pass removes what rounding left in the first, and one more what it
			// left of earlier blocks in a row that lies nearly in the span of its own.
			for pass := range 3 {
				if pass == 2 {
					if floats.Norm(row, 2) > .01*first {
						break
					}
					from = 0
				}
				for b := from; b < a; b++ {
					s := floats.Dot(row, dense.Row(t, b))
					floats.AddScaled(row, -s, dense.Row(t, b))
					l.Data[a*l.Stride+b] += s
				}
			}
			norm := floats.Norm(row, 2)
			if !(norm > 0) || math.IsInf(norm, 1) {
				return false
			}
			floats.Scale(1/norm, row)
			l.Data[a*l.Stride+a] = norm
		}
	}
	return true
}

// priorTo writes κ(x_i,x_i).
func (e *rowSolver) priorTo(dst *mat.Dense, i int) {
	c := e.outputs()
	for a := range c {
		for b := range a + 1 {
			k := e.g.data[(i*c+a)*(e.g.n+1)+i*c+b]
			dst.Set(a, b, k)
			dst.Set(b, a, k)
		}
	}
}

// subtractOwnGram subtracts V Vᵀ.
func subtractOwnGram(dst *mat.Dense, v blas64.General) {
	for a := range v.Rows {
		for b := range a + 1 {
			s := dst.At(a, b) - floats.Dot(dense.Row(v, a), dense.Row(v, b))
			dst.Set(a, b, s)
			dst.Set(b, a, s)
		}
	}
}

// fillNaN makes all entries NaN; a nil matrix is skipped.
func fillNaN(m *mat.Dense) {
	if m != nil {
		m.Apply(func(_, _ int, _ float64) float64 { return math.NaN() }, m)
	}
}
