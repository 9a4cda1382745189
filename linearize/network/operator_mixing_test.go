package network_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network"
)

// A badCase is a graph that must not be read, and what the error says.
type badCase struct {
	name  string
	opset int64
	dims  []int
	want  string
	build func(g *graph) string
	batch int
}

func (c badCase) model() *onnx.Model {
	g := newGraph(c.opset, c.dims...)
	if c.batch > 0 {
		g.fixed(c.batch)
	}
	return g.output(c.build(g))
}

const (
	mixes = "mix examples"
	fixes = "batch"
)

// mixingCases have outputs that depend on more than one example, or on how
// many there are.
func mixingCases() []badCase {
	var all []badCase
	add := func(name, want string, dims []int, build func(g *graph) string) {
		all = append(all, badCase{name: name, opset: 13, dims: dims, want: want, build: build})
	}
	old := func(name, want string, opset int64, dims []int, build func(g *graph) string) {
		all = append(all, badCase{name: name, opset: opset, dims: dims, want: want, build: build})
	}
	v, m := []int{3}, []int{2, 3}
	timeFirst := func(g *graph) string { return g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2)) }
	number := func(g *graph) string { // N as a float
		n := g.op("Gather", in(g.op("Shape", in("x")), g.int(0)))
		return g.op("Cast", in(n), intA("to", int64(onnx.Double)))
	}

	add("reduce over the batch", mixes, m, func(g *graph) string { return g.op("ReduceMean", in(g.input()), intsA("axes", 0)) })
	add("reduce over everything", mixes, m, func(g *graph) string { return g.op("ReduceSum", in(g.input())) })
	add("reduce over a negative axis", mixes, v, func(g *graph) string { return g.op("ReduceSum", in(g.input(), g.ints(-2))) })
	add("reduce over positions of all examples", mixes, m, func(g *graph) string {
		return g.op("ReduceSum", in(g.op("Reshape", in(g.input(), g.ints(-1, 3))), g.ints(0)))
	})
	add("reduce the moved batch", mixes, m, func(g *graph) string { return g.op("ReduceMean", in(timeFirst(g)), intsA("axes", 1)) })
	add("softmax over the batch", mixes, v, func(g *graph) string {
		return g.op("Mul", in(g.op("Softmax", in(g.input()), intA("axis", 0)), g.scalar(2)))
	})
	add("final softmax over the batch", mixes, v, func(g *graph) string { return g.op("Softmax", in(g.input()), intA("axis", 0)) })
	add("final log-softmax over the batch", mixes, v, func(g *graph) string { return g.op("LogSoftmax", in(g.input()), intA("axis", -2)) })
	old("final softmax over the batch and more", mixes, 11, v, func(g *graph) string { return g.op("Softmax", in(g.input()), intA("axis", 0)) })
	old("softmax over the batch and more", mixes, 11, m, func(g *graph) string {
		return g.op("Mul", in(g.op("Softmax", in(timeFirst(g)), intA("axis", 1)), g.scalar(2)))
	})
	old("softmax of everything", mixes, 11, m, func(g *graph) string {
		return g.op("Mul", in(g.op("LogSoftmax", in(timeFirst(g)), intA("axis", 0)), g.scalar(2)))
	})
	for name, ends := range map[string][3]int64{"from 1": {1, 1 << 40, 1}, "to 1": {0, 1, 1}, "every other": {0, 1 << 40, 2}, "backwards": {-1, -1 << 40, -1}, "without the last": {0, -1, 1}} {
		add("slice of the batch "+name, mixes, m, func(g *graph) string {
			return g.op("Slice", in(g.input(), g.ints(ends[0]), g.ints(ends[1]), g.ints(0), g.ints(ends[2])))
		})
	}
	add("split of the batch", mixes, m, func(g *graph) string { return g.many("Split", 1, in(g.input()), intA("axis", 0))[0] })
	add("concat along the batch", mixes, m, func(g *graph) string { return g.op("Concat", in(g.input(), "x"), intA("axis", 0)) })
	add("concat of batches at different places", mixes, []int{1, 3}, func(g *graph) string {
		return g.op("Concat", in(g.input(), timeFirst(g)), intA("axis", 2))
	})
	add("gather along the batch", mixes, m, func(g *graph) string { return g.op("Gather", in(g.input(), g.ints(0)), intA("axis", 0)) })
	add("first example alone", mixes, m, func(g *graph) string { return g.op("Gather", in(g.input(), g.int(0)), intA("axis", -3)) })
	add("reshape that moves the batch", fixes, m, func(g *graph) string { return g.op("Reshape", in(g.input(), g.ints(2, -1, 3))) })
	add("reshape with the batch last", fixes, v, func(g *graph) string { return g.op("Reshape", in(g.input(), g.ints(3, -1))) })
	add("rows of time first beside rows of examples first", mixes, m, func(g *graph) string {
		return g.op("Add", in(g.op("Reshape", in(timeFirst(g), g.ints(-1, 3))), g.op("Reshape", in("x", g.ints(-1, 3)))))
	})
	add("rows of time first joined with rows of examples first", mixes, m, func(g *graph) string {
		return g.op("Concat", in(g.op("Reshape", in(timeFirst(g), g.ints(-1, 3))), g.op("Reshape", in("x", g.ints(-1, 3)))), intA("axis", 1))
	})
	add("rows of time first as the output", "batch", m, func(g *graph) string {
		return g.op("Reshape", in(timeFirst(g), g.ints(-1, 3)))
	})
	add("rows of time first taken for rows of examples first", fixes, m, func(g *graph) string {
		return g.op("Reshape", in(g.op("Reshape", in(timeFirst(g), g.ints(-1, 3))), g.ints(-1, 2, 3)))
	})
	add("rows of time first split elsewhere", "reshape", []int{4, 3}, func(g *graph) string {
		y := g.op("Reshape", in(timeFirst(g), g.ints(-1, 3)))
		return g.op("Reshape", in(y, g.ints(8, -1, 3)))
	})
	add("reshape to a fixed batch", fixes, m, func(g *graph) string { return g.op("Reshape", in(g.input(), g.ints(1, 6))) })
	add("reshape to a square of the batch", fixes, v, func(g *graph) string {
		n := g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
		return g.op("Reshape", in(g.input(), g.op("Concat", in(n, n), intA("axis", 0))))
	})
	add("reshape of a constant to the batch", fixes, v, func(g *graph) string {
		n := g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
		return g.op("Add", in(g.input(), g.op("Reshape", in(g.param(3), g.op("Concat", in(n, g.ints(3)), intA("axis", 0))))))
	})
	add("squeeze of the batch", "", v, func(g *graph) string { return g.op("Squeeze", in(g.input(), g.ints(0))) })
	old("resize that takes the next example", mixes, 11, m, func(g *graph) string {
		return g.op("Resize", in(g.input(), "", g.float32s([]float64{1, 1, 2}, 3)), textA("mode", "nearest"), textA("coordinate_transformation_mode", "tf_half_pixel_for_nn"), textA("nearest_mode", "ceil"))
	})
	old("batch norm in training mode", mixes, 14, v, func(g *graph) string {
		return g.op("BatchNormalization", in(g.input(), g.param(3), g.param(3), g.param(3), g.positive(3)), intA("training_mode", 1))
	})
	old("batch norm with training outputs", mixes, 9, v, func(g *graph) string {
		return g.many("BatchNormalization", 5, in(g.input(), g.param(3), g.param(3), g.param(3), g.positive(3)))[0]
	})
	add("layer norm over everything", mixes, v, func(g *graph) string {
		return g.op("LayerNormalization", in(g.input(), g.param(3)), intA("axis", 0))
	})
	add("instance norm with the batch second", fixes, m, func(g *graph) string {
		return g.op("InstanceNormalization", in(timeFirst(g), g.param(1), g.param(1)))
	})
	add("convolution with the batch second", fixes, m, func(g *graph) string { return g.op("Conv", in(timeFirst(g), g.param(2, 1, 1))) })
	add("pool with the batch last", fixes, m, func(g *graph) string {
		return g.op("GlobalAveragePool", in(g.op("Transpose", in(g.input()), intsA("perm", 1, 2, 0))))
	})
	add("gram matrix of the examples", mixes, v, func(g *graph) string {
		x := g.input()
		return g.op("MatMul", in(x, g.op("Transpose", in(x))))
	})
	add("covariance over the examples", mixes, v, func(g *graph) string {
		x := g.input()
		return g.op("MatMul", in(g.op("Transpose", in(x)), x))
	})
	add("gemm over the examples", mixes, v, func(g *graph) string { return g.op("Gemm", in("x", g.input()), intA("transA", 1)) })
	add("weights over the examples", mixes, v, func(g *graph) string { return g.op("MatMul", in(g.param(2, 1), g.input())) })
	add("vector over the examples", mixes, v, func(g *graph) string { return g.op("MatMul", in(g.param(1), g.input())) })
	add("dense over the batch", mixes, v, func(g *graph) string {
		return g.op("MatMul", in(g.op("Transpose", in(g.input())), g.param(1, 2)))
	})
	add("constants for five examples", mixes, v, func(g *graph) string { return g.op("Add", in(g.input(), g.param(5, 3))) })
	add("gemm bias for five examples", mixes, v, func(g *graph) string {
		return g.op("Gemm", in(g.input(), g.param(3, 2), g.param(5, 2)))
	})
	add("all pairs of examples", mixes, []int{1, 3}, func(g *graph) string { return g.op("Sub", in(g.input(), timeFirst(g))) })
	add("pairs by missing dimensions", mixes, []int{1, 3}, func(g *graph) string {
		return g.op("Sub", in(g.input(), g.op("Squeeze", in("x", g.ints(1)))))
	})
	add("expand to pairs", mixes, []int{1, 3}, func(g *graph) string {
		n := g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
		return g.op("Expand", in(g.input(), g.op("Concat", in(n, n, g.ints(3)), intA("axis", 0))))
	})
	add("expand the batch", mixes, v, func(g *graph) string { return g.op("Expand", in(g.input(), g.ints(5, 3))) })
	add("padded batch", mixes, v, func(g *graph) string { return g.op("Pad", in(g.input(), g.ints(0, 0, 1, 0))) })
	add("cropped batch", mixes, v, func(g *graph) string { return g.op("Pad", in(g.input(), g.ints(-1, 0, 0, 0))) })
	add("resized batch", mixes, m, func(g *graph) string {
		return g.op("Resize", in(g.input(), "", g.float32s([]float64{1.5, 1, 1}, 3)))
	})
	add("batch resized to one", mixes, m, func(g *graph) string { return g.op("Resize", in(g.input(), "", "", g.ints(1, 2, 3))) })
	add("resized to the batch size", mixes, m, func(g *graph) string {
		n := g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
		return g.op("Resize", in(g.input(), "", "", g.op("Concat", in(n, n, g.ints(3)), intA("axis", 0))))
	})
	add("number of examples as a factor", mixes, v, func(g *graph) string { return g.op("Div", in(g.input(), number(g))) })
	add("number of examples as an integer factor", mixes, v, func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("Shape", in(g.op("MatMul", in("x", g.param(3)))))))
	})
	add("number of examples by counting", mixes, v, func(g *graph) string {
		n := g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
		one := tensorA("value", &onnx.Tensor{Dims: []int64{1}, Type: onnx.Double, Floats: []float64{1}})
		return g.op("Div", in(g.input(), g.op("ReduceSum", in(g.op("ConstantOfShape", in(n), one)))))
	})
	add("number of examples by expanding", mixes, v, func(g *graph) string {
		n := g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
		return g.op("Mul", in(g.input(), g.op("ReduceSum", in(g.op("Expand", in(g.param(1), n))))))
	})
	add("integers for every example", "", v, func(g *graph) string {
		n := g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
		one := tensorA("value", &onnx.Tensor{Dims: []int64{1}, Type: onnx.Int64, Ints: []int64{1}})
		return g.op("Add", in(g.input(), g.op("ConstantOfShape", in(n), one)))
	})
	add("half of the examples", mixes, v, func(g *graph) string {
		n := g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
		return g.op("Reshape", in(g.input(), g.op("Concat", in(g.op("Div", in(n, g.ints(2))), g.ints(-1)), intA("axis", 0))))
	})
	add("parity of the examples", mixes, v, func(g *graph) string {
		n := g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
		return g.op("Add", in(g.input(), g.op("Mod", in(n, g.ints(2)))))
	})
	add("square of the batch size", "batch", v, func(g *graph) string {
		n := g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
		return g.op("Expand", in(g.input(), g.op("Mul", in(n, n))))
	})
	add("dropout in training mode", "training", v, func(g *graph) string {
		on := g.initializer(&onnx.Tensor{Name: "on", Type: onnx.Bool, Ints: []int64{1}}, nil)
		return g.op("Dropout", in(g.input(), g.scalar(0.5), on))
	})
	all = append(all,
		badCase{name: "fixed batch with a row for each example", opset: 13, dims: v, want: mixes, batch: 8, build: func(g *graph) string {
			return g.op("Add", in(g.input(), g.param(8, 3)))
		}},
		badCase{name: "fixed batch sliced", opset: 13, dims: v, want: mixes, batch: 8, build: func(g *graph) string {
			return g.op("Slice", in(g.input(), g.ints(0), g.ints(7)))
		}},
		badCase{name: "fixed batch summed after expanding", opset: 13, dims: v, want: mixes, batch: 8, build: func(g *graph) string {
			return g.op("Mul", in(g.input(), g.op("ReduceSum", in(g.op("Expand", in(g.param(1, 1), g.ints(8, 1))), g.ints(0)))))
		}},
		badCase{name: "fixed batch of another size", opset: 13, dims: v, want: fixes, batch: 8, build: func(g *graph) string {
			return g.op("Reshape", in(g.input(), g.ints(7, 3)))
		}})
	return append(all, einsumMixing()...)
}

