package graph

import (
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
)

// Recurrent runs a recurrent layer of H hidden units over T positions, in one
// direction or two. Its inputs are
//
//	0  the products of the layer's inputs with the input weights, T×D·G·H, with
//	   the biases added
//	1  the recurrent weights R, D·G·H×H
//
// and those that the fields Addend, Initial, InitialCell and Peepholes number. D
// counts directions and G the cell's gates. The result holds the hidden states,
// D×(T+1)×H, then what else the cell keeps for each hidden unit: a memory of the
// same shape (LSTM) or products with the reset gate, D×T×H (GRU). Among the T+1
// states, the initial one is the first of a direction that runs forward and the
// last of one that runs in reverse.
type Recurrent struct {
	Cells   []Cell // by direction, all of one kind
	Reverse []bool // by direction
	T, H    int
	// Tied says that R is used elsewhere too, or computed. Its gradient is then an
	// ordinary one instead of a Place's.
	Tied bool
	// Work is a slot of WorkSize numbers for what Backward needs of Forward. Where it
	// is −1, or a State has no memory for it, there can be no Backward.
	Work int

	Addend      int // what is added to the recurrent products of a GRU that resets after them, T×D·G·H
	Initial     int // initial hidden states, D×H
	InitialCell int // initial memory of an LSTM, D×H
	Peepholes   int // weights of an LSTM's memory in its gates, D×3·H, in the order input, output, forget
}

// A Cell is a kind of recurrent layer: LSTM, GRU or RNN.
type Cell interface {
	// Gates returns the number of gates, the rows of the weights for each hidden
	// unit.
	Gates() int
	// work counts the numbers that the cell keeps for Backward for each hidden unit
	// and position.
	work() int
	// more says what the result holds beside the hidden states.
	more() rest
	// forward computes a position of all examples.
	forward(r *recurrence)
	// backward turns the gradients dh and dc of the states after a position into
	// those before it, except for what flows through R, and writes those of the
	// products to dz and du.
	backward(r *recurrence)
	// through adds what flows back through R to dh.
	through(r *recurrence)
}

// rest says what a Recurrent's result holds beside the hidden states.
type rest int

const (
	nothing rest = iota
	memories
	resets
)

func (o *Recurrent) dirs() int { return len(o.Reverse) }

// Size returns the length of the result for one example.
func (o *Recurrent) Size() int {
	d := o.dirs()
	switch o.Cells[0].more() {
	case memories:
		return 2 * d * (o.T + 1) * o.H
	case resets:
		return d * (2*o.T + 1) * o.H
	}
	return d * (o.T + 1) * o.H
}

// WorkSize returns the length of slot Work for one example.
func (o *Recurrent) WorkSize() int { return o.dirs() * o.T * o.Cells[0].work() * o.H }

// State returns where in the result the hidden state of direction d after
// position t begins, or its memory.
func (o *Recurrent) State(d, t int, memory bool) int {
	row := d*(o.T+1) + t
	if !o.Reverse[d] {
		row++
	}
	if memory {
		row += o.dirs() * (o.T + 1)
	}
	return row * o.H
}

// Before is State before position t.
func (o *Recurrent) Before(d, t int, memory bool) int {
	if o.Reverse[d] {
		return o.State(d, t, memory) + o.H
	}
	return o.State(d, t, memory) - o.H
}

// ResetState returns where in the result of a GRU that resets before the product
// the state that R multiplies at position t begins.
func (o *Recurrent) ResetState(d, t int) int {
	return (o.dirs()*(o.T+1) + d*o.T + t) * o.H
}

// Last returns the position that direction d runs through at last.
func (o *Recurrent) Last(d int) int {
	if o.Reverse[d] {
		return 0
	}
	return o.T - 1
}

func (o *Recurrent) multiplications() int {
	return o.dirs() * o.T * o.Cells[0].Gates() * o.H * o.H
}

