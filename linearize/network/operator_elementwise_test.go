package network_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
)

func elementwiseCases() []operatorCase {
	var all []operatorCase
	add := func(name string, opset int64, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: opset, dims: []int{2, 3}, build: build})
	}
	// wide reaches both tails of a function.
	wide := func(g *graph) string { return g.op("Mul", in(g.input(), g.scalar(2.5))) }
	for _, kind := range []string{"Relu", "Tanh", "Sigmoid", "Softplus", "Erf", "Exp", "Abs", "Neg", "Mish", "HardSwish", "Gelu", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "Identity"} {
		// Behind a Neg, so that a Sigmoid is not taken for the head.
		add(kind, 20, func(g *graph) string { return g.op("Neg", in(g.op(kind, in(wide(g))))) })
	}
	for _, kind := range []string{"Sqrt", "Log", "Reciprocal"} {
		add(kind, 17, func(g *graph) string { return g.op(kind, in(g.above(0.2))) })
	}
	with := func(name, kind string, attrs ...*onnx.Attribute) {
		add(name, 20, func(g *graph) string { return g.op("Neg", in(g.op(kind, in(wide(g)), attrs...))) })
	}
	with("Gelu-tanh", "Gelu", textA("approximate", "tanh"))
	with("Gelu-none", "Gelu", textA("approximate", "none"))
	// float32 attributes: 0.01 and 0.3 are not what they look like.
	with("LeakyRelu-alpha", "LeakyRelu", floatA("alpha", 0.3))
	with("Elu-alpha", "Elu", floatA("alpha", 1.7))
	with("Selu-both", "Selu", floatA("alpha", 1.3), floatA("gamma", 0.7))
	with("HardSigmoid-both", "HardSigmoid", floatA("alpha", 0.1), floatA("beta", 0.4))
	clip := func(name string, opset int64, build func(g *graph, x string) string) {
		add("Clip-"+name, opset, func(g *graph) string { return build(g, wide(g)) })
	}
	clip("attributes-opset7", 7, func(g *graph, x string) string {
		return g.op("Clip", in(x), floatA("min", -0.7), floatA("max", 1.1))
	})
	clip("open-opset7", 7, func(g *graph, x string) string { return g.op("Clip", in(x), floatA("max", 0.3)) })
	clip("inputs-opset11", 11, func(g *graph, x string) string { return g.op("Clip", in(x, g.scalar(-0.5), g.scalar(2))) })
	clip("only-min", 13, func(g *graph, x string) string { return g.op("Clip", in(x, g.scalar(0))) })
	clip("only-max", 13, func(g *graph, x string) string { return g.op("Clip", in(x, "", g.scalar(0.4))) })
	// A bound of rank 1 is a bound, no parameter.
	clip("bound-tensor", 13, func(g *graph, x string) string { return g.op("Clip", in(x, g.of([]float64{-1}, 1))) })
	clip("bound-renamed", 13, func(g *graph, x string) string {
		return g.op("Clip", in(x, g.op("Identity", in(g.of([]float64{-1}, 1)))))
	})
	clip("bound-constant", 13, func(g *graph, x string) string {
		return g.op("Clip", in(x, g.op("Constant", nil, floatA("value_float", -0.25))))
	})
	add("Dropout-opset7", 7, func(g *graph) string { return g.op("Dropout", in(g.input()), floatA("ratio", 0.4)) })
	add("Dropout-opset12", 12, func(g *graph) string { return g.op("Dropout", in(g.input(), g.scalar(0.5))) })
	add("Dropout-not-training", 13, func(g *graph) string {
		off := g.initializer(&onnx.Tensor{Name: "off", Type: onnx.Bool, Ints: []int64{0}}, nil)
		return g.many("Dropout", 2, in(g.input(), g.scalar(0.5), off))[0]
	})
	add("Cast-float", 13, func(g *graph) string { return g.op("Cast", in(g.input()), intA("to", int64(onnx.Float))) })
	add("Identity-chain", 13, func(g *graph) string {
		return g.op("Identity", in(g.op("Identity", in(g.op("Identity", in(g.input()))))))
	})
	return all
}

