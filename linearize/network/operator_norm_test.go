package network_test

import "github.com/funcgp/funcgp/internal/onnx"

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
