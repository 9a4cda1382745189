// Package compile translates an ONNX graph into a graph.Program: it infers
// shapes, decides which initializers are parameters, and refuses what cannot be
// linearized. Sizes in a file are not trusted: what a graph may ask for is
// bounded.
//
// A family of operators is a file: how its attributes and inputs are read and checked,
// the shape of its result, and which graph.Op it becomes. To add an operator is an entry
// in the table of its family (register) with the function that translates it and the
// facts that the rest of the program needs: how many inputs it has, what it makes of
// integers, and how it treats its inputs, by which initializers are parameters. Where no
// graph.Op computes it, its mathematics is a new one: Forward and Backward.
package compile

import (
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/head"
	"github.com/funcgp/funcgp/linearize/network/internal/ending"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

// maxElements bounds the elements of one tensor for one example, and the
// entries of an index table.
const maxElements = 1 << 24

// maxRank bounds the dimensions of a tensor.
const maxRank = 16

// The memory and work that a graph may ask for. Each budget is a constant plus
// an amount for each number in the file's initializers, so that a small file
// cannot ask for much.
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
	intBytes    = 24
	numberBytes = 8
)

// A value is a tensor of the graph, known by its name while the graph is
// compiled: floating point numbers in a slot, or integers known without running
// the network. Several values can share a slot (Reshape, Squeeze, …).
type value struct {
	slot  int
	shape []int // for a batch of one example
	// batch is the axis of the batch dimension, or −1. A static tensor can have
	// one too, where the graph repeats it for every example (Expand to the batch
	// size).
	batch int
	// lead is the number of elements that come before the examples on the batch
	// axis: T where a T×N×D tensor was reshaped to T·N rows; 0 means 1.
	lead   int
	ints   []affine
	isInt  bool
	real   bool          // the integers were cast to floating point
	stored onnx.DataType // of known integers, 0 where the file does not give it
	// integer is the type of integers or truth values that depend on the input, held
	// in the slot as whole numbers; 0 for floating point.
	integer onnx.DataType
	// fromInts marks a constant made of integers because a node takes floating
	// point. A node all of whose inputs are such is integer arithmetic, which is
	// refused.
	fromInts bool
	// weight is the parameter that this value or, if transposed, its transpose
	// is. A layer can then use the stored tensor as its weight.
	weight     *initializer
	transposed bool
}

// An affine is the integer n·N + row·e + k, with N the batch size and e the number
// of the example, which only integers with a batch axis depend on.
type affine struct{ n, row, k int }

func (a affine) constant() bool { return a.n == 0 && a.row == 0 }

// one returns the integer for a batch of one example.
func (a affine) one() int { return a.n + a.k }

// An initializer is a tensor stored in the file.
type initializer struct {
	t     *onnx.Tensor
	uses  int    // by nodes that influence the output
	param int    // its slot if it may be a parameter, otherwise −1
	mask  error  // what is wrong with it as a weight if it holds −Inf, which a mask may
	known bool   // a node reads its numbers as a statistic, scale or bound
	value *value // nil until it is first used
}

// A compiler turns the nodes of a graph into a program.
type compiler struct {
	graph  *onnx.Graph
	opset  int64
	freeze map[string]bool // names that the caller holds fixed
	learn  map[string]bool // names that the caller wants to be parameters
	fixed  map[string]bool // tensors of rank one or more that were not learnt
	inits  map[string]*initializer
	env    map[string]*value // values by name: the input and the results of translated nodes
	uses   map[string]int    // how often the nodes read a name
	prog   *graph.Program
	static [][]float64    // constants, by slot
	order  []*initializer // the parameters, in the order of θ
	warns  []error
	node   *onnx.Node // the node that is translated
	number map[*onnx.Node]int
	batch  int // fixed batch size declared by the file, or 0

	scalars   map[string]bool            // tensors of rank 0 that were learnt
	silent    map[string]bool            // tensors by which all derivatives are zero
	decisions map[string]learnt.Decision // why, by name

	bySlot    map[int]*initializer // of the slots that hold an initializer
	lastDense string               // name of the result of the last dense layer
	head      *ending.Found        // at the end of the graph, nil for none or a removed one
	tables    map[string][]int32   // broadcast tables made so far
	undecided undecided
	masks     map[int]*mask // of the slots that hold −Inf
	memory    int           // bytes left of the budget
	width     int           // numbers left of the budget for one example
	effort    [2]int        // multiplications left, for one example and of static nodes
	quantized quantized     // what there is to say about quantization
	training  bool          // Options.Training
}

