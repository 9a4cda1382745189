package linearize

import (
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// Conv is the Jacobian of a weight used at T positions of each example: a
// convolution, a transposed convolution, or a dense layer applied along an
// axis. With patches p_nt (what the weight multiplies at position t) and
// output gradients g_nct it is ∂f_nc/∂W = Σ_t g_nct p_ntᵀ, for each of the
// weight's groups. The patches are gathered from the layer's input when they
// are needed.
type Conv struct {
	X      *mat.Dense // N × input size: the layer's input, example by example
	G      *mat.Dense // N·C × output size: gradients of the outputs in the layer's result
	Weight *Span      // (groups·m)×k, or (groups·k)×m if Transposed; nil where not a parameter
	Bias   *Span      // one number an output channel, or nil
	C      int        // outputs
	Layout Positions
}

var _ Block = (*Conv)(nil)

// Positions says how a layer's input and output gradients split into the
// factors of each position.
type Positions interface {
	Groups() int
	Factors() (t, k, m int)                // positions, patch length, gradient length, per group
	Patches(dst, x []float64, group int)   // T×k
	Gradients(dst, g []float64, group int) // T×m
	// WeightGradient writes beta·dst + Σ_t g_t p_tᵀ, laid out as the weight is
	// stored. scratch has scratch() elements.
	WeightGradient(dst, x, g, scratch []float64, transposed bool, beta float64)
	Scratch() int
	ChannelSums(dst, g []float64) // adds the gradient of the bias
}

// Groups returns the number of groups, each a weight matrix of its own.
func (v *Conv) Groups() int { return v.Layout.Groups() }

// Factors returns T, the positions of an example, k, the length of a patch,
// and m, the length of a gradient, in each group.
func (v *Conv) Factors() (t, k, m int) { return v.Layout.Factors() }

// FactorsTo writes a group's patches, N·T×k, and gradients, N·C·T×m, example
// by example and position by position. A nil argument is skipped.
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

func contiguous(m *mat.Dense, row, rows, cols int) []float64 {
	raw := m.RawMatrix()
	if raw.Cols != cols || raw.Stride != cols {
		panic("linearize: factors need a contiguous matrix of the right width")
	}
	return raw.Data[row*cols : (row+rows)*cols]
}

// Spans returns the weight's span, then the bias's.
func (v *Conv) Spans() []Span { return Spans(v.Weight, v.Bias) }

// TileTo implements Block.
func (v *Conv) TileTo(dst *mat.Dense) {
	scratch := make([]float64, v.Layout.Scratch())
	for i := range dense.Count(v.G) {
		row := dst.RawRowView(i)
		clear(row)
		v.RowTo(row, v.X.RawRowView(i/v.C), v.G.RawRowView(i), scratch)
	}
}

// RowTo adds one row of the Jacobian, columns local, to row, which must be
// zero where the weight is.
func (v *Conv) RowTo(row, x, g, scratch []float64) {
	if v.Weight != nil {
		v.Layout.WeightGradient(row[:v.Weight.Len()], x, g, scratch, v.Weight.Transposed, 0)
		row = row[v.Weight.Len():]
	}
	if v.Bias != nil {
		v.Layout.ChannelSums(row[:v.Bias.Len()], g)
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
		one := v.row(i)
		one.TileTo(mat.NewDense(1, len(tile), tile))
		dst[i] += dense.Dot(tile, local)
	}
}

// row returns output i%C of example i/C alone.
func (v *Conv) row(i int) *Conv {
	s := *v
	s.X, s.G, s.C = dense.Slice(v.X, i/v.C, i/v.C+1), dense.Slice(v.G, i, i+1), 1
	return &s
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
		v.AddGradient(dst, v.X.RawRowView(n), z, scratch)
	}
}

// AddGradient adds the gradient of one example, given that of the layer's
// result, to a vector over θ.
func (v *Conv) AddGradient(dst, x, z, scratch []float64) {
	if v.Weight != nil {
		v.Layout.WeightGradient(dst[v.Weight.Offset:v.Weight.Offset+v.Weight.Len()], x, z, scratch, v.Weight.Transposed, 1)
	}
	if v.Bias != nil {
		v.Layout.ChannelSums(dst[v.Bias.Offset:v.Bias.Offset+v.Bias.Len()], z)
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
