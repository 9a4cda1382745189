package network

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// CheckInput returns an error that names the row unless the rows of x have D numbers, which must be finite
// in the columns of an input, and whole numbers in range in those of an integer input.
func (n *Network) CheckInput(x *mat.Dense) error {
	rows, cols := x.Dims()
	if cols != n.prog.D {
		return fmt.Errorf("network: inputs have %d columns, the network takes %d (shape %v)", cols, n.prog.D, n.InputShape())
	}
	taken := n.takenColumns()
	for i := range rows {
		for j, v := range x.RawRowView(i) {
			if (math.IsNaN(v) || math.IsInf(v, 0)) && (taken == nil || taken[j]) {
				return fmt.Errorf("network: input row %d holds %v in column %d; clean the data first", i, v, j)
			}
		}
	}
	for _, in := range n.prog.Inputs {
		if in.Type == "" {
			continue
		}
		for i := range rows {
			row := x.RawRowView(i)
			for k := range graph.Product(in.Shape) {
				v := row[in.Column(k)]
				if v != math.Trunc(v) || v < float64(in.Low) || v > float64(in.High) {
					return &IntegerError{i, in.Column(k), v, in.Name, in.Type, in.Low, in.High}
				}
			}
		}
	}
	return nil
}

// takenColumns tells for each of the D numbers of a row whether it belongs to some input; nil if all do.
func (n *Network) takenColumns() []bool {
	var taken []bool
	for _, in := range n.prog.Inputs {
		if in.Columns != nil && taken == nil {
			taken = make([]bool, n.prog.D)
		}
		for _, k := range in.Columns {
			taken[k] = true
		}
	}
	return taken
}

// contiguousRows returns the data of rows [lo, hi) of x, copied if x has gaps
// between rows.
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

// newState returns memory to run the network with these values of static slots.
func (n *Network) newState(static [][]float64) *graph.State {
	s := graph.NewState(n.prog, static)
	s.Features = n.features
	return s
}

// eachChunk runs the network forward on every chunk of x and calls do with the
// state and the chunk's rows, on all workers. The chunks do not depend on the
// number of processors.
func (n *Network) eachChunk(ctx context.Context, x *mat.Dense, do func(s *graph.State, lo, hi int) error) error {
	rows, _ := x.Dims()
	states := make([]*graph.State, runtime.GOMAXPROCS(0))
	return par.DoWorker(ctx, len(states), par.Tiles(rows, n.prog.Chunk), func(w, i int) error {
		if states[w] == nil {
			states[w] = n.newState(n.static)
		}
		lo, hi := par.Bounds(i, rows, n.prog.Chunk)
		states[w].Forward(contiguousRows(x, lo, hi), hi-lo)
		return do(states[w], lo, hi)
	})
}

// Forward returns f(x;θ*), N×C, at the rows of x, N×D. Empty x gives an empty
// matrix; a NaN or Inf in x or in an output is an error that names the row.
func (n *Network) Forward(ctx context.Context, x *mat.Dense) (*mat.Dense, error) {
	if x.IsEmpty() {
		return new(mat.Dense), nil
	}
	if err := n.CheckInput(x); err != nil {
		return nil, err
	}
	return n.forward(ctx, x)
}

