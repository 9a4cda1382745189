package network_test

import (
	"math"

	"github.com/funcgp/funcgp/internal/onnx"
)

func shapeCases() []operatorCase {
	var all []operatorCase
	add := func(name string, opset int64, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: opset, dims: dims, build: build})
	}
	m, c := []int{2, 3}, []int{2, 3, 4}
	simple := func(kind, name string, opset int64, dims []int, attrs ...*onnx.Attribute) {
		add(kind+"-"+name, opset, dims, func(g *graph) string { return g.op(kind, in(g.input()), attrs...) })
	}
	simple("Flatten", "default", 13, c)
	simple("Flatten", "axis1", 13, m, intA("axis", 1))
	simple("Flatten", "axis2", 13, c, intA("axis", 2))
	simple("Flatten", "axis-1", 13, c, intA("axis", -1))
	simple("Flatten", "axis-rank", 13, m, intA("axis", 3))
	simple("Flatten", "axis0", 13, m, intA("axis", 0))

	reshape := func(name string, dims []int, target ...int64) {
		add("Reshape-"+name, 14, dims, func(g *graph) string { return g.op("Reshape", in(g.input(), g.ints(target...))) })
	}
	reshape("zero", c, 0, 3, 8)
	reshape("zeros", c, 0, 0, -1)
	reshape("open-batch", c, -1, 24)
	reshape("open-rest", c, 0, -1)
	reshape("positions", c, -1, 4)
	reshape("vector", c, -1)
	reshape("leading-one", c, 1, -1, 24)
	reshape("trailing-ones", m, -1, 1, 6, 1)
	add("Reshape-allowzero", 14, m, func(g *graph) string {
		return g.op("Reshape", in(g.input(), g.ints(-1, 3, 2)), intA("allowzero", 1))
	})
	add("Reshape-positions-and-back", 14, c, func(g *graph) string {
		y := g.op("Tanh", in(g.op("Reshape", in(g.input(), g.ints(-1, 4)))))
		return g.op("Reshape", in(g.op("MatMul", in(y, g.param(4, 2))), g.ints(-1, 2, 6)))
	})
	add("Reshape-weight", 14, []int{4}, func(g *graph) string {
		return g.op("MatMul", in(g.input(), g.op("Reshape", in(g.param(8), g.ints(4, -1)))))
	})
	add("Reshape-time-first", 14, c, func(g *graph) string {
		y := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2, 3)) // T×N×3×4
		y = g.op("Reshape", in(y, g.ints(2, -1, 6)))                     // T×2N×6
		return g.op("Transpose", in(y), intsA("perm", 1, 0, 2))
	})

	add("Reshape-time-first-rows", 14, c, func(g *graph) string {
		// T·N rows, split differently, and back.
		y := g.op("Transpose", in(g.input()), intsA("perm", 2, 0, 1, 3)) // 3×N×2×4
		y = g.op("Tanh", in(g.op("Reshape", in(y, g.ints(-1, 4)))))      // 3·N·2 rows
		y = g.op("MatMul", in(y, g.param(4, 2)))
		y = g.op("Reshape", in(y, g.ints(3, -1, 4)))
		return g.op("Transpose", in(y), intsA("perm", 1, 0, 2))
	})
	add("Reshape-part-of-time", 14, []int{4, 3}, func(g *graph) string {
		y := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2)) // 4×N×3
		y = g.op("Reshape", in(y, g.ints(2, -1, 3)))                  // 2×2N×3
		y = g.op("Sub", in(g.op("Gather", in(y, g.int(1))), g.op("Gather", in(y, g.int(0)))))
		return g.op("Transpose", in(g.op("Reshape", in(y, g.ints(2, -1, 3)))), intsA("perm", 1, 2, 0))
	})
	add("Flatten-time-first", 14, m, func(g *graph) string {
		y := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2))
		y = g.op("Flatten", in(y), intA("axis", 2)) // 2·N × 3
		y = g.op("Gemm", in(y, g.param(3, 2), g.param(2)))
		return g.op("Transpose", in(g.op("Reshape", in(y, g.ints(2, -1, 2)))), intsA("perm", 1, 0, 2))
	})
	add("Shape-of-time-first-rows", 14, m, func(g *graph) string {
		y := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2))
		rows := g.op("Reshape", in(y, g.ints(-1, 3)))
		tall := g.op("Gather", in(g.op("Shape", in(rows)), g.ints(0))) // 2N
		n := g.op("Div", in(tall, g.ints(2)))
		back := g.op("Reshape", in(g.op("Softmax", in(rows), intA("axis", 1)), g.op("Concat", in(g.ints(2), n, g.ints(3)), intA("axis", 0))))
		return g.op("ReduceMean", in(back), intsA("axes", 0), intA("keepdims", 0))
	})

	simple("Transpose", "swap", 13, c, intsA("perm", 0, 3, 1, 2))
	simple("Transpose", "same", 13, m, intsA("perm", 0, 1, 2))
	simple("Transpose", "examples-second", 13, m, intsA("perm", 1, 0, 2))
	simple("Transpose", "examples-last", 13, m, intsA("perm", 2, 1, 0))
	add("Transpose-default", 13, []int{3}, func(g *graph) string {
		return g.op("Transpose", in(g.op("Tanh", in(g.op("Transpose", in(g.input()))))))
	})
	add("Transpose-batch-moves", 13, c, func(g *graph) string {
		y := g.op("Add", in(g.op("Transpose", in(g.input()), intsA("perm", 3, 1, 0, 2)), g.param(4, 1, 1, 3)))
		return g.op("Transpose", in(y), intsA("perm", 2, 0, 1, 3))
	})

	squeeze := func(name string, opset int64, dims []int, build func(g *graph, x string) string) {
		add("Squeeze-"+name, opset, dims, func(g *graph) string { return build(g, g.input()) })
	}
	squeeze("attribute", 11, []int{1, 3, 1}, func(g *graph, x string) string { return g.op("Squeeze", in(x), intsA("axes", 1, -1)) })
	squeeze("input", 13, []int{1, 3, 1}, func(g *graph, x string) string { return g.op("Squeeze", in(x, g.ints(3))) })
	squeeze("all", 13, []int{1, 3, 1}, func(g *graph, x string) string { return g.op("Squeeze", in(x)) })
	squeeze("before-batch", 13, []int{3}, func(g *graph, x string) string {
		return g.op("Squeeze", in(g.op("Unsqueeze", in(x, g.ints(0))), g.ints(0)))
	})
	add("Unsqueeze-attribute", 11, m, func(g *graph) string { return g.op("Unsqueeze", in(g.input()), intsA("axes", 1, -1)) })
	add("Unsqueeze-input", 13, m, func(g *graph) string { return g.op("Unsqueeze", in(g.input(), g.ints(-1, 2))) })
	add("Unsqueeze-first", 13, m, func(g *graph) string { return g.op("Unsqueeze", in(g.input(), g.ints(0))) })

	concat := func(name string, ax int64, build func(g *graph) []string) {
		add("Concat-"+name, 13, m, func(g *graph) string { return g.op("Concat", build(g), intA("axis", ax)) })
	}
	concat("axis1", 1, func(g *graph) []string { return in(g.input(), "x", g.op("Tanh", in(g.input()))) })
	concat("axis-1", -1, func(g *graph) []string { return in(g.input(), g.op("Neg", in("x"))) })
	concat("one", 2, func(g *graph) []string { return in(g.input()) })
	add("Concat-token", 13, m, func(g *graph) string {
		token := g.op("Expand", in(g.param(1, 1, 3), g.batchAnd(1, 3)))
		return g.op("Concat", in(token, g.input()), intA("axis", 1))
	})
	add("Concat-parameters", 13, []int{3}, func(g *graph) string {
		return g.op("MatMul", in(g.input(), g.op("Concat", in(g.param(3, 1), g.param(3, 2)), intA("axis", 1))))
	})

	slice := func(name string, dims []int, build func(g *graph, x string) string) {
		add("Slice-"+name, 13, dims, func(g *graph) string { return build(g, g.input()) })
	}
	slice("axes", c, func(g *graph, x string) string { return g.op("Slice", in(x, g.ints(1, 0), g.ints(3, 1), g.ints(2, 1))) })
	slice("steps", c, func(g *graph, x string) string {
		return g.op("Slice", in(x, g.ints(0, 0), g.ints(9, 9), g.ints(3, 2), g.ints(2, 3)))
	})
	slice("negative-steps", c, func(g *graph, x string) string {
		return g.op("Slice", in(x, g.ints(-1, 9), g.ints(math.MinInt64, 0), g.ints(-1, 2), g.ints(-2, -1)))
	})
	slice("negative-bounds", c, func(g *graph, x string) string {
		return g.op("Slice", in(x, g.ints(-3), g.ints(-1), g.ints(3)))
	})
	slice("whole-batch", c, func(g *graph, x string) string {
		return g.op("Slice", in(x, g.ints(0, 1), g.ints(math.MaxInt64, math.MaxInt64)))
	})
	slice("to-the-end", c, func(g *graph, x string) string {
		return g.op("Slice", in(x, g.ints(1), g.ints(math.MaxInt64), g.ints(1)))
	})
	add("Slice-opset9", 9, c, func(g *graph) string {
		return g.op("Slice", in(g.input()), intsA("starts", 1, 0), intsA("ends", 3, 2), intsA("axes", 2, 3))
	})
	add("Slice-opset9-no-axes", 9, m, func(g *graph) string {
		return g.op("Slice", in(g.input()), intsA("starts", 0, 1), intsA("ends", math.MaxInt64, 2))
	})

	split := func(name string, opset int64, build func(g *graph, x string) []string) {
		add("Split-"+name, opset, []int{2, 5}, func(g *graph) string {
			out := build(g, g.input())
			y := out[0]
			for _, p := range out[1:] {
				y = g.op("Concat", in(g.op("Tanh", in(p)), y), intA("axis", 2))
			}
			return y
		})
	}
	split("attribute", 11, func(g *graph, x string) []string {
		return g.many("Split", 2, in(x), intsA("split", 2, 3), intA("axis", -1))
	})
	split("input", 13, func(g *graph, x string) []string {
		return g.many("Split", 3, in(x, g.ints(1, 3, 1)), intA("axis", 2))
	})
	split("equal", 13, func(g *graph, x string) []string { return g.many("Split", 5, in(x), intA("axis", 2)) })
	split("num-outputs", 18, func(g *graph, x string) []string {
		return g.many("Split", 3, in(x), intA("axis", 2), intA("num_outputs", 3))
	})
	add("Split-one-part-used", 13, c, func(g *graph) string {
		return g.many("Split", 2, in(g.input(), g.ints(1, 3)), intA("axis", 3))[1]
	})
	add("Split-of-weight", 13, []int{3}, func(g *graph) string {
		w := g.many("Split", 2, in(g.param(3, 4), g.ints(2, 2)), intA("axis", 1))
		return g.op("Mul", in(g.op("MatMul", in(g.input(), w[0])), g.op("MatMul", in("x", w[1]))))
	})
	add("Split-whole-weight", 13, []int{3}, func(g *graph) string {
		w := g.many("Split", 1, in(g.param(3, 2), g.ints(3)), intA("axis", 0))
		return g.op("MatMul", in(g.input(), w[0]))
	})

	gather := func(name string, dims []int, build func(g *graph, x string) string) {
		add("Gather-"+name, 13, dims, func(g *graph) string { return build(g, g.input()) })
	}
	gather("scalar", c, func(g *graph, x string) string { return g.op("Gather", in(x, g.int(1)), intA("axis", 2)) })
	gather("negative", c, func(g *graph, x string) string { return g.op("Gather", in(x, g.int(-1)), intA("axis", -1)) })
	gather("vector", c, func(g *graph, x string) string { return g.op("Gather", in(x, g.ints(2, 0, -3, 2)), intA("axis", 3)) })
	gather("matrix", c, func(g *graph, x string) string {
		at := g.initializer(&onnx.Tensor{Name: "at", Type: onnx.Int32, Ints: []int64{0, 1, 1, 0, 1, 1}}, []int{2, 3})
		return g.op("Gather", in(x, at), intA("axis", 1))
	})
	gather("before-batch", m, func(g *graph, x string) string {
		y := g.op("Transpose", in(x), intsA("perm", 1, 0, 2))
		return g.op("Gather", in(y, g.int(1)), intA("axis", 0))
	})
	gather("vector-before-batch", m, func(g *graph, x string) string {
		y := g.op("Gather", in(g.op("Transpose", in(x), intsA("perm", 2, 0, 1)), g.ints(2, 1)), intA("axis", 0))
		return g.op("Transpose", in(y), intsA("perm", 1, 2, 0))
	})
	add("Gather-of-parameters", 13, m, func(g *graph) string {
		return g.op("Add", in(g.input(), g.op("Gather", in(g.param(5, 3), g.ints(4, 1)))))
	})

	add("Expand-channels", 13, []int{2, 1, 3}, func(g *graph) string { return g.op("Expand", in(g.input(), g.ints(1, 1, 4, 1))) })
	add("Expand-shorter", 13, []int{2, 1}, func(g *graph) string { return g.op("Expand", in(g.input(), g.ints(2, 3))) })
	add("Expand-longer", 13, m, func(g *graph) string {
		return g.op("Transpose", in(g.op("Expand", in(g.input(), g.ints(2, 1, 1, 1)))), intsA("perm", 1, 0, 2, 3))
	})
	add("Expand-parameters", 13, m, func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("Expand", in(g.param(1, 3), g.ints(2, 3)))))
	})
	add("Expand-to-shape-of-input", 13, m, func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("Expand", in(g.param(3), g.op("Shape", in("x"))))))
	})
	add("Expand-with-batch", 13, []int{1, 3}, func(g *graph) string {
		return g.op("Expand", in(g.input(), g.batchAnd(4, 1)))
	})

	pad := func(name string, opset int64, dims []int, build func(g *graph, x string) string) {
		add("Pad-"+name, opset, dims, func(g *graph) string { return build(g, g.input()) })
	}
	pad("attribute", 7, m, func(g *graph, x string) string {
		return g.op("Pad", in(x), intsA("pads", 0, 1, 0, 0, 2, 1), floatA("value", 0.3))
	})
	pad("input", 11, m, func(g *graph, x string) string { return g.op("Pad", in(x, g.ints(0, 1, 0, 0, 0, 2))) })
	pad("value", 13, m, func(g *graph, x string) string {
		return g.op("Pad", in(x, g.ints(0, 0, 3, 0, 1, 0), g.scalar(-1.5)))
	})
	pad("crop", 13, []int{4, 4}, func(g *graph, x string) string { return g.op("Pad", in(x, g.ints(0, -1, 2, 0, 1, -3))) })
	pad("axes", 18, c, func(g *graph, x string) string {
		return g.op("Pad", in(x, g.ints(1, 0, 2, 1), "", g.ints(3, -3)), textA("mode", "constant"))
	})
	for _, mode := range []string{"constant", "reflect", "edge", "wrap"} {
		pad(mode, 19, []int{2, 4}, func(g *graph, x string) string {
			return g.op("Pad", in(x, g.ints(0, 1, 2, 0, 0, 3)), textA("mode", mode))
		})
	}
	pad("reflect-far", 13, []int{1, 3}, func(g *graph, x string) string {
		return g.op("Pad", in(x, g.ints(0, 2, 5, 0, 0, 7)), textA("mode", "reflect"))
	})
	// What PyTorch makes of nn.ConstantPad2d((1, 2, 0, 1)).
	pad("from-pytorch", 13, c, func(g *graph, x string) string {
		rest := g.op("ConstantOfShape", in(g.ints(4)), tensorA("value", &onnx.Tensor{Dims: []int64{1}, Type: onnx.Int64, Ints: []int64{0}}))
		pads := g.op("Concat", in(g.ints(1, 2, 0, 1), rest), intA("axis", 0))
		pads = g.op("Reshape", in(pads, g.ints(-1, 2)))
		pads = g.op("Slice", in(pads, g.ints(-1), g.ints(math.MinInt64), g.ints(0), g.ints(-1)))
		pads = g.op("Reshape", in(g.op("Transpose", in(pads), intsA("perm", 1, 0)), g.ints(-1)))
		pads = g.op("Cast", in(pads), intA("to", int64(onnx.Int64)))
		return g.op("Pad", in(x, pads, g.scalar(0.5)), textA("mode", "constant"))
	})
	return all
}