func broadcastCases() []operatorCase {
	var all []operatorCase
	add := func(name string, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: 17, dims: []int{2, 3}, build: build})
	}
	shapes := []struct {
		name  string
		shape []int
	}{{"full", []int{1, 2, 3}}, {"row", []int{3}}, {"column", []int{2, 1}}, {"matrix", []int{2, 3}}, {"one", []int{1}}, {"ones", []int{1, 1, 1}}, {"longer", []int{1, 1, 2, 1}}}
	for _, kind := range []string{"Add", "Sub", "Mul", "Div", "Min", "Max", "Sum"} {
		for _, s := range shapes {
			add(kind+"-"+s.name, func(g *graph) string { return g.op(kind, in(g.input(), g.positive(s.shape...))) })
			add(kind+"-"+s.name+"-first", func(g *graph) string { return g.op(kind, in(g.positive(s.shape...), g.above(0.3))) })
		}
		add(kind+"-itself", func(g *graph) string {
			x := g.above(0.3)
			return g.op(kind, in(x, g.op("Tanh", in(x))))
		})
		add(kind+"-outer", func(g *graph) string {
			x := g.above(0.3)
			col := g.op("Slice", in(x, g.ints(0), g.ints(1), g.ints(2)))
			row := g.op("Slice", in(x, g.ints(1), g.ints(2), g.ints(1)))
			return g.op(kind, in(col, row))
		})
		add(kind+"-parameters", func(g *graph) string {
			return g.op("Mul", in(g.input(), g.op(kind, in(g.positive(2, 1), g.positive(3)))))
		})
	}
	add("PRelu-channel", func(g *graph) string { return g.op("PRelu", in(g.input(), g.param(2, 1))) })
	add("PRelu-full", func(g *graph) string { return g.op("PRelu", in(g.input(), g.param(2, 3))) })
	add("PRelu-one", func(g *graph) string { return g.op("PRelu", in(g.input(), g.param(1))) })
	add("Pow-scalar", func(g *graph) string { return g.op("Pow", in(g.input(), g.scalar(2))) })
	add("Pow-cube", func(g *graph) string { return g.op("Pow", in(g.input(), g.scalar(3))) })
	add("Pow-integer", func(g *graph) string { return g.op("Pow", in(g.input(), g.int(3))) })
	add("Pow-root", func(g *graph) string { return g.op("Pow", in(g.above(0.2), g.scalar(0.5))) })
	add("Pow-exponents", func(g *graph) string { return g.op("Pow", in(g.above(0.2), g.param(3))) })
	add("Pow-bases", func(g *graph) string { return g.op("Pow", in(g.positive(2, 3), g.input())) })
	add("Min-three", func(g *graph) string { return g.op("Min", in(g.input(), g.param(3), g.param(2, 1))) })
	add("Max-three", func(g *graph) string { return g.op("Max", in(g.input(), g.param(3), g.param(2, 1))) })
	add("Max-one", func(g *graph) string { return g.op("Max", in(g.input())) })
	add("Sum-four", func(g *graph) string { return g.op("Sum", in(g.input(), g.param(3), "x", g.param(1))) })
	// Integers that become numbers: 7/2 is 3 between integers, 3.5 after a Cast.
	add("Div-integers", func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("Div", in(g.int(7), g.int(2)))))
	})
	add("Div-cast", func(g *graph) string {
		seven := g.op("Cast", in(g.int(7)), intA("to", int64(onnx.Double)))
		two := g.op("Cast", in(g.int(2)), intA("to", int64(onnx.Double)))
		return g.op("Mul", in(g.input(), g.op("Div", in(seven, two))))
	})
	add("Cast-truncates", func(g *graph) string {
		half := g.op("Constant", nil, &onnx.Attribute{Name: "value_floats", Type: onnx.AttrFloats, Floats: []float32{2.9, -2.9, 0.5}})
		whole := g.op("Cast", in(half), intA("to", int64(onnx.Int64)))
		return g.op("Add", in(g.input(), whole))
	})
	add("Cast-bool", func(g *graph) string {
		truth := g.op("Cast", in(g.ints(5, 0, -3)), intA("to", int64(onnx.Bool)))
		return g.op("Add", in(g.input(), g.op("Cast", in(truth), intA("to", int64(onnx.Double)))))
	})
	add("Constant-tensor", func(g *graph) string {
		v := &onnx.Tensor{Dims: []int64{2, 1}, Type: onnx.Float, Floats: []float64{0.5, -2}}
		return g.op("Mul", in(g.input(), g.op("Constant", nil, tensorA("value", v))))
	})
	add("Constant-integers", func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("Constant", nil, intsA("value_ints", 2, 3, 4))))
	})
	add("Constant-integer", func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("Constant", nil, intA("value_int", 3))))
	})
	add("layer-norm-by-hand", func(g *graph) string {
		x := g.input()
		mean := g.op("ReduceMean", in(x), intsA("axes", -1))
		d := g.op("Sub", in(x, mean))
		variance := g.op("ReduceMean", in(g.op("Pow", in(d, g.scalar(2)))), intsA("axes", -1))
		sd := g.op("Sqrt", in(g.op("Add", in(variance, g.scalar(1e-5)))))
		return g.op("Add", in(g.op("Mul", in(g.op("Div", in(d, sd)), g.param(3))), g.param(3)))
	})
	return all
}

