package onnx

import (
	"fmt"
	"slices"
)

// A Builder writes a graph node by node. Its values and nodes are named by what they come from, and equal scalars and
// vectors of integers are stored once. Numbers are float64.
type Builder struct {
	Graph  Graph
	next   int
	shared map[string]string // name of each shared constant, by its content
	made   map[string]*Node  // the node of each value
	single map[string]bool   // constants of one number
}

// Op adds a node of one output and returns the output's name. attrs are names, each followed by its value: an int, a
// []int64 or a string.
func (b *Builder) Op(op string, in []string, attrs ...any) string {
	return b.Ops(op, 1, in, attrs...)[0]
}

// Ops is Op for a node of several outputs.
func (b *Builder) Ops(op string, outputs int, in []string, attrs ...any) []string {
	n := &Node{OpType: op, Inputs: slices.Clone(in)}
	for range outputs {
		b.next++
		n.Outputs = append(n.Outputs, fmt.Sprintf("%s_%d", op, b.next))
	}
	n.Name = n.Outputs[0] // runtimes that merge nodes want names
	for i := 0; i < len(attrs); i += 2 {
		a := &Attribute{Name: attrs[i].(string)}
		switch v := attrs[i+1].(type) {
		case int:
			a.Type, a.I = AttrInt, int64(v)
		case []int64:
			a.Type, a.Ints = AttrInts, v
		case string:
			a.Type, a.S = AttrString, []byte(v)
		default:
			panic(fmt.Sprintf("onnx: attribute %s of type %T", a.Name, v))
		}
		n.Attributes = append(n.Attributes, a)
	}
	b.Graph.Nodes = append(b.Graph.Nodes, n)
	if b.made == nil {
		b.made, b.single = map[string]*Node{}, map[string]bool{}
	}
	for _, out := range n.Outputs {
		b.made[out] = n
		b.single[out] = (op == "Unsqueeze" || op == "Reshape") && b.single[in[0]]
	}
	return n.Outputs
}

// scaled tells whether x is a value times a constant number, or divided by it.
func (b *Builder) scaled(x string) bool {
	n := b.made[x]
	return n != nil && (n.OpType == "Mul" || n.OpType == "Div") && (b.single[n.Inputs[0]] || b.single[n.Inputs[1]])
}

// apart is x, whose node the next is not merged with: onnxruntime merges a product of matrices with one number that a
// factor or the result is multiplied by, which it keeps in float32.
func (b *Builder) apart(x string) string {
	return b.Op("Squeeze", []string{b.Unsqueeze(x, 1), b.Ints(1)})
}

// product is Mul or Div of x and y.
func (b *Builder) product(op, x, y string) string {
	for _, v := range []struct{ value, by *string }{{&x, &y}, {&y, &x}} {
		if n := b.made[*v.value]; n != nil && n.OpType == "MatMul" && b.single[*v.by] {
			*v.value = b.apart(*v.value)
		}
	}
	return b.Op(op, []string{x, y})
}

// Add is x + y, element by element with broadcasting.
func (b *Builder) Add(x, y string) string { return b.Op("Add", []string{x, y}) }

// Sub is x − y.
func (b *Builder) Sub(x, y string) string { return b.Op("Sub", []string{x, y}) }

// Mul is x∘y.
func (b *Builder) Mul(x, y string) string { return b.product("Mul", x, y) }

// Div is x/y, element by element.
func (b *Builder) Div(x, y string) string { return b.product("Div", x, y) }

// Max is the larger of the elements of x and y.
func (b *Builder) Max(x, y string) string { return b.Op("Max", []string{x, y}) }

// Min is the smaller of the elements of x and y.
func (b *Builder) Min(x, y string) string { return b.Op("Min", []string{x, y}) }

// MatMul multiplies matrices, in the last two axes.
func (b *Builder) MatMul(x, y string) string {
	for _, v := range []*string{&x, &y} {
		if b.scaled(*v) {
			*v = b.apart(*v)
		}
	}
	return b.Op("MatMul", []string{x, y})
}

// Of is an operator of one value, such as a function of its elements.
func (b *Builder) Of(op, x string) string { return b.Op(op, []string{x}) }

// Holds is 1 where a comparison, such as Greater, holds for elements of x and y, and 0 elsewhere.
func (b *Builder) Holds(comparison, x, y string) string {
	return b.Op("Cast", []string{b.Op(comparison, []string{x, y})}, "to", int(Double))
}

// Einsum multiplies two values as the equation says. Runtimes that merge a MatMul with a Transpose before it have none in
// float64.
func (b *Builder) Einsum(equation, x, y string) string {
	return b.Op("Einsum", []string{x, y}, "equation", equation)
}

// Reshape gives x another shape, of which one dimension may be −1.
func (b *Builder) Reshape(x string, dims ...int) string {
	to := make([]int64, len(dims))
	for i, d := range dims {
		to[i] = int64(d)
	}
	return b.Op("Reshape", []string{x, b.Ints(to...)})
}

// Unsqueeze adds axes of length one.
func (b *Builder) Unsqueeze(x string, axes ...int64) string {
	return b.Op("Unsqueeze", []string{x, b.Ints(axes...)})
}

// Sum adds up along an axis and drops it.
func (b *Builder) Sum(x string, axis int64) string {
	return b.Op("ReduceSum", []string{x, b.Ints(axis)}, "keepdims", 0)
}

// Transpose permutes the axes.
func (b *Builder) Transpose(x string, axes ...int64) string {
	return b.Op("Transpose", []string{x}, "perm", axes)
}

// Where takes elements of x where cond, a truth value, is true, and of y elsewhere.
func (b *Builder) Where(cond, x, y string) string { return b.Op("Where", []string{cond, x, y}) }

// Above is whether elements of x are larger than c, a truth value.
func (b *Builder) Above(x string, c float64) string {
	return b.Op("Greater", []string{x, b.Double(c)})
}

// Columns takes elements of the last axis of x, which has this rank.
func (b *Builder) Columns(x string, rank int, index ...int64) string {
	return b.Op("Gather", []string{x, b.Ints(index...)}, "axis", rank-1)
}

// Concat lays values side by side along an axis.
func (b *Builder) Concat(axis int, values ...string) string {
	if len(values) == 1 {
		return values[0]
	}
	return b.Op("Concat", values, "axis", axis)
}

// Doubles stores numbers of this shape and returns their name.
func (b *Builder) Doubles(v []float64, dims ...int) string {
	b.next++
	t := &Tensor{Name: fmt.Sprintf("constant_%d", b.next), Type: Double, Floats: v}
	for _, d := range dims {
		t.Dims = append(t.Dims, int64(d))
	}
	b.Graph.Initializers = append(b.Graph.Initializers, t)
	if len(v) == 1 {
		if b.single == nil {
			b.made, b.single = map[string]*Node{}, map[string]bool{}
		}
		b.single[t.Name] = true
	}
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

// Range stores the integers below n.
func (b *Builder) Range(n int) string {
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(i)
	}
	return b.Ints(v...)
}

// Ints stores a vector of integers.
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
	b.Graph.Nodes = append(b.Graph.Nodes, &Node{Name: "output_" + name, OpType: "Identity", Inputs: []string{value}, Outputs: []string{name}})
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
