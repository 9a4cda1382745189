package linearize

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// Conv is the Jacobian of a weight that is used at T positions of each example: by a convolution, a transposed
// convolution, or a dense layer along an axis. At position t of example n the weight multiplies the patch p_nt, k
// numbers. g_nct, m numbers, is the gradient of output c in the result there. In each of the weight's groups,
// ∂f_nc/∂W = Σ_t g_nct p_ntᵀ. Patches are gathered from the layer's input when they are needed.
type Conv struct {
	X      *mat.Dense // N × input size: the layer's input
	G      *mat.Dense // N·C × output size: gradients of the network's outputs in the layer's result
	Weight *Span      // (groups·m)×k, or (groups·k)×m if Transposed; nil if it is not a parameter
	Bias   *Span      // one number for each output channel; nil if it is not a parameter
	C      int        // outputs
	Layout Positions  // how X and G split into patches and gradients
}

var _ Block = (*Conv)(nil)

// Positions says where the positions of a Conv are in a layer's input x, and in a gradient g in its result, both
// for one example. A slice of a wrong length panics. Several goroutines call its methods at once.
type Positions interface {
	// Groups returns the number of groups. Each group has its own weight matrix.
	Groups() int
	// Factors returns, for each group, the number t of positions in an example, the length k of a patch and the
	// length m of a gradient.
	Factors() (t, k, m int)
	// Patches writes the patches of a group to dst, T×k.
	Patches(dst, x []float64, group int)
	// Gradients writes the gradients of a group to dst, T×m.
	Gradients(dst, g []float64, group int)
	// WeightGradient writes beta·dst + Σ_t g_t p_tᵀ for all groups to dst, which has the layout of the stored
	// weight (Span). beta is 0 or 1. scratch has Scratch numbers, with any content.
	WeightGradient(dst, x, g, scratch []float64, transposed bool, beta float64)
	// Scratch returns the number of float64s that WeightGradient needs as scratch.
	Scratch() int
	// AddBiasGradient adds Σ_t g_t to dst, one number for each output channel.
	AddBiasGradient(dst, g []float64)
}

// Groups returns the number of groups. Each group has its own weight matrix.
func (v *Conv) Groups() int { return v.Layout.Groups() }

// Factors returns, for each group, the number t of positions in an example, the length k of a patch and the length
// m of a gradient.
func (v *Conv) Factors() (t, k, m int) { return v.Layout.Factors() }

// FactorsTo writes the patches of a group to a, N·T×k, and its gradients to g, N·C·T×m, example by example and
// position by position. A nil matrix is skipped. A matrix with gaps between its rows or of another width panics.
func (v *Conv) FactorsTo(a, g *mat.Dense, group int) {
	t, k, m := v.Layout.Factors()
	if a != nil {
		for n := range dense.Count(v.X) {
			v.Layout.Patches(contiguous(a, n*t, t, k), v.X.RawRowView(n), group)
		}
	}
	if g != nil {
		for i := range dense.Count(v.G) {
			v.Layout.Gradients(contiguous(g, i*t, t, m), v.G.RawRowView(i), group)
		}
	}
}

// contiguous returns the data of rows row to row+rows−1 of m, which must have cols columns without gaps.
func contiguous(m *mat.Dense, row, rows, cols int) []float64 {
	raw := m.RawMatrix()
	if raw.Cols != cols || raw.Stride != cols {
		panic("linearize: factors need a contiguous matrix of the right width")
	}
	return raw.Data[row*cols : (row+rows)*cols]
}

// Spans returns the span of the weight, then that of the bias.
func (v *Conv) Spans() []Span { return spansOf(v.Weight, v.Bias) }

// TileTo implements Block.
func (v *Conv) TileTo(dst *mat.Dense) {
	var scratch []float64
	if v.Weight != nil {
		scratch = make([]float64, v.Layout.Scratch())
	}
	for i := range dense.Count(v.G) {
		row := dst.RawRowView(i)
		clear(row)
		g := v.G.RawRowView(i)
		if w := v.Weight; w != nil {
			v.Layout.WeightGradient(row[:w.Len()], v.X.RawRowView(i/v.C), g, scratch, w.Transposed, 0)
			row = row[w.Len():]
		}
		if v.Bias != nil {
			v.Layout.AddBiasGradient(row[:v.Bias.Len()], g)
		}
	}
}

