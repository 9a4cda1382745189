package network_test

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// requireOneLine checks that the message of an error is one readable line.
func requireOneLine(t *testing.T, err error) {
	t.Helper()
	require.NotContains(t, err.Error(), "\n")
	require.Less(t, len(err.Error()), 700)
	require.Regexp(t, `^(network|onnx): `, err.Error())
}

// allocated returns the number of bytes that do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// hostileBytes bounds the bytes that reading a small file may allocate, freed or
// not. It also bounds the time, since a compile stores all that it computes.
const hostileBytes = 500 << 20

// hostileCases are graphs that are wrong or too large; want is part of the error.
func hostileCases() []badCase {
	var all []badCase
	add := func(name, want string, dims []int, build func(g *graph) string) {
		all = append(all, badCase{name: name, opset: 13, dims: dims, want: want, build: build})
	}
	v, m, image := []int{3}, []int{2, 3}, []int{2, 4, 4}
	wrong := func(name, want string, dims []int, kind string, attrs []*onnx.Attribute, args func(g *graph) []string) {
		add(kind+" "+name, want, dims, func(g *graph) string { return g.op(kind, args(g), attrs...) })
	}
	x := func(g *graph) []string { return in(g.input()) }
	xw := func(shape ...int) func(g *graph) []string {
		return func(g *graph) []string { return in(g.input(), g.param(shape...)) }
	}
	xi := func(v ...int64) func(g *graph) []string {
		return func(g *graph) []string { return in(g.input(), g.ints(v...)) }
	}
	A := func(a ...*onnx.Attribute) []*onnx.Attribute { return a }

	// Unknown operators and wrong graphs.
	add("unknown operator", `(NonMaxSuppression), opset 13`, v, func(g *graph) string { return g.op("NonMaxSuppression", in(g.input())) })
	add("unknown operator by name", `node 1 "node4" (Einsum)`, v, func(g *graph) string { return g.op("Einsum", in(g.input())) })
	add("operator of another domain", "com.microsoft", v, func(g *graph) string {
		y := g.op("NGramRepeatBlock", in(g.input()))
		g.model.Graph.Nodes[1].Domain = "com.microsoft"
		return y
	})
	add("head of another domain", "com.acme", v, func(g *graph) string {
		y := g.op("Softmax", in(g.input()))
		g.model.Graph.Nodes[1].Domain = "com.acme"
		return y
	})
	add("operator with a line break", "unsupported\\n", v, func(g *graph) string { return g.op("unsupported\nlinearize: fine", in(g.input())) })
	add("missing input", `reads "nowhere"`, v, func(g *graph) string { return g.op("Add", in(g.input(), "nowhere")) })
	add("empty input", "input 1", v, func(g *graph) string { return g.op("Add", in(g.input(), "")) })
	add("no inputs", "input 0", v, func(g *graph) string { return g.op("Relu", nil) })
	add("no inputs to join", "no inputs", v, func(g *graph) string { return g.op("Concat", nil, intA("axis", 0)) })
	add("missing output", `"nowhere"`, v, func(g *graph) string { g.op("Relu", in(g.input())); return "nowhere" })
	add("unnamed output", "", v, func(g *graph) string { g.op("Relu", in(g.input())); return "" })
	add("cycle of one", "cycle", v, func(g *graph) string {
		g.op("Add", in(g.input(), "loop"))
		g.model.Graph.Nodes[1].Outputs[0] = "loop"
		return "loop"
	})
	add("cycle of three", "cycle", v, func(g *graph) string {
		a := g.op("Add", in(g.input(), "later"))
		g.op("Relu", in(g.op("Tanh", in(a))))
		g.model.Graph.Nodes[3].Outputs[0] = "later"
		return a
	})
	add("cycle of identities at the end", "cycle", v, func(g *graph) string {
		a := g.op("Identity", in("b"))
		g.op("Identity", in(a))
		g.model.Graph.Nodes[1].Outputs[0] = "b"
		return "b"
	})
	add("identity of itself behind a softmax", "cycle", v, func(g *graph) string {
		g.op("Identity", in("a"))
		g.model.Graph.Nodes[0].Outputs[0] = "a"
		return g.op("Softmax", in("a"))
	})
	add("two outputs", "2 outputs", v, func(g *graph) string {
		g.model.Graph.Outputs = nil
		return g.input()
	})
	add("output twice", "two nodes", v, func(g *graph) string {
		y := g.op("Relu", in(g.input()))
		g.op("Tanh", in("x"))
		g.model.Graph.Nodes[2].Outputs[0] = y
		return y
	})
	add("result named like the input", "also an input", v, func(g *graph) string {
		g.op("Relu", in(g.input()))
		g.model.Graph.Nodes[1].Outputs[0] = "x"
		return "x"
	})
	add("result named like a weight", "also an input or initializer", v, func(g *graph) string {
		w := g.param(3)
		g.op("Add", in("x", w))
		g.model.Graph.Nodes[0].Outputs[0] = w
		return w
	})
	add("initializer twice", "defined twice", v, func(g *graph) string {
		y := g.op("Add", in(g.input(), g.param(3)))
		g.model.Graph.Initializers[1].Name = g.model.Graph.Initializers[0].Name
		return y
	})
	add("initializer without name", "no name", v, func(g *graph) string {
		y := g.input()
		g.model.Graph.Initializers[0].Name = ""
		return y
	})
	add("second result of a pool", "output 1", image, func(g *graph) string {
		p := g.many("MaxPool", 2, in(g.input()), intsA("kernel_shape", 2, 2))
		return g.op("Add", p)
	})
	add("no parameter", "does not depend on any parameter", v, func(g *graph) string { return g.op("Relu", in("x")) })
	add("no node", "does not depend on any parameter", v, func(g *graph) string { return "x" })
	add("no input", "does not depend on the input", v, func(g *graph) string { return g.op("Relu", in(g.param(1, 3))) })
	add("integers as output", "integer", v, func(g *graph) string { return g.op("Shape", in(g.input())) })
	add("condition of three numbers", "its condition is of shape [1 3], not one truth value", v, func(g *graph) string {
		return g.op("If", in(g.input()), branch("then_branch", g.model.Graph.Nodes[0], g.name("y")), branch("else_branch", g.model.Graph.Nodes[0], g.name("y")))
	})
	add("no branch", `it has no then_branch`, v, func(g *graph) string {
		g.input()
		return g.op("If", in(g.truth(true)))
	})

	// NaN and infinities.
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		add(fmt.Sprintf("weight of %v", bad), "its training diverged or the file is damaged", v, func(g *graph) string {
			return g.op("Mul", in(g.input(), g.of([]float64{1, bad, 1}, 3)))
		})
		add(fmt.Sprintf("variance of %v", bad), "at element 0", v, func(g *graph) string {
			return g.op("BatchNormalization", in(g.input(), g.param(3), g.param(3), g.param(3), g.of([]float64{bad, 1, 1}, 3)))
		})
		add(fmt.Sprintf("constant variance of %v", bad), "", v, func(g *graph) string {
			c := g.op("Constant", nil, tensorA("value", &onnx.Tensor{Dims: []int64{3}, Type: onnx.Float, Floats: []float64{bad, 1, 1}}))
			return g.op("BatchNormalization", in(g.input(), g.param(3), g.param(3), g.param(3), c))
		})
	}
	add("constant of NaN", "NaN", v, func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("Constant", nil, tensorA("value", &onnx.Tensor{Type: onnx.Float, Floats: []float64{math.NaN()}}))))
	})
	add("filled with NaN", "number", v, func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("ConstantOfShape", in(g.ints(3)), tensorA("value", &onnx.Tensor{Dims: []int64{1}, Type: onnx.Float, Floats: []float64{math.NaN()}}))))
	})
	add("constants that divide by zero", "constant result holds", v, func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("Reciprocal", in(g.scalar(0)))))
	})
	add("bound of NaN", "bounds", v, func(g *graph) string { return g.op("Clip", in(g.input()), floatA("min", float32(math.NaN()))) })
	add("attribute of NaN", "alpha", v, func(g *graph) string { return g.op("Elu", in(g.input()), floatA("alpha", float32(math.NaN()))) })
	add("attribute of infinity", "epsilon", m, func(g *graph) string {
		return g.op("LayerNormalization", in(g.input(), g.param(3)), floatA("epsilon", float32(math.Inf(1))))
	})
	add("variance below zero", "variance of channel 1", v, func(g *graph) string {
		return g.op("BatchNormalization", in(g.input(), g.param(3), g.param(3), g.param(3), g.of([]float64{1, -1, 1}, 3)))
	})

	// Shapes that do not fit.
	wrong("of shapes that differ", "broadcast", m, "Add", nil, xw(4))
	wrong("slope larger than the input", "broadcast", []int{1}, "PRelu", nil, xw(3))
	wrong("slope of more dimensions", "broadcast", v, "PRelu", nil, xw(1, 1, 3))
	wrong("inner dimensions", "columns", v, "MatMul", nil, xw(4, 2))
	wrong("inner dimensions of stacks", "multiply", m, "MatMul", nil, xw(2, 2, 2))
	wrong("scalar", "scalar", v, "MatMul", nil, func(g *graph) []string { return in(g.input(), g.scalar(2)) })
	wrong("inner dimensions", "columns", v, "Gemm", nil, xw(4, 2))
	wrong("rank three", "matrices", m, "Gemm", nil, xw(3, 2))
	wrong("bias too large", "broadcast", v, "Gemm", nil, func(g *graph) []string { return in(g.input(), g.param(3, 1), g.param(2)) })
	wrong("bias of rank three", "broadcast", v, "Gemm", nil, func(g *graph) []string { return in(g.input(), g.param(3, 2), g.param(1, 1, 2)) })
	wrong("channels", "channels", image, "Conv", nil, xw(2, 3, 2, 2))
	wrong("rank", "weight of shape", image, "Conv", nil, xw(2, 2, 2))
	wrong("of a vector", "spatial", v, "Conv", nil, xw(3, 3))
	wrong("bias", "bias", image, "Conv", nil, func(g *graph) []string { return in(g.input(), g.param(2, 2, 2, 2), g.param(3)) })
	wrong("groups", "groups", image, "Conv", A(intA("group", 0)), xw(2, 2, 2, 2))
	wrong("negative groups", "groups", image, "Conv", A(intA("group", -2)), xw(2, 2, 2, 2))
	wrong("kernel_shape", "kernel_shape", image, "Conv", A(intsA("kernel_shape", 3, 3)), xw(2, 2, 2, 2))
	wrong("kernel larger than the input", "kernel covers", image, "Conv", nil, xw(2, 2, 5, 5))
	wrong("strides of zero", "strides", image, "Conv", A(intsA("strides", 0, 1)), xw(2, 2, 2, 2))
	wrong("too few strides", "strides", image, "Conv", A(intsA("strides", 1)), xw(2, 2, 2, 2))
	wrong("no strides", "strides", image, "Conv", A(intsA("strides")), xw(2, 2, 2, 2))
	wrong("dilations below zero", "dilations", image, "Conv", A(intsA("dilations", -1, 1)), xw(2, 2, 2, 2))
	wrong("too few pads", "pads", image, "Conv", A(intsA("pads", 1, 1)), xw(2, 2, 2, 2))
	wrong("pads below zero", "pads", image, "Conv", A(intsA("pads", -1, 0, 0, 0)), xw(2, 2, 2, 2))
	wrong("auto_pad", "auto_pad", image, "Conv", A(textA("auto_pad", "SAME")), xw(2, 2, 2, 2))
	wrong("weight that depends on the input", "depends on the input", image, "Conv", nil, func(g *graph) []string { return in(g.input(), g.op("Reshape", in("x", g.ints(-1, 2, 2, 4)))) })
	wrong("channels", "channels", image, "ConvTranspose", nil, xw(3, 2, 2, 2))
	wrong("output_padding", "output_padding", image, "ConvTranspose", A(intsA("output_padding", 1)), xw(2, 2, 2, 2))
	wrong("output_shape of zero", "spatial shape", image, "ConvTranspose", A(intsA("output_shape", 0, 4)), xw(2, 2, 2, 2))
	wrong("pads beyond the result", "spatial shape", image, "ConvTranspose", A(intsA("pads", 9, 9, 9, 9)), xw(2, 2, 2, 2))
	wrong("without kernel_shape", "kernel_shape", image, "MaxPool", nil, x)
	wrong("kernel of zero", "kernel", image, "MaxPool", A(intsA("kernel_shape", 0, 2)), x)
	wrong("kernel of one dimension", "kernel", image, "AveragePool", A(intsA("kernel_shape", 2)), x)
	wrong("pads beyond the kernel", "beyond the kernel", image, "MaxPool", A(intsA("kernel_shape", 2, 2), intsA("pads", 2, 2, 2, 2)), x)
	wrong("storage order", "storage_order", image, "MaxPool", A(intsA("kernel_shape", 2, 2), intA("storage_order", 1)), x)
	wrong("means", "channels", v, "BatchNormalization", nil, func(g *graph) []string { return in(g.input(), g.param(3), g.param(3), g.param(2), g.positive(3)) })
	wrong("scale", "channels", v, "BatchNormalization", nil, func(g *graph) []string { return in(g.input(), g.param(2), g.param(3), g.param(3), g.positive(3)) })
	wrong("statistics that depend on the input", "constant", v, "BatchNormalization", nil, func(g *graph) []string { return in(g.input(), g.param(3), g.param(3), "x", g.positive(3)) })
	wrong("spatial", "spatial", v, "BatchNormalization", A(intA("spatial", 0)), func(g *graph) []string { return in(g.input(), g.param(3), g.param(3), g.param(3), g.positive(3)) })
	wrong("without scale", "input 1", m, "LayerNormalization", nil, x)
	wrong("scale larger than the input", "mix examples", m, "LayerNormalization", nil, xw(4, 2, 3))
	wrong("axis", "axis 3", m, "LayerNormalization", A(intA("axis", 3)), xw(3))
	wrong("without groups", "num_groups", image, "GroupNormalization", nil, xw(2))
	wrong("groups", "groups", image, "GroupNormalization", A(intA("num_groups", 3)), xw(2))
	wrong("axis", "axis 3", m, "Softmax", A(intA("axis", 3)), func(g *graph) []string { return in(g.op("Relu", in(g.input()))) })
	wrong("number of elements", "reshape", m, "Reshape", nil, xi(-1, 5))
	wrong("two open dimensions", "−1", m, "Reshape", nil, xi(-1, -1, 3))
	wrong("negative dimension", "dimension", m, "Reshape", nil, xi(-1, -2))
	wrong("copy beyond the rank", "does not exist", v, "Reshape", nil, xi(-1, 3, 0))
	wrong("to numbers", "integers", m, "Reshape", nil, func(g *graph) []string { return in(g.input(), g.param(2)) })
	wrong("to a matrix of integers", "vector", m, "Reshape", nil, func(g *graph) []string {
		return in(g.input(), g.initializer(&onnx.Tensor{Name: "s", Type: onnx.Int64, Ints: []int64{-1, 6}}, []int{1, 2}))
	})
	wrong("to text", "strings", m, "Reshape", nil, func(g *graph) []string {
		return in(g.input(), g.initializer(&onnx.Tensor{Name: "s", Type: onnx.String, Strings: [][]byte{{'a'}}}, []int{1}))
	})
	wrong("permutation too short", "perm", m, "Transpose", A(intsA("perm", 0, 1)), x)
	wrong("permutation with a repeat", "perm", m, "Transpose", A(intsA("perm", 0, 1, 1)), x)
	wrong("permutation of a scalar", "perm", v, "Transpose", A(intsA("perm", 0)), func(g *graph) []string { return in(g.scalar(1)) })
	wrong("axis", "axis 4", m, "Flatten", A(intA("axis", 4)), x)
	wrong("of a dimension of two", "cannot be removed", m, "Squeeze", nil, xi(1))
	wrong("repeated axis", "twice", m, "Unsqueeze", nil, xi(1, 1))
	wrong("many axes", "dimensions", m, "Unsqueeze", nil, xi(slices.Repeat([]int64{1}, 100)...))
	wrong("without axis", "axis", m, "Concat", nil, x)
	wrong("of shapes that differ", "does not fit", m, "Concat", A(intA("axis", 1)), xw(1, 2, 2))
	wrong("of ranks that differ", "does not fit", m, "Concat", A(intA("axis", 1)), xw(2, 3))
	wrong("bounds of other length", "length", m, "Slice", nil, func(g *graph) []string { return in(g.input(), g.ints(0, 0), g.ints(1)) })
	wrong("nothing left", "no elements", m, "Slice", nil, func(g *graph) []string { return in(g.input(), g.ints(2), g.ints(1), g.ints(2)) })
	wrong("step of zero", "step", m, "Slice", nil, func(g *graph) []string { return in(g.input(), g.ints(0), g.ints(1), g.ints(2), g.ints(0)) })
	wrong("axis", "axis 7", m, "Slice", nil, func(g *graph) []string { return in(g.input(), g.ints(0), g.ints(1), g.ints(7)) })
	wrong("sizes", "2 sizes", m, "Split", A(intA("axis", 2)), xi(1, 1))
	wrong("negative sizes", "split", m, "Split", A(intA("axis", 2)), xi(-1))
	wrong("num_outputs", "num_outputs", m, "Split", A(intA("axis", 2), intA("num_outputs", 3)), x)
	wrong("index", "index 3", m, "Gather", A(intA("axis", 2)), xi(3))
	wrong("indices that depend on the input", "integers", m, "Gather", nil, func(g *graph) []string { return in(g.param(5, 2), g.input()) })
	wrong("no indices", "no elements", m, "Gather", A(intA("axis", 2)), xi())
	wrong("to zero", "no elements", m, "Expand", nil, xi(1, 2, 0))
	wrong("below zero", "no elements", m, "Expand", nil, xi(-1, 2, 3))
	wrong("other shape", "broadcast", m, "Expand", nil, xi(1, 2, 4))
	wrong("of nothing", "broadcast", m, "Add", nil, func(g *graph) []string { return in(g.input(), g.op("Expand", in(g.ints(), g.ints()))) })
	wrong("pads", "pads", m, "Pad", nil, xi(1, 1))
	wrong("mode", "mode", m, "Pad", A(textA("mode", "wild")), xi(0, 0, 0, 0, 0, 1))
	wrong("everything cropped", "no elements", m, "Pad", nil, xi(0, -2, 0, 0, 0, 0))
	wrong("mode", "mode", m, "Resize", A(textA("mode", "quartic")), func(g *graph) []string { return in(g.input(), "", g.float32s(ones(3), 3)) })
	wrong("policy", "policy", m, "Resize", A(textA("keep_aspect_ratio_policy", "square")), func(g *graph) []string { return in(g.input(), "", g.float32s(ones(3), 3)) })
	wrong("transformation", "mercator", m, "Resize", A(textA("coordinate_transformation_mode", "mercator")), func(g *graph) []string { return in(g.input(), "", g.float32s(ones(3), 3)) })
	wrong("scales", "scales", m, "Resize", nil, func(g *graph) []string { return in(g.input(), "", g.float32s(ones(2), 2)) })
	wrong("scale of zero", "scales", m, "Resize", nil, func(g *graph) []string { return in(g.input(), "", g.float32s([]float64{1, 1, 0}, 3)) })
	wrong("scale below zero", "scales", m, "Resize", nil, func(g *graph) []string { return in(g.input(), "", g.float32s([]float64{1, 1, -2}, 3)) })
	wrong("to nothing", "dimension 2", m, "Resize", nil, func(g *graph) []string { return in(g.input(), "", g.float32s([]float64{1, 1, 0.1}, 3)) })
	wrong("without scales", "scales", m, "Resize", nil, x)
	crop := textA("coordinate_transformation_mode", "tf_crop_and_resize")
	wrong("without a region", "input 1", m, "Resize", A(crop), func(g *graph) []string { return in(g.input(), "", g.float32s(ones(3), 3)) })
	wrong("a short region", "region", m, "Resize", A(crop), func(g *graph) []string { return in(g.input(), g.float32s(ones(4), 4), g.float32s(ones(3), 3)) })
	wrong("a cropped batch", mixes, m, "Resize", A(crop), func(g *graph) []string {
		return in(g.input(), g.float32s([]float64{0.5, 0, 0, 1, 1, 1}, 6), g.float32s(ones(3), 3))
	})
	wrong("an axis twice", "twice", m, "Resize", A(intsA("axes", 2, -1)), func(g *graph) []string { return in(g.input(), "", g.float32s(ones(2), 2)) })
	wrong("an axis too many", "axis 3", m, "Resize", A(intsA("axes", 3)), func(g *graph) []string { return in(g.input(), "", g.float32s(ones(1), 1)) })
	wrong("a batch by a policy", mixes, m, "Resize", A(textA("keep_aspect_ratio_policy", "not_larger")), func(g *graph) []string { return in(g.input(), "", "", g.batchAnd(1, 3)) })
	wrong("to an unknown type", "cast", m, "Cast", nil, x)
	wrong("to integers", "no derivative", m, "Cast", A(intA("to", int64(onnx.Int64))), x)
	wrong("by zero", "division by zero", v, "Reshape", nil, func(g *graph) []string { return in(g.input(), g.op("Div", in(g.ints(1), g.ints(0)))) })
	wrong("remainder by zero", "division by zero", v, "Reshape", nil, func(g *graph) []string { return in(g.input(), g.op("Mod", in(g.ints(1), g.ints(0)))) })
	wrong("step of zero", "range", v, "Add", nil, func(g *graph) []string { return in(g.input(), g.op("Range", in(g.int(0), g.int(3), g.int(0)))) })
	wrong("bounds of two numbers", "numbers", v, "Clip", nil, func(g *graph) []string { return in(g.input(), g.param(2)) })
	wrong("axis", "axis 5", m, "ReduceSum", nil, xi(5))
	wrong("without a value", "value", v, "Add", nil, func(g *graph) []string { return in(g.input(), g.op("Constant", nil)) })
	wrong("of text", "value", v, "Add", nil, func(g *graph) []string { return in(g.input(), g.op("Constant", nil, textA("value_string", "a"))) })
	wrong("approximation", "approximate", v, "Gelu", A(textA("approximate", "fast")), x)
	wrong("attribute type", "attribute axis", m, "Softmax", A(floatA("axis", 1)), x)
	wrong("attribute type", "attribute perm", m, "Transpose", A(intA("perm", 1)), x)
	wrong("attribute twice", "twice", v, "Elu", A(floatA("alpha", 1), floatA("alpha", 2)), x)
	wrong("zero-size weight", "no elements", v, "Mul", nil, xw(0))
	wrong("zero-size weight", "no elements", v, "MatMul", nil, xw(3, 0))
	return append(all, giantCases()...)
}

