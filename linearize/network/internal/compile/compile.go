// Package compile translates an ONNX graph into a graph.Program. It infers shapes, decides which initializers are
// parameters, and refuses what cannot be linearized. It does not trust the sizes in a file: memory and work for a
// graph are bounded.
//
// Each family of operators has a file. The file reads and checks attributes and inputs, infers the shape of the
// result and chooses the graph.Op that computes it. To add an operator, add an entry to the table of its family
// (see register). The entry holds the function that translates the operator and facts for other parts of the
// program: the number of inputs, what the operator makes of integers, and how it treats its inputs, which decides
// which initializers are parameters. If no graph.Op computes the operator, write a new Op with Forward and
// Backward.
package compile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network/head"
	"github.com/funcgp/funcgp/linearize/network/internal/ending"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

// maxElements bounds the number of elements of a tensor for one example, and the number of entries of an index
// table.
const maxElements = 1 << 24

// maxRank bounds the dimensions of a tensor.
const maxRank = 16

// Budgets for the memory and work of a graph. Each budget is a constant plus an amount for each number in the
// file's initializers, so a small file cannot ask for much.
const (
	memoryBudget = 192 << 20 // bytes of index tables, constants and integers
	widthBudget  = 1 << 26   // numbers that running one example holds
	staticBudget = 1 << 30   // multiplications whose result does not depend on the input
	effortBudget = 1 << 36   // multiplications for one example
	memoryPer    = 64        // bytes for each number in the file
	widthPer     = 64
	staticPer    = 1 << 12
	effortPer    = 1 << 12
)

// Bytes charged for one entry of each kind.
const (
	tableBytes  = 4
	runBytes    = 12
	intBytes    = 24
	numberBytes = 8
)

// A value is a tensor of the graph while the graph is compiled. It holds floating point numbers in a slot, or
// integers that are known without running the network. Several values can share a slot (Reshape, Squeeze, …).
type value struct {
	slot  int
	shape []int // for a batch of one example
	// batch is the axis of the examples, or −1. A static tensor can have a batch axis too, where the graph repeats
	// it for every example (Expand to the batch size).
	batch int
	// lead is the number of elements on the batch axis that come before the examples: T if a T×N×D tensor was
	// reshaped to T·N rows. 0 means 1.
	lead   int
	ints   []affine
	isInt  bool
	real   bool          // known integers that the graph cast to floating point
	stored onnx.DataType // the type of known integers in the file, 0 if the file does not give it
	// integer is the type of integers or truth values that depend on the input. The slot holds them as whole
	// numbers. It is 0 for floating point.
	integer onnx.DataType
	// row is what the elements of integers that depend on the input have beside the slot: row·e in example e. Only
	// sums, and nodes that take elements by these positions, may read such integers (see translate).
	row int
	// parts are the tensors that a Concat joined along the last axis to tuples of positions, some of which depend on
	// the input.
	parts []*value
	// fromInts marks a constant made of known integers because a node takes floating point. A node whose inputs are
	// all marked computes with integers, and is refused.
	fromInts bool
	list     []*value // of a sequence of tensors, which has no slot; not nil even where it has none
	// weight is the initializer whose stored tensor this value is, or whose transpose if transposed. A layer can
	// use the stored tensor as its weight.
	weight     *initializer
	transposed bool
}

// An affine is the integer n·N + row·e + k, where N is the batch size and e the number of the example. Only
// integers with a batch axis depend on e.
type affine struct{ n, row, k int }

func (a affine) constant() bool { return a.n == 0 && a.row == 0 }

// one returns the integer for a batch of one example.
func (a affine) one() int { return a.n + a.k }

// An initializer is a tensor that the file stores.
type initializer struct {
	t     *onnx.Tensor
	uses  int    // number of uses by nodes that influence the output
	param int    // the tensor's slot if it may be a parameter, otherwise −1
	mask  error  // if the tensor holds ±Inf or NaN: the error where they reach what cannot take them
	known bool   // a node reads the stored numbers as a statistic, scale or bound
	value *value // nil before the first use
}

