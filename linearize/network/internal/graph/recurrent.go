package graph

import (
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
)

// Recurrent runs a recurrent layer with H hidden units over T positions, in one or two directions. D is the number
// of directions, and G the number of the cell's gates. Its inputs are
//
//	0  the products of the layer's inputs with the input weights, T×D·G·H, with
//	   the biases added
//	1  the recurrent weights R, D·G·H×H
//
// and the inputs whose numbers are in the fields Addend, Initial, InitialCell and Peepholes. The result has the
// hidden states, D×(T+1)×H, and after them what else the cell keeps for each hidden unit: for an LSTM a memory of
// the same shape, for a GRU products with the reset gate, D×T×H. Of the T+1 states, the initial one is first in a
// forward direction, and last in a reverse direction.
type Recurrent struct {
	Cells   []Cell // one for each direction, all of one kind
	Reverse []bool // for each direction
	T, H    int
	// Tied says that R is computed or also used elsewhere. Its gradient is then computed in Backward, instead of at
	// a Place.
	Tied bool
	// Work is a slot with WorkSize numbers that Forward keeps for Backward. Without it (−1, or no memory in the
	// State) Backward is not possible.
	Work int

	Addend      int // input added to the recurrent products of a GRU that resets after them, T×D·G·H
	Initial     int // input with the initial hidden states, D×H
	InitialCell int // input with the initial memory of an LSTM, D×H
	Peepholes   int // input with the weights of an LSTM's memory in its gates input, output, forget, D×3·H
}

// A Cell is a kind of recurrent cell: LSTM, GRU or RNN.
type Cell interface {
	// Gates returns the number of gates: the rows of the weights for each hidden unit.
	Gates() int
	// work returns how many numbers the cell keeps for Backward, for each hidden unit and position.
	work() int
	// more says what the result has besides the hidden states.
	more() rest
	// forward computes one position for all examples.
	forward(r *recurrence)
	// backward turns the gradients dh and dc of the states after a position into the gradients of the states before
	// it, without the part that goes through R. It writes the gradients of the products to dz and du.
	backward(r *recurrence)
	// through adds the part of the gradient that goes through R to dh.
	through(r *recurrence)
}

// rest says what a Recurrent's result has besides the hidden states.
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

// State returns where the hidden state of direction d after position t starts in the result, or its memory.
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

// Before is State for the state before position t.
func (o *Recurrent) Before(d, t int, memory bool) int {
	if o.Reverse[d] {
		return o.State(d, t, memory) + o.H
	}
	return o.State(d, t, memory) - o.H
}

// ResetState returns where the state that R multiplies at position t starts in the result, for a GRU that resets
// before the product.
func (o *Recurrent) ResetState(d, t int) int {
	return (o.dirs()*(o.T+1) + d*o.T + t) * o.H
}

// Last returns the last position of direction d.
func (o *Recurrent) Last(d int) int {
	if o.Reverse[d] {
		return 0
	}
	return o.T - 1
}

func (o *Recurrent) multiplications() int {
	return o.dirs() * o.T * o.Cells[0].Gates() * o.H * o.H
}

// A recurrence is a Recurrent at one position in one direction.
type recurrence struct {
	*Recurrent
	s      *State
	nd     *Node
	n      int // number of examples
	d, t   int
	z      []float64 // n×G·H: products with R
	dh, dc []float64 // n×H: gradients of the hidden states and memories
	dz, du []float64 // n×G·H: gradients of the input products, and of the products with R where they differ
	spare  []float64 // n×H
	kept   []float64 // n×WorkSize, if there is no slot Work
}

// run returns a recurrence over n examples of s.
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

// begin writes an initial state: the state of example e in input in, or zeros.
func (r *recurrence) begin(dst []float64, in, e int) {
	if in < 0 {
		clear(dst)
		return
	}
	copy(dst, r.s.At(r.nd.In[in], e)[r.d*r.H:])
}

// at moves to the k-th position in the direction.
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
			// Add the gradients of the input products, of the addend and, if it is tied, of R.
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
					// Add the gradient of R at this position: the gradient of each product times the state in it.
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

// end adds g to the gradient of an initial state.
func (r *recurrence) end(in, e int, g []float64) {
	if in >= 0 && r.s.needsGrad(r.nd.In[in]) {
		dense.Axpy(r.s.GradAt(r.nd.In[in], e)[r.d*r.H:][:r.H], 1, g)
	}
}

// products returns the part of a T×D·G·H tensor for this position.
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

// work returns the numbers that the cell keeps for example e at this position.
func (r *recurrence) work(e int) []float64 {
	size := r.Cells[0].work() * r.H
	at := (r.d*r.T + r.t) * size
	if len(r.kept) > 0 {
		return r.kept[e*r.WorkSize()+at:][:size]
	}
	return r.s.At(r.Work, e)[at:][:size]
}

// load sets z to input in of the node at this position, for all examples, or to zeros if in is −1.
func (r *recurrence) load(in int) {
	if in < 0 {
		clear(r.z)
		return
	}
	for e := range r.n {
		copy(r.gatesOf(r.z, e), r.products(r.s.At(r.nd.In[in], e)))
	}
}

// recur adds the products of R with the states, which start at from in the result, to gates lo to hi−1 of z.
func (r *recurrence) recur(from, lo, hi int) {
	size := r.Size()
	state := blas64.General{Rows: r.n, Cols: r.H, Stride: size, Data: r.s.val(r.nd.Out)[from:]}
	Gemm(false, true, state, r.weights(lo, hi), 1, r.gates(r.z, lo, hi))
}

// back writes beta·dst plus the products of gates lo to hi−1 of g with R to dst, n×H.
func (r *recurrence) back(dst, g []float64, lo, hi int, beta float64) {
	Gemm(false, false, r.gates(g, lo, hi), r.weights(lo, hi), beta, dense.Of(dst, r.n, r.H))
}

// weights returns the rows of R for gates lo to hi−1.
func (r *recurrence) weights(lo, hi int) blas64.General {
	first := (r.d*r.Cells[0].Gates() + lo) * r.H
	return dense.Of(r.s.val(r.nd.In[1])[first*r.H:][:(hi-lo)*r.H*r.H], (hi-lo)*r.H, r.H)
}

// gates returns the columns for gates lo to hi−1 of an n×G·H matrix.
func (r *recurrence) gates(x []float64, lo, hi int) blas64.General {
	return blas64.General{Rows: r.n, Cols: (hi - lo) * r.H, Stride: r.Cells[0].Gates() * r.H, Data: x[lo*r.H:]}
}
