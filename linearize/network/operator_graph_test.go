package network_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// A graph builds a model node by node. Its input is "x", N×dims.
type graph struct {
	model *onnx.Model
	rng   *rand.Rand
	dims  []int
	names int
}

func newGraph(opset int64, dims ...int) *graph {
	in := &onnx.ValueInfo{Name: "x", Type: onnx.Double, HasShape: true, Dims: []onnx.Dim{{Param: "n"}}}
	for _, d := range dims {
		in.Dims = append(in.Dims, onnx.Dim{Value: int64(d), HasValue: true})
	}
	return &graph{rng: rand.New(rand.NewPCG(7, uint64(opset))), dims: dims,
		model: &onnx.Model{IRVersion: 8, OpsetImport: []onnx.Opset{{Version: opset}}, Graph: &onnx.Graph{Inputs: []*onnx.ValueInfo{in}}}}
}

func (g *graph) name(kind string) string {
	g.names++
	return fmt.Sprintf("%s%d", kind, g.names)
}

func (g *graph) initializer(t *onnx.Tensor, shape []int) string {
	for _, d := range shape {
		t.Dims = append(t.Dims, int64(d))
	}
	g.model.Graph.Initializers = append(g.model.Graph.Initializers, t)
	return t.Name
}

// of adds a float64 initializer with the given numbers.
func (g *graph) of(data []float64, shape ...int) string {
	return g.initializer(&onnx.Tensor{Name: g.name("w"), Type: onnx.Double, Floats: data}, shape)
}

// float32s adds a float32 initializer.
func (g *graph) float32s(data []float64, shape ...int) string {
	return g.initializer(&onnx.Tensor{Name: g.name("c"), Type: onnx.Float, Floats: data}, shape)
}

// single adds a vector of the float32 numbers that are nearest to v.
func (g *graph) single(v ...float64) string {
	data := make([]float64, len(v))
	for i := range v {
		data[i] = float64(float32(v[i]))
	}
	return g.float32s(data, len(v))
}

// param adds a parameter of normal numbers.
func (g *graph) param(shape ...int) string { return g.spread(0, 1, shape...) }

// spread adds a parameter of numbers mean + sd·normal.
func (g *graph) spread(mean, sd float64, shape ...int) string {
	data := make([]float64, size(shape))
	for i := range data {
		data[i] = mean + sd*g.rng.NormFloat64()
	}
	return g.of(data, shape...)
}

// positive adds a parameter of numbers between 0.5 and 1.5.
func (g *graph) positive(shape ...int) string {
	data := make([]float64, size(shape))
	for i := range data {
		data[i] = 0.5 + g.rng.Float64()
	}
	return g.of(data, shape...)
}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// ints adds a vector of integers.
func (g *graph) ints(v ...int64) string {
	return g.initializer(&onnx.Tensor{Name: g.name("i"), Type: onnx.Int64, Ints: v}, []int{len(v)})
}

// int adds an integer of rank 0.
func (g *graph) int(v int64) string {
	return g.initializer(&onnx.Tensor{Name: g.name("i"), Type: onnx.Int64, Ints: []int64{v}}, nil)
}

// scalar adds a number of rank 0, which is no parameter.
func (g *graph) scalar(v float64) string { return g.of([]float64{v}) }

func in(names ...string) []string { return names }

// op adds a node and returns the name of its result.
func (g *graph) op(kind string, inputs []string, attrs ...*onnx.Attribute) string {
	return g.many(kind, 1, inputs, attrs...)[0]
}

// many adds a node with n results.
func (g *graph) many(kind string, n int, inputs []string, attrs ...*onnx.Attribute) []string {
	node := &onnx.Node{Name: g.name("node"), OpType: kind, Inputs: inputs, Attributes: attrs}
	for range n {
		node.Outputs = append(node.Outputs, g.name("y"))
	}
	g.model.Graph.Nodes = append(g.model.Graph.Nodes, node)
	return node.Outputs
}

// input is x shifted by a parameter of its own shape, so that gradients flow
// through whatever reads it.
func (g *graph) input() string { return g.op("Add", in("x", g.param(g.dims...))) }

// batchAnd is the shape of N and some dimensions, N read from x.
func (g *graph) batchAnd(dims ...int64) string {
	n := g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
	return g.op("Concat", in(n, g.ints(dims...)), intA("axis", 0))
}

// above is an input with every number above lo.
func (g *graph) above(lo float64) string {
	return g.op("Add", in(g.op("Exp", in(g.input())), g.scalar(lo)))
}

// output names the model's result.
func (g *graph) output(name string) *onnx.Model {
	g.model.Graph.Outputs = []*onnx.ValueInfo{{Name: name, Type: onnx.Double}}
	return g.model
}

// fixed declares the batch size n.
func (g *graph) fixed(n int) {
	g.model.Graph.Inputs[0].Dims[0] = onnx.Dim{Value: int64(n), HasValue: true}
}

func intA(name string, v int64) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrInt, I: v}
}

func intsA(name string, v ...int64) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrInts, Ints: v}
}

func floatA(name string, v float32) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrFloat, F: v}
}

func floatsA(name string, v ...float32) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrFloats, Floats: v}
}

func textA(name, v string) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrString, S: []byte(v)}
}

func tensorA(name string, t *onnx.Tensor) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrTensor, T: t}
}

// load encodes a model and reads it with its head. What is added to the input first is
// learnt unless it is frozen: see input.
func load(m *onnx.Model, freeze ...string) (*network.Network, error) {
	o := &network.ReadOptions{Freeze: freeze, Head: head.Keep}
	for _, nd := range m.Graph.Nodes {
		if nd.OpType == "Add" && nd.Inputs[0] == "x" && isFloat(m.Graph, nd.Inputs[1]) && !slices.Contains(freeze, nd.Inputs[1]) {
			o.Learn = append(o.Learn, nd.Inputs[1])
		}
	}
	return readModel(m, o)
}

// isFloat reports whether an initializer holds floating point numbers.
func isFloat(g *onnx.Graph, name string) bool {
	return slices.ContainsFunc(g.Initializers, func(t *onnx.Tensor) bool { return t.Name == name && t.Type.IsFloat() })
}

// readModel encodes a model and reads it as a user would.
func readModel(m *onnx.Model, o *network.ReadOptions) (*network.Network, error) {
	data, err := m.Encode()
	if err != nil {
		return nil, err
	}
	return network.ReadONNX(bytes.NewReader(data), o)
}

func mustLoad(t *testing.T, m *onnx.Model) *network.Network {
	t.Helper()
	net, err := load(m)
	require.NoError(t, err)
	return net
}