// giantCases are small files of huge graphs.
func giantCases() []badCase {
	var all []badCase
	add := func(name string, dims []int, build func(g *graph) string) {
		all = append(all, badCase{name: "giant " + name, opset: 13, dims: dims, build: build})
	}
	v, image := []int{3}, []int{1, 4, 4}
	const huge = 1 << 60
	add("Expand", v, func(g *graph) string { return g.op("Expand", in(g.input(), g.ints(huge, 1, 3))) })
	add("Expand in steps", v, func(g *graph) string {
		y := g.op("Unsqueeze", in(g.input(), g.ints(1, 2, 3, 4)))
		for i := range 4 {
			shape := []int64{1, 1, 1, 1, 1, 3}
			shape[i+1] = 1 << 10
			y = g.op("Expand", in(y, g.ints(shape...)))
		}
		return y
	})
	add("Expand of a constant, many times", v, func(g *graph) string {
		sum := g.input()
		for range 100 {
			big := g.op("Expand", in(g.scalar(1), g.ints(1<<22, 3)))
			sum = g.op("Add", in(sum, g.op("ReduceSum", in(big, g.ints(0)))))
		}
		return sum
	})
	add("Expand of a parameter, many times", v, func(g *graph) string {
		sum := g.input()
		for range 100 {
			big := g.op("Expand", in(g.param(1), g.ints(1<<22, 3)))
			sum = g.op("Add", in(sum, g.op("ReduceSum", in(big, g.ints(0)))))
		}
		return sum
	})
	add("Expand of the input, many times", v, func(g *graph) string {
		sum, x := g.input(), g.op("Unsqueeze", in(g.input(), g.ints(1)))
		for range 100 {
			big := g.op("Relu", in(g.op("Expand", in(x, g.ints(1, 1<<22, 1)))))
			sum = g.op("Add", in(sum, g.op("ReduceSum", in(big, g.ints(1)), intA("keepdims", 0))))
		}
		return sum
	})
	add("Expand of integers, many times", v, func(g *graph) string {
		sum := g.input()
		for range 100 {
			big := g.op("Expand", in(g.int(1), g.ints(1<<24)))
			sum = g.op("Add", in(sum, g.op("Gather", in(big, g.ints(0)))))
		}
		return sum
	})
	add("Pad", v, func(g *graph) string { return g.op("Pad", in(g.input(), g.ints(0, huge, 0, huge))) })
	add("Pad reflecting", v, func(g *graph) string {
		return g.op("Pad", in(g.input(), g.ints(0, 0, 0, 1<<31)), textA("mode", "reflect"))
	})
	add("ConstantOfShape", v, func(g *graph) string { return g.op("Add", in(g.input(), g.op("ConstantOfShape", in(g.ints(huge))))) })
	add("ConstantOfShape of a product", v, func(g *graph) string {
		return g.op("Add", in(g.input(), g.op("ConstantOfShape", in(g.ints(1<<20, 1<<20, 1<<20, 1<<20)))))
	})
	add("ConstantOfShape, many times", v, func(g *graph) string {
		sum := g.input()
		for range 200 {
			big := g.op("ConstantOfShape", in(g.ints(1<<23, 1)))
			sum = g.op("Add", in(sum, g.op("ReduceSum", in(big, g.ints(0)))))
		}
		return sum
	})
	add("ConstantOfShape of integers, many times", v, func(g *graph) string {
		one := tensorA("value", &onnx.Tensor{Dims: []int64{1}, Type: onnx.Int64, Ints: []int64{1}})
		sum := g.input()
		for range 200 {
			sum = g.op("Add", in(sum, g.op("Gather", in(g.op("ConstantOfShape", in(g.ints(1<<24)), one), g.ints(0)))))
		}
		return sum
	})
	add("Range", v, func(g *graph) string {
		return g.op("Add", in(g.input(), g.op("Range", in(g.int(0), g.int(huge), g.int(1)))))
	})
	add("Range below zero", v, func(g *graph) string {
		return g.op("Add", in(g.input(), g.op("Range", in(g.int(huge), g.int(-huge), g.int(-1)))))
	})
	add("Range of floats", v, func(g *graph) string {
		return g.op("Add", in(g.input(), g.op("Range", in(g.scalar(0), g.scalar(1e300), g.scalar(1e-300)))))
	})
	add("Range, many times", v, func(g *graph) string {
		sum := g.input()
		for range 200 {
			sum = g.op("Add", in(sum, g.op("Gather", in(g.op("Range", in(g.int(0), g.int(1<<24), g.int(1))), g.ints(0)))))
		}
		return sum
	})
	add("Resize", image, func(g *graph) string {
		return g.op("Resize", in(g.input(), "", g.float32s([]float64{1, 1, 1e30, 1e30}, 4)))
	})
	add("Resize to sizes", image, func(g *graph) string { return g.op("Resize", in(g.input(), "", "", g.batchAnd(1, huge, huge))) })
	add("Einsum", []int{100}, func(g *graph) string {
		x := g.input()
		return g.op("Einsum", in(x, x, x, x, x, x), textA("equation", "na,nb,nc,nd,ne,nf->nabcdef"))
	})
	for _, mode := range []string{"linear", "cubic"} {
		add("Resize "+mode, image, func(g *graph) string {
			return g.op("Resize", in(g.input(), "", "", g.batchAnd(1, huge, huge)), textA("mode", mode))
		})
		add("Resize one axis "+mode, image, func(g *graph) string {
			return g.op("Resize", in(g.input(), "", "", g.ints(huge)), textA("mode", mode), intsA("axes", 3))
		})
	}
	add("Resize in steps", image, func(g *graph) string {
		y := g.input()
		for range 20 {
			y = g.op("Resize", in(y, "", g.float32s([]float64{1, 1, 2, 2}, 4)))
		}
		return y
	})
	add("doubling by Concat", v, func(g *graph) string {
		y := g.input()
		for range 60 {
			y = g.op("Concat", in(y, y), intA("axis", 1))
		}
		return y
	})
	add("doubling of integers by Concat", v, func(g *graph) string {
		y := g.ints(1)
		for range 60 {
			y = g.op("Concat", in(y, y), intA("axis", 0))
		}
		return g.op("Reshape", in(g.input(), y))
	})
	add("doubling of constants by Concat", v, func(g *graph) string {
		y := g.of([]float64{1}, 1)
		for range 60 {
			y = g.op("Concat", in(y, y), intA("axis", 0))
		}
		return g.op("Add", in(g.input(), g.op("ReduceSum", in(y))))
	})
	add("doubling by broadcasting", v, func(g *graph) string {
		y := g.op("Unsqueeze", in(g.input(), g.ints(1, 2, 3, 4)))
		for i := range 4 {
			shape := []int{1, 1, 1, 1, 1}
			shape[i] = 300
			y = g.op("Add", in(y, g.param(shape...)))
		}
		return y
	})
	add("kernel in the padding", image, func(g *graph) string {
		return g.op("AveragePool", in(g.input()), intsA("kernel_shape", 1<<24, 1<<24), intsA("pads", 1<<23, 1<<23, 1<<23, 1<<23))
	})
	add("pads of a pool", image, func(g *graph) string {
		return g.op("MaxPool", in(g.input()), intsA("kernel_shape", 4000, 4000), intsA("pads", 3999, 3999, 3999, 3999))
	})
	add("pads of a convolution", image, func(g *graph) string {
		return g.op("Conv", in(g.input(), g.param(1, 1, 2, 2)), intsA("pads", 1<<24, 1<<24, 1<<24, 1<<24))
	})
	add("dilations of a convolution", image, func(g *graph) string {
		return g.op("Conv", in(g.input(), g.param(1, 1, 2, 2)), intsA("pads", 1<<24, 1<<24, 1<<24, 1<<24), intsA("dilations", 1<<24, 1<<24))
	})
	add("convolutions, many times", []int{1, 2000}, func(g *graph) string {
		y := g.input()
		for range 100 {
			y = g.op("MaxPool", in(y), intsA("kernel_shape", 1999), intsA("pads", 999, 999))
		}
		return y
	})
	add("strides of a transposed convolution", image, func(g *graph) string {
		return g.op("ConvTranspose", in(g.input(), g.param(1, 1, 2, 2)), intsA("strides", 1<<24, 1<<24))
	})
	add("output_shape of a transposed convolution", image, func(g *graph) string {
		return g.op("ConvTranspose", in(g.input(), g.param(1, 1, 2, 2)), intsA("output_shape", huge, huge))
	})
	add("output_padding of a transposed convolution", image, func(g *graph) string {
		return g.op("ConvTranspose", in(g.input(), g.param(1, 1, 2, 2)), intsA("output_padding", huge, huge))
	})
	add("product of constants", v, func(g *graph) string {
		big := g.op("ConstantOfShape", in(g.ints(2048, 2048)))
		for range 100 {
			big = g.op("MatMul", in(big, big))
		}
		return g.op("Add", in(g.input(), g.op("ReduceSum", in(big))))
	})
	add("product of parameters", v, func(g *graph) string {
		big := g.op("Expand", in(g.param(1, 1), g.ints(4000, 4000)))
		return g.op("Add", in(g.input(), g.op("ReduceSum", in(g.op("MatMul", in(big, big))))))
	})
	add("stack of products", v, func(g *graph) string {
		big := g.op("ConstantOfShape", in(g.ints(1<<24, 1, 1)))
		return g.op("Add", in(g.input(), g.op("ReduceSum", in(g.op("MatMul", in(big, big))))))
	})
	add("pool of constants", v, func(g *graph) string {
		big := g.op("ConstantOfShape", in(g.ints(1, 4000, 1)))
		p := g.op("AveragePool", in(big), intsA("kernel_shape", 4000), intsA("pads", 3999, 3999))
		return g.op("Add", in(g.input(), g.op("ReduceSum", in(p))))
	})
	add("convolution of constants", v, func(g *graph) string {
		big, w := g.op("ConstantOfShape", in(g.ints(1, 256, 1<<16))), g.op("ConstantOfShape", in(g.ints(256, 256, 1)))
		p := g.op("Conv", in(big, w))
		return g.op("Add", in(g.input(), g.op("ReduceSum", in(p))))
	})
	add("work for one example", image, func(g *graph) string {
		y := g.op("Expand", in(g.op("Reshape", in(g.input(), g.ints(-1, 1, 16))), g.ints(1, 1<<20, 1)))
		w := g.op("Expand", in(g.param(1, 1), g.ints(16, 1<<12)))
		return g.op("MatMul", in(y, w))
	})
	add("rank", v, func(g *graph) string {
		return g.op("Add", in(g.input(), g.param(slices.Repeat([]int{1}, 1000)...)))
	})
	add("rank by Reshape", v, func(g *graph) string {
		return g.op("Reshape", in(g.input(), g.ints(append([]int64{-1}, slices.Repeat([]int64{1}, 100000)...)...)))
	})
	add("rank by ConstantOfShape", v, func(g *graph) string {
		return g.op("Add", in(g.input(), g.op("ConstantOfShape", in(g.ints(slices.Repeat([]int64{1}, 100000)...)))))
	})
	add("permutation", v, func(g *graph) string {
		return g.op("Transpose", in(g.input()), intsA("perm", make([]int64, 100000)...))
	})
	add("names", v, func(g *graph) string {
		long := strings.Repeat("a\n", 1<<20)
		y := g.op(long, in(g.input(), long), textA(long, long))
		g.model.Graph.Nodes[1].Name, g.model.Graph.Nodes[1].Domain = long, long
		return y
	})
	add("attribute text", v, func(g *graph) string {
		return g.op("Gelu", in(g.input()), textA("approximate", strings.Repeat("a\n", 1<<20)))
	})
	add("integer sums", v, func(g *graph) string {
		y := g.ints(1 << 30)
		for range 200 {
			y = g.op("Mul", in(y, y))
		}
		return g.op("Reshape", in(g.input(), y))
	})
	return all
}