func resizeCases() []operatorCase {
	var all []operatorCase
	add := func(name string, opset int64, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: opset, dims: dims, build: build})
	}
	image := []int{1, 3, 4}
	empty := func(g *graph) string { return g.float32s(nil, 0) }
	for _, mode := range []string{"asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"} {
		for _, round := range []string{"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"} {
			attrs := []*onnx.Attribute{textA("mode", "nearest"), textA("coordinate_transformation_mode", mode), textA("nearest_mode", round)}
			add("Resize-"+mode+"-"+round, 13, image, func(g *graph) string {
				return g.op("Resize", in(g.input(), "", g.float32s([]float64{1, 1, 2, 1.5}, 4)), attrs...)
			})
			add("Resize-down-"+mode+"-"+round, 13, []int{1, 5, 7}, func(g *graph) string {
				return g.op("Resize", in(g.input(), "", "", g.batchAnd(1, 2, 3)), attrs...)
			})
		}
	}
	add("Resize-default", 13, image, func(g *graph) string {
		return g.op("Resize", in(g.input(), "", g.float32s([]float64{1, 1, 2, 3}, 4)))
	})
	add("Resize-opset10", 10, image, func(g *graph) string {
		return g.op("Resize", in(g.input(), g.float32s([]float64{1, 1, 2, 0.5}, 4)))
	})
	add("Resize-opset11-empty-roi", 11, image, func(g *graph) string {
		return g.op("Resize", in(g.input(), empty(g), g.float32s([]float64{1, 1, 2, 2}, 4)), textA("coordinate_transformation_mode", "asymmetric"), textA("nearest_mode", "floor"))
	})
	// 0.7 in float32 is less than 0.7, and 10·0.7 still has 7 elements.
	add("Resize-rounded-scale", 13, []int{1, 10}, func(g *graph) string {
		return g.op("Resize", in(g.input(), "", g.float32s([]float64{1, 1, float64(float32(0.7))}, 3)))
	})
	add("Resize-scales-constant", 13, image, func(g *graph) string {
		v := &onnx.Tensor{Dims: []int64{4}, Type: onnx.Float, Floats: []float64{1, 1, 2, 2}}
		return g.op("Resize", in(g.input(), g.op("Constant", nil, tensorA("value", &onnx.Tensor{Dims: []int64{0}, Type: onnx.Float})), g.op("Constant", nil, tensorA("value", v))))
	})
	add("Upsample-opset7", 7, image, func(g *graph) string {
		return g.op("Upsample", in(g.input()), textA("mode", "nearest"), &onnx.Attribute{Name: "scales", Type: onnx.AttrFloats, Floats: []float32{1, 1, 2, 1.5}})
	})
	add("Upsample-opset9", 9, image, func(g *graph) string {
		return g.op("Upsample", in(g.input(), g.float32s([]float64{1, 1, 3, 2}, 4)))
	})
	return all
}

