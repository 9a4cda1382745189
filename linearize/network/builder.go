package network

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/compile"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// A Layer adds operators to a network that Sequential builds. A type of another
// package becomes a Layer by embedding one of this package.
type Layer interface {
	build(b *builder) error
}

// Sequential builds a network that applies layers one after the other to
// inputs of the given shape, for example {1, 28, 28} or {5}. Weights and
// biases of a layer with fan-in k are drawn uniformly from [−1/√k, 1/√k], as
// PyTorch does, with a fixed seed. Shapes that do not fit and nil layers are
// errors.
func Sequential(in Shape, layers ...Layer) (*Network, error) {
	return Seeded(0, in, layers...)
}

// Seeded is Sequential with another seed of the initial parameters; Sequential
// has seed 0.
func Seeded(seed uint64, in Shape, layers ...Layer) (*Network, error) {
	b := &builder{graph: &onnx.Graph{Name: "funcgp"}, rng: rand.New(rand.NewPCG(seed, 0xf00d)), at: "x", shape: append([]int{1}, in...), used: map[string]int{}}
	if _, err := compile.Count(b.shape); err != nil || len(in) == 0 {
		return nil, fmt.Errorf("network: input shape %v must be positive numbers", []int(in))
	}
	input := &onnx.ValueInfo{Name: "x", Type: onnx.Double, HasShape: true, Dims: []onnx.Dim{{Param: "n"}}}
	for _, d := range in {
		input.Dims = append(input.Dims, onnx.Dim{Value: int64(d), HasValue: true})
	}
	b.graph.Inputs = []*onnx.ValueInfo{input}
	if err := b.add(layers...); err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	b.graph.Outputs = []*onnx.ValueInfo{{Name: b.at, Type: onnx.Double, HasShape: true, Dims: []onnx.Dim{{Param: "n"}, {Value: int64(graph.Product(b.shape)), HasValue: true}}}}
	m := &onnx.Model{IRVersion: 8, ProducerName: "funcgp", OpsetImport: []onnx.Opset{{Version: 17}}, Graph: b.graph}
	return newNetwork(m, nil)
}

// A builder appends nodes to a graph.
type builder struct {
	graph *onnx.Graph
	rng   *rand.Rand
	at    string         // name of the last result
	shape []int          // of the last result for one example, batch dimension first
	used  map[string]int // how often unique has used each name
	layer string         // name of the current layer
}

func (b *builder) add(layers ...Layer) error {
	for i, l := range layers {
		if missing(reflect.ValueOf(l)) {
			return fmt.Errorf("layer %d (%T) is nil or embeds a nil layer; give it a value", i, l)
		}
		// The name is that of the layer's type, without its package.
		t := reflect.TypeOf(l)
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		name := b.unique(cmp.Or(t.Name(), "Layer"))
		b.layer = name
		if err := l.build(b); err != nil {
			return fmt.Errorf("layer %s: %w", name, err)
		}
	}
	return nil
}

var layerType = reflect.TypeFor[Layer]()

// missing reports whether a Layer, or a Layer that it embeds, is nil.
func missing(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || missing(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Anonymous && f.Type.Implements(layerType) && missing(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

// unique returns kind with a number that makes it a new name.
func (b *builder) unique(kind string) string {
	b.used[kind]++
	return fmt.Sprintf("%s%d", kind, b.used[kind])
}

// uniform adds a parameter drawn from [−1/√fanIn, 1/√fanIn] and returns its name.
func (b *builder) uniform(name string, fanIn int, shape ...int) string {
	bound := 1 / math.Sqrt(float64(fanIn))
	data := make([]float64, graph.Product(shape))
	for i := range data {
		data[i] = (2*b.rng.Float64() - 1) * bound
	}
	return b.parameter(name, data, shape...)
}

// parameter adds a parameter of the current layer and returns its name.
func (b *builder) parameter(name string, data []float64, shape ...int) string {
	t := &onnx.Tensor{Name: b.layer + "." + name, Type: onnx.Double, Floats: data}
	for _, d := range shape {
		t.Dims = append(t.Dims, int64(d))
	}
	b.graph.Initializers = append(b.graph.Initializers, t)
	return t.Name
}

// op adds a node, makes its result the last result, and returns its name.
func (b *builder) op(kind string, attrs []*onnx.Attribute, in ...string) string {
	out := b.unique(b.layer + "_" + kind)
	b.graph.Nodes = append(b.graph.Nodes, &onnx.Node{Name: out, OpType: kind, Inputs: in, Outputs: []string{out}, Attributes: attrs})
	b.at = out
	return out
}

func intAttr(name string, v int) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrInt, I: int64(v)}
}

func intsAttr(name string, v ...int) *onnx.Attribute {
	a := &onnx.Attribute{Name: name, Type: onnx.AttrInts}
	for _, k := range v {
		a.Ints = append(a.Ints, int64(k))
	}
	return a
}

func floatAttrOf(name string, v float32) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrFloat, F: v}
}

// scalar adds a constant number and returns its name.
func (b *builder) scalar(v float64) string {
	name := b.unique(b.layer + "_const")
	b.graph.Initializers = append(b.graph.Initializers, &onnx.Tensor{Name: name, Type: onnx.Double, Floats: []float64{v}})
	return name
}