// batchVector is the vector that holds the batch size alone, as read from x.
func (g *graph) batchVector() string {
	return g.op("Gather", in(g.op("Shape", in("x")), g.ints(0)))
}

func (g *graph) cast(name string, to onnx.DataType) string {
	return g.op("Cast", in(name), intA("to", int64(to)))
}

// TestIntegerDivisors checks Div and Mod in the arithmetic of shapes with divisors
// that are zero, contain the batch size, or are −1. want is part of the error; if
// it is empty, the model must be read and compute what the evaluator computes.
func TestIntegerDivisors(t *testing.T) {
	zero := "integer division by zero"
	mixes := "mix examples"
	for _, c := range []struct {
		name, want string
		build      func(g *graph) string // a vector of one integer, added to −1 and 3 as the shape of N×6
	}{
		{"Div by zero", zero, func(g *graph) string { return g.op("Div", in(g.ints(6), g.ints(0))) }},
		{"Mod by zero", zero, func(g *graph) string { return g.op("Mod", in(g.ints(6), g.ints(0))) }},
		{"fmod by zero", zero, func(g *graph) string { return g.op("Mod", in(g.ints(6), g.ints(0)), intA("fmod", 1)) }},
		{"Div of N by zero", zero, func(g *graph) string { return g.op("Div", in(g.batchVector(), g.ints(0))) }},
		{"Mod of N by zero", zero, func(g *graph) string { return g.op("Mod", in(g.batchVector(), g.ints(0))) }},
		{"fmod of N by zero", zero, func(g *graph) string { return g.op("Mod", in(g.batchVector(), g.ints(0)), intA("fmod", 1)) }},
		{"Div by N−N", zero, func(g *graph) string {
			return g.op("Div", in(g.ints(6), g.op("Sub", in(g.batchVector(), g.batchVector()))))
		}},
		{"Div by a cast N−N", zero, func(g *graph) string {
			none := g.op("Sub", in(g.cast(g.batchVector(), onnx.Float), g.cast(g.batchVector(), onnx.Float)))
			return g.cast(g.op("Div", in(g.cast(g.batchVector(), onnx.Float), none)), onnx.Int64)
		}},
		{"Mod by N−N", zero, func(g *graph) string {
			return g.op("Mod", in(g.ints(6), g.op("Sub", in(g.batchVector(), g.batchVector()))))
		}},
		{"Div by N", mixes, func(g *graph) string { return g.op("Div", in(g.ints(6), g.batchVector())) }},
		{"Mod by N", mixes, func(g *graph) string { return g.op("Mod", in(g.ints(6), g.batchVector())) }},
		{"Div of zero by N", "", func(g *graph) string {
			return g.op("Add", in(g.op("Div", in(g.ints(0), g.batchVector())), g.ints(2)))
		}},
		{"Div of a cast zero by N", "", func(g *graph) string {
			n := g.cast(g.batchVector(), onnx.Float)
			return g.op("Add", in(g.cast(g.op("Div", in(g.op("Sub", in(n, n)), n)), onnx.Int64), g.ints(2)))
		}},
		{"Div by −1", "", func(g *graph) string { return g.op("Div", in(g.ints(-2), g.ints(-1))) }},
		{"fmod of 3N+2 by −3", "", func(g *graph) string {
			n := g.op("Add", in(g.op("Mul", in(g.batchVector(), g.ints(3))), g.ints(2)))
			return g.op("Mod", in(n, g.ints(-3)), intA("fmod", 1))
		}},
		{"Div of the least integer by −1", "range of any shape", func(g *graph) string { return g.op("Div", in(g.ints(math.MinInt64), g.ints(-1))) }},
		{"Mod of the least integer by −1", "range of any shape", func(g *graph) string { return g.op("Mod", in(g.ints(math.MinInt64), g.ints(-1))) }},
		{"Sub of the least integer", "range of any shape", func(g *graph) string { return g.op("Sub", in(g.ints(0), g.ints(math.MinInt64))) }},
		{"Mul of the largest integers", "range of any shape", func(g *graph) string { return g.op("Mul", in(g.ints(math.MaxInt64), g.ints(math.MaxInt64))) }},
		{"Cast of NaN", "NaN", func(g *graph) string {
			return g.cast(g.op("Constant", nil, &onnx.Attribute{Name: "value_floats", Type: onnx.AttrFloats, Floats: []float32{float32(math.NaN())}}), onnx.Int64)
		}},
		{"Cast of a scalar NaN", "NaN", func(g *graph) string {
			return g.cast(g.op("Unsqueeze", in(g.op("Constant", nil, floatA("value_float", float32(math.NaN()))), g.ints(0))), onnx.Int64)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGraph(13, 6)
			x := g.input()
			m := g.output(g.op("Reshape", in(x, g.op("Concat", in(g.ints(-1), c.build(g), g.ints(3)), intA("axis", 0)))))
			net, err := load(m)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				requireOneLine(t, err)
				return
			}
			require.NoError(t, err)
			for rows := 1; rows < 6; rows++ {
				requireEvaluated(t, m, net, gaussianMatrix(rand.New(rand.NewPCG(1, 2)), rows, 6), nil)
			}
		})
	}
}