func (n *Network) forward(ctx context.Context, x *mat.Dense) (*mat.Dense, error) {
	rows, _ := x.Dims()
	out := mat.NewDense(rows, n.prog.C, nil)
	err := n.eachChunk(ctx, x, func(s *graph.State, lo, hi int) error {
		f, err := s.Outputs(lo)
		copy(out.RawMatrix().Data[lo*n.prog.C:], f)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Linearize returns the outputs and the Jacobian at the rows of x, N×D, by one
// forward pass and C backward passes. The Batch keeps x, which must not change
// afterwards. Empty x is an error, and so is a NaN or Inf in x, in an output or
// in a derivative. If the Batch takes more than 80 % of the machine's free memory, the error is a
// *linearize.MemoryError and nothing is allocated; see BatchBytes.
func (n *Network) Linearize(ctx context.Context, x *mat.Dense) (*linearize.Batch, error) {
	c := n.prog.C
	return n.linearize(ctx, x, c, "output", func(seed, f []float64, example, k int) float64 {
		clear(seed)
		seed[k] = 1
		return f[k]
	})
}

// Factored returns the same network, whose batches hold a Conv block for each convolution, even if
// columns of the Full block would take less memory.
func (n *Network) Factored() linearize.Model {
	prog := *n.prog
	prog.Places = slices.Clone(prog.Places)
	for i := range prog.Places {
		prog.Places[i].Full = false
	}
	m := *n
	m.prog = &prog
	return &m
}

var _ linearize.FactoredModel = (*Network)(nil)

// linearize returns the Batch of c weighted sums of the outputs f of each
// example. weigh writes the weights of sum k of an example to seed, length C, and
// returns the sum. what names a sum in errors.
func (n *Network) linearize(ctx context.Context, x *mat.Dense, c int, what string, weigh func(seed, f []float64, example, k int) float64) (*linearize.Batch, error) {
	if x.IsEmpty() {
		return nil, fmt.Errorf("network: no examples to linearize at")
	}
	if err := n.CheckInput(x); err != nil {
		return nil, err
	}
	if err := n.checkBatch(dense.Count(x), c); err != nil {
		return nil, err
	}
	j, outputs := newJacobian(n.prog, x, c), n.prog.C
	err := n.eachChunk(ctx, x, func(s *graph.State, lo, hi int) error {
		f, err := s.Outputs(lo)
		if err != nil {
			return err
		}
		seed := make([]float64, len(f))
		for k := range c { // one pass for each sum; there may be very many
			if err := ctx.Err(); err != nil {
				return err
			}
			for e := range hi - lo {
				at, to := e*outputs, (e+1)*outputs
				j.batch.F.Set(lo+e, k, weigh(seed[at:to], f[at:to], lo+e, k))
			}
			s.Backward(seed, func(place int) { j.keep(s, place, lo, k) })
			// Store the gradients of output c in the parameters that are in no place.
			at := j.tail
			for _, slot := range j.prog.Full {
				size := j.prog.Slots[slot].Size
				for e := range s.N {
					if s.HasGrad(slot) {
						copy(j.full.RawRowView((lo+e)*j.c + k)[at:at+size], s.GradAt(slot, e))
					}
				}
				at += size
			}
		}
		// Write the columns of the places for which keep stored gradients. The gradients of an
		// example's C outputs, stacked as (C·m)×T, times its patches give C rows of the Jacobian.
		c := j.c
		for k := range j.prog.Places {
			st := &j.prog.Places[k]
			if !st.Full || !j.stacks(st) || !s.HasGrad(j.prog.Nodes[st.Node].Out) {
				continue
			}
			w := st.Layout.(*graph.Window)
			t, width, m := w.Factors()
			_, bias := j.prog.Spans(st)
			patches, rows := s.Buffer(2, w.Scratch()), s.Buffer(3, c*m*width)
			stored := s.SiteBuffer(k, s.N*c*m*t)
			for e := range s.N {
				g := stored[e*c*m*t:][:c*m*t]
				w.PatchRows(patches, s.At(st.Input, e), 0)
				graph.Gemm(false, true, dense.Of(g, c*m, t), dense.Of(patches[:width*t], width, t), 0, dense.Of(rows, c*m, width))
				for i := range c {
					row := j.full.RawRowView((lo+e)*c + i)[j.at[k]:]
					copy(row, rows[i*m*width:(i+1)*m*width])
					if bias != nil {
						w.AddBiasGradient(row[m*width:m*width+bias.Len()], g[i*m*t:(i+1)*m*t])
					}
				}
			}
		}
		return j.check(lo, hi, what)
	})
	if err != nil {
		return nil, err
	}
	j.batch.Model = n.Fingerprint()
	return j.batch, nil
}

var _ linearize.CombinedModel = (*Network)(nil)

// A jacobian fills in the Blocks of a Batch.
type jacobian struct {
	prog  *graph.Program
	c     int // outputs, or sums of them
	batch *linearize.Batch
	outer []*linearize.Outer     // by place, or nil
	conv  []*linearize.Conv      // by place, or nil
	table []*linearize.Embedding // by place, or nil; places of one table share one
	full  *mat.Dense             // the J of the Full block: columns of places, then of other parameters
	at    []int                  // first column of each place in full
	tail  int                    // first column of the parameters in no place
}

// newJacobian allocates the Batch of c outputs, or sums of outputs, at x.
func newJacobian(p *graph.Program, x *mat.Dense, c int) *jacobian {
	n, _ := x.Dims()
	j := &jacobian{prog: p, c: c, outer: make([]*linearize.Outer, len(p.Places)), conv: make([]*linearize.Conv, len(p.Places)), table: make([]*linearize.Embedding, len(p.Places)), at: make([]int, len(p.Places))}
	j.batch = &linearize.Batch{X: x, F: mat.NewDense(n, c, nil), P: p.P}
	var cols []linearize.Span
	// Places that read the same slot share it, and the several places of a recurrent layer share
	// the gradients at their node.
	inputs, gradients := shared{}, shared{}
	for k := range p.Places {
		st := &p.Places[k]
		w, b := p.Spans(st)
		g := func() *mat.Dense { return gradients.get(st.Node, n*c, p.Slots[p.Nodes[st.Node].Out].Size) }
		input := func() *mat.Dense {
			if st.Input == p.Input {
				return x
			}
			return inputs.get(st.Input, n, p.Slots[st.Input].Size)
		}
		switch {
		case st.Full:
			j.at[k] = j.tail
			for _, s := range p.SpanList(st) {
				cols = append(cols, s)
				j.tail += s.Len()
			}
		case st.Table != nil: // places that read one table share a block
			positions := 0
			for i := range p.Places {
				if other := &p.Places[i]; other.Table != nil && other.Weight == st.Weight {
					if j.table[k] == nil {
						j.table[k] = j.table[i]
					}
					positions += p.Slots[other.Input].Size
				}
			}
			if j.table[k] == nil {
				t := &linearize.Embedding{Index: mat.NewDense(n, positions, nil), Table: p.TableSpan(st), C: c}
				t.G = mat.NewDense(n*c, positions*st.Table.Inner, nil)
				j.table[k] = t
				j.batch.Blocks = append(j.batch.Blocks, t)
			}
		case st.Layout == nil:
			o := &linearize.Outer{G: g(), Weight: w, Bias: b, C: c}
			if w != nil {
				o.A = input()
			}
			j.outer[k] = o
			j.batch.Blocks = append(j.batch.Blocks, o)
		default:
			v := &linearize.Conv{X: input(), G: g(), Weight: w, Bias: b, C: c, Layout: st.Layout}
			j.conv[k] = v
			j.batch.Blocks = append(j.batch.Blocks, v)
		}
	}
	width := j.tail
	for _, slot := range p.Full {
		s := p.Span(p.Slots[slot].Param)
		cols = append(cols, *s)
		width += s.Len()
	}
	if width > 0 {
		j.full = mat.NewDense(n*c, width, nil)
		j.batch.Blocks = append(j.batch.Blocks, &linearize.Full{J: j.full, Params: cols, C: c})
	}
	return j
}

// shared holds matrices by the number of a slot or node.
type shared map[int]*mat.Dense

// get returns the matrix of a number, which it allocates at the first call.
func (s shared) get(i, rows, cols int) *mat.Dense {
	if s[i] == nil {
		s[i] = mat.NewDense(rows, cols, nil)
	}
	return s[i]
}

// keep stores the gradients of output c at place k and, once, the place's inputs.
// lo is the first example of the chunk.
func (j *jacobian) keep(s *graph.State, k, lo, c int) {
	st := &j.prog.Places[k]
	nd := &j.prog.Nodes[st.Node]
	out := nd.Out
	if st.Full && j.stacks(st) {
		// One product at the end of the chunk serves all outputs, so only store the gradients here.
		size := j.prog.Slots[out].Size
		stored := s.SiteBuffer(k, s.N*j.c*size)
		for e := range s.N {
			copy(stored[(e*j.c+c)*size:][:size], s.GradAt(out, e))
		}
		return
	}
	if st.Full {
		for e := range s.N {
			s.RowTo(j.full.RawRowView((lo+e)*j.c + c)[j.at[k]:], k, e)
		}
		return
	}
	if b := j.table[k]; b != nil { // its inputs are the indices of the rows that it reads
		for e := range s.N {
			copy(b.G.RawRowView((lo+e)*j.c + c)[st.At*st.Table.Inner:], s.GradAt(out, e))
			if c == 0 {
				st.Table.RowsTo(b.Index.RawRowView(lo + e)[st.At:], s, nd, e)
			}
		}
		return
	}
	var a, g *mat.Dense
	if o := j.outer[k]; o != nil {
		a, g = o.A, o.G
	} else {
		a, g = j.conv[k].X, j.conv[k].G
	}
	for e := range s.N {
		copy(g.RawRowView((lo+e)*j.c+c), s.GradAt(out, e))
		if c == 0 && a != nil && st.Input != j.prog.Input {
			copy(a.RawRowView(lo+e), s.At(st.Input, e))
		}
	}
}

// check returns an error if a derivative at one of the examples [lo, hi) is not finite, such as
// that of a square root at zero.
func (j *jacobian) check(lo, hi int, what string) error {
	for _, b := range j.batch.Blocks {
		var m *mat.Dense
		switch b := b.(type) {
		case *linearize.Outer:
			m = b.G
		case *linearize.Conv:
			m = b.G
		case *linearize.Embedding:
			m = b.G
		case *linearize.Full:
			m = b.J
		}
		for i := lo * j.c; i < hi*j.c; i++ {
			for _, v := range m.RawRowView(i) {
				if v-v != 0 { // NaN or Inf
					return fmt.Errorf("network: the derivative of %s %d of input row %d with respect to %s is %v; the network has no derivative there", what, i%j.c, i/j.c, b.Spans()[0].Name, v)
				}
			}
		}
	}
	return nil
}

// stacks reports whether one product with the patches of an example gives the
// weight gradients of all its outputs.
func (j *jacobian) stacks(st *graph.Place) bool {
	w, ok := st.Layout.(*graph.Window)
	return ok && j.c > 1 && w.NumGroups == 1 && !w.Transposed && st.Weight >= 0
}

// LinearizeCombined is Linearize for K sums of the outputs of each example in
// place of the C outputs: output k of example n of the Batch is
//
//	Σ_c w_{nK+k,c} f_c(x_n;θ*)
//
// with w N·K×C; it panics at another size. It takes one forward and K backward
// passes.
func (n *Network) LinearizeCombined(ctx context.Context, x, w *mat.Dense) (*linearize.Batch, error) {
	rows, _ := x.Dims()
	wr, wc := w.Dims()
	if wc != n.prog.C || rows == 0 || wr == 0 || wr%rows != 0 {
		panic("network: weights of outputs have wrong size")
	}
	k := wr / rows
	return n.linearize(ctx, x, k, "sum of outputs", func(seed, f []float64, example, i int) float64 {
		copy(seed, w.RawRowView(example*k+i))
		return dense.Dot(seed, f)
	})
}
