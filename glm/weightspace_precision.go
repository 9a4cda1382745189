package glm

import (
	"context"
	"math"
	"math/bits"
	"sort"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// A precision is H̃ = I + J̃ᵀΛJ̃ and its Cholesky factor, H̃ = UᵀU, in the upper
// triangle of one P×P buffer.
type precision struct {
	data   []float64
	u      blas64.Triangular
	logDet float64 // log det H̃
}

// condition forms and factors H̃ at the sites s.
func (w *Weights) condition(ctx context.Context, s *gp.Sites) error {
	w.sites = s
	p := len(w.theta)
	h := blas64.Symmetric{Uplo: blas.Upper, N: p, Stride: p, Data: w.h.data}
	clear(h.Data)
	for i := range p {
		h.Data[i*p+i] = 1
	}
	if err := w.accumulate(ctx, h); err != nil {
		return err
	}
	var ok bool
	if w.h.u, ok = fblas.Potrf(h); !ok {
		return &PrecisionError{P: p}
	}
	// log det H̃ = 2 Σ log u_ii
	w.h.logDet = 0
	for i := range p {
		w.h.logDet += 2 * math.Log(h.Data[i*p+i])
	}
	if math.IsNaN(w.h.logDet) || math.IsInf(w.h.logDet, 0) {
		return &PrecisionError{P: p}
	}
	return ctx.Err()
}

// accumulate adds J̃ᵀΛJ̃ to h, a panel of examples at a time.
func (w *Weights) accumulate(ctx context.Context, h blas64.Symmetric) error {
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
		fblas.Syrk(blas.Trans, 1, a, 1, h)
		w.o.Progress(StagePrecision, hi, n)
	}
	return nil
}

// rootPanel writes Rᵀ J̃ of the training examples [lo, hi).
func (w *Weights) rootPanel(ctx context.Context, dst blas64.General, lo, hi int) error {
	return w.panel(ctx, dst, w.x.Slice(lo, hi), lo, func(j *mat.Dense, at int) {
		c := w.x.Outputs()
		tmp := mat.NewDense(c, len(w.theta), nil)
		for i := range rowCount(j) / c {
			jn := rowRange(j, i*c, (i+1)*c)
			rn := rowRange(w.sites.Root, (lo+at+i)*c, (lo+at+i+1)*c)
			if isDiagonal(rn) {
				scaleRows(jn, rn)
				continue
			}
			tmp.Copy(jn)
			fblas.Gemm1(blas.Trans, blas.NoTrans, 1, rn.RawMatrix(), tmp.RawMatrix(), 0, jn.RawMatrix())
		}
	})
}

// panelTile is the number of rows of J that a worker forms at once.
const panelTile = 32

// panel writes J̃ of the examples of x, and lets then work on its rows; then
// is given consecutive whole examples and the number of the first. A NaN or
// Inf is reported as of example first and following.
func (w *Weights) panel(ctx context.Context, dst blas64.General, x *linearize.Batch, first int, then func(j *mat.Dense, at int)) error {
	n, c := x.Len(), x.Outputs()
	step := max(1, panelTile/c)
	return par.Do(ctx, w.o.Workers, par.Tiles(n, step), func(t int) error {
		lo, hi := par.Bounds(t, n, step)
		j := rowRange(asDense(dst), lo*c, hi*c)
		x.Slice(lo, hi).JacobianTo(j)
		for i := range rowCount(j) {
			row := j.RawRowView(i)
			if k := firstNotFinite(row); k >= 0 {
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
	h.half(rowVector(v))
	h.rest(rowVector(v))
}

// half replaces A, P columns, by A U⁻¹, so that A H̃⁻¹ Aᵀ is the product of
// the result with its transpose.
func (h *precision) half(a blas64.General) { fblas.Trsm(blas.Right, blas.NoTrans, 1, h.u, a) }

// rest replaces A, P columns, by A U⁻ᵀ: half and rest are A H̃⁻¹, and rest
// gives standard normal rows the covariance H̃⁻¹.
func (h *precision) rest(a blas64.General) { fblas.Trsm(blas.Right, blas.Trans, 1, h.u, a) }

// panelExamples is the number of examples whose Jacobian is held at once: 512
// rows, or fewer where they pass 64 MiB.
func panelExamples(p, c int) int {
	rows := min(512, panelBytes/8/p)
	return max(1, rows/c)
}

const panelBytes = 64 << 20

// WeightBytes returns the memory that FitWeights and RefitWeights take for p
// parameters and c outputs: 8·P² for H and its factor, a panel of the
// Jacobian with its scratch, and vectors. A number too large for an int64 is
// returned as the largest int64.
func WeightBytes(p, c int) int64 {
	square := mulCap(int64(p), int64(p))
	panel := mulCap(2*int64(panelExamples(max(1, p), c)*c+panelTile), int64(p))
	vectors := mulCap(12, int64(p))
	return mulCap(8, addCap(square, addCap(panel, vectors)))
}

// checkWeightMemory returns a *WeightMemoryError where p parameters pass the
// budget.
func checkWeightMemory(p, c int, maxMemory int64) error {
	budget := gp.MemoryBudget(maxMemory)
	need := WeightBytes(p, c)
	if need <= budget {
		return nil
	}
	largest := sort.Search(p, func(i int) bool { return WeightBytes(i+1, c) > budget })
	return &WeightMemoryError{P: p, Needed: need, Available: budget, LargestP: largest}
}

func mulCap(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}

func addCap(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func isDiagonal(m *mat.Dense) bool {
	for i := range rowCount(m) {
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
	for i := range rowCount(m) {
		s := r.At(i, i)
		for k, row := 0, m.RawRowView(i); k < len(row); k++ {
			row[k] *= s
		}
	}
}

func rowCount(m *mat.Dense) int {
	r, _ := m.Dims()
	return r
}

// rowRange returns rows [lo, hi) of m as a view, lo < hi; nil stays nil.
func rowRange(m *mat.Dense, lo, hi int) *mat.Dense {
	if m == nil {
		return nil
	}
	g := m.RawMatrix()
	g.Rows, g.Data = hi-lo, g.Data[lo*g.Stride:(hi-1)*g.Stride+g.Cols]
	return asDense(g)
}

func asDense(g blas64.General) *mat.Dense {
	m := new(mat.Dense)
	m.SetRawMatrix(g)
	return m
}
