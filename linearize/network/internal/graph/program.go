// Package graph runs a network forward and backward. It has the Program to which a network is compiled, the
// operators (Op), and the memory of a worker that runs them (State).
package graph

import (
	"github.com/funcgp/funcgp/linearize"
)

// A Program is a network's operations in an order in which they can run. They read and write tensors in numbered
// slots. A Program does not change after it is compiled, and does not contain θ.
//
// Operations run on one example at a time, with shapes whose batch dimension is 1, so that no operation mixes
// examples.
type Program struct {
	Slots  []Slot
	Nodes  []Node
	Params []linearize.Param // in the order of θ
	Places []Place           // in the order of their nodes
	Full   []int             // slots of the parameters in no place

	Operators     []string // ONNX operators of the translated nodes, in order
	Input, Output int      // slots
	OutputName    string   // name in the file of the output, or of what a removed head reads
	Inputs        []Input  // in their order in slot Input
	D, C, P       int      // inputs, outputs, parameters
	Chunk         int      // examples that a worker runs at once; it depends on the network alone

	// Names of the stored tensors taken for constants: those that standardize inputs before the first layer, and
	// those that scale outputs after the last one.
	InputConstants, OutputConstants []string
	OutputScale                     float64 // product of the latter if it is one stored number; 0 otherwise

	Values  []Value  // results of nodes that depend on the input, in order
	Tensors []Tensor // floating point tensors of the file, in order

	Norms    []Norm // batch normalizations of a program to train
	Dropouts int    // number of Dropouts of a program to train
}

// A Value is a result of a node of the file whose first axis counts the examples.
type Value struct {
	Node, Name string // name of the node, which may be "", and name of the result
	Slot       int
}

// A Tensor says whether a stored tensor is a parameter, and why.
type Tensor struct {
	Name      string // of the initializer, or of the result of the Constant node
	Shape     []int
	Parameter bool
	Reason    string // a clause without a subject: "is the weight of …"
	Doubtful  bool   // the evidence is thin or contradictory; a warning names the tensor
	Node      bool   // stored in a Constant node
}

// An Input is one of the tensors that an example consists of.
type Input struct {
	Name   string
	Shape  []int // without the batch dimension
	Offset int   // position of its first number in slot Program.Input
	// Type is the type of an input of integers or truth values, whose numbers must be integers from Low to High; ""
	// for floating point.
	Type      string
	Low, High int64

	Columns []int // positions of its numbers in the slot, if they are not consecutive
}

// Column returns the position of number k of the input in slot Program.Input.
func (in *Input) Column(k int) int {
	if in.Columns == nil {
		return in.Offset + k
	}
	return in.Columns[k]
}

// A Slot describes one tensor of a program. There is one such tensor for each example of a chunk; if the slot is
// static, there is one for all examples.
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

// A Node applies an operator to the slots In, and writes slot Out.
type Node struct {
	Op  Op
	In  []int
	Out int
}

// An Op is an operator. It computes one slot from others, and carries gradients back.
type Op interface {
	// Forward fills the output slot for every example of the state.
	Forward(s *State, nd *Node)
	// Backward adds to the gradients of those inputs that depend on a parameter, given the gradient of the output.
	Backward(s *State, nd *Node)
}

// Multiplications returns about how many multiplications an operator with matrix products or windows takes for one
// example. It returns 0 for any other operator, whose work is reading and writing its slots.
func Multiplications(o Op) int {
	if m, ok := o.(interface{ multiplications() int }); ok {
		return m.multiplications()
	}
	return 0
}

// A Place is a layer (a node that multiplies by a weight, or reads rows of a table) whose weight and bias are used
// nowhere else. Its Jacobian is an Outer or a Conv block, or columns of the Full block where these take less
// memory. The recurrent weights of a layer are a place at the node to whose result the layer adds their products.
// All places that read one table share an Embedding block.
type Place struct {
	Node         int                 // index into Program.Nodes
	Input        int                 // slot of the layer's input
	Layout       linearize.Positions // nil for a dense layer used once per example
	Weight, Bias int                 // index into Program.Params, or −1
	Transposed   bool                // the weight is stored in×out
	Rows         int                 // rows of the stored weight as a matrix; 0 means its first dimension
	Full         bool                // its Jacobian is kept as columns of the Full block
	Table        *Lookup             // the node's operator, if it reads rows of the weight as a table
	At           int                 // for a table, its first position in the block
}