// A recurrence is a Recurrent at one position of one direction.
type recurrence struct {
	*Recurrent
	s      *State
	nd     *Node
	n      int // examples
	d, t   int
	z      []float64 // n×G·H: products with R
	dh, dc []float64 // n×H: gradients of the states
	dz, du []float64 // n×G·H: gradients of the inputs' products, and of those with R where they differ
	spare  []float64 // n×H
	kept   []float64 // n×WorkSize where there is no slot for it
}

// run returns a recurrence over the examples of s.
func (o *Recurrent) run(s *State, nd *Node, n int, backward bool) *recurrence {
	r := &recurrence{Recurrent: o, s: s, nd: nd, n: n}
	wide, narrow, kept := n*o.Cells[0].Gates()*o.H, n*o.H, 0
	if o.Work < 0 || len(s.val(o.Work)) == 0 {
		kept = n * o.WorkSize()
	}
	buf := s.Buffer(0, 3*wide+3*narrow+kept)
	take := func(size int) []float64 {
		part := buf[:size:size]
		buf = buf[size:]
		return part
	}
	r.z, r.kept = take(wide), take(kept)
	if backward {
		r.dz, r.du, r.dh, r.dc, r.spare = take(wide), take(wide), take(narrow), take(narrow), take(narrow)
	}
	return r
}

// Forward implements Op.
func (o *Recurrent) Forward(s *State, nd *Node) {
	r := o.run(s, nd, s.copies(nd.Out), false)
	for d := range o.Reverse {
		r.d = d
		first := o.T - 1 - o.Last(d)
		for e := range r.n {
			out := s.At(nd.Out, e)
			r.begin(out[o.Before(d, first, false):][:o.H], o.Initial, e)
			if o.Cells[0].more() == memories {
				r.begin(out[o.Before(d, first, true):][:o.H], o.InitialCell, e)
			}
		}
		for k := range o.T {
			r.at(k)
			o.Cells[d].forward(r)
		}
	}
}

// begin writes an initial state.
func (r *recurrence) begin(dst []float64, in, e int) {
	if in < 0 {
		clear(dst)
		return
	}
	copy(dst, r.s.At(r.nd.In[in], e)[r.d*r.H:])
}

// at moves to the k-th position that the direction runs through.
func (r *recurrence) at(k int) {
	if r.t = k; r.Reverse[r.d] {
		r.t = r.T - 1 - k
	}
}

// Backward implements Op.
func (o *Recurrent) Backward(s *State, nd *Node) {
	r := o.run(s, nd, s.N, true)
	for d := range o.Reverse {
		r.d = d
		clear(r.dh)
		clear(r.dc)
		for k := o.T - 1; k >= 0; k-- {
			r.at(k)
			for e := range r.n {
				g := s.GradAt(nd.Out, e)
				dense.Axpy(r.hiddenOf(r.dh, e), 1, g[o.State(d, r.t, false):][:o.H])
				if o.Cells[0].more() == memories {
					dense.Axpy(r.hiddenOf(r.dc, e), 1, g[o.State(d, r.t, true):][:o.H])
				}
			}
			o.Cells[d].backward(r)
			// Add those of the inputs' products, of the addend and, if it is tied, of R.
			dr := r.dz
			if r.Addend >= 0 {
				dr = r.du
			}
			for e := range r.n {
				if r.s.needsGrad(r.nd.In[0]) {
					dense.Axpy(r.products(r.s.GradAt(r.nd.In[0], e)), 1, r.gatesOf(r.dz, e))
				}
				if r.Addend >= 0 && r.s.needsGrad(r.nd.In[r.Addend]) {
					dense.Axpy(r.products(r.s.GradAt(r.nd.In[r.Addend], e)), 1, r.gatesOf(r.du, e))
				}
				if r.Tied && r.s.needsGrad(r.nd.In[1]) {
					// Add the gradient of R at this position, that of a product times the state it was made of.
					dst := r.s.GradAt(r.nd.In[1], e)
					g := r.gatesOf(dr, e)
					out := r.s.At(r.nd.Out, e)
					state := out[r.Before(r.d, r.t, false):][:r.H]
					for i, v := range g {
						if i == 2*r.H && r.Cells[0].more() == resets {
							state = out[r.ResetState(r.d, r.t):][:r.H]
						}
						dense.Axpy(dst[(r.d*len(g)+i)*r.H:][:r.H], v, state)
					}
				}
			}
			o.Cells[d].through(r)
		}
		for e := range r.n {
			r.end(o.Initial, e, r.hiddenOf(r.dh, e))
			r.end(o.InitialCell, e, r.hiddenOf(r.dc, e))
		}
	}
}