// JacobianTo implements Block.
func (v *Conv) JacobianTo(dst *mat.Dense) { scatterTile(dst, v, dense.Count(v.G)) }

// factorFloats bounds the patches that a product gathers at a time, unless one example has more.
const factorFloats = 1 << 18

// eachFactors calls do with the patches of a group of a few examples, from example lo on, position by position, and
// with the group's part of v, P numbers, as a stored matrix, m×k, or k×m if it is transposed.
func (v *Conv) eachFactors(of []float64, do func(lo, n, group int, patches, weight blas64.General)) {
	t, k, m := v.Factors()
	rows, cols := m, k
	if v.Weight.Transposed {
		rows, cols = k, m
	}
	all := v.Weight.of(of).Data
	count := dense.Count(v.X)
	size := min(count, max(1, factorFloats/(t*k)))
	buffer := make([]float64, size*t*k)
	for group := range v.Groups() {
		weight := dense.Of(all[group*m*k:(group+1)*m*k], rows, cols)
		for lo := 0; lo < count; lo += size {
			n := min(size, count-lo)
			for e := range n {
				v.Layout.Patches(buffer[e*t*k:(e+1)*t*k], v.X.RawRowView(lo+e), group)
			}
			do(lo, n, group, dense.Of(buffer[:n*t*k], n*t, k), weight)
		}
	}
}

// AddMulVec implements Block. With V the part of x for the weight of a group, and z_nt = V p_nt, it adds
// Σ_t g_nct·z_nt to dst_nc.
func (v *Conv) AddMulVec(dst, x []float64) {
	if v.Weight != nil {
		t, _, m := v.Factors()
		g := make([]float64, t*m)
		var buffer []float64
		v.eachFactors(x, func(lo, n, group int, patches, weight blas64.General) {
			if buffer == nil {
				buffer = make([]float64, n*t*m)
			}
			dense.Gemm1(blas.NoTrans, transIf(!v.Weight.Transposed), 1, patches, weight, 0, dense.Of(buffer[:n*t*m], n*t, m))
			for i := lo * v.C; i < (lo+n)*v.C; i++ {
				v.Layout.Gradients(g, v.G.RawRowView(i), group)
				dst[i] += dense.Dot(buffer[(i/v.C-lo)*t*m:][:t*m], g)
			}
		})
	}
	if b := v.Bias; b != nil {
		g := make([]float64, b.Len())
		for i := range dense.Count(v.G) {
			clear(g)
			v.Layout.AddBiasGradient(g, v.G.RawRowView(i))
			dst[i] += dense.Dot(g, x[b.Offset:b.Offset+b.Len()])
		}
	}
}

// AddMulTransVec implements Block. With z_nt = Σ_c u_nc g_nct it adds Σ_nt z_nt p_ntᵀ for the weight and Σ_nt z_nt
// for the bias.
func (v *Conv) AddMulTransVec(dst, u []float64) {
	count := dense.Count(v.X)
	_, size := v.G.Dims()
	z := dense.New(count, size)
	for i := range dense.Count(v.G) {
		dense.Axpy(dense.Row(z, i/v.C), u[i], v.G.RawRowView(i))
	}
	if v.Weight != nil {
		t, _, m := v.Factors()
		var buffer []float64
		v.eachFactors(dst, func(lo, n, group int, patches, weight blas64.General) {
			if buffer == nil {
				buffer = make([]float64, n*t*m)
			}
			for e := range n {
				v.Layout.Gradients(buffer[e*t*m:(e+1)*t*m], dense.Row(z, lo+e), group)
			}
			l, r := dense.Of(buffer[:n*t*m], n*t, m), patches
			if v.Weight.Transposed {
				l, r = r, l
			}
			dense.Gemm(blas.Trans, blas.NoTrans, 1, l, r, 1, weight)
		})
	}
	if b := v.Bias; b != nil {
		for n := range count {
			v.Layout.AddBiasGradient(dst[b.Offset:b.Offset+b.Len()], dense.Row(z, n))
		}
	}
}

// Slice implements Block.
func (v *Conv) Slice(i, j int) Block {
	s := *v
	s.X, s.G = dense.Slice(v.X, i, j), dense.Slice(v.G, i*v.C, j*v.C)
	return &s
}

// Output implements Block.
func (v *Conv) Output(c int) Block {
	s := *v
	s.G, s.C = dense.Every(v.G, c, v.C), 1
	return &s
}
