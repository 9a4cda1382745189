package network_test

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
)

// A specCase is a calculation whose result is known: worked out by hand, or
// an example in the ONNX operator documentation (marked "doc").
type specCase struct {
	name  string
	opset int64
	dims  []int
	x     []float64 // one example
	build func(g *graph, x string) string
	want  []float64
}

func count(from, to int) []float64 {
	var v []float64
	for i := from; i <= to; i++ {
		v = append(v, float64(i))
	}
	return v
}

func ones(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

func repeatRows(times int, rows ...[]float64) []float64 {
	var v []float64
	for _, r := range rows {
		for range times {
			v = append(v, r...)
		}
	}
	return v
}

func specCases() []specCase {
	var all []specCase
	add := func(name string, opset int64, dims []int, x, want []float64, build func(g *graph, x string) string) {
		all = append(all, specCase{name, opset, dims, x, build, want})
	}
	nine := func(g *graph, kind, x string) string { return g.op(kind, in(x, g.of(ones(9), 1, 1, 3, 3))) }
	add("Conv without padding (doc)", 11, []int{1, 5, 5}, count(0, 24), []float64{54, 63, 72, 99, 108, 117, 144, 153, 162},
		func(g *graph, x string) string { return nine(g, "Conv", x) })
	add("Conv with padding (doc)", 11, []int{1, 5, 5}, count(0, 24),
		[]float64{12, 21, 27, 33, 24, 33, 54, 63, 72, 51, 63, 99, 108, 117, 81, 93, 144, 153, 162, 111, 72, 111, 117, 123, 84},
		func(g *graph, x string) string {
			return g.op("Conv", in(x, g.of(ones(9), 1, 1, 3, 3)), intsA("pads", 1, 1, 1, 1))
		})
	add("Conv with strides (doc)", 11, []int{1, 7, 5}, count(0, 34), []float64{12, 27, 24, 63, 108, 81, 123, 198, 141, 112, 177, 124},
		func(g *graph, x string) string {
			return g.op("Conv", in(x, g.of(ones(9), 1, 1, 3, 3)), intsA("pads", 1, 1, 1, 1), intsA("strides", 2, 2))
		})
	add("Conv with SAME_LOWER (doc)", 11, []int{1, 5, 5}, count(0, 24), []float64{12, 27, 24, 63, 108, 81, 72, 117, 84},
		func(g *graph, x string) string {
			return g.op("Conv", in(x, g.of(ones(9), 1, 1, 3, 3)), textA("auto_pad", "SAME_LOWER"), intsA("strides", 2, 2))
		})
	up := []float64{0, 1, 3, 3, 2, 3, 8, 15, 12, 7, 9, 21, 36, 27, 15, 9, 20, 33, 24, 13, 6, 13, 21, 15, 8}
	add("ConvTranspose (doc)", 11, []int{1, 3, 3}, count(0, 8), repeatRows(2, up),
		func(g *graph, x string) string { return g.op("ConvTranspose", in(x, g.of(ones(18), 1, 2, 3, 3))) })
	add("ConvTranspose with dilations (doc)", 11, []int{1, 3, 3}, []float64{3, 8, 1, 9, 5, 7, 3, 2, 6},
		[]float64{21, 56, 13, 16, 2, 63, 35, 67, 10, 14, 24, 22, 76, 76, 21, 9, 5, 88, 45, 63, 3, 2, 33, 18, 54},
		func(g *graph, x string) string {
			return g.op("ConvTranspose", in(x, g.of([]float64{7, 2, 1, 9}, 1, 1, 2, 2)), intsA("dilations", 2, 2))
		})
	add("ConvTranspose with pads (doc)", 11, []int{1, 3, 3}, count(0, 8),
		repeatRows(1, []float64{1, 1, 3, 1, 1, 3}, repeatRows(3, []float64{7, 4, 9}), []float64{13, 7, 15, 13, 7, 15}),
		func(g *graph, x string) string {
			return g.op("ConvTranspose", in(x, g.of(ones(9), 1, 1, 3, 3)), intsA("strides", 3, 2), intsA("pads", 1, 2, 1, 2))
		})
	add("ConvTranspose with output_shape (doc)", 11, []int{1, 3, 3}, count(0, 8),
		repeatRows(1, repeatRows(3, []float64{0, 0, 1, 1, 3, 2, 2, 0}, []float64{3, 3, 7, 4, 9, 5, 5, 0}, []float64{6, 6, 13, 7, 15, 8, 8, 0}), make([]float64, 8)),
		func(g *graph, x string) string {
			return g.op("ConvTranspose", in(x, g.of(ones(9), 1, 1, 3, 3)), intsA("strides", 3, 2), intsA("output_shape", 10, 8))
		})
	add("ConvTranspose with SAME_UPPER (doc)", 11, []int{1, 3, 3}, count(0, 8),
		[]float64{0, 0, 1, 1, 3, 2, 0, 0, 1, 1, 3, 2, 3, 3, 8, 5, 12, 7, 3, 3, 7, 4, 9, 5, 9, 9, 20, 11, 24, 13, 6, 6, 13, 7, 15, 8},
		func(g *graph, x string) string {
			return g.op("ConvTranspose", in(x, g.of(ones(9), 1, 1, 3, 3)), textA("auto_pad", "SAME_UPPER"), intsA("strides", 2, 2))
		})
	add("AveragePool with pads (doc)", 11, []int{1, 5, 5}, count(1, 25),
		[]float64{7, 7.5, 8, 8.5, 9, 9.5, 10, 10.5, 11, 11.5, 12, 12.5, 13, 13.5, 14, 14.5, 15, 15.5, 16, 16.5, 17, 17.5, 18, 18.5, 19},
		func(g *graph, x string) string {
			return g.op("AveragePool", in(x), intsA("kernel_shape", 5, 5), intsA("pads", 2, 2, 2, 2))
		})
	add("AveragePool counting pads (doc)", 11, []int{1, 5, 5}, count(1, 25),
		[]float64{2.52, 3.6, 4.8, 4.08, 3.24, 4.56, 6.4, 8.4, 7.04, 5.52, 7.2, 10, 13, 10.8, 8.4, 6.96, 9.6, 12.4, 10.24, 7.92, 6.12, 8.4, 10.8, 8.88, 6.84},
		func(g *graph, x string) string {
			return g.op("AveragePool", in(x), intsA("kernel_shape", 5, 5), intsA("pads", 2, 2, 2, 2), intA("count_include_pad", 1))
		})
	add("AveragePool SAME_UPPER (doc)", 11, []int{1, 5, 5}, count(1, 25), []float64{4, 5.5, 7, 11.5, 13, 14.5, 19, 20.5, 22},
		func(g *graph, x string) string {
			return g.op("AveragePool", in(x), intsA("kernel_shape", 3, 3), intsA("strides", 2, 2), textA("auto_pad", "SAME_UPPER"))
		})
	add("AveragePool ceil_mode (doc)", 11, []int{1, 4, 4}, count(1, 16), []float64{6, 7.5, 12, 13.5},
		func(g *graph, x string) string {
			return g.op("AveragePool", in(x), intsA("kernel_shape", 3, 3), intsA("strides", 2, 2), intA("ceil_mode", 1))
		})
	add("MaxPool with pads (doc)", 11, []int{1, 5, 5}, count(1, 25),
		repeatRows(1, []float64{13, 14, 15, 15, 15, 18, 19, 20, 20, 20}, repeatRows(3, []float64{23, 24, 25, 25, 25})),
		func(g *graph, x string) string {
			return g.op("MaxPool", in(x), intsA("kernel_shape", 5, 5), intsA("pads", 2, 2, 2, 2))
		})
	add("MaxPool SAME_UPPER (doc)", 11, []int{1, 5, 5}, count(1, 25), []float64{7, 9, 10, 17, 19, 20, 22, 24, 25},
		func(g *graph, x string) string {
			return g.op("MaxPool", in(x), intsA("kernel_shape", 3, 3), intsA("strides", 2, 2), textA("auto_pad", "SAME_UPPER"))
		})
	add("MaxPool ceil_mode (doc)", 11, []int{1, 4, 4}, count(1, 16), []float64{11, 12, 15, 16},
		func(g *graph, x string) string {
			return g.op("MaxPool", in(x), intsA("kernel_shape", 3, 3), intsA("strides", 2, 2), intA("ceil_mode", 1))
		})
	add("MaxPool dilations (doc)", 11, []int{1, 4, 4}, count(1, 16), []float64{11, 12, 15, 16},
		func(g *graph, x string) string {
			return g.op("MaxPool", in(x), intsA("kernel_shape", 2, 2), intsA("dilations", 2, 2))
		})
	scales := func(g *graph, v ...float64) string { return g.float32s(append([]float64{1, 1}, v...), 4) }
	add("Resize up (doc)", 11, []int{1, 2, 2}, count(1, 4), repeatRows(2, []float64{1, 1, 1, 2, 2, 2}, []float64{3, 3, 3, 4, 4, 4}),
		func(g *graph, x string) string { return g.op("Resize", in(x, "", scales(g, 2, 3))) })
	add("Resize down (doc)", 13, []int{1, 2, 4}, count(1, 8), []float64{1, 3},
		func(g *graph, x string) string {
			return g.op("Resize", in(x, "", scales(g, float64(float32(0.6)), float64(float32(0.6)))))
		})
	add("Resize down to sizes (doc)", 13, []int{1, 2, 4}, count(1, 8), []float64{1, 2, 4},
		func(g *graph, x string) string { return g.op("Resize", in(x, "", "", g.batchAnd(1, 1, 3))) })
	quarters := func(row []float64, times ...int) []float64 {
		var v []float64
		for i, n := range times {
			shifted := make([]float64, len(row))
			for j := range row {
				shifted[j] = row[j] + float64(4*i)
			}
			v = append(v, repeatRows(n, shifted)...)
		}
		return v
	}
	add("Resize ceil half_pixel (doc)", 13, []int{1, 4, 4}, count(1, 16), quarters([]float64{1, 2, 2, 3, 3, 4, 4, 4}, 1, 2, 2, 3),
		func(g *graph, x string) string {
			return g.op("Resize", in(x, "", "", g.batchAnd(1, 8, 8)), textA("coordinate_transformation_mode", "half_pixel"), textA("nearest_mode", "ceil"))
		})
	add("Resize floor align_corners (doc)", 13, []int{1, 4, 4}, count(1, 16), quarters([]float64{1, 1, 1, 2, 2, 3, 3, 4}, 3, 2, 2, 1),
		func(g *graph, x string) string {
			return g.op("Resize", in(x, "", "", g.batchAnd(1, 8, 8)), textA("coordinate_transformation_mode", "align_corners"), textA("nearest_mode", "floor"))
		})
	add("Resize round_prefer_ceil asymmetric (doc)", 13, []int{1, 4, 4}, count(1, 16), quarters([]float64{1, 2, 2, 3, 3, 4, 4, 4}, 1, 2, 2, 3),
		func(g *graph, x string) string {
			return g.op("Resize", in(x, "", "", g.batchAnd(1, 8, 8)), textA("coordinate_transformation_mode", "asymmetric"), textA("nearest_mode", "round_prefer_ceil"))
		})
	add("Upsample (doc)", 9, []int{1, 2, 2}, count(1, 4), repeatRows(2, []float64{1, 1, 1, 2, 2, 2}, []float64{3, 3, 3, 4, 4, 4}),
		func(g *graph, x string) string { return g.op("Upsample", in(x, scales(g, 2, 3))) })
	// float32(0.01) = 10737418·2⁻³⁰, not 0.01.
	add("LeakyRelu keeps float32 digits", 16, []int{2}, []float64{-1, 2}, []float64{-10737418.0 / (1 << 30), 2},
		func(g *graph, x string) string { return g.op("LeakyRelu", in(x)) })
	add("Softmax before opset 13", 11, []int{2, 2}, []float64{0, 0, 0, 0}, []float64{.25, .25, .25, .25},
		func(g *graph, x string) string {
			return g.op("Mul", in(g.op("Softmax", in(x)), g.of([]float64{1}, 1)))
		})
	add("Softmax from opset 13", 13, []int{2, 2}, []float64{0, 0, 0, 0}, []float64{.5, .5, .5, .5},
		func(g *graph, x string) string {
			return g.op("Mul", in(g.op("Softmax", in(x)), g.of([]float64{1}, 1)))
		})
	// Mean 1, variance 1 in each group; scale one number a group until 20.
	add("GroupNormalization opset 18", 18, []int{4, 1}, []float64{0, 2, 0, 2}, []float64{-9, 11, -99, 101},
		func(g *graph, x string) string {
			return g.op("GroupNormalization", in(x, g.of([]float64{10, 100}, 2), g.of([]float64{1, 1}, 2)), intA("num_groups", 2), floatA("epsilon", 0))
		})
	add("GroupNormalization opset 21", 21, []int{4, 1}, []float64{0, 2, 0, 2}, []float64{-9, 21, -29, 41},
		func(g *graph, x string) string {
			return g.op("GroupNormalization", in(x, g.of([]float64{10, 20, 30, 40}, 4), g.of(ones(4), 4)), intA("num_groups", 2), floatA("epsilon", 0))
		})
	add("LayerNormalization", 17, []int{2, 2}, []float64{0, 2, 5, 9}, []float64{-1, 3, -1, 3},
		func(g *graph, x string) string {
			return g.op("LayerNormalization", in(x, g.of([]float64{1, 3}, 2)), floatA("epsilon", 0))
		})
	add("Pad reflect (doc)", 13, []int{3, 2}, []float64{1, 1.2, 2.3, 3.4, 4.5, 5.7}, []float64{1, 1.2, 1, 1.2, 2.3, 3.4, 2.3, 3.4, 4.5, 5.7, 4.5, 5.7},
		func(g *graph, x string) string {
			return g.op("Pad", in(x, g.ints(0, 0, 2, 0, 0, 0)), textA("mode", "reflect"))
		})
	add("Pad wrap", 19, []int{3, 2}, []float64{1, 1.2, 2.3, 3.4, 4.5, 5.7}, []float64{3.4, 2.3, 3.4, 2.3, 5.7, 4.5, 5.7, 4.5, 1.2, 1, 1.2, 1, 3.4, 2.3, 3.4, 2.3},
		func(g *graph, x string) string {
			y := g.op("Pad", in(x, g.ints(0, 2, 1, 0, 1, 1)), textA("mode", "wrap")) // 6×4
			y = g.op("Slice", in(y, g.ints(0), g.ints(4), g.ints(1)))
			return y
		})
	add("Slice backwards (doc)", 13, []int{20}, count(0, 19), []float64{19, 18, 17},
		func(g *graph, x string) string {
			return g.op("Slice", in(x, g.ints(-1), g.ints(16), g.ints(1), g.ints(-1)))
		})
	add("Gather (doc)", 13, []int{3, 3}, []float64{1, 1.2, 1.9, 2.3, 3.4, 3.9, 4.5, 5.7, 5.9}, []float64{1, 1.9, 2.3, 3.9, 4.5, 5.9},
		func(g *graph, x string) string { return g.op("Gather", in(x, g.ints(0, 2)), intA("axis", 2)) })
	add("Split uneven by opset 18 (doc)", 18, []int{7}, count(1, 7), []float64{7, 4, 5, 6},
		func(g *graph, x string) string {
			p := g.many("Split", 3, in(x), intA("axis", 1), intA("num_outputs", 3))
			return g.op("Concat", in(p[2], p[1]), intA("axis", 1))
		})
	add("Mod of integers (doc)", 13, []int{6}, make([]float64, 6), []float64{0, -2, 5, 0, 2, 3},
		func(g *graph, x string) string {
			return g.op("Add", in(x, g.op("Mod", in(g.ints(-4, 7, 5, 4, -7, 8), g.ints(2, -3, 8, -2, 3, 5)))))
		})
	add("HardSwish", 14, []int{3}, []float64{-4, 1, 5}, []float64{0, 1 * (1.0/6 + 0.5), 5},
		func(g *graph, x string) string { return g.op("HardSwish", in(x)) })
	return append(all, resizeSpecs()...)
}

// TestOperatorsByHand compares with numbers that come from elsewhere than this
// repository's code. 1e-14: what rounding a handful of sums leaves.
func TestOperatorsByHand(t *testing.T) {
	for _, c := range specCases() {
		t.Run(c.name, func(t *testing.T) {
			g := newGraph(c.opset, c.dims...)
			// A parameter of zeros makes it a network.
			x := g.op("Add", in("x", g.of(make([]float64, size(c.dims)), c.dims...)))
			net := mustLoad(t, g.output(c.build(g, x)))
			f := testref.Must(net.Forward(t.Context(), mat.NewDense(1, len(c.x), c.x)))(t)
			testref.RequireClose(t, f.RawMatrix().Data, c.want, 1e-14, "f")
		})
	}
}
