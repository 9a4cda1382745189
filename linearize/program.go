package linearize

// A program is a network's operations in an order in which they can run, on
// numbered slots of memory. It does not change after it is compiled; θ is not
// part of it.
//
// A slot holds one tensor for each example of a chunk, example by example, or
// a single tensor (static) that does not depend on the input. Everything runs
// example by example on shapes in which the batch dimension counts one
// example, so no operation can mix examples.
type program struct {
	slots  []slot
	nodes  []node
	params []Param
	// sites are the nodes whose weight gradient has structure; full are the
	// slots of parameters whose gradient is kept number by number.
	sites []site
	full  []int

	operators     []string // of the nodes translated, in order
	input, output int
	inShape       []int // of one example
	d, c, p       int
	chunk         int // examples worked on at once, fixed by the network alone
}

type slot struct {
	size     int
	static   bool      // one copy for all examples
	diff     bool      // depends on a parameter
	param    int       // index into params, or −1
	constant []float64 // value of a static slot without parameters
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

type node struct {
	op  op
	in  []int
	out int
}

// An op computes one slot from others and carries gradients back.
type op interface {
	// forward fills the output slot for every example of the state.
	forward(s *state, nd *node)
	// backward adds to the gradients of those inputs that depend on a
	// parameter, given the gradient of the output.
	backward(s *state, nd *node)
}

// A site is a node that multiplies by a weight which appears nowhere else.
// Its weight and bias gradients have the form of an Outer or a Conv block.
type site struct {
	node         int
	x            int       // slot of the layer's input
	layout       positions // nil for a dense layer used once per example
	weight, bias int       // index into params, or −1
	transposed   bool      // the weight is stored in×out
	tile         bool      // its block is kept as dense columns
}

func (p *program) spans(st *site) (weight, bias *Span) {
	if st.weight >= 0 {
		weight = p.params[st.weight].span(st.transposed)
	}
	if st.bias >= 0 {
		bias = p.params[st.bias].span(false)
	}
	return weight, bias
}

// A state is the memory of one worker running a program on a chunk.
type state struct {
	prog    *program
	n       int
	static  [][]float64 // values of static slots, shared
	vals    [][]float64
	grads   [][]float64
	touched []bool
	scratch [4][]float64
	aside   map[int][]float64 // gradients kept by site until all outputs are done
	chosen  map[int]*chosen   // by slot
}

// chosen are the places of elements that an op chose among its inputs.
type chosen struct {
	place []int32
	known bool // for the chunk
}

func newState(p *program, static [][]float64) *state {
	k := len(p.slots)
	return &state{prog: p, static: static, vals: make([][]float64, k), grads: make([][]float64, k),
		touched: make([]bool, k), aside: map[int][]float64{}, chosen: map[int]*chosen{}}
}

// copies returns how many tensors a slot holds: 1 or the examples of the chunk.
func (s *state) copies(slot int) int {
	if s.prog.slots[slot].static {
		return 1
	}
	return s.n
}

// val returns everything a slot holds.
func (s *state) val(slot int) []float64 {
	if s.prog.slots[slot].static {
		return s.static[slot]
	}
	return s.vals[slot]
}

// at returns a slot's tensor for example e.
func (s *state) at(slot, e int) []float64 {
	sl := &s.prog.slots[slot]
	if sl.static {
		return s.static[slot]
	}
	return s.vals[slot][e*sl.size : (e+1)*sl.size]
}

func (s *state) diff(slot int) bool { return s.prog.slots[slot].diff }

// grad returns a slot's gradients, one tensor an example also where the slot
// is static; the first call in a backward pass clears them.
func (s *state) grad(slot int) []float64 {
	g, first := s.gradOrNew(slot)
	if first {
		clear(g)
	}
	return g
}

// gradOrNew is grad without the clearing: where first is true the content is
// undefined and the caller sets every element.
func (s *state) gradOrNew(slot int) (g []float64, first bool) {
	size := s.prog.slots[slot].size * s.n
	if s.touched[slot] {
		return s.grads[slot][:size], false
	}
	s.touched[slot] = true
	s.grads[slot] = sized(s.grads[slot], size)
	return s.grads[slot], true
}

func (s *state) gradAt(slot, e int) []float64 {
	size := s.prog.slots[slot].size
	return s.grad(slot)[e*size : (e+1)*size]
}

// buffer returns scratch memory i of the given length; its content is
// undefined and lasts until the next call for the same i.
func (s *state) buffer(i, size int) []float64 {
	s.scratch[i] = sized(s.scratch[i], size)
	return s.scratch[i]
}

// putAside returns memory of a site that lasts until the next chunk.
func (s *state) putAside(site, size int) []float64 {
	s.aside[site] = sized(s.aside[site], size)
	return s.aside[site]
}

// places returns memory for the places that led to a slot, and whether it holds
// those of the chunk; if not, the caller fills it in.
func (s *state) places(slot, n int) (place []int32, known bool) {
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

// forward runs the program on n examples, example by example in x.
func (s *state) forward(x []float64, n int) {
	s.n = n
	for _, c := range s.chosen {
		c.known = false
	}
	for i := range s.prog.slots {
		if sl := &s.prog.slots[i]; !sl.static && i != s.prog.input {
			s.vals[i] = sized(s.vals[i], n*sl.size)
		}
	}
	s.vals[s.prog.input] = x
	for i := range s.prog.nodes {
		if nd := &s.prog.nodes[i]; !s.prog.slots[nd.out].static {
			nd.op.forward(s, nd)
		}
	}
}

// backward carries the gradient seed, n×C, of the output back to every
// parameter. visit is called at each site once the gradient of its result is
// complete.
func (s *state) backward(seed []float64, visit func(site int)) {
	clear(s.touched)
	if !s.diff(s.prog.output) {
		return
	}
	g, _ := s.gradOrNew(s.prog.output)
	copy(g, seed)
	at := len(s.prog.sites) - 1
	for i := len(s.prog.nodes) - 1; i >= 0; i-- {
		nd := &s.prog.nodes[i]
		if !s.diff(nd.out) {
			continue
		}
		for ; at >= 0 && s.prog.sites[at].node > i; at-- {
		}
		if at >= 0 && s.prog.sites[at].node == i {
			s.grad(nd.out)
			visit(at)
		}
		if s.touched[nd.out] {
			nd.op.backward(s, nd)
		}
	}
}

// evalStatic computes the static slots that depend on θ and returns all
// static values.
func (p *program) evalStatic(theta []float64) [][]float64 {
	static := make([][]float64, len(p.slots))
	for i, sl := range p.slots {
		switch {
		case sl.param >= 0:
			prm := p.params[sl.param]
			static[i] = theta[prm.Offset : prm.Offset+prm.Len() : prm.Offset+prm.Len()]
		case sl.constant != nil:
			static[i] = sl.constant
		case sl.static:
			static[i] = make([]float64, sl.size)
		}
	}
	s := newState(p, static)
	s.n = 1
	for i := range p.nodes {
		if nd := &p.nodes[i]; p.slots[nd.out].static {
			nd.op.forward(s, nd)
		}
	}
	return static
}

// reachable marks the slots behind the output.
func (p *program) reachable() []bool {
	reach := make([]bool, len(p.slots))
	reach[p.output] = true
	for i := len(p.nodes) - 1; i >= 0; i-- {
		if reach[p.nodes[i].out] {
			for _, in := range p.nodes[i].in {
				reach[in] = true
			}
		}
	}
	return reach
}

func (p *program) paramOf(slot int) int {
	if slot < 0 {
		return -1
	}
	return p.slots[slot].param
}

// tileFactor is how much more memory than the factors of a site its dense
// columns may take: they are formed once, the factors are contracted every
// time a kernel needs them.
const tileFactor = 3

// keepsTile says whether a site is kept as dense columns.
func (p *program) keepsTile(st *site) bool {
	width := 0
	for _, k := range []int{st.weight, st.bias} {
		if k >= 0 {
			width += p.params[k].Len()
		}
	}
	return width*p.c <= tileFactor*(p.slots[p.nodes[st.node].out].size*p.c+p.slots[st.x].size)
}

// setChunk chooses how many examples a worker takes at once: activations and
// gradients of a chunk stay near the size of a second-level cache.
func (p *program) setChunk() {
	size := 1
	for _, sl := range p.slots {
		if !sl.static {
			size += sl.size
		}
	}
	p.chunk = min(max((1<<18)/size, min(8, (1<<24)/size), 1), 256)
}

// spanList returns the spans of a site's weight and bias, those that are
// parameters.
func (p *program) spanList(st *site) []Span {
	var list []Span
	weight, bias := p.spans(st)
	for _, s := range []*Span{weight, bias} {
		if s != nil {
			list = append(list, *s)
		}
	}
	return list
}
