package gp

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// exactCross is the cross-kernel of fixed inputs with all training examples.
type exactCross struct {
	e    *rowSolver
	raw  blas64.General // κ_*n, T·C × N·C
	post blas64.General // C_*n, T·C × N·C
}

var _ Cross = (*exactCross)(nil)

// Cross computes κ(x, ·) and C(x, ·) with all training examples, both
// T·C×N·C; TileTo copies from them. Where rounding would make the sum
// Σ C(x, x_i) b_i miss its value, or takes most digits of C, iterative refinement
// restores them, which costs as much again. Cross fails with a *MemoryError where
// the two matrices take more than Options.Memory.
func (e *rowSolver) Cross(ctx context.Context, x *linearize.Batch) (Cross, error) {
	t, c := x.Len(), e.predicted()
	if err := ctx.Err(); err != nil {
		return nil, stopped("solving for a cross-kernel", err)
	}
	err := CheckMemory("a cross-kernel", TestExamples, t, e.o.Memory, func(t int) int64 {
		return memory.Mul(16, memory.Mul(int64(t)*int64(c), int64(e.g.n)))
	})
	if err != nil {
		return nil, err
	}
	q := &exactCross{e: e, raw: dense.New(t*c, e.g.n), post: dense.New(t*c, e.g.n)}
	if t == 0 {
		return q, nil
	}
	if err := blockTo(ctx, e.k, dense.View(q.raw), x, e.x); err != nil {
		return nil, err
	}
	if err := checkFinite("cross-kernel", dense.View(q.raw)); err != nil {
		at := err.(*NotFiniteError)
		at.Row, at.Output = at.Row/c, at.Row%c
		return nil, at
	}
	_, err = e.posteriorTo(ctx, q.post, q.raw)
	return q, err
}

// TileTo implements Cross.
func (q *exactCross) TileTo(ctx context.Context, dst *mat.Dense, first int, train *linearize.Batch, t Terms) error {
	n, c := q.e.set().CheckTile(first, train)
	j0, j1 := first*c, (first+n)*c
	dense.SizeTo(dst, q.raw.Rows, j1-j0)
	if q.raw.Rows == 0 || j0 == j1 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	switch t {
	case RawTerms:
		dst.Copy(dense.View(dense.Cols(q.raw, j0, j1)))
	case PosteriorTerms:
		dst.Copy(dense.View(dense.Cols(q.post, j0, j1)))
	default:
		panic("gp: unknown terms")
	}
	return nil
}

const (
	// A sum Σ C b whose gap is at most closes·Σ|C b| is as good as rounding allows.
	closes = 1e-11
	// C is a difference of two kernels. It has lost digits if the largest |C| of a row is less than the share cancels
	// of the largest |κ| of that row.
	cancels = 1e-7
)

// posteriorTo writes C = A (I + ΛK)⁻¹ for rows A of κ, a few rows at a time. It
// returns the largest |C b − A α| of a row; in exact arithmetic it is zero.
func (e *rowSolver) posteriorTo(ctx context.Context, dst, a blas64.General) (gap float64, err error) {
	step := max(1, min(a.Rows, e.tile/8/e.g.n))
	rest, work := dense.New(step, e.g.n), dense.New(step, e.g.n)
	for p := range par.Tiles(a.Rows, step) {
		lo, hi := par.Bounds(p, a.Rows, step)
		rest.Rows, work.Rows = hi-lo, hi-lo
		one, err := e.posteriorRowsTo(ctx, dense.Rows(dst, lo, hi), dense.Rows(a, lo, hi), rest, work)
		if err != nil {
			return 0, err
		}
		gap = math.Max(gap, one)
	}
	return gap, nil
}

// posteriorRowsTo is posteriorTo for all rows at once, with scratch memory rest
// and work of the size of a.
func (e *rowSolver) posteriorRowsTo(ctx context.Context, dst, a, rest, work blas64.General) (gap float64, err error) {
	for i := range a.Rows {
		copy(dense.Row(dst, i), dense.Row(a, i))
	}
	// C_*n = K_*n − K_*n R B⁻¹ Rᵀ K_nn (E14)
	if err := e.subtractSolved(ctx, dst, work); err != nil {
		return 0, err
	}
	for step := 0; ; step++ {
		open, worst := false, 0.0
		for i := range dst.Rows {
			gap, closed := e.gap(dense.Row(dst, i), dense.Row(a, i))
			worst = math.Max(worst, gap)
			open = open || !(gap <= closed) || step == 0 && floats.Norm(dense.Row(dst, i), math.Inf(1)) < cancels*floats.Norm(dense.Row(a, i), math.Inf(1))
		}
		if !open || step == refining {
			return worst, nil
		}
		better, err := e.refine(ctx, dst, a, rest, work)
		if err != nil || !better {
			return worst, err
		}
	}
}

// gap returns |C b − A α| for one row of C and A, and how large it may be.
func (e *rowSolver) gap(post, raw []float64) (gap, closed float64) {
	sum, size := 0.0, 0.0
	for i, v := range post {
		sum += v * e.b[i]
		size += math.Abs(v * e.b[i])
	}
	if closed = e.closed; closed == 0 {
		closed = closes * size
	}
	return math.Abs(sum - floats.Dot(raw, e.alpha)), closed
}

// refine adds (A − C(I + ΛK))(I + ΛK)⁻¹ to the rows of C where that does not
// make the gap of their sums larger. It tells whether any row was changed.
func (e *rowSolver) refine(ctx context.Context, dst, a, rest, work blas64.General) (better bool, err error) {
	// A − C − CΛK
	for i := range dst.Rows {
		floats.SubTo(dense.Row(rest, i), dense.Row(a, i), dense.Row(dst, i))
		copy(dense.Row(work, i), dense.Row(dst, i))
	}
	if err := e.lambda.mul(ctx, work); err != nil {
		return false, err
	}
	if err := e.subtractProduct(ctx, rest, work); err != nil {
		return false, err
	}
	step := work // the product is not needed any more
	if err := e.subtractSolved(ctx, rest, step); err != nil {
		return false, err
	}
	for i := range dst.Rows {
		c, d := dense.Row(dst, i), dense.Row(rest, i)
		was, closed := e.gap(c, dense.Row(a, i))
		floats.AddTo(dense.Row(step, i), c, d)
		if now, _ := e.gap(dense.Row(step, i), dense.Row(a, i)); now < was || now <= closed {
			copy(c, dense.Row(step, i))
			better = true
		}
	}
	return better, nil
}

// subtractSolved replaces A by A − A R B⁻¹ RᵀK, which is A (I + ΛK)⁻¹.
func (e *rowSolver) subtractSolved(ctx context.Context, a, work blas64.General) error {
	for i := range a.Rows {
		copy(dense.Row(work, i), dense.Row(a, i))
	}
	// Replace A by A R B⁻¹ Rᵀ.
	f := e.f
	if err := f.half(ctx, work); err != nil {
		return stopped("solving for a cross-kernel", err)
	}
	if err := f.transHalf(ctx, work); err != nil {
		return err
	}
	return e.subtractProduct(ctx, a, work)
}

// subtractProduct subtracts W K from dst.
func (e *rowSolver) subtractProduct(ctx context.Context, dst, w blas64.General) error {
	if err := dense.SymmContext(ctx, blas.Right, -1, e.g.kernel(), w, 1, dst); err != nil {
		return stopped("solving for a cross-kernel", err)
	}
	return nil
}
