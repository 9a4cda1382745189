package network_test

import "github.com/funcgp/funcgp/internal/onnx"

func convolutionCases() []operatorCase {
	var all []operatorCase
	add := func(kind, name string, dims []int, weight []int, bias int, attrs ...*onnx.Attribute) {
		all = append(all, operatorCase{name: kind + "-" + name, opset: 13, dims: dims, build: func(g *graph) string {
			args := in(g.input(), g.param(weight...))
			if bias > 0 {
				args = append(args, g.param(bias))
			}
			return g.op(kind, args, attrs...)
		}})
	}
	flat, image, cube := []int{2, 7}, []int{2, 5, 4}, []int{2, 3, 4, 3}
	conv := func(name string, dims, weight []int, attrs ...*onnx.Attribute) {
		add("Conv", name, dims, weight, weight[0], attrs...)
	}
	conv("1d", flat, []int{3, 2, 3})
	conv("2d", image, []int{3, 2, 3, 2}, intsA("kernel_shape", 3, 2))
	conv("3d", cube, []int{2, 2, 2, 2, 3})
	conv("1x1", image, []int{3, 2, 1, 1})
	conv("whole", image, []int{3, 2, 5, 4})
	conv("strides", image, []int{3, 2, 2, 2}, intsA("strides", 2, 3))
	conv("strides-over-kernel", flat, []int{3, 2, 1}, intsA("strides", 3))
	conv("pads", image, []int{2, 2, 3, 3}, intsA("pads", 1, 2, 0, 1))
	conv("pads-beyond-kernel", flat, []int{2, 2, 2}, intsA("pads", 3, 4))
	conv("dilations", image, []int{2, 2, 2, 2}, intsA("dilations", 3, 2))
	conv("strides-pads-dilations", flat, []int{2, 2, 3}, intsA("dilations", 2), intsA("pads", 2, 1), intsA("strides", 2))
	conv("groups", []int{4, 5}, []int{6, 2, 3}, intA("group", 2))
	conv("depthwise", []int{3, 4, 4}, []int{3, 1, 2, 2}, intA("group", 3))
	conv("depthwise-multiplier", []int{2, 5}, []int{6, 1, 2}, intA("group", 2), intsA("strides", 2))
	for _, mode := range []string{"SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"} {
		conv("auto-"+mode, image, []int{2, 2, 2, 3}, textA("auto_pad", mode))
		conv("auto-strides-"+mode, image, []int{2, 2, 3, 2}, textA("auto_pad", mode), intsA("strides", 2, 3))
		conv("auto-dilations-"+mode, flat, []int{2, 2, 2}, textA("auto_pad", mode), intsA("dilations", 3))
	}
	add("Conv", "no-bias", image, []int{2, 2, 2, 2}, 0)
	// More weights than output gradients: kept as factors, not as columns.
	add("Conv", "wide", []int{5, 3}, []int{7, 5, 3}, 7)

	up := func(name string, dims, weight []int, attrs ...*onnx.Attribute) {
		group := 1
		for _, a := range attrs {
			if a.Name == "group" {
				group = int(a.I)
			}
		}
		add("ConvTranspose", name, dims, weight, weight[1]*group, attrs...)
	}
	small, flatSmall := []int{2, 3, 2}, []int{2, 3}
	up("1d", flatSmall, []int{2, 3, 3})
	up("2d", small, []int{2, 3, 3, 2}, intsA("kernel_shape", 3, 2))
	up("3d", []int{1, 2, 3, 2}, []int{1, 2, 2, 1, 3})
	up("strides", small, []int{2, 2, 3, 2}, intsA("strides", 2, 3))
	up("pads", small, []int{2, 2, 3, 3}, intsA("pads", 1, 0, 1, 2))
	up("dilations", small, []int{2, 2, 2, 2}, intsA("dilations", 2, 3))
	up("groups", []int{4, 3}, []int{4, 2, 2}, intA("group", 2), intsA("strides", 2))
	up("output-padding", small, []int{2, 2, 3, 3}, intsA("strides", 3, 2), intsA("output_padding", 2, 1), intsA("pads", 1, 1, 1, 1))
	up("output-shape", small, []int{2, 2, 3, 3}, intsA("strides", 3, 2), intsA("output_shape", 8, 4))
	up("output-shape-odd", small, []int{2, 2, 3, 3}, intsA("strides", 3, 2), intsA("output_shape", 6, 2))
	up("output-shape-larger", small, []int{2, 2, 2, 2}, intsA("strides", 3, 2), intsA("output_shape", 10, 8))
	for _, mode := range []string{"SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"} {
		up("auto-"+mode, small, []int{2, 2, 3, 3}, textA("auto_pad", mode), intsA("strides", 2, 2))
		up("auto-output-shape-"+mode, flatSmall, []int{2, 1, 4}, textA("auto_pad", mode), intsA("strides", 2), intsA("output_shape", 5))
	}
	up("wide", []int{5, 2}, []int{5, 7, 3})
	add("ConvTranspose", "no-bias", small, []int{2, 2, 2, 2}, 0)
	all = append(all,
		operatorCase{name: "Conv-frozen-weight", opset: 13, dims: image, build: func(g *graph) string {
			w := g.op("Constant", nil, tensorA("value", &onnx.Tensor{Dims: []int64{1, 2, 1, 2}, Type: onnx.Float, Floats: []float64{1, -2, 0.5, 3}}))
			return g.op("Conv", in(g.input(), w, g.param(1)))
		}},
		operatorCase{name: "Conv-chain", opset: 13, dims: []int{1, 6, 6}, build: func(g *graph) string {
			h := g.op("Tanh", in(g.op("Conv", in("x", g.param(3, 1, 3, 3), g.param(3)), intsA("strides", 2, 2), intsA("pads", 1, 1, 1, 1))))
			h = g.op("Tanh", in(g.op("ConvTranspose", in(h, g.param(3, 2, 2, 2), g.param(2)), intsA("strides", 2, 2))))
			return g.op("Gemm", in(g.op("Flatten", in(h)), g.spread(0, 0.2, 72, 2), g.param(2)))
		}},
		operatorCase{name: "Conv-bias-from-scaled", opset: 13, dims: image, build: func(g *graph) string {
			return g.op("Conv", in(g.input(), g.param(2, 2, 2, 2), g.op("Mul", in(g.param(2), g.scalar(2)))))
		}})
	return all
}