// The versions of ONNX's operators that are read. Before opset 7 operators
// broadcast in a different way; opset 25 is that of ONNX 1.20.
const MinOpset, MaxOpset = 7, 25

// StandardOpset returns the version of ONNX's own operators that a model
// imports, or 0 if it imports none.
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

// Options say how a model is compiled.
type Options struct {
	Freeze []string // initializers that do not become parameters
	Learn  []string // initializers that do where ReadONNX would take them for constants
	Head   head.Rule
	// Number is the place in the file of each node, for messages, if it is not that in
	// the graph.
	Number map[*onnx.Node]int
	// Columns says which columns of a row each input is, of a row of Width numbers; nil
	// for one input after another.
	Columns map[string][]int
	Width   int
	silent  map[string]bool // tensors by which all derivatives are zero; nil where that is not known
	// Training keeps Dropout and BatchNormalization as they act in training. The
	// parameters must be known from a compilation without it: those of Learn.
	Training bool
}

// A Result is a translated model.
type Result struct {
	Program  *graph.Program
	Theta    []float64 // in the order of the program's parameters
	Warnings []error   // what was changed or noticed
	Head     head.Head
	Graph    *onnx.Graph // what was translated: that of the model, perhaps with nodes in the place of a head
}

// A refusal is what the functions of this package panic with where a model cannot be
// translated. It never leaves the package: attempt turns it into an error.
type refusal struct{ error }

func refuse(format string, args ...any) refusal { return refusal{fmt.Errorf(format, args...)} }

