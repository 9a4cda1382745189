// Package graph runs a network forward and backward: the Program that its
// operations are compiled to, the operators (Op), and the memory of a worker
// that runs them (State).
package graph

import (
	"github.com/funcgp/funcgp/linearize"
)

// A Program is a network's operations in an order in which they can run. They
// read and write tensors in numbered slots. A Program does not change after it
// is compiled, and θ is not part of it.
//
// Operations run on one example at a time, with shapes in which the batch
// dimension counts one example, so that no operation can mix examples.
type Program struct {
	Slots  []Slot
	Nodes  []Node
	Params []linearize.Param // in the order of θ
	Places []Place           // in the order of their nodes
	Full   []int             // slots of the parameters that are in no place

	Operators     []string // ONNX operators of the translated nodes, in order
	Input, Output int      // slots
	OutputName    string   // in the file, of the output or what a removed head reads
	Inputs        []Input  // in the order in which they lie in the slot Input
	D, C, P       int      // inputs, outputs, parameters
	Chunk         int      // examples that a worker runs at once; the network alone decides it

	// Names of the stored tensors taken for constants that standardize inputs
	// before the first layer, and that scale outputs after the last one.
	InputConstants, OutputConstants []string
	OutputScale                     float64 // product of the latter where it is one stored number; 0 otherwise

	Values  []Value  // the results of nodes that depend on the input, in the order of the nodes
	Tensors []Tensor // the floating point tensors of the file, in its order

	Norms    []Norm // batch normalizations, of a program to train
	Dropouts int    // operations that are a Dropout, of a program to train
}

// A Value is a result of a node of the file, with the examples on its first axis.
type Value struct {
	Node, Name string // of the node, which may have none, and of the result
	Slot       int
}

// A Tensor says of a stored tensor whether it is a parameter, and why.
type Tensor struct {
	Name      string
	Shape     []int
	Parameter bool
	Reason    string // a clause without a subject
	Doubtful  bool
	Node      bool // stored in a Constant node
}

// An Input is one of the tensors that an example is made of.
type Input struct {
	Name   string
	Shape  []int // without the batch dimension
	Offset int   // of its first number in the slot Program.Input
	// Type names the type of an input of integers or truth values, whose numbers must
	// be whole and from Low to High; "" for floating point.
	Type      string
	Low, High int64

	Columns []int // where its numbers are in the slot if they do not follow one another
}

// Column returns where number k of the input is in the slot Program.Input.
func (in *Input) Column(k int) int {
	if in.Columns == nil {
		return in.Offset + k
	}
	return in.Columns[k]
}

// A Slot describes one tensor of a program. It exists once for each example of
// a chunk or, if static, once for all examples.
type Slot struct {
	Size      int       // elements for one example
	Static    bool      // does not depend on the input
	NeedsGrad bool      // depends on a parameter
	Param     int       // index into Program.Params, or −1
	Constant  []float64 // value of a static slot that depends on no parameter
}

// Product returns the product of the dimensions, 1 for none.
func Product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// A Node applies an operator to the slots In and writes slot Out.
type Node struct {
	Op  Op
	In  []int
	Out int
}

// An Op is an operator: it computes one slot from others and carries gradients
// back.
type Op interface {
	// Forward fills the output slot for every example of the state.
	Forward(s *State, nd *Node)
	// Backward adds to the gradients of those inputs that depend on a
	// parameter, given the gradient of the output.
	Backward(s *State, nd *Node)
}

// Multiplications returns about how many multiplications an operator with
// matrix products or windows takes for one example, and 0 for others, whose
// work is that of reading and writing their slots.
func Multiplications(o Op) int {
	if m, ok := o.(interface{ multiplications() int }); ok {
		return m.multiplications()
	}
	return 0
}

// A Place is a layer (a node that multiplies by a weight, or reads rows of a table)
// whose weight and bias appear nowhere else. Its Jacobian is an Outer or a Conv
// block, or columns of the Full block where those take less memory. The recurrent
// weights of a layer are a place at the node to whose result the layer adds their
// products, and all places that read one table share an Embedding block.
type Place struct {
	Node         int                 // index into Program.Nodes
	Input        int                 // slot of the layer's input
	Layout       linearize.Positions // nil for a dense layer used once per example
	Weight, Bias int                 // index into Program.Params, or −1
	Transposed   bool                // the weight is stored in×out
	Rows         int                 // of the stored weight as a matrix, 0 for its first dimension
	Full         bool                // its Jacobian is kept as columns of the Full block
	Table        *Lookup             // the node's operator where it reads rows of the weight, a table
	At           int                 // of a table: its first position in the block
}

// Spans returns where a place's weight and bias lie in θ, nil where they are
// not parameters.
func (p *Program) Spans(st *Place) (weight, bias *linearize.Span) {
	if st.Weight >= 0 {
		weight = p.Span(st.Weight)
		weight.Transposed = st.Transposed
		if st.Rows > 0 {
			weight.Rows, weight.Cols = st.Rows, weight.Len()/st.Rows
		}
		if r, ok := st.Layout.(Stacked); ok { // one matrix for all directions
			// The shape of all matrices, one below the other.

			weight.Rows, weight.Cols = len(r.From)*r.M, r.K
		}
	}
	if st.Bias >= 0 {
		bias = p.Span(st.Bias)
	}
	return weight, bias
}

