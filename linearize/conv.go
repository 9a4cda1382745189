package linearize

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	fblas "github.com/funcgp/funcgp/internal/blas"
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
	layout positions
}

var _ Block = (*Conv)(nil)

// positions says how a layer's input and output gradients split into the
// factors of each position.
type positions interface {
	groups() int
	factors() (t, k, m int)                // positions, patch length, gradient length, per group
	patches(dst, x []float64, group int)   // T×k
	gradients(dst, g []float64, group int) // T×m
	channelSums(dst, g []float64)          // adds the gradient of the bias
}

// Groups returns the number of groups, each a weight matrix of its own.
func (v *Conv) Groups() int { return v.layout.groups() }

// Factors returns T, the positions of an example, k, the length of a patch,
// and m, the length of a gradient, in each group.
func (v *Conv) Factors() (t, k, m int) { return v.layout.factors() }

// FactorsTo writes a group's patches, N·T×k, and gradients, N·C·T×m, example
// by example and position by position. A nil argument is skipped.
func (v *Conv) FactorsTo(a, g *mat.Dense, group int) {
	t, k, m := v.layout.factors()
	if a != nil {
		for n := range rowsOf(v.X) {
			v.layout.patches(contiguous(a, n*t, t, k), v.X.RawRowView(n), group)
		}
	}
	if g != nil {
		for i := range rowsOf(v.G) {
			v.layout.gradients(contiguous(g, i*t, t, m), v.G.RawRowView(i), group)
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
func (v *Conv) Spans() []Span { return spans(v.Weight, v.Bias) }

// TileTo implements Block.
func (v *Conv) TileTo(dst *mat.Dense) {
	t, k, m := v.layout.factors()
	a, g := make([]float64, t*k), make([]float64, t*m)
	for i := range rowsOf(v.G) {
		row := dst.RawRowView(i)
		if v.Weight != nil {
			v.weightRow(row[:v.Weight.Len()], v.X.RawRowView(i/v.C), v.G.RawRowView(i), a, g, 0)
			row = row[v.Weight.Len():]
		}
		if v.Bias != nil {
			clear(row[:v.Bias.Len()])
			v.layout.channelSums(row[:v.Bias.Len()], v.G.RawRowView(i))
		}
	}
}

// weightRow sets (beta 0) or adds (beta 1) Σ_t g_t p_tᵀ of one output of one
// example to dst, laid out as the stored weight. a and g are scratch.
func (v *Conv) weightRow(dst, x, grad, a, g []float64, beta float64) {
	t, k, m := v.layout.factors()
	for group := range v.layout.groups() {
		v.layout.patches(a, x, group)
		v.layout.gradients(g, grad, group)
		gramTo(dst[group*k*m:(group+1)*k*m], g, a, t, m, k, v.Weight.Transposed, beta)
	}
}

// gramTo writes beta·dst + Gᵀ A, m×k, or its transpose, with G T×m and A T×k.
func gramTo(dst, g, a []float64, t, m, k int, transposed bool, beta float64) {
	if transposed {
		g, a, m, k = a, g, k, m
	}
	fblas.Gemm(blas.Trans, blas.NoTrans, 1, general(g, t, m), general(a, t, k), beta, general(dst, m, k))
}

func general(data []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(1, cols), Data: data}
}

// JacobianTo implements Block.
func (v *Conv) JacobianTo(dst *mat.Dense) { scatterTile(dst, v, rowsOf(v.G)) }

// AddMulVec implements Block.
func (v *Conv) AddMulVec(dst, x []float64) {
	tile := make([]float64, Width(v))
	local := make([]float64, 0, len(tile))
	for _, s := range v.Spans() {
		local = append(local, x[s.Offset:s.Offset+s.Len()]...)
	}
	for i := range rowsOf(v.G) {
		one := v.row(i)
		one.TileTo(mat.NewDense(1, len(tile), tile))
		dst[i] += dot(tile, local)
	}
}

// row returns output i%C of example i/C alone.
func (v *Conv) row(i int) *Conv {
	s := *v
	s.X, s.G, s.C = rowRange(v.X, i/v.C, i/v.C+1), rowRange(v.G, i, i+1), 1
	return &s
}

// AddMulTransVec implements Block.
func (v *Conv) AddMulTransVec(dst, u []float64) {
	t, k, m := v.layout.factors()
	a, g := make([]float64, t*k), make([]float64, t*m)
	_, size := v.G.Dims()
	z := make([]float64, size)
	for n := range rowsOf(v.X) {
		clear(z)
		for c := range v.C {
			axpy(z, u[n*v.C+c], v.G.RawRowView(n*v.C+c))
		}
		v.addGradient(dst, v.X.RawRowView(n), z, a, g)
	}
}

// addGradient adds the gradient of one example, given that of the layer's
// result, to a vector over θ.
func (v *Conv) addGradient(dst, x, z, a, g []float64) {
	if v.Weight != nil {
		v.weightRow(dst[v.Weight.Offset:v.Weight.Offset+v.Weight.Len()], x, z, a, g, 1)
	}
	if v.Bias != nil {
		v.layout.channelSums(dst[v.Bias.Offset:v.Bias.Offset+v.Bias.Len()], z)
	}
}

// Slice implements Block.
func (v *Conv) Slice(i, j int) Block {
	s := *v
	s.X, s.G = rowRange(v.X, i, j), rowRange(v.G, i*v.C, j*v.C)
	return &s
}

// Output implements Block.
func (v *Conv) Output(c int) Block {
	s := *v
	s.G, s.C = everyRow(v.G, c, v.C), 1
	return &s
}

// perPosition is a dense layer applied at t positions: input t×k, result t×m.
type perPosition struct{ t, k, m int }

func (p perPosition) groups() int            { return 1 }
func (p perPosition) factors() (t, k, m int) { return p.t, p.k, p.m }

func (p perPosition) patches(dst, x []float64, _ int)   { copy(dst, x) }
func (p perPosition) gradients(dst, g []float64, _ int) { copy(dst, g) }

func (p perPosition) channelSums(dst, g []float64) {
	for t := range p.t {
		axpy(dst, 1, g[t*p.m:(t+1)*p.m])
	}
}

// window is the geometry of a convolution: which input position each kernel
// tap reads at each output position.
type window struct {
	group           int     // groups
	cin, cout       int     // channels in all, of the convolution's input and output
	taps, in, out   int     // kernel positions, spatial positions of input and output
	source          []int32 // out×taps: input position, or −1 in the padding
	transposedUsage bool    // the layer runs the convolution backwards (ConvTranspose)
}

func (w *window) groups() int { return w.group }

func (w *window) factors() (t, k, m int) {
	if w.transposedUsage {
		// The weight is stored channels-of-x × (channels-of-y/g · taps).
		return w.out, w.cout / w.group, w.cin / w.group * w.taps
	}
	return w.out, w.cin / w.group * w.taps, w.cout / w.group
}

func (w *window) patches(dst, x []float64, group int) {
	if w.transposedUsage {
		transposeTo(dst, x[group*w.cout/w.group*w.out:], w.cout/w.group, w.out)
		return
	}
	w.columns(dst, x, group)
}

func (w *window) gradients(dst, g []float64, group int) {
	if w.transposedUsage {
		w.columns(dst, g, group)
		return
	}
	transposeTo(dst, g[group*w.cout/w.group*w.out:], w.cout/w.group, w.out)
}

// columns gathers the patches of a group as out × (cin/g·taps).
func (w *window) columns(dst, x []float64, group int) {
	channels := w.cin / w.group
	x = x[group*channels*w.in : (group+1)*channels*w.in]
	for t := range w.out {
		source := w.source[t*w.taps : (t+1)*w.taps]
		for ch := range channels {
			plane := x[ch*w.in : (ch+1)*w.in]
			for i, s := range source {
				if s < 0 {
					dst[i] = 0
				} else {
					dst[i] = plane[s]
				}
			}
			dst = dst[w.taps:]
		}
	}
}

// addColumns adds patches, out × (cin/g·taps), back to the positions they
// were gathered from: the adjoint of columns.
func (w *window) addColumns(x, src []float64, group int) {
	channels := w.cin / w.group
	x = x[group*channels*w.in : (group+1)*channels*w.in]
	for t := range w.out {
		source := w.source[t*w.taps : (t+1)*w.taps]
		for ch := range channels {
			plane := x[ch*w.in : (ch+1)*w.in]
			for i, s := range source {
				if s >= 0 {
					plane[s] += src[i]
				}
			}
			src = src[w.taps:]
		}
	}
}

// channelSums adds Σ_t g_t of each output channel of the layer.
func (w *window) channelSums(dst, g []float64) {
	size := w.out
	if w.transposedUsage {
		size = w.in
	}
	for ch := range dst {
		for _, v := range g[ch*size : (ch+1)*size] {
			dst[ch] += v
		}
	}
}

// transposeTo writes the transpose of x, rows×cols, to dst.
func transposeTo(dst, x []float64, rows, cols int) {
	for i := range rows {
		for j, v := range x[i*cols : (i+1)*cols] {
			dst[j*rows+i] = v
		}
	}
}