// attempt returns the error by which f refuses, or nil.
func attempt(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case refusal:
			err = r.error
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// within calls f, and puts the place in front of what f refuses.
func within(f func(), place string, args ...any) {
	if err := attempt(f); err != nil {
		panic(refuse(place+": %w", append(args, err)...))
	}
}

// Compile checks and translates a model. All of it is translated, also where its head
// is removed.
func Compile(m *onnx.Model, o Options) (r *Result, err error) {
	err = attempt(func() { r = compileModel(m, o) })
	return r, err
}

func compileModel(m *onnx.Model, o Options) *Result {
	if o.Training {
		o.silent = map[string]bool{}
	}
	if m.Graph == nil {
		panic(refuse("network: the ONNX file has no graph; export the model again"))
	}
	c := compileGraph(m, m.Graph, &o, "")
	h := head.Head{}
	if c.head != nil {
		h = c.head.Head
	}
	if h.Removes(o.Head) {
		g, output := c.head.Without(m.Graph)
		c = compileGraph(m, g, &o, output)
		h.Removed = true
	}
	if h.Function != head.None && o.Head != head.Keep {
		c.warns = append(c.warns, h.Warning())
	}
	return &Result{Program: c.prog, Theta: c.theta(), Warnings: c.warns, Head: h, Graph: c.graph}
}

// compileGraph compiles a graph of the model. The output is a result in it or, where it
// is "", that of the graph, whose head is then looked for.
func compileGraph(m *onnx.Model, g *onnx.Graph, o *Options, output string) *compiler {
	c := &compiler{graph: g, training: o.Training, number: o.Number, freeze: set(o.Freeze...), learn: set(o.Learn...), fixed: map[string]bool{}, scalars: map[string]bool{}, silent: o.silent, inits: map[string]*initializer{},
		env: map[string]*value{}, uses: map[string]int{}, prog: &graph.Program{}, bySlot: map[int]*initializer{}, tables: map[string][]int32{}, masks: map[int]*mask{}}
	c.opset = StandardOpset(m)
	if c.opset < MinOpset || c.opset > MaxOpset {
		panic(refuse("network: the model's opset is %d; opsets %d to %d are read, export the model with one of them", c.opset, MinOpset, MaxOpset))
	}
	numbers := 0
	for _, t := range c.graph.Initializers {
		numbers += t.Len()
	}
	c.memory, c.width = memoryBudget+memoryPer*numbers, widthBudget+widthPer*numbers
	c.effort = [2]int{effortBudget + effortPer*numbers, staticBudget + staticPer*numbers}
	for i, t := range c.graph.Initializers {
		if t.Name == "" {
			panic(refuse("network: initializer %d has no name; %s", i, invalid))
		}
		if c.inits[t.Name] != nil {
			panic(refuse("network: initializer %s is defined twice; %s", quote(t.Name), invalid))
		}
		in := &initializer{t: t, param: -1}
		for j, v := range t.Floats {
			if !math.IsNaN(v) && !math.IsInf(v, 0) || math.IsInf(v, -1) && in.mask != nil {
				continue
			}
			mask := ""
			if math.IsInf(v, -1) {
				mask = ", which is read in masks before a Softmax only"
			}
			in.mask = fmt.Errorf("initializer %s holds %v at element %d%s; if it is a weight, its training diverged or the file is damaged", quote(t.Name), v, j, mask)
			if !math.IsInf(v, -1) {
				panic(refuse("network: %w", in.mask))
			}
		}
		c.inits[t.Name] = in
	}
	given := output
	output, nodes := c.plan(output)
	c.checkOperators(nodes)
	c.declareInputs(o)
	c.findConstants(nodes, output)
	for _, i := range nodes {
		c.node = c.graph.Nodes[i]
		c.prog.Operators = append(c.prog.Operators, c.node.OpType)
		if c.undecided.skip(c.node) {
			continue
		}
		if err := attempt(c.translate); err != nil {
			panic(refuse("network: %s, opset %d: %s", c.label(i), c.opset, brief(err.Error(), 400)))
		}
	}
	if c.undecided.conditions != nil {
		panic(refusal{&ConditionsError{c.undecided.conditions}})
	}
	if c.finish(output); o.silent != nil {
		return c
	}
	// Where tensors were taken for parameters that do not influence the outputs, compile again with
	// them as constants.
	names := c.silentTensors()
	if len(names) == 0 {
		return c
	}
	again := *o
	again.silent = set(names...)
	return compileGraph(m, g, &again, given)
}

// spend takes bytes from the memory that compiling may use.
func (c *compiler) spend(bytes int) {
	if c.memory -= bytes; c.memory < 0 {
		panic(refuse("it and the nodes before it need more memory than a file of this size may ask for"))
	}
}

// charge takes the memory of a result and the work of computing it from the
// budgets of one example or, for a static node, of what all examples share.
func (c *compiler) charge(o graph.Op, size int, static bool) {
	if static {
		c.spend(numberBytes * size)
	} else if c.width -= size; c.width < 0 {
		panic(refuse("one example takes more than %d numbers", widthBudget))
	}
	left := &c.effort[int(graph.Step(static))]
	if *left -= graph.Multiplications(o); *left < 0 {
		panic(refuse("its size makes it too much work"))
	}
}

// plan finds the nodes that influence the output, in an order in which they can run,
// and counts the uses of every name. Where no output is given it is that of the graph.
func (c *compiler) plan(wanted string) (output string, order []int) {
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
				panic(refuse("network: %s is the output of two nodes, the second is %s; %s", quote(name), c.label(i), invalid))
			}
			if inputs[name] || c.inits[name] != nil {
				panic(refuse("network: %s is an output of %s and also an input or initializer; %s", quote(name), c.label(i), invalid))
			}
			producer[name] = i
		}
	}
	if len(c.graph.Outputs) != 1 {
		panic(refuse("network: the model has %d outputs; export it with exactly one", len(c.graph.Outputs)))
	}
	if output = wanted; output == "" {
		output = c.graph.Outputs[0].Name
		c.head = ending.Find(c.graph, output, c.learn)
	}
	return output, c.sort(output, producer)
}

