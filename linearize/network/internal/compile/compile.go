// Package compile translates ONNX graphs into programs: it infers shapes,
// decides what is a parameter, and refuses what cannot be linearized.
package compile

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// maxElements bounds the elements one tensor may have for one example, and
// the entries of an index table, so that no size in a file is trusted.
const maxElements = 1 << 24

// maxRank bounds the dimensions of a tensor.
const maxRank = 16

// What compiling may use, so that a small file cannot ask for much; a file
// with many weights may use more in proportion.
const (
	memoryBudget = 192 << 20 // bytes of index tables, constants and integers
	widthBudget  = 1 << 26   // numbers that one example takes while it runs
	staticBudget = 1 << 30   // multiplications that do not depend on the input
	effortBudget = 1 << 36   // multiplications for one example
	memoryPer    = 64        // bytes for each number in the file
	widthPer     = 64
	staticPer    = 1 << 12
	effortPer    = 1 << 12
)

// Bytes that one entry of each kind counts for.
const (
	tableBytes  = 4
	runBytes    = 12
	intBytes    = 16
	numberBytes = 8
)

// A value is what a name in the graph stands for while it is compiled: a
// tensor in a slot, with the shape it has for a single example, or known
// integers. Several values can share a slot (Reshape, Squeeze, …).
type value struct {
	slot  int
	shape []int // with the batch dimension counted as for one example
	// batch is the axis of the batch dimension, or −1 where there is none. A
	// static tensor has one where it is the same for every example and the
	// graph spells it out (Expand to the batch size).
	batch int
	// lead counts the elements of the batch's axis that come before the
	// examples: T for the T·N rows of a T×N×D tensor; 0 counts as 1.
	lead  int
	ints  []affine
	isInt bool
	real  bool // the integers were cast to floating point
	// fromInts marks numbers made of integers for a node that wants floating
	// point: what they would give among themselves are integers again.
	fromInts bool
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
	index int  // in file order
	uses  int  // by nodes that influence the output
	param int  // slot, once it is used as a tensor
	known bool // used as a statistic, scale or bound
	value *value
}

// A compiler turns the nodes of a graph into a program.
type compiler struct {
	graph  *onnx.Graph
	opset  int64
	freeze map[string]bool
	inits  map[string]*initializer
	env    map[string]*value
	uses   map[string]int
	prog   *graph.Program
	static [][]float64 // constants, by slot
	order  []*initializer
	warns  []error
	node   *onnx.Node
	batch  int // fixed batch size declared by the file, or 0

	bySlot    map[int]*initializer // of the slots that hold an initializer
	lastDense string               // result of the node that made the last dense site
	head      int                  // number of the node removed from the end, or −1
	tables    map[string][]int32   // broadcast tables made so far
	memory    int                  // bytes left of the budget
	width     int                  // numbers of one example left
	effort    [2]int               // multiplications left: for one example, and for all alike
}

// Compile checks and translates a model. The initializers that freeze names
// are not parameters. It returns θ in the order of the program's parameters,
// and what was changed or noticed.
func Compile(m *onnx.Model, freeze []string) (*graph.Program, []float64, []error, error) {
	c := &compiler{graph: m.Graph, freeze: map[string]bool{}, inits: map[string]*initializer{},
		env: map[string]*value{}, uses: map[string]int{}, prog: &graph.Program{}, head: -1, bySlot: map[int]*initializer{}, tables: map[string][]int32{}}
	if m.Graph == nil {
		return nil, nil, nil, errors.New("network: the ONNX file has no graph; export the model again")
	}
	for _, name := range freeze {
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
		c.node = c.graph.Nodes[i]
		c.prog.Operators = append(c.prog.Operators, c.node.OpType)
		if err := c.translate(); err != nil {
			return nil, nil, nil, fmt.Errorf("network: %s, opset %d: %s", c.label(i), c.opset, brief(err.Error(), 400))
		}
	}
	if err := c.finish(output); err != nil {
		return nil, nil, nil, err
	}
	return c.prog, c.theta(), c.warns, nil
}

// label names a node of the file for messages.
func (c *compiler) label(i int) string {
	n := c.graph.Nodes[i]
	return fmt.Sprintf("node %d %s (%s)", i, quote(n.Name), strings.Trim(quote(n.OpType), `"`))
}

// quote quotes a name from the file and cuts one that would fill the message.
func quote(name string) string { return strconv.Quote(brief(name, 80)) }

