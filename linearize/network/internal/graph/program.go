// Package graph runs a network: a program of operations on numbered slots of
// memory, forward and backward.
package graph

import (
	"github.com/funcgp/funcgp/linearize"
)

// A Program is a network's operations in an order in which they can run, on
// numbered slots of memory. It does not change after it is compiled; θ is not
// part of it.
//
// A slot holds one tensor for each example of a chunk, example by example, or
// a single tensor (static) that does not depend on the input. Everything runs
// example by example on shapes in which the batch dimension counts one
// example, so no operation can mix examples.
type Program struct {
	Slots  []Slot
	Nodes  []Node
	Params []linearize.Param
	// Sites are the nodes whose weight gradient has structure; full are the
	// slots of parameters whose gradient is kept number by number.
	Sites []Site
	Full  []int

	Operators     []string // of the nodes translated, in order
	Input, Output int
	InShape       []int // of one example
	D, C, P       int
	Chunk         int // examples worked on at once, fixed by the network alone
}

type Slot struct {
	Size     int
	Static   bool      // one copy for all examples
	Diff     bool      // depends on a parameter
	Param    int       // index into params, or −1
	Constant []float64 // value of a static slot without parameters
}

func Product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

type Node struct {
	Op  Op
	In  []int
	Out int
}

// An Op computes one slot from others and carries gradients back.
type Op interface {
	// Forward fills the output slot for every example of the state.
	Forward(s *State, nd *Node)
	// Backward adds to the gradients of those inputs that depend on a
	// parameter, given the gradient of the output.
	Backward(s *State, nd *Node)
}

// A Site is a node that multiplies by a weight which appears nowhere else.
// Its weight and bias gradients have the form of an Outer or a Conv block.
type Site struct {
	Node         int
	X            int                 // slot of the layer's input
	Layout       linearize.Positions // nil for a dense layer used once per example
	Weight, Bias int                 // index into params, or −1
	Transposed   bool                // the weight is stored in×out
	Tile         bool                // its block is kept as dense columns
}

func (p *Program) Spans(st *Site) (weight, bias *linearize.Span) {
	if st.Weight >= 0 {
		weight = p.Params[st.Weight].Span(st.Transposed)
	}
	if st.Bias >= 0 {
		bias = p.Params[st.Bias].Span(false)
	}
	return weight, bias
}

// A State is the memory of one worker running a program on a chunk.
type State struct {
	Prog    *Program
	N       int
	Static  [][]float64 // values of static slots, shared
	vals    [][]float64
	grads   [][]float64
	Touched []bool
	scratch [4][]float64
	Aside   map[int][]float64 // gradients kept by site until all outputs are done
	chosen  map[int]*chosen   // by slot
}

// chosen are the places of elements that an op chose among its inputs.
type chosen struct {
	place []int32
	known bool // for the chunk
}

func NewState(p *Program, static [][]float64) *State {
	k := len(p.Slots)
	return &State{Prog: p, Static: static, vals: make([][]float64, k), grads: make([][]float64, k),
		Touched: make([]bool, k), Aside: map[int][]float64{}, chosen: map[int]*chosen{}}
}

// copies returns how many tensors a slot holds: 1 or the examples of the chunk.
func (s *State) copies(slot int) int {
	if s.Prog.Slots[slot].Static {
		return 1
	}
	return s.N
}

// val returns everything a slot holds.
func (s *State) val(slot int) []float64 {
	if s.Prog.Slots[slot].Static {
		return s.Static[slot]
	}
	return s.vals[slot]
}

// At returns a slot's tensor for example e.
func (s *State) At(slot, e int) []float64 {
	sl := &s.Prog.Slots[slot]
	if sl.Static {
		return s.Static[slot]
	}
	return s.vals[slot][e*sl.Size : (e+1)*sl.Size]
}

func (s *State) diff(slot int) bool { return s.Prog.Slots[slot].Diff }

// grad returns a slot's gradients, one tensor an example also where the slot
// is static; the first call in a backward pass clears them.
func (s *State) grad(slot int) []float64 {
	g, first := s.gradOrNew(slot)
	if first {
		clear(g)
	}
	return g
}

// gradOrNew is grad without the clearing: where first is true the content is
// undefined and the caller sets every element.
func (s *State) gradOrNew(slot int) (g []float64, first bool) {
	size := s.Prog.Slots[slot].Size * s.N
	if s.Touched[slot] {
		return s.grads[slot][:size], false
	}
	s.Touched[slot] = true
	s.grads[slot] = sized(s.grads[slot], size)
	return s.grads[slot], true
}

func (s *State) GradAt(slot, e int) []float64 {
	size := s.Prog.Slots[slot].Size
	return s.grad(slot)[e*size : (e+1)*size]
}

// Buffer returns scratch memory i of the given length; its content is
// undefined and lasts until the next call for the same i.
func (s *State) Buffer(i, size int) []float64 {
	s.scratch[i] = sized(s.scratch[i], size)
	return s.scratch[i]
}

// PutAside returns memory of a site that lasts until the next chunk.
func (s *State) PutAside(site, size int) []float64 {
	s.Aside[site] = sized(s.Aside[site], size)
	return s.Aside[site]
}

