package weightspace

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// A precision is H̃ = I + J̃ᵀΛJ̃ and its Cholesky factor, H̃ = UᵀU, in the upper
// triangle of one P×P buffer.
type precision struct {
	data   []float64
	shared bool // data belongs to another posterior and is read-only
	u      blas64.Triangular
	logDet float64   // log det H̃
	sites  *gp.Sites // the sites at which H̃ was factored; nil where there is no factor
}

// condition makes s the sites of w and factors H̃ at them. It keeps the factor
// that w has where that belongs to the same Λ.
func (w *Posterior) condition(ctx context.Context, s *gp.Sites) error {
	w.sites = s
	if err := ctx.Err(); err != nil || w.h.isOf(s) {
		return err
	}
	p := len(w.theta)
	w.h.sites = nil
	w.h.identity(p)
	if err := w.accumulate(ctx, w.h.symmetric(p)); err != nil {
		return err
	}
	if err := w.h.factor(ctx, w.o.Workers, p); err != nil {
		return err
	}
	w.h.sites = s
	return ctx.Err()
}

// identity sets H̃ to the identity of n parameters.
func (h *precision) identity(n int) {
	if h.shared || len(h.data) < n*n {
		h.data, h.shared = make([]float64, n*n), false
	}
	clear(h.data)
	for i := range n {
		h.data[i*n+i] = 1
	}
}

// symmetric returns H̃ of n parameters, in the same memory.
func (h *precision) symmetric(n int) blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: n, Data: h.data}
}

// factor replaces H̃ of n parameters by its factor.
func (h *precision) factor(ctx context.Context, workers, n int) error {
	u, ok, err := dense.PotrfContext(ctx, workers, h.symmetric(n))
	if err != nil {
		return err
	}
	if h.u = u; !ok {
		return notPD(n)
	}
	// log det H̃ = 2 Σ log u_ii
	h.logDet = 0
	for i := range n {
		h.logDet += 2 * math.Log(h.data[i*n+i])
	}
	if math.IsNaN(h.logDet) || math.IsInf(h.logDet, 0) {
		return notPD(n)
	}
	return nil
}

// isOf tells whether the factor is that of H̃ at s. Only the roots R of
// Λ = R Rᵀ enter H̃, so only they are compared.
func (h *precision) isOf(s *gp.Sites) bool {
	return h.sites != nil && (h.sites == s || mat.Equal(h.sites.Root, s.Root))
}

// accumulate adds J̃ᵀΛJ̃ to h, a panel of examples at a time.
func (w *Posterior) accumulate(ctx context.Context, h blas64.Symmetric) error {
	n, c := w.x.Len(), w.x.Outputs()
	step := panelExamples(h.N, c)
	panel := make([]float64, min(step, n)*c*h.N)
	w.o.Progress(StagePrecision, 0, n)
	for t := range par.Tiles(n, step) {
		lo, hi := par.Bounds(t, n, step)
		a := blas64.General{Rows: (hi - lo) * c, Cols: h.N, Stride: h.N, Data: panel[:(hi-lo)*c*h.N]}
		if err := w.rootPanel(ctx, a, lo, hi); err != nil {
			return err
		}
		// H̃ = I + Σ (RᵀJ̃)ᵀ(RᵀJ̃)
		if err := dense.SyrkContext(ctx, w.o.Workers, blas.Trans, 1, a, 1, h); err != nil {
			return err
		}
		w.o.Progress(StagePrecision, hi, n)
	}
	return ctx.Err()
}

// rootPanel writes Rᵀ J̃ of the training examples [lo, hi).
func (w *Posterior) rootPanel(ctx context.Context, dst blas64.General, lo, hi int) error {
	return w.panel(ctx, dst, w.x.Slice(lo, hi), lo, func(j *mat.Dense, at int) {
		c := w.x.Outputs()
		tmp := mat.NewDense(c, len(w.theta), nil)
		for i := range dense.Count(j) / c {
			jn := dense.Slice(j, i*c, (i+1)*c)
			rn := dense.Slice(w.sites.Root, (lo+at+i)*c, (lo+at+i+1)*c)
			tmp.Copy(jn)
			rootTimes(jn.RawMatrix(), rn, tmp)
		}
	})
}