func normCases() []operatorCase {
	var all []operatorCase
	add := func(name string, opset int64, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: opset, dims: dims, build: build})
	}
	v, m, image := []int{4}, []int{3, 4}, []int{4, 2, 3}
	batch := func(name string, opset int64, dims []int, attrs ...*onnx.Attribute) {
		add("BatchNormalization-"+name, opset, dims, func(g *graph) string {
			c := dims[0]
			return g.op("BatchNormalization", in(g.input(), g.param(c), g.param(c), g.param(c), g.positive(c)), attrs...)
		})
	}
	batch("vector", 17, v)
	batch("image", 13, image, floatA("epsilon", 0.01), floatA("momentum", 0.5))
	batch("sequence-opset7", 7, m)
	batch("opset14", 14, image, intA("training_mode", 0))
	add("BatchNormalization-renamed-statistics", 13, v, func(g *graph) string {
		// Exporters share equal tensors under other names: here the bias and
		// the mean, both zero.
		zero := g.of(make([]float64, 4), 4)
		return g.op("BatchNormalization", in(g.input(), g.op("Identity", in(g.param(4))), zero, g.op("Identity", in(zero)), g.op("Identity", in(g.positive(4)))))
	})
	layer := func(name string, dims, scale []int, attrs ...*onnx.Attribute) {
		add("LayerNormalization-"+name, 17, dims, func(g *graph) string {
			return g.op("LayerNormalization", in(g.input(), g.param(scale...), g.param(scale...)), attrs...)
		})
	}
	layer("last", m, []int{4})
	layer("axis1", m, []int{3, 4}, intA("axis", 1))
	layer("axis-2", image, []int{2, 3}, intA("axis", -2), floatA("epsilon", 0.1))
	layer("axis2-broadcast", image, []int{3}, intA("axis", 2))
	layer("scale-of-one", m, []int{1})
	add("LayerNormalization-no-bias", 17, m, func(g *graph) string {
		return g.op("LayerNormalization", in(g.input(), g.param(4)))
	})
	add("LayerNormalization-more-outputs", 17, m, func(g *graph) string {
		return g.many("LayerNormalization", 3, in(g.input(), g.param(4), g.param(4)), intA("stash_type", 1))[0]
	})
	add("LayerNormalization-of-positions", 17, m, func(g *graph) string {
		y := g.op("LayerNormalization", in(g.op("Reshape", in(g.input(), g.ints(-1, 4))), g.param(4), g.param(4)))
		return g.op("Reshape", in(y, g.ints(-1, 3, 4)))
	})
	add("LayerNormalization-time-first", 17, m, func(g *graph) string {
		x := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2))
		return g.op("Transpose", in(g.op("LayerNormalization", in(x, g.param(4), g.param(4)))), intsA("perm", 1, 0, 2))
	})
	for _, dims := range [][]int{m, image} {
		name := map[int]string{2: "sequence", 3: "image"}[len(dims)]
		add("InstanceNormalization-"+name, 13, dims, func(g *graph) string {
			return g.op("InstanceNormalization", in(g.input(), g.param(dims[0]), g.param(dims[0])), floatA("epsilon", 0.02))
		})
	}
	group := func(name string, opset int64, n int64, size int) {
		add("GroupNormalization-"+name, opset, image, func(g *graph) string {
			return g.op("GroupNormalization", in(g.input(), g.param(size), g.param(size)), intA("num_groups", n))
		})
	}
	group("opset18", 18, 2, 2)
	group("opset20-one", 20, 1, 1)
	group("opset21", 21, 2, 4)
	group("opset21-each", 21, 4, 4)
	add("GroupNormalization-sequence-opset18", 18, []int{4, 3}, func(g *graph) string {
		return g.op("GroupNormalization", in(g.input(), g.param(2), g.param(2)), intA("num_groups", 2))
	})
	for _, kind := range []string{"Softmax", "LogSoftmax"} {
		// Behind a Mul, so that it is not taken for the head.
		soft := func(name string, opset int64, dims []int, attrs ...*onnx.Attribute) {
			add(kind+"-"+name, opset, dims, func(g *graph) string {
				return g.op("Mul", in(g.op(kind, in(g.input()), attrs...), g.param(1)))
			})
		}
		soft("opset11-default", 11, []int{2, 3}) // over all of 2×3
		soft("opset11-axis2", 11, []int{2, 3}, intA("axis", 2))
		soft("opset11-axis-1", 11, []int{2, 3}, intA("axis", -1))
		soft("opset13-default", 13, []int{2, 3})
		soft("opset13-axis1", 13, []int{2, 3}, intA("axis", 1))
		soft("opset13-axis-2", 13, []int{3, 2, 2}, intA("axis", -2))
		soft("opset13-vector", 13, []int{3})
	}
	reduce := func(name string, opset int64, dims []int, build func(g *graph, kind, x string) string) {
		for _, kind := range []string{"ReduceMean", "ReduceSum"} {
			add(kind+"-"+name, opset, dims, func(g *graph) string { return build(g, kind, g.input()) })
		}
	}
	reduce("attribute", 11, image, func(g *graph, kind, x string) string { return g.op(kind, in(x), intsA("axes", 1, -1)) })
	reduce("attribute-drop", 11, image, func(g *graph, kind, x string) string {
		return g.op(kind, in(x), intsA("axes", 1, 3), intA("keepdims", 0))
	})
	reduce("input", 18, image, func(g *graph, kind, x string) string { return g.op(kind, in(x, g.ints(2, -1))) })
	reduce("input-drop", 18, image, func(g *graph, kind, x string) string {
		return g.op(kind, in(x, g.ints(-2)), intA("keepdims", 0))
	})
	reduce("noop", 18, m, func(g *graph, kind, x string) string { return g.op(kind, in(x), intA("noop_with_empty_axes", 1)) })
	reduce("noop-empty", 18, m, func(g *graph, kind, x string) string {
		return g.op(kind, in(x, g.ints()), intA("noop_with_empty_axes", 1))
	})
	reduce("parameters-all", 18, m, func(g *graph, kind, x string) string {
		return g.op("Mul", in(x, g.op(kind, in(g.param(2, 2)), intA("keepdims", 0))))
	})
	reduce("batch-moves", 13, m, func(g *graph, kind, x string) string {
		y := g.op("Transpose", in(x), intsA("perm", 1, 0, 2)) // T×N×D
		if kind == "ReduceSum" {
			return g.op(kind, in(y, g.ints(0)), intA("keepdims", 0))
		}
		return g.op(kind, in(y), intsA("axes", 0), intA("keepdims", 0))
	})
	return all
}