// integerCases compute shapes from shapes, with the batch size symbolic.
func integerCases() []operatorCase {
	var all []operatorCase
	add := func(name string, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: 15, dims: dims, build: build})
	}
	m, c := []int{2, 3}, []int{2, 3, 4}
	dim := func(g *graph, x string, ax int64) string {
		return g.op("Gather", in(g.op("Shape", in(x)), g.int(ax)), intA("axis", 0))
	}
	vec := func(g *graph, s string) string { return g.op("Unsqueeze", in(s, g.ints(0))) }
	add("Shape-view", c, func(g *graph) string {
		// x.view(x.size(0), -1), the commonest chain of all.
		x := g.input()
		return g.op("Reshape", in(x, g.op("Concat", in(vec(g, dim(g, x, 0)), g.ints(-1)), intA("axis", 0))))
	})
	add("Shape-slice", c, func(g *graph) string {
		x := g.input()
		head := g.op("Slice", in(g.op("Shape", in(x)), g.ints(0), g.ints(2), g.ints(0)))
		return g.op("Reshape", in(x, g.op("Concat", in(head, g.ints(-1)), intA("axis", 0))))
	})
	add("Shape-start-end", c, func(g *graph) string {
		x := g.input()
		return g.op("Reshape", in(x, g.op("Concat", in(g.op("Shape", in(x), intA("start", 0), intA("end", -2)), g.ints(12)), intA("axis", 0))))
	})
	add("Shape-fold-batch", c, func(g *graph) string {
		// N·2 rows, and back.
		x := g.input()
		n := dim(g, x, 0)
		rows := g.op("Mul", in(n, g.int(2)))
		y := g.op("Reshape", in(x, g.op("Concat", in(vec(g, rows), g.ints(12)), intA("axis", 0))))
		y = g.op("Tanh", in(g.op("MatMul", in(y, g.spread(0, 0.3, 12, 2)))))
		back := g.op("Div", in(dim(g, y, 0), g.int(2)))
		return g.op("Reshape", in(y, g.op("Concat", in(vec(g, back), g.ints(-1)), intA("axis", 0))))
	})
	add("Shape-arithmetic", c, func(g *graph) string {
		x := g.input()
		three, four := dim(g, x, 2), dim(g, x, 3)
		half := g.op("Div", in(g.op("Sub", in(g.op("Mul", in(three, four)), g.op("Mod", in(three, g.int(2))))), g.int(2))) // (12−1)/2 = 5
		six := g.op("Add", in(half, g.int(1)))
		return g.op("Reshape", in(x, g.op("Concat", in(vec(g, dim(g, x, 0)), vec(g, six), g.ints(-1)), intA("axis", 0))))
	})
	add("Shape-whole-ratio", c, func(g *graph) string {
		// N·2 / N is 2, whatever N.
		x := g.input()
		n := dim(g, x, 0)
		two := g.op("Div", in(g.op("Mul", in(n, g.int(2))), n))
		return g.op("Reshape", in(x, g.op("Concat", in(vec(g, n), vec(g, two), g.ints(-1)), intA("axis", 0))))
	})
	add("Shape-cast", c, func(g *graph) string {
		x := g.input()
		s := g.op("Cast", in(g.op("Shape", in(x))), intA("to", int64(onnx.Float)))
		s = g.op("Cast", in(s), intA("to", int64(onnx.Int64)))
		return g.op("Reshape", in(x, s))
	})
	add("Shape-squeeze", m, func(g *graph) string {
		x := g.input()
		n := g.op("Squeeze", in(g.op("Slice", in(g.op("Shape", in(x)), g.ints(0), g.ints(1))), g.ints(0)))
		return g.op("Reshape", in(x, g.op("Concat", in(vec(g, n), g.ints(6)), intA("axis", 0))))
	})
	add("Shape-reshape", m, func(g *graph) string {
		x := g.input()
		s := g.op("Reshape", in(g.op("Shape", in(x)), g.ints(-1)))
		return g.op("Reshape", in(g.op("Tanh", in(x)), s))
	})
	add("Shape-broadcast", m, func(g *graph) string {
		x := g.input()
		s := g.op("Add", in(g.op("Sub", in(g.op("Shape", in(x)), g.ints(0, 0, 1))), g.ints(0, 0, 1)))
		return g.op("Reshape", in(x, g.op("Mul", in(s, g.int(1)))))
	})
	add("Shape-of-parameter", m, func(g *graph) string {
		// The tensor enters only by its shape: it is no parameter.
		w := g.param(6, 5)
		six := g.op("Gather", in(g.op("Shape", in(w)), g.ints(0)))
		return g.op("Reshape", in(g.input(), g.op("Concat", in(g.ints(-1), six), intA("axis", 0))))
	})
	add("Range-index", []int{5}, func(g *graph) string {
		return g.op("Gather", in(g.input(), g.op("Range", in(g.int(4), g.int(0), g.int(-2)))), intA("axis", 1))
	})
	add("Range-positions", m, func(g *graph) string {
		x := g.input()
		at := g.op("Range", in(g.int(0), dim(g, x, 1), g.int(1)))
		return g.op("Add", in(x, g.op("Gather", in(g.param(5, 3), at))))
	})
	add("Range-float", []int{4}, func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("Range", in(g.scalar(0.5), g.scalar(2.5), g.scalar(0.5)))))
	})
	add("Range-as-numbers", []int{4}, func(g *graph) string {
		at := g.op("Range", in(g.int(1), g.int(5), g.int(1)))
		return g.op("Mul", in(g.input(), g.op("Cast", in(at), intA("to", int64(onnx.Double)))))
	})
	add("Mod-signs", []int{3}, func(g *graph) string {
		floor := g.op("Mod", in(g.ints(-7, 7, 7), g.ints(3, -3, 3)))
		trunc := g.op("Mod", in(g.ints(-7, 7, 7), g.ints(3, -3, 3)), intA("fmod", 1))
		return g.op("Mul", in(g.op("Add", in(g.input(), floor)), trunc))
	})
	add("Div-signs", []int{3}, func(g *graph) string {
		return g.op("Add", in(g.input(), g.op("Div", in(g.ints(-7, 7, 7), g.ints(2, -2, 2)))))
	})
	add("ConstantOfShape-zero", m, func(g *graph) string {
		return g.op("Concat", in(g.input(), g.op("ConstantOfShape", in(g.op("Shape", in("x"))))), intA("axis", 1))
	})
	add("ConstantOfShape-value", m, func(g *graph) string {
		v := &onnx.Tensor{Dims: []int64{1}, Type: onnx.Float, Floats: []float64{1.5}}
		return g.op("Mul", in(g.input(), g.op("ConstantOfShape", in(g.ints(2, 1)), tensorA("value", v))))
	})
	add("ConstantOfShape-scalar", m, func(g *graph) string {
		v := &onnx.Tensor{Dims: []int64{1}, Type: onnx.Float, Floats: []float64{1.5}}
		return g.op("Mul", in(g.input(), g.op("ConstantOfShape", in(g.ints()), tensorA("value", v))))
	})
	add("Transpose-integers", c, func(g *graph) string {
		s := g.op("Reshape", in(g.ints(4, 1, 3, 2), g.ints(2, 2)))
		s = g.op("Reshape", in(g.op("Transpose", in(s), intsA("perm", 1, 0)), g.ints(-1))) // 4 3 1 2
		return g.op("Reshape", in(g.input(), g.op("Concat", in(g.ints(-1), s), intA("axis", 0))))
	})
	add("Expand-integers", m, func(g *graph) string {
		return g.op("Add", in(g.input(), g.op("Expand", in(g.ints(2), g.ints(2, 3)))))
	})
	add("Split-integers", c, func(g *graph) string {
		x := g.input()
		s := g.many("Split", 4, in(g.op("Shape", in(x))), intA("axis", 0))
		return g.op("Reshape", in(x, g.op("Concat", in(s[0], s[3], s[1], s[2]), intA("axis", 0))))
	})
	add("Identity-integers", m, func(g *graph) string {
		x := g.input()
		return g.op("Reshape", in(x, g.op("Identity", in(g.op("Shape", in(x))))))
	})
	for _, n := range []int{1, 8} {
		fixed := func(name string, dims []int, build func(g *graph) string) {
			all = append(all, operatorCase{name: "fixed-batch-" + name, opset: 13, dims: dims, build: build, batch: n})
		}
		b := int64(n)
		fixed("view", c, func(g *graph) string { return g.op("Reshape", in(g.input(), g.ints(b, 24))) })
		fixed("view-open", c, func(g *graph) string { return g.op("Reshape", in(g.input(), g.ints(b, -1))) })
		fixed("positions", c, func(g *graph) string {
			y := g.op("MatMul", in(g.op("Reshape", in(g.input(), g.ints(2*b, 12))), g.spread(0, 0.3, 12, 2)))
			return g.op("Reshape", in(y, g.ints(b, 4)))
		})
		fixed("time-first", m, func(g *graph) string {
			y := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2))
			y = g.op("Reshape", in(y, g.ints(2, b, 3, 1)))
			return g.op("Transpose", in(y), intsA("perm", 1, 0, 2, 3))
		})
		fixed("time-first-rows", m, func(g *graph) string {
			y := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2))
			y = g.op("MatMul", in(g.op("Reshape", in(y, g.ints(2*b, 3))), g.param(3, 2)))
			return g.op("Transpose", in(g.op("Reshape", in(y, g.ints(2, b, 2)))), intsA("perm", 1, 0, 2))
		})
		fixed("time-first-rows-open", m, func(g *graph) string {
			y := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2))
			y = g.op("MatMul", in(g.op("Reshape", in(y, g.ints(-1, 3))), g.param(3, 2)))
			return g.op("Transpose", in(g.op("Reshape", in(y, g.ints(2, -1, 2)))), intsA("perm", 1, 0, 2))
		})
		fixed("token", m, func(g *graph) string {
			token := g.op("Expand", in(g.param(1, 1, 3), g.ints(b, 1, 3)))
			return g.op("Concat", in(token, g.input()), intA("axis", 1))
		})
		fixed("expand", []int{1, 3}, func(g *graph) string { return g.op("Expand", in(g.input(), g.ints(b, 4, 3))) })
		fixed("resize", []int{1, 2, 3}, func(g *graph) string {
			return g.op("Resize", in(g.input(), "", "", g.ints(b, 1, 4, 6)))
		})
		fixed("slice", m, func(g *graph) string {
			return g.op("Slice", in(g.input(), g.ints(0, 1), g.ints(b, 2), g.ints(0, 1)))
		})
		fixed("shape", c, func(g *graph) string {
			x := g.input()
			return g.op("Reshape", in(x, g.op("Concat", in(vec(g, dim(g, x, 0)), g.ints(-1)), intA("axis", 0))))
		})
		fixed("convolution", []int{1, 4, 4}, func(g *graph) string {
			y := g.op("Conv", in(g.input(), g.param(2, 1, 3, 3), g.param(2)))
			return g.op("Gemm", in(g.op("Reshape", in(y, g.ints(b, 8))), g.param(8, 2), g.param(2)))
		})
	}
	return all
}