// A compiler turns the nodes of a graph into a program.
type compiler struct {
	graph  *onnx.Graph
	opset  int64
	freeze map[string]bool // names of tensors that the caller holds fixed
	learn  map[string]bool // names of tensors that the caller wants to be parameters
	fixed  map[string]bool // tensors of rank one or more that were not learnt
	inits  map[string]*initializer
	env    map[string]*value // values by name: inputs of the network and results of translated nodes
	uses   map[string]int    // how many times nodes read a name
	prog   *graph.Program
	static [][]float64    // constants, by slot
	order  []*initializer // the parameters, in the order of θ
	warns  []error
	node   *onnx.Node // the node being translated
	number map[*onnx.Node]int
	batch  int // fixed batch size declared by the file, or 0

	scalars   map[string]bool            // tensors of rank 0 that were learnt
	silent    map[string]bool            // tensors for which all derivatives of the outputs are zero
	decisions map[string]learnt.Decision // by name, whether a tensor was learnt and why

	bySlot    map[int]*initializer // the initializers that have a slot
	lastDense string               // name of the result of the last dense layer, whose bias may follow
	head      *ending.Found        // the head at the end of the graph; nil if there is none or it was removed
	tables    map[string][]int32   // broadcast tables made so far
	undecided undecided
	masks     map[int]*mask // for slots that hold ±Inf or NaN
	memory    int           // bytes left of memoryBudget
	width     int           // numbers left of widthBudget
	effort    [2]int        // multiplications left: for one example, and for static nodes
	quantized quantized     // facts for messages about quantization
	training  bool          // Options.Training
}

// The versions of ONNX's operators (opsets) that can be read. Before opset 7, operators broadcast differently.
// Opset 25 belongs to ONNX 1.20.
const MinOpset, MaxOpset = 7, 25

// StandardOpset returns the version of ONNX's own operators that a model imports, or 0 if it imports none.
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

// Options say how to compile a model.
type Options struct {
	Freeze []string // initializers that do not become parameters
	Learn  []string // initializers that become parameters even if ReadONNX would take them for constants
	Head   head.Rule
	// Number gives for each node its place in the file, for messages. A node without an entry has the same place in
	// the graph.
	Number map[*onnx.Node]int
	// Columns gives for each input its columns of a row with Width numbers. If nil, the inputs follow one another.
	Columns map[string][]int
	Width   int
	silent  map[string]bool // tensors for which all derivatives are zero; nil if unknown
	// Training keeps Dropout and BatchNormalization as they act in training. The parameters must be known from an
	// earlier compilation without Training, and be listed in Learn.
	Training bool
}

// A Result is a translated model.
type Result struct {
	Program  *graph.Program
	Theta    []float64 // in the order of the program's parameters
	Warnings []error   // what was changed or is worth a note
	Head     head.Head
	Graph    *onnx.Graph // the graph that was translated: the model's, or a copy with other nodes in place of a head
}

// A refusal is the panic of this package for a model that cannot be translated. It never leaves the package,
// because attempt turns it into an error.
type refusal struct{ error }

// refuse formats a refusal, with options in braces.
func refuse(format string, args ...any) refusal { return refusal{option.Errorf(format, args...)} }

// attempt calls f. It returns the error if f refuses the model, otherwise nil.
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

// within calls f. If f refuses the model, within refuses it with the place in front of the message.
func within(f func(), place string, args ...any) {
	if err := attempt(f); err != nil {
		panic(refuse(place+": %w", append(args, err)...))
	}
}

// Compile checks and translates a model. It translates the whole model even if the head is then removed.
func Compile(m *onnx.Model, o Options) (r *Result, err error) {
	err = attempt(func() {
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
		r = &Result{Program: c.prog, Theta: c.theta(), Warnings: c.warns, Head: h, Graph: c.graph}
	})
	return r, err
}

// compileGraph compiles the graph g of the model. output is the name of the result to compute. If it is "", the
// output of the graph is computed, and compileGraph looks for a head at its end.
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
		if j := slices.IndexFunc(t.Floats, func(v float64) bool { return v-v != 0 }); j >= 0 {
			in.mask = fmt.Errorf("initializer %s holds %v at element %d, which is no bound, and no mask, of finite numbers here; if it is a weight, its training diverged or the file is damaged", quote(t.Name), t.Floats[j], j)
		}
		c.inits[t.Name] = in
	}
	given := output
	output, nodes := c.plan(output)
	// List all operators that cannot be read in one error.
	first, list := map[string]int{}, []UnsupportedOperator(nil)
	for _, i := range slices.Sorted(slices.Values(nodes)) {
		n := c.graph.Nodes[i]
		name := operatorName(n)
		if _, ok := operators[name]; ok {
			continue
		}
		name = strings.Trim(strconv.Quote(name), `"`)
		if _, ok := first[name]; !ok {
			first[name] = len(list)
			list = append(list, UnsupportedOperator{Name: name})
		}
		o := &list[first[name]]
		o.Nodes = append(o.Nodes, fmt.Sprintf("node %d %s", c.numberOf(i), strconv.Quote(brief(n.Name, 60))))
	}
	if list != nil {
		panic(refusal{&UnsupportedError{Opset: c.opset, Operators: list}})
	}
	c.declareInputs(o)
	c.findConstants(nodes, output)
	for _, i := range nodes {
		c.node = c.graph.Nodes[i]
		c.prog.Operators = append(c.prog.Operators, c.node.OpType)
		if slices.ContainsFunc(c.node.Inputs, func(name string) bool { return c.undecided.unknown[name] }) {
			c.undecided.add(c.node) // the node reads an unknown value, so its results are unknown
			continue
		}
		if err := attempt(c.translate); err != nil {
			const most = 400
			text := option.Of(err)
			if long := text.String(); len(long) > most {
				text = option.Plain(brief(long, most))
			}
			panic(refuse("network: %s, opset %d: %s", c.label(i), c.opset, text))
		}
	}
	if c.undecided.conditions != nil {
		panic(refusal{&ConditionsError{c.undecided.conditions}})
	}
	if c.finish(output); o.silent != nil {
		return c
	}
	// If tensors taken for parameters do not influence the outputs, compile again with these tensors as constants.
	// Only tensors that are not a weight, bias or scale of a layer are tested. If the test finds every parameter,
	// nothing is changed.
	var doubtful []int
	for i, p := range c.prog.Params {
		if d := c.decisions[p.Name]; !d.Layer && !c.learn[p.Name] {
			doubtful = append(doubtful, i)
		}
	}
	var names []string
	for _, i := range c.prog.Silent(c.theta(), doubtful) {
		names = append(names, c.prog.Params[i].Name)
	}
	if len(names) == 0 || len(names) == len(c.prog.Params) {
		return c
	}
	again := *o
	again.silent = set(names...)
	return compileGraph(m, g, &again, given)
}