// Span returns where parameter i lies in θ, as a matrix whose rows are the
// tensor's first dimension.
func (p *Program) Span(i int) *linearize.Span {
	prm := &p.Params[i]
	rows := 1
	if len(prm.Shape) > 1 {
		rows = prm.Shape[0]
	}
	return &linearize.Span{Name: prm.Name, Offset: prm.Offset, Rows: rows, Cols: prm.Len() / max(rows, 1)}
}

// A State is the memory of one worker that runs a program on a chunk of
// examples.
type State struct {
	Program *Program
	N       int         // examples of the chunk
	Static  [][]float64 // values of static slots, shared by all workers
	vals    [][]float64 // by slot
	grads   [][]float64 // by slot
	touched []bool      // slots that have a gradient in this backward pass
	scratch [4][]float64
	// Team says that the products of dense layers may run on several goroutines, where no
	// other chunk is run beside this one. The bits are the same.
	Team   bool
	places map[int][]float64     // memory of SiteBuffer
	argmax map[int]*argmax       // by slot
	bad    *linearize.IndexError // of the first example of the chunk that reads past a table

	// In training.
	Drop    Dropper           // the factors of a Dropout
	First   int               // place in the minibatch of the chunk's first example
	dropped map[int][]float64 // factors by slot
	moments []*Moments        // of each BatchNorm
}

// An argmax holds the positions of the largest elements in the windows of a
// MaxPool.
type argmax struct {
	at    []int32
	known bool // for the examples of the chunk
}

// NewState returns memory to run p with these values of its static slots,
// those of EvalStatic.
func NewState(p *Program, static [][]float64) *State {
	k := len(p.Slots)
	return &State{Program: p, Static: static, vals: make([][]float64, k), grads: make([][]float64, k),
		touched: make([]bool, k), places: map[int][]float64{}, argmax: map[int]*argmax{}}
}

// copies returns how many tensors a slot holds: 1 or the examples of the chunk.
func (s *State) copies(slot int) int {
	if s.Program.Slots[slot].Static {
		return 1
	}
	return s.N
}

// val returns everything a slot holds.
func (s *State) val(slot int) []float64 {
	if s.Program.Slots[slot].Static {
		return s.Static[slot]
	}
	return s.vals[slot]
}

// At returns a slot's tensor for example e.
func (s *State) At(slot, e int) []float64 {
	sl := &s.Program.Slots[slot]
	if sl.Static {
		return s.Static[slot]
	}
	return s.vals[slot][e*sl.Size : (e+1)*sl.Size]
}

func (s *State) needsGrad(slot int) bool { return s.Program.Slots[slot].NeedsGrad }

// grad returns a slot's gradients, one tensor for each example even where the
// slot is static. The first call in a backward pass clears them.
func (s *State) grad(slot int) []float64 {
	g, first := s.gradOrNew(slot)
	if first {
		clear(g)
	}
	return g
}

// gradOrNew is grad without the clearing: if first is true the content is
// undefined and the caller must set every element.
func (s *State) gradOrNew(slot int) (g []float64, first bool) {
	size := s.Program.Slots[slot].Size * s.N
	if s.touched[slot] {
		return s.grads[slot][:size], false
	}
	s.touched[slot] = true
	s.grads[slot] = sized(s.grads[slot], size)
	return s.grads[slot], true
}

// HasGrad reports whether the last backward pass reached a slot.
func (s *State) HasGrad(slot int) bool { return s.touched[slot] }

// GradAt returns a slot's gradient for example e.
func (s *State) GradAt(slot, e int) []float64 {
	size := s.Program.Slots[slot].Size
	return s.grad(slot)[e*size : (e+1)*size]
}

// Buffer returns scratch memory i of the given length; its content is
// undefined and lasts until the next call for the same i.
func (s *State) Buffer(i, size int) []float64 {
	s.scratch[i] = sized(s.scratch[i], size)
	return s.scratch[i]
}

// SiteBuffer returns memory that belongs to a place. Calls with the same size
// return the same content until the next chunk.
func (s *State) SiteBuffer(place, size int) []float64 {
	s.places[place] = sized(s.places[place], size)
	return s.places[place]
}

// sized returns buf, or new memory, with length n and undefined content.
func sized(buf []float64, n int) []float64 {
	if cap(buf) < n {
		return make([]float64, n)
	}
	return buf[:n]
}

// Forward runs the program on n examples, whose inputs x holds one after the
// other.
func (s *State) Forward(x []float64, n int) {
	s.Start(x, n)
	s.forwardNodes(0, len(s.Program.Nodes))
}