// brief cuts a text that is longer than most bytes.
func brief(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// setBudgets allows for what a file of this size may ask for.
func (c *compiler) setBudgets() {
	numbers := 0
	for _, t := range c.graph.Initializers {
		numbers += t.Len()
	}
	c.memory, c.width = memoryBudget+memoryPer*numbers, widthBudget+widthPer*numbers
	c.effort = [2]int{effortBudget + effortPer*numbers, staticBudget + staticPer*numbers}
}

// spend takes bytes from the memory that compiling may use.
func (c *compiler) spend(bytes int) error {
	if c.memory -= bytes; c.memory < 0 {
		return errors.New("it and the nodes before it need more memory than a file of this size may ask for")
	}
	return nil
}

// load takes the size of a result and the work of computing it from what one
// example, or what all examples have in common, may use.
func (c *compiler) load(o graph.Op, size int, static bool) error {
	if static {
		if err := c.spend(numberBytes * size); err != nil {
			return err
		}
	} else if c.width -= size; c.width < 0 {
		return fmt.Errorf("one example takes more than %d numbers", widthBudget)
	}
	left := &c.effort[int(graph.Step(static))]
	if *left -= graph.Multiplications(o); *left < 0 {
		return errors.New("its size makes it too much work")
	}
	return nil
}

// The versions of ONNX's operators that are read. Before opset 7 broadcasting
// was another; opset 25 is that of ONNX 1.20.
const minOpset, maxOpset = 7, 25

func (c *compiler) setOpset(m *onnx.Model) error {
	c.opset = StandardOpset(m)
	if c.opset < minOpset || c.opset > maxOpset {
		return fmt.Errorf("network: the model's opset is %d; opsets %d to %d are read, export the model with one of them", c.opset, minOpset, maxOpset)
	}
	return nil
}

// StandardOpset is the version of ONNX's own operators that a model imports,
// or 0 where it imports none.
func StandardOpset(m *onnx.Model) int64 {
	version, found := int64(0), false
	for _, o := range m.OpsetImport {
		if o.Domain != "" && o.Domain != "ai.onnx" {
			continue
		}
		if !found || o.Version > version {
			version, found = o.Version, true
		}
	}
	return version
}

func (c *compiler) readInitializers() error {
	c.setBudgets()
	for i, t := range c.graph.Initializers {
		if t.Name == "" {
			return fmt.Errorf("network: initializer %d has no name", i)
		}
		if c.inits[t.Name] != nil {
			return fmt.Errorf("network: initializer %s is defined twice", quote(t.Name))
		}
		for j, v := range t.Floats {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("network: initializer %s holds %v at element %d; the trained weights are damaged, export the model again", quote(t.Name), v, j)
			}
		}
		c.inits[t.Name] = &initializer{t: t, index: i, param: -1}
	}
	return nil
}

// plan finds the output and the nodes that influence it, in an order in which
// they can run, and counts the uses of every name.
func (c *compiler) plan() (output string, order []int, err error) {
	producer, inputs := map[string]int{}, map[string]bool{}
	for _, in := range c.graph.Inputs {
		inputs[in.Name] = true
	}
	for i, n := range c.graph.Nodes {
		for _, name := range n.Outputs {
			if name == "" {
				continue
			}
			if _, twice := producer[name]; twice {
				return "", nil, fmt.Errorf("network: %s is the output of two nodes, the second is %s", quote(name), c.label(i))
			}
			if inputs[name] || c.inits[name] != nil {
				return "", nil, fmt.Errorf("network: %s is an output of %s and also an input or initializer", quote(name), c.label(i))
			}
			producer[name] = i
		}
	}
	if len(c.graph.Outputs) != 1 {
		return "", nil, fmt.Errorf("network: the model has %d outputs; export it with exactly one", len(c.graph.Outputs))
	}
	output = c.stripHead(c.graph.Outputs[0].Name, producer)
	order, err = c.sort(output, producer)
	return output, order, err
}

