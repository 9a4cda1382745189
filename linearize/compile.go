package linearize

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// maxElements bounds the elements one tensor may have for one example, and
// the entries of an index table, so that no size in a file is trusted.
const maxElements = 1 << 24

// A value is what a name in the graph stands for while it is compiled: a
// tensor in a slot, with the shape it has for a single example, or known
// integers. Several values can share a slot (Reshape, Squeeze, …).
type value struct {
	slot  int
	shape []int // with the batch dimension counted as for one example
	batch int   // axis of the batch dimension, or −1 where there is none
	ints  []affine
	isInt bool
	// weight is the parameter this value is, or the transpose of which it is;
	// used by layers that want to treat it as their weight.
	weight     *initializer
	transposed bool
}

// affine is n·N + k, with N the batch size.
type affine struct{ n, k int }

func (a affine) constant() bool { return a.n == 0 }

// at is the value for a single example.
func (a affine) one() int { return a.n + a.k }

// initializer is a tensor stored in the file.
type initializer struct {
	t     *onnx.Tensor
	index int // in file order
	uses  int // by nodes that influence the output
	param int // slot, once it is used as a tensor
	value *value
}

// A compiler turns the nodes of a graph into a program.
type compiler struct {
	graph  *onnx.Graph
	opset  int64
	freeze map[string]bool
	frozen map[string]bool // names of freeze that were met
	inits  map[string]*initializer
	env    map[string]*value
	uses   map[string]int
	prog   *program
	static [][]float64 // constants, by slot
	order  []*initializer
	warns  []error
	node   *onnx.Node
	opNode int // number of the node in the file
	batch  int // fixed batch size declared by the file, or 0
}

// compile checks and translates a model.
func compile(m *onnx.Model, o *ReadOptions) (*program, []float64, []error, error) {
	c := &compiler{graph: m.Graph, freeze: map[string]bool{}, frozen: map[string]bool{}, inits: map[string]*initializer{},
		env: map[string]*value{}, uses: map[string]int{}, prog: &program{}}
	if m.Graph == nil {
		return nil, nil, nil, errors.New("linearize: the ONNX file has no graph; export the model again")
	}
	for _, name := range o.Freeze {
		c.freeze[name] = true
	}
	if err := c.setOpset(m); err != nil {
		return nil, nil, nil, err
	}
	if err := c.readInitializers(); err != nil {
		return nil, nil, nil, err
	}
	output, nodes, err := c.plan()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := c.declareInput(); err != nil {
		return nil, nil, nil, err
	}
	for _, i := range nodes {
		c.node, c.opNode = c.graph.Nodes[i], i
		c.prog.operators = append(c.prog.operators, c.node.OpType)
		if err := c.translate(); err != nil {
			return nil, nil, nil, fmt.Errorf("linearize: node %d %q (%s, opset %d): %w", i, c.node.Name, c.node.OpType, c.opset, err)
		}
	}
	if err := c.finish(output); err != nil {
		return nil, nil, nil, err
	}
	return c.prog, c.theta(), c.warns, nil
}

func (c *compiler) setOpset(m *onnx.Model) error {
	for _, o := range m.OpsetImport {
		if o.Domain == "" || o.Domain == "ai.onnx" {
			c.opset = max(c.opset, o.Version)
		}
	}
	if c.opset < 7 {
		return fmt.Errorf("linearize: the model's opset is %d; export it with opset 11 or later", c.opset)
	}
	return nil
}

func (c *compiler) readInitializers() error {
	for i, t := range c.graph.Initializers {
		if t.Name == "" {
			return fmt.Errorf("linearize: initializer %d has no name", i)
		}
		if c.inits[t.Name] != nil {
			return fmt.Errorf("linearize: initializer %q is defined twice", t.Name)
		}
		for j, v := range t.Floats {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("linearize: initializer %q holds %v at element %d; the trained weights are damaged, export the model again", t.Name, v, j)
			}
		}
		c.inits[t.Name] = &initializer{t: t, index: i, param: -1}
	}
	return nil
}

// plan finds the output and the nodes that influence it, in an order in which
// they can run, and counts the uses of every name.
func (c *compiler) plan() (output string, order []int, err error) {
	producer := map[string]int{}
	for i, n := range c.graph.Nodes {
		for _, name := range n.Outputs {
			if name == "" {
				continue
			}
			if _, twice := producer[name]; twice {
				return "", nil, fmt.Errorf("linearize: %q is the output of two nodes, the second is node %d %q", name, i, n.Name)
			}
			producer[name] = i
		}
	}
	if len(c.graph.Outputs) != 1 {
		return "", nil, fmt.Errorf("linearize: the model has %d outputs; export it with exactly one", len(c.graph.Outputs))
	}
	output = c.stripHead(c.graph.Outputs[0].Name, producer)
	order, err = c.sort(output, producer)
	return output, order, err
}