// TestHostileGraphs checks that a wrong graph gives one clear line, and that a
// small file never makes the reader allocate much.
func TestHostileGraphs(t *testing.T) {
	for _, c := range hostileCases() {
		t.Run(c.name, func(t *testing.T) {
			m := c.model()
			if c.name == "two outputs" {
				m.Graph.Outputs = append(m.Graph.Outputs, m.Graph.Outputs[0])
			}
			data, err := m.Encode()
			require.NoError(t, err)
			used := allocated(func() { _, err = network.ReadONNX(bytes.NewReader(data), nil) })
			require.Error(t, err)
			require.ErrorContains(t, err, c.want)
			requireOneLine(t, err)
			require.Less(t, used, uint64(hostileBytes))
		})
	}
}

// TestHostileInputs checks which declarations of the input are accepted.
func TestHostileInputs(t *testing.T) {
	known := func(v int64) onnx.Dim { return onnx.Dim{Value: v, HasValue: true} }
	open := onnx.Dim{Param: "n"}
	for _, c := range []struct {
		name, want string
		change     func(in *onnx.ValueInfo)
	}{
		{"no shape", "declared shape", func(in *onnx.ValueInfo) { in.HasShape, in.Dims = false, nil }},
		{"rank 0", "declared shape", func(in *onnx.ValueInfo) { in.Dims = nil }},
		{"only a batch", "declared shape", func(in *onnx.ValueInfo) { in.Dims = []onnx.Dim{open} }},
		{"open dimension", "ReadOptions.Bind x=n,SIZE", func(in *onnx.ValueInfo) { in.Dims = []onnx.Dim{open, open} }},
		{"unknown dimension", "ReadOptions.Bind x=n,SIZE", func(in *onnx.ValueInfo) { in.Dims = []onnx.Dim{open, {}} }},
		{"dimension of zero", "ReadOptions.Bind x=n,SIZE", func(in *onnx.ValueInfo) { in.Dims = []onnx.Dim{open, known(0)} }},
		{"dimension of −1", "ReadOptions.Bind x=n,SIZE", func(in *onnx.ValueInfo) { in.Dims = []onnx.Dim{open, known(-1)} }},
		{"2^60 elements", "elements", func(in *onnx.ValueInfo) { in.Dims = []onnx.Dim{open, known(1 << 60)} }},
		{"2^60 elements in all", "elements", func(in *onnx.ValueInfo) { in.Dims = []onnx.Dim{open, known(1 << 20), known(1 << 20), known(1 << 20)} }},
		{"many dimensions", "dimensions", func(in *onnx.ValueInfo) {
			in.Dims = append([]onnx.Dim{open}, slices.Repeat([]onnx.Dim{known(1)}, 1000)...)
		}},
		{"text", "truth values", func(in *onnx.ValueInfo) { in.Type = onnx.String }},
		{"no type", "truth values", func(in *onnx.ValueInfo) { in.Type = 0 }},
		{"another name", "reads", func(in *onnx.ValueInfo) { in.Name = "other" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGraph(13, 3)
			m := g.output(g.input())
			c.change(m.Graph.Inputs[0])
			_, err := load(m)
			require.ErrorContains(t, err, c.want)
			requireOneLine(t, err)
		})
	}
	g := newGraph(13, 3)
	m := g.output(g.input())
	m.Graph.Inputs = nil
	require.ErrorContains(t, testref.Err(load(m)), "0 inputs")
	for _, c := range []struct {
		opset []onnx.Opset
		want  string // in the error; none where the model is read
	}{
		{nil, "opset is 0"}, {[]onnx.Opset{{Domain: "com.acme", Version: 20}}, "opset is 0"}, {[]onnx.Opset{{Version: -1}}, "opset is -1"},
		{[]onnx.Opset{{Version: 6}}, "opset is 6; opsets 7 to 25 are read"}, {[]onnx.Opset{{Version: 7}}, ""},
		{[]onnx.Opset{{Domain: "com.acme", Version: 26}, {Domain: "ai.onnx", Version: 25}}, ""},
		{[]onnx.Opset{{Version: 26}}, "opset is 26; opsets 7 to 25 are read"}, {[]onnx.Opset{{Version: 13}, {Domain: "ai.onnx", Version: 1 << 62}}, "opset is 4611686018427387904"},
	} {
		g := newGraph(13, 3)
		m := g.output(g.input())
		m.OpsetImport = c.opset
		_, err := load(m)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.want)
		requireOneLine(t, err)
	}
	// Old files list the weights among the inputs.
	g = newGraph(13, 3)
	m = g.output(g.input())
	m.Graph.Inputs = append(m.Graph.Inputs, &onnx.ValueInfo{Name: m.Graph.Initializers[0].Name, Type: onnx.Double})
	mustLoad(t, m)
}