// sort visits the nodes behind the output depth first, without recursion.
func (c *compiler) sort(output string, producer map[string]int) []int {
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
			panic(refuse("network: the graph has a cycle through %s; %s", c.label(i), invalid))
		}
		mark[i] = open
		stack = append(stack, frame{node: i})
		return nil
	}
	push(output)
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
		push(name)
	}
	return order
}

// Count returns the number of elements of a shape. A shape with no elements, or
// with too many elements or dimensions, is an error.
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

// count is Count, and refuses such a shape.
func count(shape []int) int {
	n, err := Count(shape)
	if err != nil {
		panic(refusal{err})
	}
	return n
}

func (c *compiler) addSlot(s graph.Slot) int {
	c.prog.Slots = append(c.prog.Slots, s)
	c.static = append(c.static, s.Constant)
	return len(c.prog.Slots) - 1
}

// addConstant returns a value with these numbers, in a slot of its own.
func (c *compiler) addConstant(data []float64, shape []int) *value {
	id := c.addSlot(graph.Slot{Size: len(data), Static: true, Param: -1, Constant: data})
	c.findMask(id, data)
	return &value{slot: id, shape: shape, batch: -1}
}

// emit adds a node with the given result shape and returns its result. A node
// that depends neither on a parameter nor on the input runs at once and becomes
// a constant.
func (c *compiler) emit(o graph.Op, shape []int, batch int, in ...*value) *value {
	size := count(shape)
	sl, known := graph.Slot{Size: size, Static: true, Param: -1}, true
	nd := graph.Node{Op: o}
	for _, v := range in {
		nd.In = append(nd.In, v.slot)
		sl.Static = sl.Static && c.prog.Slots[v.slot].Static
		sl.NeedsGrad = sl.NeedsGrad || c.prog.Slots[v.slot].NeedsGrad && !graph.Stepwise(o)
		known = known && c.static[v.slot] != nil
	}
	lead := commonLead(in...)
	if len(in) > 0 && !slices.ContainsFunc(in, func(v *value) bool { return !v.fromInts }) {
		panic(refuse("integer tensors are supported in the arithmetic of shapes only"))
	}
	c.charge(o, size, sl.Static)
	hidden := c.maskAfter(&nd, size)
	if known {
		v := c.addConstant(make([]float64, size), shape)
		nd.Out, v.batch, v.lead = v.slot, batch, lead
		// All slots of the node are static, so the state needs no memory of its own.
		nd.Op.Forward(&graph.State{Program: c.prog, Static: c.static, N: 1}, &nd)
		if hidden != nil {
			c.masks[v.slot] = hidden
		}
		for i, x := range c.static[v.slot] {
			if (math.IsNaN(x) || math.IsInf(x, 0)) && !(hidden != nil && math.IsInf(hidden.at[i], -1)) {
				panic(refuse("its constant result holds %v at element %d", x, i))
			}
		}
		return v
	}
	nd.Out = c.addSlot(sl)
	c.prog.Nodes = append(c.prog.Nodes, nd)
	if hidden != nil {
		c.masks[nd.Out] = hidden
	}
	return &value{slot: nd.Out, shape: shape, batch: batch, lead: lead}
}

// commonLead returns the lead of the values that have a batch axis, 0 if none has.
func commonLead(in ...*value) int {
	lead := 0
	for _, v := range in {
		if v.batch < 0 {
			continue
		}
		if lead > 0 && lead != v.leading() {
			panic(errMixes) // T·N rows in one input, N·T in another
		}
		lead = v.leading()
	}
	return lead
}
