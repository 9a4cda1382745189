package network

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/head"
	"github.com/funcgp/funcgp/linearize/network/internal/compile"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

// Shape is the shape of one example, without the batch dimension.
type Shape []int

// A Network is an operation graph with its trained parameters θ*. It is
// immutable and safe for concurrent use.
type Network struct {
	model    *onnx.Model
	prog     *graph.Program
	graph    *onnx.Graph // the graph that prog was compiled from: that of the model, perhaps with other nodes in place of a head
	head     head.Head
	read     ReadOptions // says which tensors are parameters and what happens to the head
	inNodes  nodeTensors
	theta    []float64
	static   [][]float64     // EvalStatic of theta
	features *graph.Features // cached results of the layers before the parameters; nil for none
	warnings []error
	metadata map[string]string
	double   bool                              // WriteONNX writes float64
	groups   [][]int                           // outputs kept by each GroupOutputs
	code     string                            // tensor of WithCode, whose elements come before the outputs
	files    []string                          // files beside the model from which weights were read
	print    func() linearize.ModelFingerprint // computed at the first call
}

// ReadOptions says how a model is read. The zero value is the default.
type ReadOptions struct {
	// Freeze names initializers that are not parameters. Learn names initializers that are parameters although they
	// would be taken for constants. In both, * in a name stands for any characters and ? for one; Learn takes
	// precedence over such a pattern in Freeze.
	Freeze, Learn []string
	// Layers names the only layers whose tensors are parameters; nil means all layers. An entry is LastLayer, the
	// number of a layer as in Describe, or the name of a tensor or layer, with * and ? as in Freeze.
	Layers []string
	// Tie names tensors that are one parameter together with the tensor of equal numbers as which the exporter
	// stored them. Otherwise a tensor that is the result of an Identity node is a parameter of its own: see
	// ReadONNX.
	Tie    []string
	Output string // name of the tensor that is f: an output or the result of any node; "" means the only output

	// Bind gives, by name, what the file leaves open: the size of a dimension, such as "height": "48"; one number
	// for all elements of an input, such as "sr": "16000" or "state": "0"; or the whole shape of an input, with a
	// letter for the number of examples, such as "x": "n,3,48,192", or "x": "5,n,4" if the examples are not along
	// the first dimension.
	Bind map[string]string

	// Head says whether the function at the end of the graph is removed, so that the
	// likelihood can apply it, or is part of f. The zero value is head.Auto.
	Head head.Rule

	// MaxMemory is the most bytes of memory that weights in other files may take; 0 is 80 % of the
	// machine's free memory.
	MaxMemory int64

	columns map[string][]int // of each input: see WithColumns
	width   int
}

// CutBinding returns the two sides of NAME=VALUE, an entry of ReadOptions.Bind as text; the value is "" without an =.
// A name may contain a = itself.
func CutBinding(text string) (name, value string) { return rewrite.CutBinding(text) }

// MaxModelBytes is the largest ONNX file that is read: protobuf's own limit.
const MaxModelBytes = onnx.MaxSize

// ReadONNX reads a network; nil options mean the defaults. A graph that cannot
// be linearized is an error that names the node. Weights may be float16,
// bfloat16, float32 or float64, and the opset 7 to 25.
//
// A floating point initializer that influences the output is a parameter,
// except the running mean and variance of a BatchNormalization, tensors that
// only give a shape, scale, bound or pad, and the names in o.Freeze. A file does
// not say which tensors were learnt. The following tensors are taken for constants, unless they are
// in o.Learn: tensors by which Add, Sub, Mul or Div standardize inputs before the first layer or
// scale outputs after the last one, with a warning; masks; tables of sines and cosines, grids and
// frequencies, recognized by their numbers; u and v of spectral normalization; tensors that are not
// the weight of a layer and have a name that is usual for buffers, with a warning; and scalars of
// rank 0, unless their name is usual for a parameter. Describe gives the decision and the reason
// for each tensor.
//
// A final Sigmoid, Softmax or LogSoftmax is removed, with a warning, because the likelihoods of
// classes apply it to f themselves. A final Exp or Softplus stays, also with a warning. o.Head
// overrides this, and WithHead changes it later: what is right depends on the likelihood, which the
// file does not say. See package head for how these functions are recognized.
//
// Exporters store tensors of equal numbers once, such as biases that are zero, and pass them on by Identity nodes.
// Each result of such a node is a parameter of its own, with the name of the result, unless o.Tie names it. A tensor
// that several nodes read directly is one parameter.
//
// If the metadata say that inputs were standardized outside of the network, as gpexplain train does, use
// Standardized(nil, nil) for rows in the units of the data. A warning says so.
//
// Weights in other files are an error; use ReadONNXFile for them.
func ReadONNX(r io.Reader, o *ReadOptions) (*Network, error) {
	m, err := onnx.Read(r)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	list, err := externals(m)
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		return nil, list[0].errorf("which a reader does not reach; read the model by its path, with ReadONNXFile")
	}
	return newNetwork(m, o)
}