// TestMixingIsRefused checks that no graph that mixes examples is read.
func TestMixingIsRefused(t *testing.T) {
	for _, c := range mixingCases() {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(c.model())
			require.Error(t, err)
			require.ErrorContains(t, err, c.want)
			requireOneLine(t, err)
		})
	}
}

// TestPositionsOfOtherExamples checks that a position in a flat tensor that lies in another example is an error of the
// row, and that a table is not read by the numbers of examples.
func TestPositionsOfOtherExamples(t *testing.T) {
	flat := func(move int64) *network.Network {
		g := newGraph(13, 3, 2)
		x := g.input()
		last := g.op("ArgMax", in(g.op("ReduceSum", in(x, g.ints(2)), intA("keepdims", 0))), intA("axis", 1), intA("keepdims", 0))
		n := g.op("Gather", in(g.op("Shape", in("x")), g.int(0)))
		starts := g.op("Mul", in(g.op("Range", in(g.int(0), n, g.int(1))), g.int(3)))
		at := g.op("Add", in(starts, g.op("Add", in(last, g.int(move)))))
		return mustLoad(t, g.output(g.op("Gather", in(g.op("Reshape", in(x, g.ints(-1, 2))), at))))
	}
	x := mat.NewDense(2, 6, []float64{0, 0, 100, 100, 0, 0, 0, 0, 0, 0, 100, 100})
	for move, want := range map[int64]string{-2: "input row 0 leads to the index -1", 1: "input row 1 leads to the index 3"} {
		_, err := flat(move).Forward(t.Context(), x)
		require.ErrorContains(t, err, want)
		requireOneLine(t, err)
	}
	g := newGraph(13, 3)
	n := g.op("Gather", in(g.op("Shape", in("x")), g.int(0)))
	at := g.op("Add", in(g.op("Range", in(g.int(0), n, g.int(1))), g.op("ArgMax", in("x"), intA("axis", 1), intA("keepdims", 0))))
	_, err := load(g.output(g.op("Gather", in(g.param(9, 2), at))))
	require.ErrorContains(t, err, "not supported")
}
