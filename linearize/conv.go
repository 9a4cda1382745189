package linearize

import (
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// Conv is the Jacobian of a weight used at T positions of each example: a
// convolution, a transposed convolution, or a dense layer applied along an
// axis. With patches p_nt (what the weight multiplies at position t, length k)
// and gradients g_nct of output c (length m) it is ∂f_nc/∂W = Σ_t g_nct p_ntᵀ
// in each of the weight's groups. The patches are gathered from the layer's
// input when they are needed.
type Conv struct {
	X      *mat.Dense // N × input size: the layer's input
	G      *mat.Dense // N·C × output size: gradients of the network's outputs in the layer's result
	Weight *Span      // (groups·m)×k, or (groups·k)×m if Transposed; nil if it is not a parameter
	Bias   *Span      // one number for each output channel; nil if it is not a parameter
	C      int        // outputs
	Layout Positions  // how X and G split into patches and gradients
}

var _ Block = (*Conv)(nil)

// Positions says how the positions of a Conv lie in a layer's input x and in a
// gradient g in its result, both of one example. Slices of a wrong length panic.
// Its methods are called by several goroutines at once.
type Positions interface {
	// Groups returns the number of groups, each a weight matrix of its own.
	Groups() int
	// Factors returns T, the positions of an example, k, the length of a
	// patch, and m, the length of a gradient, in each group.
	Factors() (t, k, m int)
	// Patches writes a group's patches, T×k.
	Patches(dst, x []float64, group int)
	// Gradients writes a group's gradients, T×m.
	Gradients(dst, g []float64, group int)
	// WeightGradient writes beta·dst + Σ_t g_t p_tᵀ for all groups, where dst
	// is laid out as the stored weight (Span) and beta is 0 or 1. scratch has
	// Scratch elements of any content.
	WeightGradient(dst, x, g, scratch []float64, transposed bool, beta float64)
	// Scratch returns the memory that WeightGradient works in, in float64s.
	Scratch() int
	// AddBiasGradient adds Σ_t g_t, one number for each output channel.
	AddBiasGradient(dst, g []float64)
}

// Groups returns the number of groups, each a weight matrix of its own.
func (v *Conv) Groups() int { return v.Layout.Groups() }

// Factors returns T, the positions of an example, k, the length of a patch,
// and m, the length of a gradient, in each group.
func (v *Conv) Factors() (t, k, m int) { return v.Layout.Factors() }

// FactorsTo writes a group's patches to a, N·T×k, and its gradients to g,
// N·C·T×m, example by example and position by position. A nil matrix is
// skipped; one with gaps between its rows or of another width panics.
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

// contiguous returns the data of some rows of m.
func contiguous(m *mat.Dense, row, rows, cols int) []float64 {
	raw := m.RawMatrix()
	if raw.Cols != cols || raw.Stride != cols {
		panic("linearize: factors need a contiguous matrix of the right width")
	}
	return raw.Data[row*cols : (row+rows)*cols]
}

// Spans returns the weight's span, then the bias's.
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
		// Row i of the Jacobian as a Conv: output i%C of example i/C.
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