// mostRounds bounds the length of a chain of If nodes and loop iterations in which each determines the condition of
// the next.
const mostRounds = 256

// newNetwork rewrites a model so that fewer kinds of nodes remain, and compiles it.
func newNetwork(m *onnx.Model, o *ReadOptions) (*Network, error) {
	if o == nil {
		o = &ReadOptions{}
	}
	r, err := rewrite.Model(m, rewrite.Options{Output: o.Output, Bind: o.Bind, Tie: o.Tie})
	// Replace If nodes by the branches taken, and loops by their iterations. The conditions must be known without
	// running the network.
	for round := 0; err == nil && r.Conditional(); round++ {
		if round == mostRounds {
			err = fmt.Errorf("more than %d nodes If or turns of a loop decide on one another; "+
				"export the model with the branches that are meant, or loops with a number of turns", mostRounds)
			break
		}
		_, failed := compile.Compile(r.Model, compile.Options{Head: head.Keep, Number: r.Number})
		e := (*compile.ConditionsError)(nil)
		if !errors.As(failed, &e) {
			break // other errors occur again when the model is compiled
		}
		r, err = r.Branches(e.Conditions)
	}
	if err == nil {
		r, err = r.Dequantized(o.Learn)
	}
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	// Turn weights in Constant nodes into initializers, and merge weights that the exporter stored
	// twice.
	m, inNodes, read := r.Model, nodeTensors{equal: r.Equal}, *o
	read.Layers, read.Tie = nil, nil
	if m.Graph != nil {
		if read.Freeze, read.Learn, err = named(m.Graph, o); err != nil {
			return nil, err
		}
		m, inNodes.moved, inNodes.left = rewrite.Constants(m, read.Freeze, read.Learn, compile.Facts)
		m, inNodes.copies = rewrite.Copies(m, r.Number, slices.Concat(o.Freeze, o.Learn))
		read.Freeze = slices.DeleteFunc(read.Freeze, func(name string) bool {
			return slices.ContainsFunc(inNodes.copies, func(c rewrite.Copy) bool { return c.Name == name })
		})
		m = rewrite.Distinct(m, r.Number)
	}
	n, err := compiled(m, r.Number, read, inNodes)
	if err == nil && len(o.Layers) > 0 {
		if read, err = n.chosen(o.Layers); err == nil {
			n, err = compiled(m, r.Number, read, inNodes)
		}
	}
	if err != nil {
		return nil, err
	}
	// Make the initializers of parameters views of θ, so that the numbers are in memory once.
	for _, p := range n.prog.Params {
		if i := slices.IndexFunc(m.Graph.Initializers, func(t *onnx.Tensor) bool { return t.Name == p.Name }); i >= 0 {
			m.Graph.Initializers[i].Floats = n.theta[p.Offset : p.Offset+p.Len() : p.Offset+p.Len()]
		}
	}
	if r.Taken != nil {
		n.warnings = append(n.warnings, linearize.NewWarning("labels", math.NaN(), math.NaN(),
			"Name another tensor in ReadOptions.Output.", "%s", r.Taken))
	}
	if mean, _ := recorded(n.metadata); mean != nil {
		n.warnings = append(n.warnings, linearize.NewWarning("inputs-scaled", math.NaN(), math.NaN(),
			"Take Network.Standardized(nil, nil) for rows in the units of the data.",
			"The metadata say that inputs were standardized before they came to the network. "+
				"Rows as they are in the data give other outputs."))
	}
	return n, nil
}