// stripHead steps back over a final Softmax, LogSoftmax or Sigmoid.
func (c *compiler) stripHead(output string, producer map[string]int) string {
	name := output
	for range c.graph.Nodes { // not for ever, should they be a cycle
		i, ok := producer[name]
		if !ok || len(c.graph.Nodes[i].Inputs) == 0 || !standard(c.graph.Nodes[i]) {
			return output
		}
		n := c.graph.Nodes[i]
		switch n.OpType {
		case "Identity":
			name = n.Inputs[0]
		case "Softmax", "LogSoftmax", "Sigmoid":
			c.head = i
			c.warns = append(c.warns, fmt.Errorf("the final %s (node %d %s) was removed: outputs are its inputs, the likelihood applies it", n.OpType, i, quote(n.Name)))
			return n.Inputs[0]
		default:
			return output
		}
	}
	return output
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
			return fmt.Errorf("network: the graph has a cycle through %s", c.label(i))
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
		return fmt.Errorf("network: the model has %d inputs besides its weights; export it with exactly one", len(inputs))
	}
	in := inputs[0]
	if !in.Type.IsFloat() {
		return fmt.Errorf("network: input %s has type %v; only floating point inputs can be linearized", quote(in.Name), in.Type)
	}
	if !in.HasShape || len(in.Dims) < 2 {
		return fmt.Errorf("network: input %s must have a declared shape of a batch dimension and at least one more, it has %d dimensions", quote(in.Name), len(in.Dims))
	}
	shape := []int{1}
	for i, d := range in.Dims[1:] {
		if d.Value <= 0 || d.Param != "" {
			return fmt.Errorf("network: dimension %d of input %s is not a fixed number; only the first (batch) dimension may be open, export with the others fixed", i+1, quote(in.Name))
		}
		if d.Value > maxElements {
			return fmt.Errorf("network: dimension %d of input %s is %d; at most %d elements an example are allowed", i+1, quote(in.Name), d.Value, maxElements)
		}
		shape = append(shape, int(d.Value))
	}
	if d := in.Dims[0]; d.HasValue && d.Value >= 1 {
		c.batch = int(min(d.Value, math.MaxInt32))
	}
	size, err := Count(shape)
	if err != nil {
		return fmt.Errorf("network: input %s: %w", quote(in.Name), err)
	}
	c.prog.Input = c.addSlot(graph.Slot{Size: size, Param: -1})
	c.prog.InShape, c.prog.D = shape[1:], size
	c.env[in.Name] = &value{slot: c.prog.Input, shape: shape, batch: 0}
	return nil
}

// Count returns the number of elements of a shape, bounded.
func Count(shape []int) (int, error) {
	if len(shape) > maxRank {
		return 0, fmt.Errorf("a tensor of %d dimensions; at most %d are allowed", len(shape), maxRank)
	}
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

func (c *compiler) addSlot(s graph.Slot) int {
	c.prog.Slots = append(c.prog.Slots, s)
	c.static = append(c.static, s.Constant)
	return len(c.prog.Slots) - 1
}

// addConstant makes a value of known numbers.
func (c *compiler) addConstant(data []float64, shape []int) *value {
	id := c.addSlot(graph.Slot{Size: len(data), Static: true, Param: -1, Constant: data})
	return &value{slot: id, shape: shape, batch: -1}
}

// emit adds a node and returns its result. A node without parameters and
// without input runs at once and becomes a constant.
func (c *compiler) emit(o graph.Op, shape []int, batch int, in ...*value) (*value, error) {
	size, err := Count(shape)
	if err != nil {
		return nil, err
	}
	sl, lead := graph.Slot{Size: size, Static: true, Param: -1}, 0
	nd := graph.Node{Op: o}
	for _, v := range in {
		nd.In = append(nd.In, v.slot)
		sl.Static = sl.Static && c.prog.Slots[v.slot].Static
		sl.NeedsGrad = sl.NeedsGrad || c.prog.Slots[v.slot].NeedsGrad
		if v.batch < 0 {
			continue
		}
		if lead > 0 && lead != v.leading() {
			return nil, errMixes // T×N rows beside N×T rows
		}
		lead = v.leading()
	}
	if len(in) > 0 && !slices.ContainsFunc(in, func(v *value) bool { return !v.fromInts }) {
		return nil, errors.New("integer tensors are supported in the arithmetic of shapes only")
	}
	if err := c.load(o, size, sl.Static); err != nil {
		return nil, err
	}
	if sl.Static && !sl.NeedsGrad {
		v, err := c.fold(nd, size, shape)
		if err == nil {
			v.batch, v.lead = batch, lead
		}
		return v, err
	}
	nd.Out = c.addSlot(sl)
	c.prog.Nodes = append(c.prog.Nodes, nd)
	return &value{slot: nd.Out, shape: shape, batch: batch, lead: lead}, nil
}

// fold runs a node on constants.
func (c *compiler) fold(nd graph.Node, size int, shape []int) (*value, error) {
	v := c.addConstant(make([]float64, size), shape)
	nd.Out = v.slot
	// Constants are static, so that a state without memory of its own will do.
	nd.Op.Forward(&graph.State{Program: c.prog, Static: c.static, N: 1}, &nd)
	for i, x := range c.static[v.slot] {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("its constant result holds %v at element %d", x, i)
		}
	}
	return v, nil
}