// panelTile is the number of rows of J that a worker forms at once.
const panelTile = 32

// panel writes J̃ of the examples of x. If then is not nil, it is called with the
// rows of consecutive examples and the index of their first in x. Errors number
// the examples of x from first on.
func (w *Posterior) panel(ctx context.Context, dst blas64.General, x *linearize.Batch, first int, then func(j *mat.Dense, at int)) error {
	n, c := x.Len(), x.Outputs()
	step := max(1, panelTile/c)
	return par.Do(ctx, w.o.Workers, par.Tiles(n, step), func(t int) error {
		lo, hi := par.Bounds(t, n, step)
		j := dense.Slice(dense.View(dst), lo*c, hi*c)
		x.Slice(lo, hi).JacobianTo(j)
		for i := range dense.Count(j) {
			row := j.RawRowView(i)
			if k := dense.NotFinite(row); k >= 0 {
				return &gp.NotFiniteError{What: "Jacobian", Row: first + lo + i/c, Output: i % c, Value: row[k]}
			}
			// J̃ = J Σ₀^½
			for k, s := range w.root {
				row[k] *= s
			}
		}
		if then != nil {
			then(j, lo)
		}
		return nil
	})
}

// solve replaces v by H̃⁻¹ v.
func (h *precision) solve(v []float64) {
	x := blas64.Vector{N: len(v), Inc: 1, Data: v}
	dense.Trsv(blas.Trans, h.u, x)
	dense.Trsv(blas.NoTrans, h.u, x)
}

// half replaces A, P columns, by V = A U⁻¹, so that A H̃⁻¹ Aᵀ = V Vᵀ. It looks
// at the context between panels.
func (h *precision) half(ctx context.Context, workers int, a blas64.General) error {
	return dense.TrsmContext(ctx, workers, blas.Right, blas.NoTrans, 1, h.u, a)
}

// draw replaces A, P columns, by A U⁻ᵀ. Standard normal rows then have the
// covariance H̃⁻¹.
func (h *precision) draw(ctx context.Context, workers int, a blas64.General) error {
	return dense.TrsmContext(ctx, workers, blas.Right, blas.Trans, 1, h.u, a)
}

// panelExamples returns the number of examples whose Jacobian is held at once:
// at most 512 rows and 64 MiB, but at least one example.
func panelExamples(p, c int) int {
	rows := min(512, panelBytes/8/p)
	return max(1, rows/c)
}

const panelBytes = 64 << 20

// Bytes returns the memory in bytes that Fit and Refit take for p parameters and
// c outputs: 8·P² for H and its factor, a panel of the Jacobian with its scratch,
// and vectors. It returns the largest int64 where the number is larger.
func Bytes(p, c int) int64 {
	square := memory.Mul(int64(p), int64(p))
	panel := memory.Mul(2*int64(panelExamples(max(1, p), c)*c+panelTile), int64(p))
	vectors := memory.Mul(16, int64(p))
	return memory.Mul(8, memory.Add(square, memory.Add(panel, vectors)))
}

// checkMemory returns a *gp.MemoryError where p parameters exceed the budget.
func checkMemory(p, c int, maxMemory int64) error {
	op := fmt.Sprintf("the posterior over %d parameters", p)
	return gp.CheckMemory(op, gp.Parameters, p, maxMemory, func(p int) int64 { return Bytes(p, c) })
}

// notPD returns the error for an H̃ without a Cholesky factor. It has one in exact
// arithmetic, so some number overflowed.
func notPD(p int) error {
	return &gp.NotPDError{What: "the posterior precision of the parameters", N: p,
		Reason: "the Jacobian, Λ or the prior variances are too large for float64; scale the inputs or raise the prior precision"}
}

func isDiagonal(m *mat.Dense) bool {
	for i := range dense.Count(m) {
		for j, v := range m.RawRowView(i) {
			if i != j && v != 0 {
				return false
			}
		}
	}
	return true
}

// scaleRows multiplies row i of m by r_ii.
func scaleRows(m, r *mat.Dense) {
	for i := range dense.Count(m) {
		s := r.At(i, i)
		for k, row := 0, m.RawRowView(i); k < len(row); k++ {
			row[k] *= s
		}
	}
}