// compiled returns the network of a rewritten model. inNodes says which tensors were in nodes.
// number is the position of each node in the file; nil means the position in the model.
func compiled(m *onnx.Model, number map[*onnx.Node]int, o ReadOptions, inNodes nodeTensors) (*Network, error) {
	// Tensors left in Constant nodes are constants and need not be frozen.
	freeze := slices.DeleteFunc(slices.Clone(o.Freeze), func(name string) bool {
		return slices.ContainsFunc(inNodes.left, func(l rewrite.Literal) bool { return l.Name == name })
	})
	r, err := compile.Compile(m, compile.Options{Freeze: freeze, Learn: o.Learn, Head: o.Head, Number: number,
		Columns: o.columns, Width: o.width})
	if err != nil {
		return nil, err
	}
	warnings := append(r.Warnings, inNodes.list(r.Program)...)
	n := &Network{model: m, prog: r.Program, graph: r.Graph, head: r.Head, read: o, inNodes: inNodes, theta: r.Theta, static: r.Program.EvalStatic(r.Theta), warnings: warnings, metadata: map[string]string{}}
	n.print = sync.OnceValue(n.fingerprint)
	n.features = graph.NewFeatures(n.prog, memory.Budget(o.MaxMemory)/featureShare)
	for _, e := range m.Metadata {
		n.metadata[e.Key] = e.Value
	}
	return n, nil
}

// featureShare is the divisor of the memory limit that gives the most memory for cached results of the layers before
// the parameters.
const featureShare = 16

// Dims returns D inputs, C outputs and P parameters.
func (n *Network) Dims() (d, c, p int) { return n.prog.D, n.prog.C, n.prog.P }

// InputShape returns the shape of one input, for example 1×28×28. It is the length D
// for a network with several inputs, whose shapes Inputs returns.
func (n *Network) InputShape() Shape {
	if len(n.prog.Inputs) != 1 {
		return Shape{n.prog.D}
	}
	return slices.Clone(n.prog.Inputs[0].Shape)
}

// An Input is one of the tensors that a network reads. The D numbers of an example
// hold all of them, one after another.
type Input struct {
	Name   string
	Shape  Shape // shape of one example; empty for a single number without a dimension
	Offset int   // position of its first number among the D, if its numbers are consecutive
	// Columns holds the positions of its numbers among the D after WithColumns; nil before.
	Columns []int
	// Integer says that the input is of integers or truth values, such as token ids.
	// Its numbers must be whole, and must not be scaled.
	Integer bool
}

// Len returns the number of elements.
func (in Input) Len() int { return graph.Product(in.Shape) }

// WithColumns returns the network that takes rows of width numbers, such as those of a table.
// columns gives, for each input, the columns that hold its elements, in order. A column may be in
// several inputs; columns in none have no influence. It is an error if an input has no columns or
// not as many columns as elements, or if outputs have been grouped. The outputs are those of n.
func (n *Network) WithColumns(width int, columns map[string][]int) (*Network, error) {
	if len(n.groups) > 0 {
		return nil, errors.New("network: columns are assigned before outputs are grouped")
	}
	o := n.read
	if o.columns, o.width = maps.Clone(columns), width; columns == nil {
		o.columns = map[string][]int{}
	}
	return n.readAs(o)
}

// readAs returns the network read with other options, with θ* and the metadata of n.
func (n *Network) readAs(o ReadOptions) (*Network, error) {
	model, _ := n.withParameters()
	m, err := compiled(model, nil, o, n.inNodes)
	if err != nil {
		return nil, err
	}
	m.metadata, m.double, m.files = maps.Clone(n.metadata), n.double, n.files
	return m, nil
}

// Inputs returns the inputs that influence the output, in file order.
func (n *Network) Inputs() []Input {
	out := make([]Input, len(n.prog.Inputs))
	for i, in := range n.prog.Inputs {
		out[i] = Input{Name: in.Name, Shape: slices.Clone(in.Shape), Offset: in.Offset, Columns: slices.Clone(in.Columns), Integer: in.Type != ""}
	}
	return out
}

// Theta returns a copy of θ*.
func (n *Network) Theta() []float64 { return slices.Clone(n.theta) }

// Params returns the parameter tensors in the order of θ.
func (n *Network) Params() []linearize.Param {
	out := slices.Clone(n.prog.Params)
	for i := range out {
		out[i].Shape = slices.Clone(out[i].Shape)
	}
	return out
}

