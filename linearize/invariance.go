package linearize

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
)

// invariantBelow is the Ratio below which a layer counts as scale-invariant. A normalization adds ε to the
// variance, which leaves a ratio of about ε over the variance, 1e-5 to 1e-4. Other layers rarely have a ratio below
// 1e-2.
const invariantBelow = 1e-3

// An Invariance compares the change of the outputs when a group of parameters w is scaled, J w, with the largest
// possible change, over all N·C outputs [gprior eq. 6]. J w is zero where the outputs do not depend on the scale of
// w, for example before a normalization. Then a Gaussian prior on w has no mode: every step towards w = 0 raises
// the objective and leaves the function as it is.
type Invariance struct {
	Name  string
	Spans []Span  // nil for a group of nodes, see NodeSpans
	JW    float64 // ‖J w‖
	J     float64 // ‖J‖, the Frobenius norm
	W     float64 // ‖w‖
	// Tensors has the Invariance of each parameter tensor of a layer. It is nil for a tensor and for a group of nodes.
	Tensors []Invariance
	// Groups has the partitions of a layer's output nodes, the channels of a convolution, into groups of k
	// consecutive nodes, for each k that divides their number, from 1 on: each group with its rows of the weight and
	// its numbers of the bias [gprior appendix A]. It is nil for one node, and if the nodes are not known because
	// the tensors of the layer have different numbers of rows.
	Groups [][]Invariance

	nodes, convGroups int
}

// Ratio returns ‖J w‖ / (‖J‖‖w‖), between 0 and 1, and NaN where J or w is zero.
func (v Invariance) Ratio() float64 { return v.JW / (v.J * v.W) }

// Invariant tells whether the outputs do not depend on the scale of the parameters: Ratio < 1e-3. It is false where
// J or w is zero.
func (v Invariance) Invariant() bool { return v.Ratio() < invariantBelow }

// Scales returns the smallest groups of parameters of a layer whose scales, one for each group, do not change the
// outputs: the nodes before a batch normalization, the groups of channels before a group normalization, the layer
// itself before a layer normalization. It is nil where the layer is not Invariant.
func (v Invariance) Scales() []Invariance {
	if !v.Invariant() {
		return nil
	}
	for _, groups := range v.Groups {
		if !slices.ContainsFunc(groups, func(g Invariance) bool { return g.J > 0 && g.Ratio() >= invariantBelow }) {
			return groups
		}
	}
	return []Invariance{v}
}

// NodeSpans returns where the parameters of n output nodes of a layer with Groups are in θ, from node first on.
func (v Invariance) NodeSpans(first, n int) []Span {
	var out []Span
	for _, s := range v.Spans {
		switch {
		case s.Len() == v.nodes:
			out = append(out, Span{Name: s.Name, Offset: s.Offset + first, Rows: 1, Cols: n})
		case !s.Transposed:
			out = append(out, Span{Name: s.Name, Offset: s.Offset + first*s.Cols, Rows: n, Cols: s.Cols})
		default:
			for node := first; node < first+n; node++ {
				k := s.Rows / v.convGroups
				for r := node / s.Cols * k; r < (node/s.Cols+1)*k; r++ {
					out = append(out, Span{Name: s.Name, Offset: s.Offset + r*s.Cols + node%s.Cols, Rows: 1, Cols: 1})
				}
			}
		}
	}
	return out
}

// AddNodeDots adds xᵀy over the parameters of each output node of a layer to dst. dst has a number for each node, one
// where Groups is nil; x and y have P.
func (v Invariance) AddNodeDots(dst, x, y []float64) {
	for _, s := range v.Spans {
		s.addNodeDots(dst, v.convGroups, x[s.Offset:s.Offset+s.Len()], y[s.Offset:s.Offset+s.Len()])
	}
}

