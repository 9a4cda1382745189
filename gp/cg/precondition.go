package cg

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// A preconditioner is P = I + RᵀQR = I + FFᵀ with F = RᵀΦ. P ⪯ B, because Q ⪯ K.
type preconditioner struct {
	root   siteBlocks
	phi    blas64.General
	u      blas64.Triangular // I + FᵀF = UᵀU
	logDet float64           // log det P
}

func newPreconditioner(ctx context.Context, root siteBlocks, phi blas64.General) (*preconditioner, error) {
	r := phi.Cols
	p := &preconditioner{root: root, phi: phi}
	if r == 0 {
		return p, nil
	}
	a := blas64.Symmetric{Uplo: blas.Upper, N: r, Stride: r, Data: make([]float64, r*r)}
	// RᵀΦ is formed for a few examples at a time, to save memory.
	n, step := phi.Rows/root.c, linearize.Tile(root.c)
	part := dense.New(min(n, step)*root.c, r)
	for t := range par.Tiles(n, step) {
		lo, hi := par.Bounds(t, n, step)
		f := dense.Rows(part, 0, (hi-lo)*root.c)
		dense.Copy(f, dense.Rows(phi, lo*root.c, hi*root.c))
		root.mul(f, lo, true)
		if err := dense.SyrkContext(ctx, blas.Trans, 1, f, 1, a); err != nil {
			return nil, err
		}
	}
	for i := range r {
		a.Data[i*a.Stride+i]++
	}
	u, ok, err := dense.PotrfContext(ctx, a)
	if err != nil {
		return nil, err
	}
	if p.u = u; !ok {
		return nil, &gp.NotPDError{What: "the preconditioner", N: r, Reason: "the kernel is not a covariance"}
	}
	p.logDet = dense.LogDet(u)
	return p, nil
}

// solveTo writes P⁻¹v = v − F(I + FᵀF)⁻¹Fᵀv.
func (p *preconditioner) solveTo(ctx context.Context, dst, v blas64.General) error {
	return p.correct(ctx, dst, v, p.u, p.u)
}

// correct writes v − F B⁻¹A⁻ᵀFᵀv for the upper triangular matrices a and b. Its
// error is ctx.Err().
func (p *preconditioner) correct(ctx context.Context, dst, v blas64.General, a, b blas64.Triangular) error {
	dense.Copy(dst, v)
	if p.phi.Cols == 0 {
		return nil
	}
	p.root.mul(dst, 0, false)
	s := dense.New(p.phi.Cols, v.Cols)
	if err := dense.GemmContext(ctx, blas.Trans, blas.NoTrans, 1, p.phi, dst, 0, s); err != nil {
		return err
	}
	if err := dense.TrsmContext(ctx, blas.Left, blas.Trans, 1, a, s); err != nil {
		return err
	}
	if err := dense.TrsmContext(ctx, blas.Left, blas.NoTrans, 1, b, s); err != nil {
		return err
	}
	if err := dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, p.phi, s, 0, dst); err != nil {
		return err
	}
	p.root.mul(dst, 0, true)
	subFrom(dst, v)
	return nil
}

// An inverseRoot multiplies with Y = I − F D Fᵀ, where D = (I + U)⁻¹U⁻ᵀ, for which
// YᵀY = P⁻¹. With S = FᵀF = UᵀU − I this says D + Dᵀ − DᵀSD = (I + S)⁻¹.
type inverseRoot struct {
	p    *preconditioner
	next blas64.Triangular // I + U
}

// inverseRoot returns Y with YᵀY = P⁻¹.
func (p *preconditioner) inverseRoot() *inverseRoot {
	q := &inverseRoot{p: p, next: p.u}
	q.next.Data = slices.Clone(p.u.Data)
	for i := range q.next.N {
		q.next.Data[i*q.next.Stride+i]++
	}
	return q
}

// mulTo writes Y v.
func (q *inverseRoot) mulTo(ctx context.Context, dst, v blas64.General) error {
	return q.p.correct(ctx, dst, v, q.p.u, q.next)
}

// mulTransTo writes Yᵀ v.
func (q *inverseRoot) mulTransTo(ctx context.Context, dst, v blas64.General) error {
	return q.p.correct(ctx, dst, v, q.next, q.p.u)
}
