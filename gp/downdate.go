package gp

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
)

// A Downdate solves with B of the training examples without a set S of them, from the
// factor of all: the sites of the others are unchanged. With B = UᵀU and rows Q that are an
// orthonormal basis of those of U⁻¹ which belong to S, U⁻¹(I − QᵀQ)U⁻ᵀ is the inverse of B
// without S, and zero in S. It is right also where S nearly fixes the function by itself.
type Downdate struct {
	f    *factor
	q    blas64.General // Q, from its column first on, before which it is zero
	in   int            // numbers of a vector to solve for: N·C
	c    int
	out  []int // S, ascending
	kept *Kept // the rows of B, or nil where these are all N·C
}

// Downdate takes the training examples at these rows out of B; the rows ascend, and none is
// valid too. With s of them it takes O(s·C·(N·C)²) operations and 8·s·N·C² bytes.
func (e *Exact) Downdate(ctx context.Context, rows []int) (*Downdate, error) {
	if err := e.s.checkDowndate(rows, 1); err != nil {
		return nil, err
	}
	c := e.s.outputs()
	return newDowndate(ctx, e.s.f, stacked(rows, c), &Downdate{in: e.s.g.n, c: c, out: rows})
}

// Downdate returns the Downdate of the kept rows of these training examples, as Exact.Downdate does.
// Representatives stay in.
func (t *Thinned) Downdate(ctx context.Context, rows []int) (*Downdate, error) {
	var at []int
	for _, i := range rows {
		for from, to := t.kept.of(i); from < to; from++ {
			at = append(at, from)
		}
	}
	n, c := t.sites.F.Dims()
	return newDowndate(ctx, t.e.f, at, &Downdate{in: n * c, c: c, out: rows, kept: t.kept})
}

// newDowndate completes d with Q for the given rows of U⁻¹.
func newDowndate(ctx context.Context, f *factor, at []int, d *Downdate) (*Downdate, error) {
	d.f = f
	if len(at) == 0 {
		return d, nil
	}
	t := dense.New(len(at), f.u.N)
	if err := f.inverseRowsTo(ctx, t, at); err != nil {
		return nil, stopped("inverting the factor of I + RᵀKR", err)
	}
	d.q = dense.Cols(t, at[0], f.u.N)
	for i := range d.q.Rows {
		// Rows of examples that nearly fix the function are short.
		if norm := floats.Norm(dense.Row(d.q, i), 2); norm > 0 {
			floats.Scale(1/norm, dense.Row(d.q, i))
		}
	}
	if !orthonormalize(d.q, dense.New(len(at), len(at))) {
		return nil, fixedBy(len(at))
	}
	return d, nil
}

// checkDowndate panics unless rows are some of the training examples, ascending. It returns
// a *MemoryError where the given number of matrices of their rows is too large.
func (e *rowSolver) checkDowndate(rows []int, matrices int) error {
	for k, i := range rows {
		if i < 0 || i >= e.x.Len() || k > 0 && i <= rows[k-1] {
			panic("gp: rows of training examples do not ascend")
		}
	}
	return CheckMemory("leaving out training examples together", TrainingExamples, len(rows), e.o.Memory, func(n int) int64 {
		return memory.Mul(8*int64(matrices), memory.Mul(memory.Mul(int64(n), int64(e.outputs())), int64(e.g.n)))
	})
}

// SolveTo replaces each row v of a, N·C numbers, by R B⁻¹ Rᵀv = (K + Λ⁻¹)⁻¹v, where B has
// no examples of S. The result is zero at those.
func (d *Downdate) SolveTo(ctx context.Context, a *mat.Dense) error {
	g := a.RawMatrix()
	if g.Cols != d.in {
		panic("gp: a vector to solve for has a wrong length")
	}
	w := g
	if d.kept != nil {
		w = d.gather(g)
	}
	if err := d.solve(ctx, w); err != nil {
		return stopped("solving without training examples", err)
	}
	if d.kept != nil {
		d.scatter(g, w)
	}
	for i := range g.Rows {
		for _, at := range d.out {
			clear(dense.Row(g, i)[at*d.c : (at+1)*d.c])
		}
	}
	return nil
}