func poolCases() []operatorCase {
	var all []operatorCase
	add := func(kind, name string, opset int64, dims []int, attrs ...*onnx.Attribute) {
		all = append(all, operatorCase{name: kind + "-" + name, opset: opset, dims: dims, build: func(g *graph) string { return g.op(kind, in(g.input()), attrs...) }})
	}
	flat, image := []int{2, 7}, []int{2, 5, 4}
	for _, kind := range []string{"MaxPool", "AveragePool"} {
		add(kind, "1d", 11, flat, intsA("kernel_shape", 3))
		add(kind, "2d", 11, image, intsA("kernel_shape", 2, 3), intsA("strides", 2, 1))
		add(kind, "3d", 11, []int{1, 3, 2, 4}, intsA("kernel_shape", 2, 2, 2), intsA("strides", 1, 1, 2))
		add(kind, "pads", 11, image, intsA("kernel_shape", 3, 3), intsA("pads", 1, 2, 2, 0))
		add(kind, "2x2", 11, image, intsA("kernel_shape", 2, 2), intsA("strides", 2, 2))
		add(kind, "2x2-pads", 11, image, intsA("kernel_shape", 2, 2), intsA("strides", 2, 2), intsA("pads", 1, 0, 0, 1))
		add(kind, "ceil", 11, image, intsA("kernel_shape", 2, 3), intsA("strides", 2, 2), intA("ceil_mode", 1))
		add(kind, "ceil-pads", 11, flat, intsA("kernel_shape", 3), intsA("strides", 3), intsA("pads", 1, 1), intA("ceil_mode", 1))
		// The last window would start in the right padding: left out.
		add(kind, "ceil-dropped", 11, []int{1, 5}, intsA("kernel_shape", 2), intsA("strides", 3), intsA("pads", 1, 1), intA("ceil_mode", 1))
		add(kind, "dilations", 19, flat, intsA("kernel_shape", 2), intsA("dilations", 3), intsA("strides", 2))
		for _, mode := range []string{"SAME_UPPER", "SAME_LOWER", "VALID"} {
			add(kind, "auto-"+mode, 11, image, intsA("kernel_shape", 2, 3), intsA("strides", 2, 2), textA("auto_pad", mode))
		}
	}
	add("AveragePool", "include-pads", 11, image, intsA("kernel_shape", 3, 3), intsA("pads", 1, 2, 2, 0), intA("count_include_pad", 1))
	add("AveragePool", "include-pads-ceil", 11, flat, intsA("kernel_shape", 3), intsA("strides", 3), intsA("pads", 1, 1), intA("ceil_mode", 1), intA("count_include_pad", 1))
	add("AveragePool", "include-pads-auto", 11, image, intsA("kernel_shape", 3, 3), textA("auto_pad", "SAME_LOWER"), intA("count_include_pad", 1))
	add("GlobalAveragePool", "1d", 11, flat)
	add("GlobalAveragePool", "2d", 11, image)
	add("GlobalMaxPool", "2d", 11, image)
	add("GlobalMaxPool", "3d", 11, []int{2, 2, 2, 2})
	return all
}