// end adds the gradient of an initial state.
func (r *recurrence) end(in, e int, g []float64) {
	if in >= 0 && r.s.needsGrad(r.nd.In[in]) {
		dense.Axpy(r.s.GradAt(r.nd.In[in], e)[r.d*r.H:][:r.H], 1, g)
	}
}

// products returns those of this position in a T×D·G·H tensor.
func (r *recurrence) products(x []float64) []float64 {
	width := r.Cells[0].Gates() * r.H
	return x[(r.t*r.dirs()+r.d)*width:][:width]
}

// gatesOf returns the part of example e of an n×G·H matrix.
func (r *recurrence) gatesOf(x []float64, e int) []float64 {
	width := r.Cells[0].Gates() * r.H
	return x[e*width : (e+1)*width]
}

// hiddenOf returns the part of example e of an n×H matrix.
func (r *recurrence) hiddenOf(x []float64, e int) []float64 { return x[e*r.H : (e+1)*r.H] }

// hidden returns the states of example e before and after this position.
func (r *recurrence) hidden(e int) (before, after []float64) {
	out := r.s.At(r.nd.Out, e)
	return out[r.Before(r.d, r.t, false):][:r.H], out[r.State(r.d, r.t, false):][:r.H]
}

// memory is hidden for the memory of an LSTM.
func (r *recurrence) memory(e int) (before, after []float64) {
	out := r.s.At(r.nd.Out, e)
	return out[r.Before(r.d, r.t, true):][:r.H], out[r.State(r.d, r.t, true):][:r.H]
}

// work returns what the cell keeps of example e at this position.
func (r *recurrence) work(e int) []float64 {
	size := r.Cells[0].work() * r.H
	at := (r.d*r.T + r.t) * size
	if len(r.kept) > 0 {
		return r.kept[e*r.WorkSize()+at:][:size]
	}
	return r.s.At(r.Work, e)[at:][:size]
}

// load fills z with slot in of the node at this position, for all examples; in
// of −1 stands for zeros.
func (r *recurrence) load(in int) {
	if in < 0 {
		clear(r.z)
		return
	}
	for e := range r.n {
		copy(r.gatesOf(r.z, e), r.products(r.s.At(r.nd.In[in], e)))
	}
}

// recur adds the products of R with the state that begins at `from` in the result
// to gates [lo, hi) of z.
func (r *recurrence) recur(from, lo, hi int) {
	size := r.Size()
	state := blas64.General{Rows: r.n, Cols: r.H, Stride: size, Data: r.s.val(r.nd.Out)[from:]}
	Gemm(false, true, state, r.weights(lo, hi), 1, r.gates(r.z, lo, hi))
}

// back writes beta·dst plus the products of gates [lo, hi) of g with R to dst, n×H.
func (r *recurrence) back(dst, g []float64, lo, hi int, beta float64) {
	Gemm(false, false, r.gates(g, lo, hi), r.weights(lo, hi), beta, dense.Of(dst, r.n, r.H))
}

// weights returns R's rows of gates [lo, hi).
func (r *recurrence) weights(lo, hi int) blas64.General {
	first := (r.d*r.Cells[0].Gates() + lo) * r.H
	return dense.Of(r.s.val(r.nd.In[1])[first*r.H:][:(hi-lo)*r.H*r.H], (hi-lo)*r.H, r.H)
}

// gates returns the columns of gates [lo, hi) of an n×G·H matrix.
func (r *recurrence) gates(x []float64, lo, hi int) blas64.General {
	return blas64.General{Rows: r.n, Cols: (hi - lo) * r.H, Stride: r.Cells[0].Gates() * r.H, Data: x[lo*r.H:]}
}