// solve replaces the rows of a by those of a R U⁻¹(I − QᵀQ)U⁻ᵀ Rᵀ.
func (d *Downdate) solve(ctx context.Context, a blas64.General) error {
	one := a.Rows == 1 // which is a matter of reading U, as Trsv does
	if one {
		d.f.r.mulRow(dense.Row(a, 0), 0)
		dense.Trsv(blas.Trans, d.f.u, dense.Vector(dense.Row(a, 0)))
	} else if err := d.f.half(ctx, a); err != nil {
		return err
	}
	if d.q.Rows > 0 {
		part := dense.Cols(a, d.f.u.N-d.q.Cols, d.f.u.N)
		s := dense.New(a.Rows, d.q.Rows)
		if err := dense.GemmContext(ctx, blas.NoTrans, blas.Trans, 1, part, d.q, 0, s); err != nil {
			return err
		}
		if err := dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, -1, s, d.q, 1, part); err != nil {
			return err
		}
	}
	if one {
		dense.Trsv(blas.NoTrans, d.f.u, dense.Vector(dense.Row(a, 0)))
		d.f.r.mulTransRow(dense.Row(a, 0), 0)
		return ctx.Err()
	}
	return d.f.transHalf(ctx, a)
}

// gather returns uᵀv of the kept rows for each row v of a.
func (d *Downdate) gather(a blas64.General) blas64.General {
	w := dense.New(a.Rows, d.kept.Len())
	for i := range a.Rows {
		for k, at := range d.kept.Examples {
			dense.Row(w, i)[k] = floats.Dot(d.kept.Directions.RawRowView(k), dense.Row(a, i)[at*d.c:(at+1)*d.c])
		}
	}
	return w
}

// scatter writes Σ_kept u w into the rows of a.
func (d *Downdate) scatter(a, w blas64.General) {
	dense.Zero(a)
	for i := range a.Rows {
		for k, at := range d.kept.Examples {
			floats.AddScaled(dense.Row(a, i)[at*d.c:(at+1)*d.c], dense.Row(w, i)[k], d.kept.Directions.RawRowView(k))
		}
	}
}

// LambdaTo writes Λ of the training examples as SolveTo has it, N·C×C: that of the sites,
// or of kept rows Λ̃, and zero in S.
func (d *Downdate) LambdaTo(dst *mat.Dense) {
	dense.SizeTo(dst, d.in, d.c)
	dst.Zero()
	if d.kept == nil {
		for i := range d.in / d.c {
			r := dense.View(d.f.r.matrix(i))
			block := dense.Slice(dst, i*d.c, (i+1)*d.c)
			block.Mul(r, r.T())
		}
	} else {
		for k, at := range d.kept.Examples {
			u := d.kept.Directions.RawRowView(k)
			for j, v := range u {
				floats.AddScaled(dst.RawRowView(at*d.c+j), d.kept.Lambda[k]*v, u)
			}
		}
	}
	for _, at := range d.out {
		dense.Slice(dst, at*d.c, (at+1)*d.c).Zero()
	}
}

// MulKernelTo implements KernelSolver.
func (e *rowSolver) MulKernelTo(ctx context.Context, dst, a *mat.Dense) error {
	rows, _ := a.Dims()
	if err := ctx.Err(); err != nil {
		return stopped("multiplying with the kernel", err)
	}
	if rows == 1 {
		e.g.mulVecTo(dst.RawRowView(0), a.RawRowView(0))
	} else if err := dense.SymmContext(ctx, blas.Right, 1, e.g.kernel(), a.RawMatrix(), 0, dst.RawMatrix()); err != nil {
		return stopped("multiplying with the kernel", err)
	}
	for i := range rows {
		if j := dense.NotFinite(dst.RawRowView(i)); j >= 0 {
			c := e.outputs()
			return &NotFiniteError{What: "product with the kernel", Row: j / c, Output: j % c, Value: dst.At(i, j), Remedy: tooLarge}
		}
	}
	return nil
}