// places returns memory for the places that led to a slot, and whether it holds
// those of the chunk; if not, the caller fills it in.
func (s *State) places(slot, n int) (place []int32, known bool) {
	c := s.chosen[slot]
	if c == nil {
		c = new(chosen)
		s.chosen[slot] = c
	}
	if cap(c.place) < n {
		c.place = make([]int32, n)
	}
	known, c.known = c.known, true
	return c.place[:n], known
}

func sized(buf []float64, n int) []float64 {
	if cap(buf) < n {
		return make([]float64, n)
	}
	return buf[:n]
}

// Forward runs the program on n examples, example by example in x.
func (s *State) Forward(x []float64, n int) {
	s.N = n
	for _, c := range s.chosen {
		c.known = false
	}
	for i := range s.Prog.Slots {
		if sl := &s.Prog.Slots[i]; !sl.Static && i != s.Prog.Input {
			s.vals[i] = sized(s.vals[i], n*sl.Size)
		}
	}
	s.vals[s.Prog.Input] = x
	for i := range s.Prog.Nodes {
		if nd := &s.Prog.Nodes[i]; !s.Prog.Slots[nd.Out].Static {
			nd.Op.Forward(s, nd)
		}
	}
}

// Backward carries the gradient seed, n×C, of the output back to every
// parameter. visit is called at each site once the gradient of its result is
// complete.
func (s *State) Backward(seed []float64, visit func(site int)) {
	clear(s.Touched)
	if !s.diff(s.Prog.Output) {
		return
	}
	g, _ := s.gradOrNew(s.Prog.Output)
	copy(g, seed)
	at := len(s.Prog.Sites) - 1
	for i := len(s.Prog.Nodes) - 1; i >= 0; i-- {
		nd := &s.Prog.Nodes[i]
		if !s.diff(nd.Out) {
			continue
		}
		for ; at >= 0 && s.Prog.Sites[at].Node > i; at-- {
		}
		if at >= 0 && s.Prog.Sites[at].Node == i {
			s.grad(nd.Out)
			visit(at)
		}
		if s.Touched[nd.Out] {
			nd.Op.Backward(s, nd)
		}
	}
}

// EvalStatic computes the static slots that depend on θ and returns all
// static values.
func (p *Program) EvalStatic(theta []float64) [][]float64 {
	static := make([][]float64, len(p.Slots))
	for i, sl := range p.Slots {
		switch {
		case sl.Param >= 0:
			prm := p.Params[sl.Param]
			static[i] = theta[prm.Offset : prm.Offset+prm.Len() : prm.Offset+prm.Len()]
		case sl.Constant != nil:
			static[i] = sl.Constant
		case sl.Static:
			static[i] = make([]float64, sl.Size)
		}
	}
	s := NewState(p, static)
	s.N = 1
	for i := range p.Nodes {
		if nd := &p.Nodes[i]; p.Slots[nd.Out].Static {
			nd.Op.Forward(s, nd)
		}
	}
	return static
}

// Reachable marks the slots behind the output.
func (p *Program) Reachable() []bool {
	reach := make([]bool, len(p.Slots))
	reach[p.Output] = true
	for i := len(p.Nodes) - 1; i >= 0; i-- {
		if reach[p.Nodes[i].Out] {
			for _, in := range p.Nodes[i].In {
				reach[in] = true
			}
		}
	}
	return reach
}

func (p *Program) ParamOf(slot int) int {
	if slot < 0 {
		return -1
	}
	return p.Slots[slot].Param
}

// tileFactor is how much more memory than the factors of a site its dense
// columns may take: they are formed once, the factors are contracted every
// time a kernel needs them.
const tileFactor = 3

// KeepsTile says whether a site is kept as dense columns.
func (p *Program) KeepsTile(st *Site) bool {
	width := 0
	for _, k := range []int{st.Weight, st.Bias} {
		if k >= 0 {
			width += p.Params[k].Len()
		}
	}
	return width*p.C <= tileFactor*(p.Slots[p.Nodes[st.Node].Out].Size*p.C+p.Slots[st.X].Size)
}

// SetChunk chooses how many examples a worker takes at once: activations and
// gradients of a chunk stay near the size of a second-level cache.
func (p *Program) SetChunk() {
	size := 1
	for _, sl := range p.Slots {
		if !sl.Static {
			size += sl.Size
		}
	}
	p.Chunk = min(max((1<<18)/size, min(8, (1<<24)/size), 1), 256)
}

// SpanList returns the spans of a site's weight and bias, those that are
// parameters.
func (p *Program) SpanList(st *Site) []linearize.Span {
	var list []linearize.Span
	weight, bias := p.Spans(st)
	for _, s := range []*linearize.Span{weight, bias} {
		if s != nil {
			list = append(list, *s)
		}
	}
	return list
}

// Kind names the kind of block that newJacobian makes of a site.
func (st *Site) Kind() string {
	switch {
	case st.Tile:
		return "Full"
	case st.Layout == nil:
		return "Outer"
	}
	return "Conv"
}