// Spans returns where a place's weight and bias are in θ; nil where they are no parameters.
func (p *Program) Spans(st *Place) (weight, bias *linearize.Span) {
	if st.Weight >= 0 {
		weight = p.Span(st.Weight)
		weight.Transposed = st.Transposed
		if st.Rows > 0 {
			weight.Rows, weight.Cols = st.Rows, weight.Len()/st.Rows
		}
		if r, ok := st.Layout.(Stacked); ok { // one matrix for all directions
			// the shape of all matrices, one below the other

			weight.Rows, weight.Cols = len(r.From)*r.M, r.K
		}
	}
	if st.Bias >= 0 {
		bias = p.Span(st.Bias)
	}
	return weight, bias
}

// Span returns where parameter i is in θ, as a matrix with the tensor's first dimension as rows.
func (p *Program) Span(i int) *linearize.Span {
	prm := &p.Params[i]
	rows := 1
	if len(prm.Shape) > 1 {
		rows = prm.Shape[0]
	}
	return &linearize.Span{Name: prm.Name, Offset: prm.Offset, Rows: rows, Cols: prm.Len() / max(rows, 1)}
}

// A State is the memory of one worker that runs a program on a chunk of examples.
type State struct {
	Program *Program
	N       int         // examples of the chunk
	Static  [][]float64 // values of static slots, shared by all workers
	vals    [][]float64 // by slot
	grads   [][]float64 // by slot
	touched []bool      // slots that have a gradient in this backward pass
	scratch [4][]float64
	// Team says that products of dense layers may run on several goroutines, because no other chunk runs at the
	// same time. The results have the same bits.
	Team bool
	// Features holds what nodes before the parameters computed; nil computes it anew.
	Features *Features

	places map[int][]float64     // memory of SiteBuffer, for each place
	argmax map[int]*argmax       // by slot
	bad    *linearize.IndexError // of the first example of the chunk that reads outside a table

	// In training:
	Drop    Dropper           // writes the factors of a Dropout
	First   int               // position in the minibatch of the chunk's first example
	dropped map[int][]float64 // factors for each slot
	moments []*Moments        // for each BatchNorm
}

// An argmax has the positions of the largest elements in the windows of a MaxPool.
type argmax struct {
	at    []int32
	known bool // they are those of the chunk's examples
}

// NewState returns memory to run p with the given values of its static slots, as EvalStatic returns them.
func NewState(p *Program, static [][]float64) *State {
	k := len(p.Slots)
	return &State{Program: p, Static: static, vals: make([][]float64, k), grads: make([][]float64, k),
		touched: make([]bool, k), places: map[int][]float64{}, argmax: map[int]*argmax{}}
}

// copies returns the number of tensors in a slot: 1, or the number of examples of the chunk.
func (s *State) copies(slot int) int {
	if s.Program.Slots[slot].Static {
		return 1
	}
	return s.N
}

// val returns all tensors in a slot.
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

// grad returns the gradients of a slot, one tensor for each example, also for a static slot. The first call in a
// backward pass clears them.
func (s *State) grad(slot int) []float64 {
	g, first := s.gradOrNew(slot)
	if first {
		clear(g)
	}
	return g
}

// gradOrNew is grad without clearing. If first is true, the content is undefined and the caller must set every
// element.
func (s *State) gradOrNew(slot int) (g []float64, first bool) {
	size := s.Program.Slots[slot].Size * s.N
	if s.touched[slot] {
		return s.grads[slot][:size], false
	}
	s.touched[slot] = true
	s.grads[slot] = sized(s.grads[slot], size)
	return s.grads[slot], true
}

// HasGrad tells whether the last backward pass reached a slot.
func (s *State) HasGrad(slot int) bool { return s.touched[slot] }

// GradAt returns a slot's gradient for example e.
func (s *State) GradAt(slot, e int) []float64 {
	size := s.Program.Slots[slot].Size
	return s.grad(slot)[e*size : (e+1)*size]
}

// Buffer returns scratch memory number i with the given length. Its content is undefined, and valid until the next
// call for the same i.
func (s *State) Buffer(i, size int) []float64 {
	s.scratch[i] = sized(s.scratch[i], size)
	return s.scratch[i]
}

