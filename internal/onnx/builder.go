package onnx

import (
	"fmt"
	"slices"
)

// A Builder writes a graph node by node. Its values are named by the node or constant that they come from; equal
// constants are stored once.
type Builder struct {
	Graph  Graph
	next   int
	shared map[string]string // name of each constant of integers, by its content
}

// Op adds a node of one output and returns the output's name. An attribute is an int64, a []int64, a float32 or a
// string.
func (b *Builder) Op(op string, in []string, attrs ...any) string {
	return b.Ops(op, 1, in, attrs...)[0]
}

// Ops is Op for a node of several outputs. attrs are names, each followed by its value.
func (b *Builder) Ops(op string, outputs int, in []string, attrs ...any) []string {
	n := &Node{OpType: op, Inputs: slices.Clone(in)}
	for range outputs {
		b.next++
		n.Outputs = append(n.Outputs, fmt.Sprintf("%s_%d", op, b.next))
	}
	for i := 0; i < len(attrs); i += 2 {
		a := &Attribute{Name: attrs[i].(string)}
		switch v := attrs[i+1].(type) {
		case int:
			a.Type, a.I = AttrInt, int64(v)
		case []int64:
			a.Type, a.Ints = AttrInts, v
		case float32:
			a.Type, a.F = AttrFloat, v
		case string:
			a.Type, a.S = AttrString, []byte(v)
		default:
			panic(fmt.Sprintf("onnx: attribute %s of type %T", a.Name, v))
		}
		n.Attributes = append(n.Attributes, a)
	}
	b.Graph.Nodes = append(b.Graph.Nodes, n)
	return n.Outputs
}

// Doubles stores numbers of this shape and returns their name.
func (b *Builder) Doubles(v []float64, dims ...int) string {
	b.next++
	t := &Tensor{Name: fmt.Sprintf("constant_%d", b.next), Type: Double, Floats: v}
	for _, d := range dims {
		t.Dims = append(t.Dims, int64(d))
	}
	b.Graph.Initializers = append(b.Graph.Initializers, t)
	return t.Name
}

// Double stores one number, a scalar.
func (b *Builder) Double(v float64) string {
	key := fmt.Sprint("double ", v)
	if b.shared[key] == "" {
		b.share(key, b.Doubles([]float64{v}))
	}
	return b.shared[key]
}

func (b *Builder) share(key, name string) {
	if b.shared == nil {
		b.shared = map[string]string{}
	}
	b.shared[key] = name
}

// Ints stores a vector of integers, or a scalar if scalar is true.
func (b *Builder) Ints(v ...int64) string {
	key := fmt.Sprint("ints ", v)
	if b.shared[key] == "" {
		b.next++
		t := &Tensor{Name: fmt.Sprintf("integers_%d", b.next), Type: Int64, Dims: []int64{int64(len(v))}, Ints: slices.Clone(v)}
		b.Graph.Initializers = append(b.Graph.Initializers, t)
		b.share(key, t.Name)
	}
	return b.shared[key]
}

// Output makes value an output of the graph under this name, with a first dimension of the examples.
func (b *Builder) Output(name, value string, t DataType, dims ...int) {
	b.Graph.Nodes = append(b.Graph.Nodes, &Node{OpType: "Identity", Inputs: []string{value}, Outputs: []string{name}})
	b.Graph.Outputs = append(b.Graph.Outputs, Rows(name, t, dims...))
}

// Rows declares a value of any number of examples, each of this shape.
func Rows(name string, t DataType, dims ...int) *ValueInfo {
	v := &ValueInfo{Name: name, Type: t, HasShape: true, Dims: []Dim{{Param: "rows"}}}
	for _, d := range dims {
		v.Dims = append(v.Dims, Dim{Value: int64(d), HasValue: true})
	}
	return v
}
