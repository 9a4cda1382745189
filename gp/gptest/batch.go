package gptest

import (
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// A Layer describes one block of a random batch.
type Layer struct {
	// In and Out are the sizes of an Outer block's layer. In of zero makes a
	// Full block of Out columns.
	In, Out int
	// Table makes an Embedding block instead: a table of that many rows and Out
	// columns, of which an example reads a row at each of In positions.
	Table            int
	Transposed       bool
	NoWeight, NoBias bool
	Hidden           bool // the block is of a kind that is not linearize's own
}

// RandomLayers returns one to six layers of any kind.
func RandomLayers(rng *rand.Rand) []Layer {
	layers := make([]Layer, 1+rng.IntN(6))
	for i := range layers {
		l := Layer{In: rng.IntN(12), Out: 1 + rng.IntN(12), Transposed: rng.IntN(2) == 0, Hidden: rng.IntN(6) == 0}
		switch rng.IntN(4) {
		case 0:
			l.NoBias = true
		case 1:
			l.NoWeight = l.In > 0
		case 2:
			if l.In > 0 && rng.IntN(2) == 0 {
				l.Table = 1 + rng.IntN(30)
			}
		}
		layers[i] = l
	}
	return layers
}

// RandomBatch returns a batch of n examples and c outputs with one block a
// layer. Their tensors lie in θ in a random order, weight and bias of a layer
// not side by side. A quarter of the numbers are zero, as behind a ReLU.
func RandomBatch(rng *rand.Rand, n, c int, layers ...Layer) *linearize.Batch {
	m := maker{rng: rng, n: n, c: c}
	b := &linearize.Batch{F: m.dense(n, c), X: m.dense(n, 3)}
	for i, l := range layers {
		b.Blocks = append(b.Blocks, m.block(i, l))
	}
	rng.Shuffle(len(m.spans), func(i, j int) { m.spans[i], m.spans[j] = m.spans[j], m.spans[i] })
	for _, s := range m.spans {
		s.Offset = b.P
		b.P += s.Len()
	}
	return b
}

// Another returns a batch of n examples of the same network as b.
func Another(rng *rand.Rand, b *linearize.Batch, n int) *linearize.Batch {
	m := maker{rng: rng, n: n, c: b.Outputs()}
	a := &linearize.Batch{F: m.dense(n, m.c), X: m.dense(n, 3), P: b.P}
	for _, k := range b.Blocks {
		a.Blocks = append(a.Blocks, m.like(k))
	}
	return a
}

type maker struct {
	rng   *rand.Rand
	n, c  int
	spans []*linearize.Span // whose offsets are to be set
}

func (m *maker) dense(rows, cols int) *mat.Dense {
	d := mat.NewDense(rows, cols, nil)
	for i := range rows {
		for j := range cols {
			if m.rng.IntN(4) > 0 {
				d.Set(i, j, m.rng.NormFloat64())
			}
		}
	}
	return d
}

func (m *maker) span(layer int, name string, rows, cols int, transposed bool) *linearize.Span {
	if transposed {
		rows, cols = cols, rows
	}
	s := &linearize.Span{Name: fmt.Sprintf("%d.%s", layer, name), Rows: rows, Cols: cols, Transposed: transposed}
	m.spans = append(m.spans, s)
	return s
}

func (m *maker) block(i int, l Layer) linearize.Block {
	if l.In == 0 {
		// Make a block of one to three spans.
		f := &linearize.Full{J: m.dense(m.n*m.c, l.Out), Params: make([]linearize.Span, min(l.Out, 1+m.rng.IntN(3))), C: m.c}
		left := l.Out
		for k := range f.Params {
			width := 1 + m.rng.IntN(left-(len(f.Params)-k-1))
			if k == len(f.Params)-1 {
				width = left
			}
			f.Params[k] = linearize.Span{Name: fmt.Sprintf("%d.p%d", i, k), Rows: 1, Cols: width}
			m.spans = append(m.spans, &f.Params[k])
			left -= width
		}
		return hide(f, l.Hidden)
	}
	if l.Table > 0 {
		e := &linearize.Embedding{Index: m.index(l.Table, l.In), G: m.dense(m.n*m.c, l.In*l.Out), C: m.c}
		e.Table = linearize.Span{Name: fmt.Sprintf("%d.table", i), Rows: l.Table, Cols: l.Out}
		m.spans = append(m.spans, &e.Table)
		return hide(e, l.Hidden)
	}
	o := &linearize.Outer{G: m.dense(m.n*m.c, l.Out), C: m.c}
	if !l.NoWeight {
		o.A = m.dense(m.n, l.In)
		o.Weight = m.span(i, "weight", l.Out, l.In, l.Transposed)
	}
	if !l.NoBias {
		o.Bias = m.span(i, "bias", 1, l.Out, false)
	}
	return hide(o, l.Hidden)
}

// index returns an N×positions matrix of random row numbers of a table with so many rows; −1 stands for no row.
func (m *maker) index(rows, positions int) *mat.Dense {
	d := mat.NewDense(m.n, positions, nil)
	d.Apply(func(_, _ int, _ float64) float64 { return float64(m.rng.IntN(rows+1) - 1) }, d)
	return d
}

// like returns a block of other examples in the place of k.
func (m *maker) like(k linearize.Block) linearize.Block {
	switch k := k.(type) {
	case *linearize.Outer:
		o := *k
		_, out := k.G.Dims()
		o.G = m.dense(m.n*m.c, out)
		if k.A != nil {
			_, in := k.A.Dims()
			o.A = m.dense(m.n, in)
		}
		return &o
	case *linearize.Embedding:
		e := *k
		_, positions := k.Index.Dims()
		e.Index, e.G = m.index(k.Table.Rows, positions), m.dense(m.n*m.c, positions*k.Table.Cols)
		return &e
	case *linearize.Full:
		_, width := k.J.Dims()
		return &linearize.Full{J: m.dense(m.n*m.c, width), Params: k.Params, C: k.C}
	case hidden:
		return hidden{m.like(k.Block)}
	}
	panic("gptest: a block that no random batch has")
}

// hidden is a block of which only the interface is known.
type hidden struct{ linearize.Block }

func hide(b linearize.Block, do bool) linearize.Block {
	if do {
		return hidden{b}
	}
	return b
}

func (h hidden) Slice(i, j int) linearize.Block { return hidden{h.Block.Slice(i, j)} }
func (h hidden) Output(c int) linearize.Block   { return hidden{h.Block.Output(c)} }
