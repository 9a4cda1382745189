package linearize

import (
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
	scratch := make([]float64, v.Layout.Scratch())
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

// AddMulVec implements Block.
func (v *Conv) AddMulVec(dst, x []float64) {
	tile := make([]float64, Width(v))
	local := make([]float64, 0, len(tile))
	for _, s := range v.Spans() {
		local = append(local, x[s.Offset:s.Offset+s.Len()]...)
	}
	for i := range dense.Count(v.G) {
		// Row i of the Jacobian, as a Conv with one example i/C and one output i%C.
		s := *v
		s.X, s.G, s.C = dense.Slice(v.X, i/v.C, i/v.C+1), dense.Slice(v.G, i, i+1), 1
		one := &s
		one.TileTo(mat.NewDense(1, len(tile), tile))
		dst[i] += dense.Dot(tile, local)
	}
}

// AddMulTransVec implements Block.
func (v *Conv) AddMulTransVec(dst, u []float64) {
	scratch := make([]float64, v.Layout.Scratch())
	_, size := v.G.Dims()
	z := make([]float64, size)
	for n := range dense.Count(v.X) {
		clear(z)
		for c := range v.C {
			dense.Axpy(z, u[n*v.C+c], v.G.RawRowView(n*v.C+c))
		}
		if w := v.Weight; w != nil {
			v.Layout.WeightGradient(dst[w.Offset:w.Offset+w.Len()], v.X.RawRowView(n), z, scratch, w.Transposed, 1)
		}
		if b := v.Bias; b != nil {
			v.Layout.AddBiasGradient(dst[b.Offset:b.Offset+b.Len()], z)
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
