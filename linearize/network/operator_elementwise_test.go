package network_test

import (
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
