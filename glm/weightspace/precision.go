package weightspace

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
)

// A precision is H̃ = I + J̃ᵀΛJ̃, or its Cholesky factor U with H̃ = UᵀU, in the upper triangle of one P×P buffer.
type precision struct {
	data   []float64
	shared bool // data belongs to another posterior and is read-only
	// beside means that data is P×(P+1): its lower triangle has JᵀΛJ, and H̃ or U starts one column to the right.
	beside bool
	u      blas64.Triangular
	logDet float64 // log det H̃
}

// identity sets H̃ to the n×n identity.
func (h *precision) identity(n int) {
	if h.shared || len(h.data) < n*n {
		h.data, h.shared = make([]float64, n*n), false
	} else {
		clear(h.data)
	}
	for i := range n {
		h.data[i*n+i] = 1
	}
}

// symmetric returns H̃, n×n, as a view of data.
func (h *precision) symmetric(n int) blas64.Symmetric {
	if h.beside {
		return blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: n + 1, Data: h.data[1:]}
	}
	return blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: n, Data: h.data}
}

// ggn returns JᵀΛJ, n×n, as a view of data, if beside is true.
func (h *precision) ggn(n int) blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Lower, N: n, Stride: n + 1, Data: h.data}
}

// whiten sets H̃ to I + Σ₀^½ s·JᵀΛJ Σ₀^½.
func (h *precision) whiten(ctx context.Context, root []float64, s float64) error {
	to, from := h.symmetric(len(root)), h.ggn(len(root))
	return par.Do(ctx, to.N, func(i int) error {
		row := to.Data[i*to.Stride:]
		for j := i; j < to.N; j++ {
			row[j] = root[i] * (s * from.Data[j*from.Stride+i]) * root[j]
		}
		row[i]++
		return nil
	})
}

// factor replaces H̃, n×n, by its Cholesky factor.
func (h *precision) factor(ctx context.Context, n int) error {
	u, ok, err := dense.PotrfContext(ctx, h.symmetric(n))
	if err != nil {
		return err
	}
	if h.u = u; !ok {
		return sites.PrecisionError(n)
	}
	h.logDet = dense.LogDet(u)
	if math.IsNaN(h.logDet) || math.IsInf(h.logDet, 0) {
		return sites.PrecisionError(n)
	}
	return nil
}

// panelTile is the number of rows of J that a worker computes at once.
const panelTile = 32

// solve replaces v by H̃⁻¹ v.
func (h *precision) solve(v []float64) { dense.Solve(h.u, v) }

// half replaces A, which has P columns, by V = A U⁻¹, so that A H̃⁻¹ Aᵀ = V Vᵀ. It checks ctx between panels.
func (h *precision) half(ctx context.Context, a blas64.General) error {
	return dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, h.u, a)
}

// draw replaces A, which has P columns, by A U⁻ᵀ. Rows of standard normal numbers then have the covariance H̃⁻¹.
func (h *precision) draw(ctx context.Context, a blas64.General) error {
	return dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, h.u, a)
}

// panelExamples returns the number of examples whose Jacobians are held at once: at most 512 rows and 64 MiB, and
// at least one example.
func panelExamples(p, c int) int {
	rows := min(512, panelBytes/8/p)
	return max(1, rows/c)
}

const panelBytes = 64 << 20

// Bytes returns the memory in bytes that Fit and Refit take for p parameters and c outputs: 8·P² for H and its
// factor, a panel of the Jacobian with scratch, and vectors. It returns the largest int64 where the memory is more.
func Bytes(p, c int) int64 {
	square := memory.Mul(int64(p), int64(p))
	panel := memory.Mul(2*int64(panelExamples(max(1, p), c)*c+panelTile), int64(p))
	vectors := memory.Mul(16, int64(p))
	return memory.Mul(8, memory.Add(square, memory.Add(panel, vectors)))
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