// TestManyNodes checks that reading is linear in the number of nodes: a
// quadratic one would allocate hundreds of times as much.
func TestManyNodes(t *testing.T) {
	g := newGraph(13, 3)
	y, c := g.input(), g.scalar(1)
	for range 20000 {
		c = g.op("Neg", in(c))
		y = g.op("Mul", in(y, g.op("Identity", in(c))))
	}
	data, err := g.output(y).Encode()
	require.NoError(t, err)
	used := allocated(func() { _, err = network.ReadONNX(bytes.NewReader(data), nil) })
	require.NoError(t, err)
	require.Less(t, used, uint64(300<<20))
}

// TestFreeze checks which names can be held fixed.
func TestFreeze(t *testing.T) {
	build := func() (*graph, *onnx.Model) {
		g := newGraph(13, 3)
		h := g.op("Gemm", in("x", g.param(3, 4), g.param(4)))
		h = g.op("Reshape", in(h, g.ints(-1, 4)))
		return g, g.output(g.op("MatMul", in(h, g.param(4, 2))))
	}
	_, m := build()
	names := []string{m.Graph.Initializers[0].Name, m.Graph.Initializers[1].Name, m.Graph.Initializers[3].Name}
	all := testref.Must(load(m))(t)
	x := mat.NewDense(2, 3, []float64{1, 2, 3, -1, 0.5, 2})
	var j mat.Dense
	full := testref.Must(all.Linearize(t.Context(), x))(t)
	full.JacobianTo(&j)
	offset := map[string][2]int{}
	for _, p := range all.Params() {
		offset[p.Name] = [2]int{p.Offset, p.Offset + p.Len()}
	}
	for mask := 1; mask < 7; mask++ {
		var frozen []string
		for i, name := range names {
			if mask>>i&1 == 1 {
				frozen = append(frozen, name)
			}
		}
		net := testref.Must(load(m, frozen...))(t)
		b := testref.Must(net.Linearize(t.Context(), x))(t)
		testref.RequireClose(t, b.F.RawMatrix().Data, full.F.RawMatrix().Data, 1e-15, "f")
		var part mat.Dense
		b.JacobianTo(&part)
		for _, p := range net.Params() {
			require.NotContains(t, frozen, p.Name)
			at := offset[p.Name]
			want := mat.DenseCopyOf(j.Slice(0, 4, at[0], at[1]))
			got := mat.DenseCopyOf(part.Slice(0, 4, p.Offset, p.Offset+p.Len()))
			testref.RequireClose(t, got.RawMatrix().Data, want.RawMatrix().Data, 1e-14, "J")
		}
	}
	for name, want := range map[string]string{"nobody": `cannot freeze "nobody"`, m.Graph.Initializers[2].Name: "cannot freeze", "x": "cannot freeze", "": "cannot freeze", strings.Repeat("a\n", 1<<16): "cannot freeze"} {
		_, err := load(m, name)
		require.ErrorContains(t, err, want)
		requireOneLine(t, err)
	}
	require.ErrorContains(t, testref.Err(load(m, names...)), "does not depend on any parameter")
}

// TestDamagedFiles checks that prefixes of a file and other bytes only give
// errors.
func TestDamagedFiles(t *testing.T) {
	g := newGraph(13, 3)
	data := testref.Must(g.output(g.op("Gemm", in(g.input(), g.param(3, 2), g.param(2)))).Encode())(t)
	for n := range data {
		_, err := network.ReadONNX(bytes.NewReader(data[:n]), nil)
		require.Error(t, err)
		requireOneLine(t, err)
	}
	for _, text := range []string{"", "not a model", "\x89PNG\r\n", strings.Repeat("\x00", 1000), strings.Repeat("\xff", 1000)} {
		_, err := network.ReadONNX(strings.NewReader(text), nil)
		require.Error(t, err)
		requireOneLine(t, err)
	}
}