// spend takes bytes from the memory budget of compiling.
func (c *compiler) spend(bytes int) {
	if c.memory -= bytes; c.memory < 0 {
		panic(refuse("it and the nodes before it need more memory than a file of this size may ask for"))
	}
}

// charge takes the memory of a result with size numbers and the work of computing it from the budgets. A static
// node is charged to the budgets shared by all examples, another node to the budgets of one example.
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

// plan returns the output and the numbers of the nodes that influence it, in an order in which they can run. It
// counts the uses of every name. If wanted is "", the output is the output of the graph.
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
	// Visit the nodes behind the output depth first, without recursion.
	const open, done = 1, 2
	mark := make([]int, len(c.graph.Nodes))
	type frame struct {
		node, next int
		reads      []string
	}
	var stack []frame
	push := func(name string) {
		i, ok := producer[name]
		switch {
		case !ok || mark[i] == done:
			return
		case mark[i] == open:
			panic(refuse("network: the graph has a cycle through %s; %s", c.label(i), invalid))
		}
		mark[i] = open
		stack = append(stack, frame{node: i, reads: rewrite.Reads(c.graph.Nodes[i])})
	}
	push(output)
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		if f.next == len(f.reads) {
			mark[f.node] = done
			order = append(order, f.node)
			stack = stack[:len(stack)-1]
			continue
		}
		name := f.reads[f.next]
		f.next++
		if name != "" {
			c.uses[name]++
			push(name)
		}
	}
	// Nodes that are read in branches of nodes If alone are left out until it is known which branches are taken.
	direct := map[string]bool{output: true}
	for _, i := range slices.Backward(order) {
		if n := c.graph.Nodes[i]; slices.ContainsFunc(n.Outputs, func(name string) bool { return direct[name] }) {
			for _, name := range n.Inputs {
				direct[name] = true
			}
		}
	}
	return output, slices.DeleteFunc(order, func(i int) bool {
		return !slices.ContainsFunc(c.graph.Nodes[i].Outputs, func(name string) bool { return direct[name] })
	})
}

// Count returns the number of elements of a shape. It returns an error if there are no elements, or too many
// elements or dimensions.
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

// count returns the number of elements of a shape, and refuses a shape for which Count returns an error.
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

// addConstant puts data into a new slot and returns its value.
func (c *compiler) addConstant(data []float64, shape []int) *value {
	id := c.addSlot(graph.Slot{Size: len(data), Static: true, Param: -1, Constant: data})
	if first := slices.IndexFunc(data, func(x float64) bool { return x-x != 0 }); first >= 0 {
		from := fmt.Errorf("a constant holds %v at element %d, which is no bound, and no mask, of finite numbers here", data[first], first)
		c.masks[id] = &mask{at: nonFinite(data), from: from}
	}
	return &value{slot: id, shape: shape, batch: -1}
}

// emit adds a node with this result shape and batch axis and returns its result. A node whose inputs are all
// constants runs at once, and its result is a constant.
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
			if x-x != 0 && !(hidden != nil && hidden.at[i] != 0) {
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

// commonLead returns the lead that all values with a batch axis share, or 0 if none has a batch axis. It refuses
// values with different leads.
func commonLead(in ...*value) int {
	lead := 0
	for _, v := range in {
		if v.batch < 0 {
			continue
		}
		if lead > 0 && lead != v.leading() {
			panic(errMixes) // T·N rows in one input, N·T rows in another
		}
		lead = v.leading()
	}
	return lead
}