// SiteBuffer returns memory that belongs to a place. Calls with the same size return the same content until the
// next chunk.
func (s *State) SiteBuffer(place, size int) []float64 {
	s.places[place] = sized(s.places[place], size)
	return s.places[place]
}

// sized returns buf with length n, or new memory if buf is too short. The content is undefined.
func sized(buf []float64, n int) []float64 {
	if cap(buf) < n {
		return make([]float64, n)
	}
	return buf[:n]
}

// Forward runs the program on n examples, whose inputs are one after the other in x.
func (s *State) Forward(x []float64, n int) {
	if s.Features != nil {
		s.Features.forward(s, x, n)
		return
	}
	s.Start(x, n)
	s.forwardNodes(0, len(s.Program.Nodes))
}

// forwardOf runs the nodes that of chooses.
func (s *State) forwardOf(of func(i int) bool) {
	for i := range s.Program.Nodes {
		if of(i) {
			s.forwardNodes(i, i+1)
		}
	}
}

// Start prepares the memory for n examples, whose inputs are one after the other in x.
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

// forwardNodes runs nodes from to to−1.
func (s *State) forwardNodes(from, to int) {
	for i := from; i < to; i++ {
		if nd := &s.Program.Nodes[i]; !s.Program.Slots[nd.Out].Static {
			nd.Op.Forward(s, nd)
		}
	}
}

// Backward carries seed, the gradient of the outputs, N×C, back to every parameter. It calls visit for each place
// once the gradient of the place's result is complete.
func (s *State) Backward(seed []float64, visit func(place int)) {
	s.startBackward(seed)
	s.backwardNodes(0, len(s.Program.Nodes), visit)
}

// startBackward drops all gradients, and sets the gradient of the outputs to seed.
func (s *State) startBackward(seed []float64) {
	clear(s.touched)
	if s.needsGrad(s.Program.Output) {
		g, _ := s.gradOrNew(s.Program.Output)
		copy(g, seed)
	}
}

// backwardNodes goes back through nodes to−1 to from.
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

// EvalStatic returns the values of all static slots at the parameters theta, P numbers, and nil for slots that are
// not static. Slots of parameters share memory with theta.
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

// Reachable tells for each slot whether the derivative of the output reaches it.
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

// ParamOf returns the index of the parameter in a slot, or −1. Slot −1 means no slot.
func (p *Program) ParamOf(slot int) int {
	if slot < 0 {
		return -1
	}
	return p.Slots[slot].Param
}

// fullFactor is how much more memory than the factors of a place its dense columns may take. Columns are formed
// once, and factors are multiplied every time a kernel needs them.
const fullFactor = 3

// ChooseFull decides which places, of those whose Jacobian would be a Conv, have their Jacobian as dense columns.
// Places at one node share their gradients.
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

// SetChunk chooses Chunk such that the activations and gradients of a chunk are about as large as a second-level
// cache.
func (p *Program) SetChunk() {
	size := 1
	for _, sl := range p.Slots {
		if !sl.Static {
			size += sl.Size
		}
	}
	p.Chunk = min(max((1<<18)/size, min(8, (1<<24)/size), min(p.wideChunk(), (1<<22)/size), 1), 256)
	// A parameter in no place has a gradient for each example of the chunk.
	full := 1
	for _, slot := range p.Full {
		full += p.Slots[slot].Size
	}
	p.Chunk = min(p.Chunk, max(1, (1<<25)/full))
}

// wideChunk returns how many examples fill the products of layers whose weights do not fit into a second-level cache,
// and are read once for all examples of a product; 0 without such a layer.
func (p *Program) wideChunk() int {
	const weights, columns = 1 << 17, 24
	most := 0
	for i := range p.Places {
		if st := &p.Places[i]; st.Weight >= 0 && p.Params[st.Weight].Len() >= weights {
			t := 1
			if st.Layout != nil {
				t, _, _ = st.Layout.Factors()
			}
			most = max(most, columns/t)
		}
	}
	return most
}

// SpanList returns the spans of a place's weight and bias, in this order, as far as they are parameters.
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

// Kind returns the name of the type of block that has a place's Jacobian.
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