// Start makes the memory ready for n examples, whose inputs x holds one after the
// other.
func (s *State) Start(x []float64, n int) {
	s.N, s.bad = n, nil
	for _, a := range s.argmax {
		a.known = false
	}
	for i := range s.Program.Slots {
		if sl := &s.Program.Slots[i]; !sl.Static && i != s.Program.Input {
			s.vals[i] = sized(s.vals[i], n*sl.Size)
		}
	}
	s.vals[s.Program.Input] = x
}

// forwardNodes runs the nodes [from, to).
func (s *State) forwardNodes(from, to int) {
	for i := from; i < to; i++ {
		if nd := &s.Program.Nodes[i]; !s.Program.Slots[nd.Out].Static {
			nd.Op.Forward(s, nd)
		}
	}
}

// Backward carries seed, N×C, the gradient of the outputs, back to every
// parameter. It calls visit at each place once the gradient of the place's
// result is complete.
func (s *State) Backward(seed []float64, visit func(place int)) {
	s.startBackward(seed)
	s.backwardNodes(0, len(s.Program.Nodes), visit)
}

// startBackward forgets all gradients but those of the outputs.
func (s *State) startBackward(seed []float64) {
	clear(s.touched)
	if s.needsGrad(s.Program.Output) {
		g, _ := s.gradOrNew(s.Program.Output)
		copy(g, seed)
	}
}

// backwardNodes goes back through the nodes [from, to).
func (s *State) backwardNodes(from, to int, visit func(place int)) {
	if !s.needsGrad(s.Program.Output) {
		return
	}
	at := len(s.Program.Places) - 1
	for i := to - 1; i >= from; i-- {
		nd := &s.Program.Nodes[i]
		if !s.needsGrad(nd.Out) {
			continue
		}
		for ; at >= 0 && s.Program.Places[at].Node > i; at-- {
		}
		for ; at >= 0 && s.Program.Places[at].Node == i; at-- {
			s.grad(nd.Out)
			visit(at)
		}
		if s.touched[nd.Out] {
			nd.Op.Backward(s, nd)
		}
	}
}

// EvalStatic returns the values of all static slots at these parameters,
// length P; nil for slots that are not static. Those of parameters share the
// memory of theta.
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

// Reachable marks the slots that the derivative of the output reaches.
func (p *Program) Reachable() []bool {
	reach := make([]bool, len(p.Slots))
	reach[p.Output] = true
	for i := len(p.Nodes) - 1; i >= 0; i-- {
		if out := p.Nodes[i].Out; reach[out] && p.Slots[out].NeedsGrad {
			for _, in := range p.Nodes[i].In {
				reach[in] = true
			}
		}
	}
	return reach
}

// ParamOf returns the index of the parameter that a slot holds, or −1; slot −1
// stands for none.
func (p *Program) ParamOf(slot int) int {
	if slot < 0 {
		return -1
	}
	return p.Slots[slot].Param
}

// fullFactor is how much more memory than the factors of a place its dense
// columns may take: they are formed once, while the factors are multiplied
// every time a kernel needs them.
const fullFactor = 3

// ChooseFull decides which places' Jacobians, of those that would be a Conv, are
// better kept as dense columns. Places at one node share their gradients.
func (p *Program) ChooseFull() {
	type reading struct{ node, input int }
	gradients, inputs := map[int]int{}, map[reading]int{} // how many places share them
	for _, st := range p.Places {
		gradients[st.Node]++
		inputs[reading{st.Node, st.Input}]++
	}
	for i := range p.Places {
		st := &p.Places[i]
		if st.Layout == nil {
			continue
		}
		width := 0
		for _, k := range []int{st.Weight, st.Bias} {
			if k >= 0 {
				width += p.Params[k].Len()
			}
		}
		factors := p.Slots[p.Nodes[st.Node].Out].Size*p.C/gradients[st.Node] + p.Slots[st.Input].Size/inputs[reading{st.Node, st.Input}]
		st.Full = width*p.C <= fullFactor*factors
	}
}

// SetChunk chooses Chunk so that the activations and gradients of a chunk stay
// near the size of a second-level cache.
func (p *Program) SetChunk() {
	size := 1
	for _, sl := range p.Slots {
		if !sl.Static {
			size += sl.Size
		}
	}
	p.Chunk = min(max((1<<18)/size, min(8, (1<<24)/size), 1), 256)
	// A parameter in no place has a gradient for each example of the chunk.
	full := 1
	for _, slot := range p.Full {
		full += p.Slots[slot].Size
	}
	p.Chunk = min(p.Chunk, max(1, (1<<25)/full))
}

// SpanList returns the spans of a place's weight and bias that are parameters,
// in this order.
func (p *Program) SpanList(st *Place) []linearize.Span {
	var list []linearize.Span
	weight, bias := p.Spans(st)
	for _, s := range []*linearize.Span{weight, bias} {
		if s != nil {
			list = append(list, *s)
		}
	}
	return list
}

// Kind names the kind of block that holds a place's Jacobian.
func (st *Place) Kind() string {
	switch {
	case st.Full:
		return "Full"
	case st.Table != nil:
		return "Embedding"
	case st.Layout == nil:
		return "Outer"
	}
	return "Conv"
}