// Warnings returns what was changed or noticed when the network was read.
func (n *Network) Warnings() []error { return slices.Clone(n.warnings) }

// Metadata returns the key-value pairs stored with the model.
func (n *Network) Metadata() map[string]string { return maps.Clone(n.metadata) }

// WithMetadata returns the network with these key-value pairs instead of its
// own.
func (n *Network) WithMetadata(kv map[string]string) *Network {
	m := *n
	m.metadata = maps.Clone(kv)
	return &m
}

// WithTheta returns the network with other parameters. A theta that does not
// have length P panics; a NaN or Inf in it is an error.
func (n *Network) WithTheta(theta []float64) (*Network, error) {
	if len(theta) != n.prog.P {
		panic("network: theta has wrong length")
	}
	for _, p := range n.prog.Params {
		for i, v := range theta[p.Offset : p.Offset+p.Len()] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("network: parameter %d (%s) is %v", p.Offset+i, p.Name, v)
			}
		}
	}
	m := *n
	m.theta = slices.Clone(theta)
	m.static = n.prog.EvalStatic(m.theta)
	m.print = sync.OnceValue(m.fingerprint)
	return &m, nil
}

// WriteONNX writes the network with its parameters and metadata as an ONNX file.
// Weights that were read as float32 are written as float32 if that loses no
// digit of any parameter; otherwise the whole file becomes float64.
func (n *Network) WriteONNX(w io.Writer) error {
	m, g := n.withParameters()
	m.Metadata = nil
	for _, k := range slices.Sorted(maps.Keys(n.metadata)) {
		m.Metadata = append(m.Metadata, onnx.Entry{Key: k, Value: n.metadata[k]})
	}
	if n.double || !exact(g.Initializers) {
		toDouble(g)
	}
	if err := m.Write(w); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	return nil
}

// withParameters returns a copy of the model, and of its graph, with the parameters that
// the network has.
func (n *Network) withParameters() (*onnx.Model, *onnx.Graph) {
	m, g := *n.model, *n.model.Graph
	m.Graph = &g
	g.Initializers = slices.Clone(g.Initializers)
	at := map[string]linearize.Param{}
	for _, p := range n.prog.Params {
		at[p.Name] = p
	}
	for i, t := range g.Initializers {
		p, ok := at[t.Name]
		if !ok {
			continue
		}
		c := *t
		c.Floats = n.theta[p.Offset : p.Offset+p.Len()]
		g.Initializers[i] = &c
	}
	return &m, &g
}

// exact reports whether every initializer can be written in its type without loss. It is false if a
// type has 16 bits.
func exact(list []*onnx.Tensor) bool {
	for _, t := range list {
		for _, v := range t.Floats {
			if t.Type == onnx.Float && float64(float32(v)) != v || t.Type == onnx.Float16 || t.Type == onnx.BFloat16 {
				return false
			}
		}
	}
	return true
}

// toDouble changes every floating point type in a graph to float64.
func toDouble(g *onnx.Graph) {
	double := func(t onnx.DataType) onnx.DataType {
		if t.IsFloat() {
			return onnx.Double
		}
		return t
	}
	tensor := func(t *onnx.Tensor) *onnx.Tensor {
		c := *t
		c.Type = double(t.Type)
		return &c
	}
	infos := func(list []*onnx.ValueInfo) []*onnx.ValueInfo {
		out := make([]*onnx.ValueInfo, len(list))
		for i, v := range list {
			c := *v
			c.Type = double(v.Type)
			out[i] = &c
		}
		return out
	}
	for i, t := range g.Initializers {
		g.Initializers[i] = tensor(t)
	}
	g.Inputs, g.Outputs, g.ValueInfos = infos(g.Inputs), infos(g.Outputs), infos(g.ValueInfos)
	g.Nodes = slices.Clone(g.Nodes)
	for i, nd := range g.Nodes {
		c := *nd
		c.Attributes = slices.Clone(nd.Attributes)
		for j, a := range c.Attributes {
			b := *a
			if a.T != nil {
				b.T = tensor(a.T)
			}
			if nd.OpType == "Cast" && a.Name == "to" {
				b.I = int64(double(onnx.DataType(a.I)))
			}
			c.Attributes[j] = &b
		}
		g.Nodes[i] = &c
	}
}
