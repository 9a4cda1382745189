package weightspace

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// A group is a set of parameters with a dense block of the precision of their own.
type group struct {
	name  string
	index []int  // position in θ of each column
	parts []part // blocks of the Jacobian with the columns, in the order of columns; nil for all parameters
}

// allOf returns the group of all p parameters.
func allOf(p int) group { return group{name: "all", index: dense.Range(p)} }

// A part is the columns of a group that are in one block of the Jacobian.
type part struct {
	block int
	cols  []int // columns within the block; nil for all
	width int
}

// columnsOf returns the position in θ of each column of a block.
func columnsOf(k linearize.Block) []int {
	var index []int
	for _, s := range k.Spans() {
		for i := range s.Len() {
			index = append(index, s.Offset+i)
		}
	}
	return index
}

// layersOf returns one group for each layer of the batch's network. A block of the Jacobian is a layer, except a
// Full block, which may hold several: there tensors whose names agree up to the last dot are one layer.
func layersOf(b *linearize.Batch) []group {
	var layers []group
	for i, k := range b.Blocks {
		if _, ok := k.(*linearize.Full); ok {
			layers = append(layers, layersOfFull(i, k)...)
			continue
		}
		layers = append(layers, group{name: layerName(k.Spans()[0].Name), index: columnsOf(k), parts: []part{{block: i, width: linearize.Width(k)}}})
	}
	return layers
}

func layersOfFull(block int, k linearize.Block) []group {
	var layers []group
	at := map[string]int{}
	first := 0
	for _, s := range k.Spans() {
		name := layerName(s.Name)
		i, ok := at[name]
		if !ok {
			i = len(layers)
			at[name] = i
			layers = append(layers, group{name: name, parts: []part{{block: block}}})
		}
		g := &layers[i]
		for j := range s.Len() {
			g.index = append(g.index, s.Offset+j)
			g.parts[0].cols = append(g.parts[0].cols, first+j)
		}
		g.parts[0].width += s.Len()
		first += s.Len()
	}
	return layers
}

// layerName returns the name of a tensor up to its last dot, or the whole name without a dot.
func layerName(tensor string) string {
	if i := strings.LastIndexByte(tensor, '.'); i > 0 {
		return tensor[:i]
	}
	return tensor
}

// groupOf returns the group of the parameters at positions index in θ. Its columns are in the order of the blocks
// of b.
func groupOf(b *linearize.Batch, name string, index []int) group {
	sorted := slices.Clone(index)
	slices.Sort(sorted)
	g := group{name: name}
	for i, k := range b.Blocks {
		p := part{block: i}
		for col, at := range columnsOf(k) {
			if j := sort.SearchInts(sorted, at); j < len(sorted) && sorted[j] == at {
				p.cols = append(p.cols, col)
				g.index = append(g.index, at)
			}
		}
		if p.width = len(p.cols); p.width == linearize.Width(k) {
			p.cols = nil
		}
		if p.width > 0 {
			g.parts = append(g.parts, p)
		}
	}
	return g
}

// lastLayer returns the layer with this name, or the last dense layer where the name is empty. f is linear in what
// the last layer adds, so its derivative there is the same for every example. If b shows otherwise, another layer
// follows, and the error asks for a name.
func lastLayer(b *linearize.Batch, name string) (group, error) {
	layers := layersOf(b)
	if name != "" {
		for _, g := range layers {
			if g.name == name {
				return g, nil
			}
		}
		var names []string
		for _, g := range layers {
			names = append(names, g.name)
		}
		return group{}, fmt.Errorf("weightspace: there is no layer %q; the layers are %q", name, names)
	}
	for i := len(layers) - 1; i >= 0; i-- {
		o, ok := b.Blocks[layers[i].parts[0].block].(*linearize.Outer)
		if !ok {
			continue
		}
		if !constant(o, b.Outputs()) {
			break
		}
		return layers[i], nil
	}
	return group{}, fmt.Errorf("weightspace: no dense layer is the last one of the network; name the layer in Options.Layer")
}

// constant tells whether the gradients of a layer are the same for all examples, each with c rows.
func constant(o *linearize.Outer, c int) bool {
	for i := c; i < dense.Count(o.G); i++ {
		if !slices.Equal(o.G.RawRowView(i), o.G.RawRowView(i%c)) {
			return false
		}
	}
	return true
}

// columnsTo writes the columns of the Jacobian of b for the group to dst, N·C rows.
func (g *group) columnsTo(dst blas64.General, b *linearize.Batch) {
	if g.parts == nil {
		b.JacobianTo(dense.View(dst))
	}
	at := 0
	for _, p := range g.parts {
		p.columnsTo(dense.View(dense.Cols(dst, at, at+p.width)), b.Blocks[p.block], b.Outputs())
		at += p.width
	}
}

func (p *part) columnsTo(dst *mat.Dense, k linearize.Block, c int) {
	if p.cols == nil {
		k.TileTo(dst)
		return
	}
	rows := dense.Count(dst)
	switch k := k.(type) {
	case *linearize.Full:
		for i := range rows {
			pick(dst.RawRowView(i), k.J.RawRowView(i), p.cols)
		}
	case *linearize.Outer:
		for i := range rows {
			// Write the chosen columns of row i of a dense layer's Jacobian.
			dst := dst.RawRowView(i)
			cols := p.cols
			g, w := k.G.RawRowView(i), k.Weight
			var a []float64
			weights := 0
			if w != nil {
				a, weights = k.A.RawRowView(i/k.C), w.Len()
			}
			for j, col := range cols {
				switch {
				case col >= weights:
					dst[j] = g[col-weights]
				case w.Transposed: // in×out
					dst[j] = a[col/w.Cols] * g[col%w.Cols]
				default:
					dst[j] = g[col/w.Cols] * a[col%w.Cols]
				}
			}
		}
	default:
		tile := mat.NewDense(c, linearize.Width(k), nil)
		for n := range rows / c {
			k.Slice(n, n+1).TileTo(tile)
			for i := range c {
				pick(dst.RawRowView(n*c+i), tile.RawRowView(i), p.cols)
			}
		}
	}
}

// pick copies src[at[j]] to dst[j].
func pick(dst, src []float64, at []int) {
	for j, a := range at {
		dst[j] = src[a]
	}
}