// Invariances returns the Invariance of each layer at theta = θ*, of the layer's tensors and of groups of its nodes, in
// the order of θ. A layer is a Block of src, such as the weight and the bias of a dense layer. In a Full block, a layer
// is the tensors whose names agree up to the last dot. All batches must have the same blocks. It takes one pass over
// src.
func Invariances(ctx context.Context, src Source, theta []float64) ([]Invariance, error) {
	var blocks [][]*layerNorms // of each block
	err := ordered(ctx, src, func(_ int, b *Batch) error {
		if len(theta) != b.P {
			panic("linearize: the length of theta is not the batch's number of parameters")
		}
		if blocks == nil {
			for _, k := range b.Blocks {
				blocks = append(blocks, layersOf(k))
			}
		}
		if len(blocks) != len(b.Blocks) {
			return fmt.Errorf("linearize: a batch has %d blocks where the first had %d", len(b.Blocks), len(blocks))
		}
		for i, k := range b.Blocks {
			if err := addNorms(ctx, blocks[i], k, b, theta); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []Invariance
	for _, layers := range blocks {
		for _, l := range layers {
			out = append(out, l.result(theta))
		}
	}
	slices.SortStableFunc(out, func(a, b Invariance) int { return cmp.Compare(a.Spans[0].Offset, b.Spans[0].Offset) })
	return out, nil
}

// layerNorms has the sums of squares for a layer.
type layerNorms struct {
	spans             []Span
	column            []int // where each tensor begins in a row of the block
	nodes, convGroups int   // nodes is 1 if the nodes are not known
	sizes             []int // of the groups: divisors of nodes, the layer itself last
	norms
}

// norms are sums of squares over outputs.
type norms struct {
	j      [][]float64 // ‖J‖² of each node of each tensor
	tensor []float64   // ‖J w‖² of each tensor
	group  [][]float64 // ‖J w‖² of each group of each size
}

func (l *layerNorms) newNorms() norms {
	n := norms{tensor: make([]float64, len(l.spans))}
	for range l.spans {
		n.j = append(n.j, make([]float64, l.nodes))
	}
	for _, size := range l.sizes {
		n.group = append(n.group, make([]float64, l.nodes/size))
	}
	return n
}

// layersOf returns the layers of a block.
func layersOf(k Block) []*layerNorms {
	var layers []*layerNorms
	at, column := make(map[string]*layerNorms), 0
	_, full := k.(*Full)
	for _, s := range k.Spans() {
		name := "" // all tensors of a block that is one layer
		if full {
			name = upToDot(s.Name)
		}
		if at[name] == nil {
			at[name] = &layerNorms{convGroups: 1}
			layers = append(layers, at[name])
		}
		at[name].spans, at[name].column = append(at[name].spans, s), append(at[name].column, column)
		column += s.Len()
	}
	for _, l := range layers {
		l.nodes = 1
		switch k := k.(type) {
		case *Outer:
			_, l.nodes = k.G.Dims()
		case *Conv:
			_, _, m := k.Factors()
			if l.convGroups = k.Groups(); k.Bias == nil || k.Bias.Len() == m*k.Groups() {
				l.nodes = m * k.Groups()
			}
		case *Full:
			l.nodes = rowsOf(l.spans)
		}
		for size := 1; size <= l.nodes; size++ {
			if l.nodes%size == 0 {
				l.sizes = append(l.sizes, size)
			}
		}
		l.norms = l.newNorms()
	}
	return layers
}

// rowsOf returns the number of rows that all tensors have, where a vector has a row for each of its numbers, or 1. It is
// 1 for a tensor stored by input, whose groups a Full block does not know.
func rowsOf(spans []Span) int {
	rows := spans[0].Len() // of vectors alone
	for _, s := range spans {
		if s.Rows > 1 {
			rows = s.Rows
		}
	}
	if slices.ContainsFunc(spans, func(s Span) bool { return s.Transposed || s.Len() != rows && s.Rows != rows }) {
		return 1
	}
	return max(rows, 1)
}

// upToDot returns the name up to its last dot, or all of it without a dot.
func upToDot(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

// normRows is the number of examples whose norms a worker adds before those of others are added.
const normRows = 8

// addNorms adds the norms of a batch's block. It forms J example by example.
func addNorms(ctx context.Context, layers []*layerNorms, k Block, b *Batch, theta []float64) error {
	n, c := b.Len(), b.Outputs()
	parts := make([][]norms, par.Tiles(n, normRows)) // of each layer
	err := par.Do(ctx, len(parts), func(tile int) error {
		for _, l := range layers {
			parts[tile] = append(parts[tile], l.newNorms())
		}
		lo, hi := par.Bounds(tile, n, normRows)
		row := mat.NewDense(c, Width(k), nil)
		for i := lo; i < hi; i++ {
			one := k.Slice(i, i+1)
			if o, ok := one.(*Outer); ok {
				layers[0].addOuter(parts[tile][0], o, theta)
				continue
			}
			one.TileTo(row)
			for r := range c {
				for at, l := range layers {
					l.addRow(parts[tile][at], row.RawRowView(r), theta)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, part := range parts {
		for i, l := range layers {
			dense.Axpy(l.tensor, 1, part[i].tensor)
			for t := range l.j {
				dense.Axpy(l.j[t], 1, part[i].j[t])
			}
			for k := range l.group {
				dense.Axpy(l.group[k], 1, part[i].group[k])
			}
		}
	}
	return nil
}

// addRow adds a row of the Jacobian, of one example and output.
func (l *layerNorms) addRow(to norms, row, theta []float64) {
	all, jw := make([]float64, l.nodes), make([]float64, l.nodes) // J w of each node, of all tensors and of one
	for t, s := range l.spans {
		j, w := row[l.column[t]:l.column[t]+s.Len()], theta[s.Offset:s.Offset+s.Len()]
		s.addNodeDots(to.j[t], l.convGroups, j, j)
		clear(jw)
		s.addNodeDots(jw, l.convGroups, j, w)
		sum := floats.Sum(jw)
		to.tensor[t] += sum * sum
		dense.Axpy(all, 1, jw)
	}
	l.addGroups(to, all)
}

// addNodeDots adds xᵀy over the parameters of each node to dst.
func (s Span) addNodeDots(dst []float64, convGroups int, x, y []float64) {
	if s.Transposed && len(dst) > 1 {
		k := s.Rows / convGroups
		for r := range s.Rows {
			to := dst[r/k*s.Cols:]
			for c := range s.Cols {
				to[c] += x[r*s.Cols+c] * y[r*s.Cols+c]
			}
		}
		return
	}
	width := len(x) / len(dst)
	for node := range dst {
		dst[node] += dense.Dot(x[node*width:(node+1)*width], y[node*width:(node+1)*width])
	}
}

// addOuter adds all rows of one example: g_o(Wa)_o and g_oβ_o are the parts of J w of node o.
func (l *layerNorms) addOuter(to norms, o *Outer, theta []float64) {
	_, out := o.G.Dims()
	var z []float64 // W a
	aa := 0.0
	if o.Weight != nil {
		a := o.A.RawRowView(0)
		aa, z = dense.Dot(a, a), make([]float64, out)
		dense.Gemv(transIf(o.Weight.Transposed), 1, o.Weight.of(theta), blas64.Vector{N: len(a), Inc: 1, Data: a}, 0, blas64.Vector{N: out, Inc: 1, Data: z})
	}
	jw := make([]float64, out)
	for c := range o.C {
		g, t := o.G.RawRowView(c), 0
		clear(jw)
		add := func(scale float64, w []float64) {
			sum := 0.0
			for node, g := range g {
				to.j[t][node] += g * g * scale
				jw[node] += g * w[node]
				sum += g * w[node]
			}
			to.tensor[t] += sum * sum
			t++
		}
		if o.Weight != nil {
			add(aa, z)
		}
		if o.Bias != nil {
			add(1, theta[o.Bias.Offset:o.Bias.Offset+out])
		}
		l.addGroups(to, jw)
	}
}

// addGroups adds the squares of J w of groups of nodes.
func (l *layerNorms) addGroups(to norms, jw []float64) {
	for k, size := range l.sizes {
		for g := range to.group[k] {
			sum := 0.0
			for _, v := range jw[g*size : (g+1)*size] {
				sum += v
			}
			to.group[k][g] += sum * sum
		}
	}
}

// result returns the Invariance of the layer.
func (l *layerNorms) result(theta []float64) Invariance {
	last := len(l.sizes) - 1
	v := Invariance{Name: l.spans[0].Name, Spans: l.spans, JW: math.Sqrt(l.group[last][0]), nodes: l.nodes, convGroups: l.convGroups}
	if len(l.spans) > 1 {
		v.Name = upToDot(v.Name)
	}
	j, w := make([]float64, l.nodes), make([]float64, l.nodes) // squares of each node
	for t, s := range l.spans {
		of := theta[s.Offset : s.Offset+s.Len()]
		v.Tensors = append(v.Tensors, Invariance{Name: s.Name, Spans: []Span{s}, JW: math.Sqrt(l.tensor[t]), J: math.Sqrt(floats.Sum(l.j[t])), W: math.Sqrt(dense.Dot(of, of))})
		dense.Axpy(j, 1, l.j[t])
	}
	v.AddNodeDots(w, theta, theta)
	v.J, v.W = math.Sqrt(floats.Sum(j)), math.Sqrt(floats.Sum(w))
	for k, size := range l.sizes[:last] {
		groups := make([]Invariance, l.nodes/size)
		for g := range groups {
			lo, hi := g*size, (g+1)*size
			groups[g] = Invariance{Name: fmt.Sprintf("%s[%d:%d]", v.Name, lo, hi), JW: math.Sqrt(l.group[k][g]), J: math.Sqrt(floats.Sum(j[lo:hi])), W: math.Sqrt(floats.Sum(w[lo:hi]))}
		}
		v.Groups = append(v.Groups, groups)
	}
	return v
}
