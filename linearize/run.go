package linearize

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
)

// checkInput verifies that x is N×D, N ≥ 1, and finite.
func (n *Network) checkInput(x *mat.Dense) error {
	rows, cols := x.Dims()
	if cols != n.prog.d {
		return fmt.Errorf("linearize: inputs have %d columns, the network takes %d (shape %v)", cols, n.prog.d, n.prog.inShape)
	}
	for i := range rows {
		for j, v := range x.RawRowView(i) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("linearize: input row %d holds %v in column %d; clean the data first", i, v, j)
			}
		}
	}
	return nil
}

// contiguousRows returns rows [lo, hi) of x without gaps between them.
func contiguousRows(x *mat.Dense, lo, hi int) []float64 {
	raw := x.RawMatrix()
	if raw.Stride == raw.Cols {
		return raw.Data[lo*raw.Cols : hi*raw.Cols]
	}
	out := make([]float64, 0, (hi-lo)*raw.Cols)
	for i := lo; i < hi; i++ {
		out = append(out, x.RawRowView(i)...)
	}
	return out
}

// eachChunk runs the network forward on every chunk of x and calls do with
// the state, on all workers. The chunks do not depend on their number.
func (n *Network) eachChunk(ctx context.Context, x *mat.Dense, do func(s *state, lo, hi int) error) error {
	rows, _ := x.Dims()
	states := make([]*state, par.Workers(0))
	return par.DoWorker(ctx, 0, par.Tiles(rows, n.prog.chunk), func(w, i int) error {
		if states[w] == nil {
			states[w] = newState(n.prog, n.static)
		}
		lo, hi := par.Bounds(i, rows, n.prog.chunk)
		states[w].forward(contiguousRows(x, lo, hi), hi-lo)
		return do(states[w], lo, hi)
	})
}