// stripHead steps back over a final Softmax, LogSoftmax or Sigmoid.
func (c *compiler) stripHead(output string, producer map[string]int) string {
	name := output
	for {
		i, ok := producer[name]
		if !ok || len(c.graph.Nodes[i].Inputs) == 0 {
			return output
		}
		n := c.graph.Nodes[i]
		switch n.OpType {
		case "Identity":
			name = n.Inputs[0]
		case "Softmax", "LogSoftmax", "Sigmoid":
			c.warns = append(c.warns, fmt.Errorf("the final %s (node %d %q) was removed: outputs are its inputs, the likelihood applies it", n.OpType, i, n.Name))
			return n.Inputs[0]
		default:
			return output
		}
	}
}

// sort visits the nodes behind the output depth first, without recursion.
func (c *compiler) sort(output string, producer map[string]int) ([]int, error) {
	const open, done = 1, 2
	mark := make([]int, len(c.graph.Nodes))
	var order []int
	type frame struct{ node, next int }
	var stack []frame
	push := func(name string) error {
		i, ok := producer[name]
		switch {
		case !ok || mark[i] == done:
			return nil
		case mark[i] == open:
			return fmt.Errorf("linearize: the graph has a cycle through node %d %q (%s)", i, c.graph.Nodes[i].Name, c.graph.Nodes[i].OpType)
		}
		mark[i] = open
		stack = append(stack, frame{node: i})
		return nil
	}
	if err := push(output); err != nil {
		return nil, err
	}
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		n := c.graph.Nodes[f.node]
		if f.next == len(n.Inputs) {
			mark[f.node] = done
			order = append(order, f.node)
			stack = stack[:len(stack)-1]
			continue
		}
		name := n.Inputs[f.next]
		f.next++
		if name == "" {
			continue
		}
		c.uses[name]++
		if err := push(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// declareInput makes the slot of the network's input.
func (c *compiler) declareInput() error {
	var inputs []*onnx.ValueInfo
	for _, in := range c.graph.Inputs {
		if c.inits[in.Name] == nil {
			inputs = append(inputs, in)
		}
	}
	if len(inputs) != 1 {
		return fmt.Errorf("linearize: the model has %d inputs besides its weights; export it with exactly one", len(inputs))
	}
	in := inputs[0]
	if !in.Type.IsFloat() {
		return fmt.Errorf("linearize: input %q has type %v; only floating point inputs can be linearized", in.Name, in.Type)
	}
	if !in.HasShape || len(in.Dims) < 2 {
		return fmt.Errorf("linearize: input %q must have a declared shape of a batch dimension and at least one more, it has %d dimensions", in.Name, len(in.Dims))
	}
	shape := []int{1}
	for i, d := range in.Dims[1:] {
		if d.Value <= 0 || d.Param != "" {
			return fmt.Errorf("linearize: dimension %d of input %q is not a fixed number; only the first (batch) dimension may be open, export with the others fixed", i+1, in.Name)
		}
		if d.Value > maxElements {
			return fmt.Errorf("linearize: dimension %d of input %q is %d; at most %d elements an example are allowed", i+1, in.Name, d.Value, maxElements)
		}
		shape = append(shape, int(d.Value))
	}
	if d := in.Dims[0]; d.HasValue && d.Value >= 1 {
		c.batch = int(min(d.Value, math.MaxInt32))
	}
	size, err := count(shape)
	if err != nil {
		return fmt.Errorf("linearize: input %q: %w", in.Name, err)
	}
	c.prog.input = c.addSlot(slot{size: size, param: -1})
	c.prog.inShape, c.prog.d = shape[1:], size
	c.env[in.Name] = &value{slot: c.prog.input, shape: shape, batch: 0}
	return nil
}

// count returns the number of elements of a shape, bounded.
func count(shape []int) (int, error) {
	n := 1
	for _, d := range shape {
		if d <= 0 {
			return 0, fmt.Errorf("a tensor of shape %v has no elements", shape)
		}
		if d > maxElements/n {
			return 0, fmt.Errorf("a tensor of shape %v is larger than the %d elements an example may have", shape, maxElements)
		}
		n *= d
	}
	return n, nil
}

func (c *compiler) addSlot(s slot) int {
	c.prog.slots = append(c.prog.slots, s)
	c.static = append(c.static, s.constant)
	return len(c.prog.slots) - 1
}

// addConstant makes a value of known numbers.
func (c *compiler) addConstant(data []float64, shape []int) *value {
	id := c.addSlot(slot{size: len(data), static: true, param: -1, constant: data})
	return &value{slot: id, shape: shape, batch: -1}
}

// emit adds a node and returns its result. A node without parameters and
// without input runs at once and becomes a constant.
func (c *compiler) emit(o op, shape []int, batch int, in ...*value) (*value, error) {
	size, err := count(shape)
	if err != nil {
		return nil, err
	}
	sl := slot{size: size, static: true, param: -1}
	nd := node{op: o, name: fmt.Sprintf("%s %q", c.node.OpType, c.node.Name)}
	for _, v := range in {
		nd.in = append(nd.in, v.slot)
		sl.static = sl.static && c.prog.slots[v.slot].static
		sl.diff = sl.diff || c.prog.slots[v.slot].diff
	}
	if sl.static {
		batch = -1
	}
	if sl.static && !sl.diff {
		return c.fold(nd, size, shape)
	}
	nd.out, nd.id = c.addSlot(sl), len(c.prog.nodes)
	c.prog.nodes = append(c.prog.nodes, nd)
	return &value{slot: nd.out, shape: shape, batch: batch}, nil
}

// fold runs a node on constants.
func (c *compiler) fold(nd node, size int, shape []int) (*value, error) {
	v := c.addConstant(make([]float64, size), shape)
	nd.out = v.slot
	s := newState(c.prog, c.static)
	s.n = 1
	nd.op.forward(s, &nd)
	for i, x := range c.static[v.slot] {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("its constant result holds %v at element %d", x, i)
		}
	}
	return v, nil
}

// finish fixes the order of the parameters in θ and the sites.
func (c *compiler) finish(output string) error {
	out, err := c.lookup(output)
	if err != nil {
		return fmt.Errorf("linearize: output %q: %w", output, err)
	}
	if out.isInt {
		return fmt.Errorf("linearize: output %q is an integer tensor", output)
	}
	p := c.prog
	p.output = out.slot
	p.c = p.slots[out.slot].size
	if !p.slots[out.slot].diff {
		return fmt.Errorf("linearize: output %q does not depend on any parameter; check --freeze and the export", output)
	}
	if p.slots[out.slot].static {
		return fmt.Errorf("linearize: output %q does not depend on the input", output)
	}
	if product(out.shape[:out.batch]) != 1 {
		return fmt.Errorf("linearize: output %q has the batch dimension at axis %d; export it with the batch first", output, out.batch)
	}
	for name := range c.freeze {
		if !c.frozen[name] {
			err := fmt.Errorf("linearize: cannot freeze %q: no parameter of that name; inspect lists them", name)
			if c.inits[name] == nil || c.inits[name].param >= 0 {
				return err
			}
		}
	}
	c.orderParams()
	c.findSites()
	p.setChunk()
	return nil
}

// orderParams puts the parameters that the output uses into θ in file order.
func (c *compiler) orderParams() {
	p := c.prog
	reach := p.reachable()
	for _, t := range c.graph.Initializers {
		if in := c.inits[t.Name]; in.param >= 0 && p.slots[in.param].diff && reach[in.param] {
			p.slots[in.param].param = len(p.params)
			p.params = append(p.params, Param{Name: t.Name, Shape: dims(t), Offset: p.p})
			p.p += t.Len()
			c.order = append(c.order, in)
		} else if in.param >= 0 && p.slots[in.param].diff {
			p.slots[in.param].diff, p.slots[in.param].constant = false, t.Floats
		}
	}
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

func dims(t *onnx.Tensor) []int {
	shape := make([]int, len(t.Dims))
	for i, d := range t.Dims {
		shape[i] = int(d)
	}
	return shape
}

// theta returns the parameters' values in order.
func (c *compiler) theta() []float64 {
	theta := make([]float64, 0, c.prog.p)
	for _, in := range c.order {
		theta = append(theta, in.t.Floats...)
	}
	return theta
}

// findSites completes the list of structured weights and puts every other
// parameter into full.
func (c *compiler) findSites() {
	p := c.prog
	covered := make([]bool, len(p.params))
	for i := range p.sites {
		st := &p.sites[i]
		// Until now weight and bias are slots.
		st.weight, st.bias = p.paramOf(st.weight), p.paramOf(st.bias)
		for _, k := range []int{st.weight, st.bias} {
			if k >= 0 {
				covered[k] = true
			}
		}
		st.tile = st.layout != nil && p.tileIsSmaller(st)
	}
	p.sites = slices.DeleteFunc(p.sites, func(s site) bool { return s.weight < 0 && s.bias < 0 })
	for i, sl := range p.slots {
		if sl.param >= 0 && !covered[sl.param] {
			p.full = append(p.full, i)
		}
	}
}

func (p *program) paramOf(slot int) int {
	if slot < 0 {
		return -1
	}
	return p.slots[slot].param
}

// tileIsSmaller says whether the dense columns of a site take fewer bytes an
// example than its input and output gradients.
func (p *program) tileIsSmaller(st *site) bool {
	width := 0
	for _, k := range []int{st.weight, st.bias} {
		if k >= 0 {
			width += p.params[k].Len()
		}
	}
	return width*p.c <= p.slots[p.nodes[st.node].out].size*p.c+p.slots[st.x].size
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
	p.chunk = min(max((1<<18)/size, 8), 256)
}
