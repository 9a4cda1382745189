package gp

import (
	"context"
	"errors"
	"math"
	"sync/atomic"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// RemovalTo writes q_i = (I − Λ_i h_i)⁻¹ r_i of every training example, N·C.
// Leaving out example i moves f(x*) by −C(x*,x_i) q_i to first order (E15).
// RemovalTo takes about as long as three factorizations. Where an example alone
// fixes the function at its own input, its q_i is NaN and the error is a
// *NotPDError; all other q_i are written.
func (e *Exact) RemovalTo(ctx context.Context, dst []float64) error {
	if len(dst) != e.g.n {
		panic("gp: destination has a wrong length")
	}
	rows := make([]int, e.x.Len())
	for i := range rows {
		rows[i] = i
	}
	return e.removals(ctx, dst, rows, func(done int) { e.o.Progress(StageInvert, done, len(rows)) })
}

// InfluenceTo implements Dual. It takes h and q from the factor and the kernel,
// so that they keep their digits also where an example nearly fixes the function
// by itself. It uses only the length of x.
func (e *Exact) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error {
	if x.Len() != len(rows) {
		panic("gp: rows and examples differ in number")
	}
	c := e.outputs()
	dense.SizeTo(h, len(rows)*c, c)
	dense.SizeTo(q, len(rows), c)
	steps := make([]float64, len(rows)*c)
	var undefined *NotPDError
	if err := e.removals(ctx, steps, rows, func(int) {}); err != nil && !errors.As(err, &undefined) {
		return err
	}
	for i := range rows {
		q.SetRow(i, steps[i*c:(i+1)*c])
	}
	step := max(1, min(len(rows), e.tile/8/c/e.g.n))
	a := dense.New(step*c, e.g.n)
	for p := range par.Tiles(len(rows), step) {
		lo, hi := par.Bounds(p, len(rows), step)
		a.Rows = (hi - lo) * c
		if err := e.selfTo(ctx, dense.Slice(h, lo*c, hi*c), rows[lo:hi], a); err != nil {
			return err
		}
	}
	return nil
}

// selfTo writes h_i of the training examples at these rows. a is scratch memory
// for their rows of K.
func (e *Exact) selfTo(ctx context.Context, h *mat.Dense, rows []int, a blas64.General) error {
	c := e.outputs()
	prior := make([]float64, a.Rows)
	for t := range a.Rows {
		at := rows[t/c]*c + t%c
		e.g.rowTo(rowOf(a, t), at)
		prior[t] = rowOf(a, t)[at]
		copy(h.RawRowView(t), rowOf(a, t)[rows[t/c]*c:])
	}
	if err := e.f.half(ctx, a); err != nil {
		return stopped("solving for a covariance", err)
	}
	for t := range a.Rows {
		for j := range c {
			// h = K_ii − K_in R B⁻¹ Rᵀ K_ni (E6)
			h.Set(t, j, h.At(t, j)-floats.Dot(rowOf(a, t), rowOf(a, t/c*c+j)))
		}
	}
	for first := 0; first < a.Rows; first += c {
		lost := false
		for t := first; t < first+c; t++ {
			lost = lost || !(h.At(t, t-first) >= cancels*prior[t])
		}
		if !lost {
			continue
		}
		if err := e.refinedSelfTo(ctx, dense.Slice(h, first, first+c), rows[first/c]); err != nil {
			return err
		}
	}
	return nil
}

// refinedSelfTo writes h of example i by iterative refinement, which restores
// digits that the difference of prior and explained covariance has lost. It
// writes NaN where a variance is still negative.
func (e *Exact) refinedSelfTo(ctx context.Context, h *mat.Dense, i int) error {
	c := e.outputs()
	raw, post := dense.New(c, e.g.n), dense.New(c, e.g.n)
	for j := range c {
		e.g.rowTo(rowOf(raw, j), i*c+j)
	}
	if _, err := e.posteriorTo(ctx, post, raw); err != nil {
		return err
	}
	for j := range c {
		for k := range c {
			h.Set(j, k, (rowOf(post, j)[i*c+k]+rowOf(post, k)[i*c+j])/2)
		}
	}
	for j := range c {
		if !(h.At(j, j) >= 0) {
			h.Apply(func(_, _ int, _ float64) float64 { return math.NaN() }, h)
			return nil
		}
	}
	return nil
}

// removals writes q_i of the examples at these rows, which ascend. It forms the
// rows of B⁻¹ that it needs one panel at a time. Where an example alone fixes the
// function at its own input, its q_i is NaN and the error is a *NotPDError,
// returned after all others are written.
func (e *Exact) removals(ctx context.Context, dst []float64, rows []int, progress func(done int)) error {
	n, c := len(rows), e.outputs()
	step := max(1, invertRows/c)
	inv := dense.New(min(n, step)*c, e.g.n)
	left := make([]float64, inv.Rows*c) // [B⁻¹]_ii
	var (
		at        []int
		undefined atomic.Bool
	)
	for p := range par.Tiles(n, step) {
		lo, hi := par.Bounds(p, n, step)
		at = at[:0]
		for _, i := range rows[lo:hi] {
			for j := range c {
				at = append(at, i*c+j)
			}
		}
		inv.Rows = len(at)
		if err := e.f.inverseRowsTo(ctx, inv, at); err != nil {
			return stopped("inverting I + RᵀKR", err)
		}
		for t, i := range at {
			copy(left[t*c:(t+1)*c], inv.Data[t*inv.Stride+i/c*c:])
		}
		// Rᵀh = B⁻¹RᵀK, since C R = K R B⁻¹; only its diagonal blocks are used.
		if err := e.f.r.mulTrans(ctx, e.o.Workers, inv); err != nil {
			return stopped("inverting I + RᵀKR", err)
		}
		err := par.Do(ctx, e.o.Workers, hi-lo, func(t int) error {
			i := rows[lo+t]
			h := dense.New(c, c)
			inverse := blas64.General{Rows: c, Cols: inv.Cols, Stride: inv.Stride, Data: inv.Data[t*c*inv.Stride:]}
			if err := e.g.addMulTo(ctx, 1, h, 1, inverse, i*c, (i+1)*c); err != nil {
				return err
			}
			if !e.removal(dst[(lo+t)*c:(lo+t+1)*c], i, left[t*c*c:(t+1)*c*c], h.Data) {
				undefined.Store(true)
			}
			return nil
		})
		if err != nil {
			return err
		}
		progress(hi)
	}
	if undefined.Load() {
		return &NotPDError{What: "the block of (I + RᵀKR)⁻¹ of a training example", N: c, Reason: "the example alone fixes the function at its own input"}
	}
	return nil
}

// removal writes q of example i. left is [B⁻¹]_ii, which it overwrites, and hat is
// Rᵀh. It writes NaN and returns false where [B⁻¹]_ii has no Cholesky factor.
func (e *Exact) removal(q []float64, i int, left, hat []float64) (ok bool) {
	c := len(q)
	r, v := e.sites.Residual.RawRowView(i), make([]float64, c)
	if e.refit {
		// At the mode r = α, which keeps its digits where y − f̂ has lost them.
		r = e.alpha[i*c : (i+1)*c]
	}
	for j := range v {
		v[j] = floats.Dot(hat[j*c:(j+1)*c], r)
	}
	u, ok := fblas.Potrf1(blas64.Symmetric{Uplo: blas.Upper, N: c, Stride: c, Data: left})
	if !ok {
		for j := range q {
			q[j] = math.NaN()
		}
		return false
	}
	solveVec(u, v)
	e.f.r.mulTransRow(v, i)
	// (I − Λ_i h_i)⁻¹ r_i = r_i + R_i [B⁻¹]_ii⁻¹ R_iᵀ h_i r_i (E15)
	floats.AddTo(q, r, v)
	return true
}