// Forward returns f(x;θ*), N×C, at the rows of x, N×D. Empty x gives an empty
// matrix; a NaN or Inf in x or in an output is an error that names the row.
func (n *Network) Forward(ctx context.Context, x *mat.Dense) (*mat.Dense, error) {
	if x.IsEmpty() {
		return new(mat.Dense), nil
	}
	if err := n.checkInput(x); err != nil {
		return nil, err
	}
	rows, _ := x.Dims()
	out := mat.NewDense(rows, n.prog.c, nil)
	err := n.eachChunk(ctx, x, func(s *state, lo, hi int) error {
		f, err := s.outputs(lo)
		copy(out.RawMatrix().Data[lo*n.prog.c:], f)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Linearize returns the outputs and the Jacobian at the rows of x, N×D: one
// forward pass and C backward passes over all examples. The Batch keeps x.
func (n *Network) Linearize(ctx context.Context, x *mat.Dense) (*Batch, error) {
	c := n.prog.c
	return n.linearize(ctx, x, c, "output", func(seed, f []float64, example, k int) float64 {
		clear(seed)
		seed[k] = 1
		return f[k]
	})
}

// linearize returns the Batch of c sums of the outputs of each example. weigh
// writes the weights of sum k of an example, length C, and returns the sum,
// given the outputs. what a sum is goes into errors.
func (n *Network) linearize(ctx context.Context, x *mat.Dense, c int, what string, weigh func(seed, f []float64, example, k int) float64) (*Batch, error) {
	if x.IsEmpty() {
		return nil, fmt.Errorf("linearize: no examples to linearize at")
	}
	if err := n.checkInput(x); err != nil {
		return nil, err
	}
	j, outputs := newJacobian(n.prog, x, c), n.prog.c
	err := n.eachChunk(ctx, x, func(s *state, lo, hi int) error {
		f, err := s.outputs(lo)
		if err != nil {
			return err
		}
		seed := make([]float64, len(f))
		for k := range c {
			for e := range hi - lo {
				at, to := e*outputs, (e+1)*outputs
				j.batch.F.Set(lo+e, k, weigh(seed[at:to], f[at:to], lo+e, k))
			}
			s.backward(seed, func(site int) { j.keep(s, site, lo, k) })
			j.keepFull(s, lo, k)
		}
		j.finishTiles(s, lo)
		return j.check(lo, hi, what)
	})
	if err != nil {
		return nil, err
	}
	return j.batch, nil
}

var _ Model = (*Network)(nil)

// jacobian collects the pieces of a Batch.
type jacobian struct {
	prog  *program
	c     int // outputs, or sums of them
	batch *Batch
	outer []*Outer   // by site, or nil
	conv  []*Conv    // by site, or nil
	full  *mat.Dense // N·C × width: tiles of sites, then other parameters
	at    []int      // column of a tiled site in full
	tail  int        // column of the first other parameter
}

func newJacobian(p *program, x *mat.Dense, c int) *jacobian {
	n, _ := x.Dims()
	j := &jacobian{prog: p, c: c, outer: make([]*Outer, len(p.sites)), conv: make([]*Conv, len(p.sites)), at: make([]int, len(p.sites))}
	j.batch = &Batch{X: x, F: mat.NewDense(n, c, nil), P: p.p}
	var cols []Span
	for k := range p.sites {
		st := &p.sites[k]
		w, b := p.spans(st)
		g := func() *mat.Dense { return mat.NewDense(n*c, p.slots[p.nodes[st.node].out].size, nil) }
		switch {
		case st.tile:
			j.at[k] = j.tail
			for _, s := range p.spanList(st) {
				cols = append(cols, s)
				j.tail += s.Len()
			}
		case st.layout == nil:
			o := &Outer{G: g(), Weight: w, Bias: b, C: c}
			if w != nil {
				o.A = j.input(st, x)
			}
			j.outer[k] = o
			j.batch.Blocks = append(j.batch.Blocks, o)
		default:
			v := &Conv{X: j.input(st, x), G: g(), Weight: w, Bias: b, C: c, layout: st.layout}
			j.conv[k] = v
			j.batch.Blocks = append(j.batch.Blocks, v)
		}
	}
	width := j.tail
	for _, slot := range p.full {
		s := p.params[p.slots[slot].param].span(false)
		cols = append(cols, *s)
		width += s.Len()
	}
	if width > 0 {
		j.full = mat.NewDense(n*c, width, nil)
		j.batch.Blocks = append(j.batch.Blocks, &Full{J: j.full, Params: cols, C: c})
	}
	return j
}

// input is the memory of a site's inputs: the batch's own where the site
// reads the network's input.
func (j *jacobian) input(st *site, x *mat.Dense) *mat.Dense {
	if st.x == j.prog.input {
		return x
	}
	n, _ := x.Dims()
	return mat.NewDense(n, j.prog.slots[st.x].size, nil)
}

// keep stores what site k contributes for output c of the chunk starting at
// example lo.
func (j *jacobian) keep(s *state, k, lo, c int) {
	st := &j.prog.sites[k]
	if st.tile {
		j.keepTile(s, k, lo, c)
		return
	}
	var a, g *mat.Dense
	if o := j.outer[k]; o != nil {
		a, g = o.A, o.G
	} else {
		a, g = j.conv[k].X, j.conv[k].G
	}
	out := j.prog.nodes[st.node].out
	for e := range s.n {
		copy(g.RawRowView((lo+e)*j.c+c), s.gradAt(out, e))
		if c == 0 && a != nil && st.x != j.prog.input {
			copy(a.RawRowView(lo+e), s.at(st.x, e))
		}
	}
}

// keepTile contracts a site over its positions at once, or where all outputs
// can share the patches puts its gradients aside for finishTiles.
func (j *jacobian) keepTile(s *state, k, lo, c int) {
	st := &j.prog.sites[k]
	out := j.prog.nodes[st.node].out
	if j.stacks(st) {
		size := j.prog.slots[out].size
		aside := s.putAside(k, s.n*j.c*size)
		for e := range s.n {
			copy(aside[(e*j.c+c)*size:][:size], s.gradAt(out, e))
		}
		return
	}
	w, b := j.prog.spans(st)
	v := &Conv{Weight: w, Bias: b, layout: st.layout}
	scratch := s.buffer(2, st.layout.scratch())
	for e := range s.n {
		row := j.full.RawRowView((lo+e)*j.c + c)[j.at[k]:]
		v.rowTo(row, s.at(st.x, e), s.gradAt(out, e), scratch)
	}
}

// check returns an error where a derivative of the examples [lo, hi) is not
// finite, as that of a square root at zero.
func (j *jacobian) check(lo, hi int, what string) error {
	for _, b := range j.batch.Blocks {
		var m *mat.Dense
		switch b := b.(type) {
		case *Outer:
			m = b.G
		case *Conv:
			m = b.G
		case *Full:
			m = b.J
		}
		for i := lo * j.c; i < hi*j.c; i++ {
			for _, v := range m.RawRowView(i) {
				if v-v != 0 { // NaN or Inf
					return fmt.Errorf("linearize: the derivative of %s %d of input row %d with respect to %s is %v; the network has no derivative there", what, i%j.c, i/j.c, b.Spans()[0].Name, v)
				}
			}
		}
	}
	return nil
}

// stacks reports whether the gradients of all outputs of an example can be
// contracted with its patches in one product.
func (j *jacobian) stacks(st *site) bool {
	w, ok := st.layout.(*window)
	return ok && j.c > 1 && w.group == 1 && !w.transposedUsage && st.weight >= 0
}

// finishTiles contracts the gradients that keepTile put aside: with those of
// an example's C outputs stacked, (C·m)×T, times its patches, one product
// gives C rows of the Jacobian.
func (j *jacobian) finishTiles(s *state, lo int) {
	c := j.c
	for k := range j.prog.sites {
		st := &j.prog.sites[k]
		if !st.tile || !j.stacks(st) || !s.touched[j.prog.nodes[st.node].out] {
			continue
		}
		w := st.layout.(*window)
		t, width, m := w.factors()
		_, bias := j.prog.spans(st)
		patches, rows := s.buffer(2, w.scratch()), s.buffer(3, c*m*width)
		for e := range s.n {
			g := s.aside[k][e*c*m*t:][:c*m*t]
			w.patchRows(patches, s.at(st.x, e), 0)
			gemm(false, true, dense.Of(g, c*m, t), dense.Of(patches[:width*t], width, t), 0, dense.Of(rows, c*m, width))
			for i := range c {
				row := j.full.RawRowView((lo+e)*c + i)[j.at[k]:]
				copy(row, rows[i*m*width:(i+1)*m*width])
				if bias != nil {
					w.channelSums(row[m*width:m*width+bias.Len()], g[i*m*t:(i+1)*m*t])
				}
			}
		}
	}
}

// keepFull stores the gradients of the parameters without structure.
func (j *jacobian) keepFull(s *state, lo, c int) {
	at := j.tail
	for _, slot := range j.prog.full {
		size := j.prog.slots[slot].size
		for e := range s.n {
			if s.touched[slot] {
				copy(j.full.RawRowView((lo+e)*j.c + c)[at:at+size], s.gradAt(slot, e))
			}
		}
		at += size
	}
}

// LinearizeCombined is Linearize for K sums of the outputs of each example in
// place of the C outputs: output k of example n of the Batch is
//
//	Σ_c w_{nK+k,c} f_c(x_n;θ*)
//
// with w N·K×C; it panics at another size. It takes one forward and K backward
// passes.
func (n *Network) LinearizeCombined(ctx context.Context, x, w *mat.Dense) (*Batch, error) {
	rows, _ := x.Dims()
	wr, wc := w.Dims()
	if wc != n.prog.c || rows == 0 || wr == 0 || wr%rows != 0 {
		panic("linearize: weights of outputs have wrong size")
	}
	k := wr / rows
	return n.linearize(ctx, x, k, "sum of outputs", func(seed, f []float64, example, i int) float64 {
		copy(seed, w.RawRowView(example*k+i))
		return dense.Dot(seed, f)
	})
}
