package network_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// interpolationCases are Resize by linear and cubic interpolation, and the
// coordinates that only some versions have.
func interpolationCases() []operatorCase {
	var all []operatorCase
	add := func(name string, opset int64, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: opset, dims: dims, build: build})
	}
	image := []int{2, 3, 4}
	scaled := func(g *graph, attrs ...*onnx.Attribute) string {
		return g.op("Resize", in(g.input(), "", g.float32s([]float64{1, 1, 2, 1.5}, 4)), attrs...)
	}
	sized := func(g *graph, dims []int64, attrs ...*onnx.Attribute) string {
		return g.op("Resize", in(g.input(), "", "", g.batchAnd(dims...)), attrs...)
	}
	for _, mode := range []string{"linear", "cubic"} {
		for _, at := range []string{"asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners"} {
			attrs := []*onnx.Attribute{textA("mode", mode), textA("coordinate_transformation_mode", at)}
			add(fmt.Sprintf("Resize-%s-%s", mode, at), 19, image, func(g *graph) string { return scaled(g, attrs...) })
			add(fmt.Sprintf("Resize-%s-%s-down", mode, at), 19, []int{1, 5, 7}, func(g *graph) string { return sized(g, []int64{1, 2, 3}, attrs...) })
			add(fmt.Sprintf("Resize-%s-%s-to-one", mode, at), 19, []int{1, 5, 7}, func(g *graph) string { return sized(g, []int64{1, 1, 10}, attrs...) })
			add(fmt.Sprintf("Resize-%s-%s-exclude", mode, at), 19, []int{1, 3, 3}, func(g *graph) string {
				return sized(g, []int64{1, 5, 2}, append(attrs, intA("exclude_outside", 1))...)
			})
		}
		mode := textA("mode", mode)
		add("Resize-"+string(mode.S)+"-rounded-symmetric", 19, []int{1, 7}, func(g *graph) string {
			return g.op("Resize", in(g.input(), "", g.single(1, 1, 1.7)), mode, textA("coordinate_transformation_mode", "half_pixel_symmetric"))
		})
		add("Resize-"+string(mode.S)+"-crop", 13, []int{1, 4, 4}, func(g *graph) string {
			roi := g.single(0, 0, 0.4, -0.2, 1, 1, 1.3, 0.9)
			return g.op("Resize", in(g.input(), roi, "", g.batchAnd(1, 3, 5)), mode, textA("coordinate_transformation_mode", "tf_crop_and_resize"), floatA("extrapolation_value", 2.5))
		})
		add("Resize-"+string(mode.S)+"-crop-axes", 18, []int{2, 4}, func(g *graph) string {
			return g.op("Resize", in(g.input(), g.of([]float64{0.9, 0.1}, 2), "", g.ints(3)), mode, textA("coordinate_transformation_mode", "tf_crop_and_resize"), intsA("axes", -1))
		})
		add("Resize-"+string(mode.S)+"-crop-to-one", 18, []int{2, 4}, func(g *graph) string {
			return g.op("Resize", in(g.input(), g.of([]float64{0.2, 0.9}, 2), "", g.ints(1)), mode, textA("coordinate_transformation_mode", "tf_crop_and_resize"), intsA("axes", 2))
		})
		add("Resize-"+string(mode.S)+"-axes", 18, image, func(g *graph) string {
			return g.op("Resize", in(g.input(), "", "", g.ints(5, 3)), mode, intsA("axes", 3, 1))
		})
		add("Resize-"+string(mode.S)+"-axes-scales", 18, image, func(g *graph) string {
			return g.op("Resize", in(g.input(), "", g.float32s([]float64{2.5}, 1)), mode, intsA("axes", -2))
		})
		add("Resize-"+string(mode.S)+"-volume", 13, []int{1, 2, 3, 2}, func(g *graph) string { return sized(g, []int64{1, 3, 2, 4}, mode) })
		add("Resize-"+string(mode.S)+"-same", 13, image, func(g *graph) string { return sized(g, []int64{2, 3, 4}, mode) })
		for _, policy := range []string{"not_larger", "not_smaller"} {
			add("Resize-"+string(mode.S)+"-"+policy, 18, []int{1, 4, 6}, func(g *graph) string {
				return g.op("Resize", in(g.input(), "", "", g.ints(7, 8)), mode, intsA("axes", 2, 3), textA("keep_aspect_ratio_policy", policy))
			})
		}
		for _, exclude := range []int64{0, 1} {
			add(fmt.Sprintf("Resize-%s-antialias-%d", mode.S, exclude), 18, []int{1, 6, 5}, func(g *graph) string {
				return sized(g, []int64{1, 2, 7}, mode, intA("antialias", 1), intA("exclude_outside", exclude))
			})
		}
		add("Resize-"+string(mode.S)+"-antialias-to-one", 18, []int{7}, func(g *graph) string {
			return g.op("Resize", in(g.input(), "", g.single(0.2)), mode, intA("antialias", 1), intsA("axes", 1))
		})
		add("Resize-"+string(mode.S)+"-of-parameters", 13, []int{4}, func(g *graph) string {
			return g.op("Mul", in(g.input(), g.op("Resize", in(g.param(2), "", g.float32s([]float64{2}, 1)), mode)))
		})
	}
	add("Resize-cubic-coefficient", 13, image, func(g *graph) string { return scaled(g, textA("mode", "cubic"), floatA("cubic_coeff_a", -0.5)) })
	add("Resize-linear-time-first", 13, []int{3, 2}, func(g *graph) string {
		y := g.op("Transpose", in(g.input()), intsA("perm", 1, 2, 0)) // 3×2×N
		y = g.op("Resize", in(y, "", g.float32s([]float64{2, 1.5, 1}, 3)), textA("mode", "linear"))
		return g.op("Transpose", in(y), intsA("perm", 2, 0, 1))
	})
	add("Resize-linear-opset10", 10, image, func(g *graph) string {
		return g.op("Resize", in(g.input(), g.float32s([]float64{1, 1, 2, 0.5}, 4)), textA("mode", "linear"))
	})
	add("Upsample-linear", 9, image, func(g *graph) string {
		return g.op("Upsample", in(g.input(), g.float32s([]float64{1, 1, 2, 2}, 4)), textA("mode", "linear"))
	})
	add("Resize-nearest-crop", 13, []int{1, 4, 4}, func(g *graph) string {
		roi := g.single(0, 0, 0.4, -0.2, 1, 1, 1.3, 0.9)
		return g.op("Resize", in(g.input(), roi, "", g.batchAnd(1, 3, 5)), textA("coordinate_transformation_mode", "tf_crop_and_resize"), floatA("extrapolation_value", -1))
	})
	add("Resize-nearest-tf", 11, image, func(g *graph) string {
		return scaled(g, textA("coordinate_transformation_mode", "tf_half_pixel_for_nn"), textA("nearest_mode", "floor"))
	})
	add("Resize-nearest-axes", 18, image, func(g *graph) string {
		return g.op("Resize", in(g.input(), "", "", g.ints(5, 3)), intsA("axes", -1, 1))
	})
	return all
}

// resizeSpecs are the examples of the documentation whose results are binary
// fractions.
func resizeSpecs() []specCase {
	scales := func(g *graph, v ...float64) string { return g.float32s(append([]float64{1, 1}, v...), 4) }
	var cubic, asymmetric []float64
	for _, first := range []float64{0.47265625, 1.66015625, 3.56640625, 6.08203125, 7.70703125, 10.22265625, 12.12890625, 13.31640625} {
		for _, v := range []float64{0.47265625, 0.76953125, 1.24609375, 1.875, 2.28125, 2.91015625, 3.38671875, 3.68359375} {
			cubic = append(cubic, first+v-0.47265625)
		}
	}
	for _, first := range []float64{1, 2.625, 5, 7, 9, 11.375, 13, 13.375} {
		for _, v := range []float64{1, 1.40625, 2, 2.5, 3, 3.59375, 4, 4.09375} {
			asymmetric = append(asymmetric, first+v-1)
		}
	}
	resize := func(attrs ...*onnx.Attribute) func(g *graph, x string) string {
		return func(g *graph, x string) string { return g.op("Resize", in(x, "", scales(g, 2, 2)), attrs...) }
	}
	// torch.manual_seed(0); F.interpolate(torch.randn(1, 1, 6, 5, dtype=torch.float64), size=(2, 7), mode=…, antialias=True)
	x := []float64{-2.310411800234176, -0.3732508612577643, -1.0608166785462863, 0.9995093547811761, -0.8840250045832653, -1.2755469302148053, -0.623224579866079, -0.8664416019125772, -1.2956271403277857, 1.52363162310635, 0.3236605664983738, 2.0177260314861085, 1.1357423400213507, -1.226881339001083, 0.519998663178938, -0.9528856397032842, -0.09174174090816388, 0.5563227724483105, -0.009446277892507904, -1.21768777910687, -1.2654653080284903, -1.1195351830271254, -1.746404903728242, 1.041012457033509, 0.6539244967350809, 0.14821544548810084, -1.1461092231976013, 1.8727763768553416, -0.30991497424174674, 0.24018023403782535}
	smoothed := func(attrs ...*onnx.Attribute) func(g *graph, x string) string {
		return func(g *graph, x string) string {
			return g.op("Resize", in(x, "", "", g.batchAnd(1, 2, 7)), append(attrs, intA("antialias", 1), intA("exclude_outside", 1))...)
		}
	}
	return []specCase{
		{"Resize linear with antialias (PyTorch)", 18, []int{1, 6, 5}, x, smoothed(textA("mode", "linear")),
			[]float64{-1.094128612227413, -0.3740883438152993, 0.050917372840586686, -0.23664383879241147, -0.4561010670938746, -0.1701575615545023, 0.32814430092544067, -0.6352594682521828, -0.5448670182371353, -0.31381170310975226, 0.09434074093049116, 0.13922534810790235, 0.11803580894753592, 0.06584463290576135}},
		{"Resize cubic with antialias (PyTorch)", 18, []int{1, 6, 5}, x, smoothed(textA("mode", "cubic"), floatA("cubic_coeff_a", -0.5)),
			[]float64{-1.198740510409881, -0.3168747846479612, 0.23287187660568218, -0.270514896872883, -0.5306633788659425, -0.177291119647442, 0.33715024975261926, -0.5775518629034325, -0.5738403006091037, -0.3116351887827535, 0.21317715989472208, 0.1600826024422074, 0.07541615791721576, 0.04339069584809785}},
		{"Resize linear (doc)", 13, []int{1, 2, 2}, count(1, 4), resize(textA("mode", "linear")),
			[]float64{1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}},
		{"Resize cubic (doc)", 13, []int{1, 4, 4}, count(1, 16), resize(textA("mode", "cubic")), cubic},
		{"Resize cubic asymmetric (doc)", 13, []int{1, 4, 4}, count(1, 16), resize(textA("mode", "cubic"), textA("coordinate_transformation_mode", "asymmetric")), asymmetric},
		{"Resize linear to one column (doc)", 13, []int{1, 4, 4}, count(1, 16), func(g *graph, x string) string {
			return g.op("Resize", in(x, "", "", g.batchAnd(1, 3, 1)), textA("mode", "linear"), textA("coordinate_transformation_mode", "pytorch_half_pixel"))
		}, []float64{1 + 2.0/3, 7, 12 + 1.0/3}},
		{"Resize linear with antialias (doc)", 18, []int{1, 4, 4}, count(1, 16), func(g *graph, x string) string {
			return g.op("Resize", in(x, "", "", g.batchAnd(1, 3, 3)), textA("mode", "linear"), intA("antialias", 1))
		}, []float64{26. / 11, 39.5 / 11, 53. / 11, 80. / 11, 8.5, 107. / 11, 134. / 11, 147.5 / 11, 161. / 11}},
	}
}

// evalResize computes each element as the documentation's own program does: by
// the elements of the padded input that are nearest to its position.
func evalResize(e *evaluator) []*tensor {
	x := e.in(0)
	old := e.node.OpType == "Upsample" || e.opset < 11
	var axes []int
	for _, a := range e.ints("axes", nil) {
		axes = append(axes, x.normalAxis(a))
	}
	if e.node.Attr("axes") == nil {
		for d := range x.rank() {
			axes = append(axes, d)
		}
	}
	scales, shape := slices.Repeat([]float64{1}, x.rank()), slices.Clone(x.shape)
	resizeTo(e, x, old, axes, scales, shape)
	start, end := make([]float64, x.rank()), slices.Repeat([]float64{1}, x.rank())
	defMode, defRound := "half_pixel", "round_prefer_floor"
	if old {
		defMode, defRound = "asymmetric", "floor"
	}
	at, round := e.text("coordinate_transformation_mode", defMode), e.text("nearest_mode", defRound)
	if at == "tf_crop_and_resize" {
		for k, d := range axes {
			start[d], end[d] = e.in(1).at(k), e.in(1).at(len(axes)+k)
		}
	}
	return one(from(shape, false, func(idx []int) float64 {
		neighbours := make([][]neighbour, x.rank())
		for d, n := range x.shape {
			neighbours[d] = []neighbour{{idx[d], 1}}
			if !slices.Contains(axes, d) {
				continue
			}
			p := coordinate(at, float64(idx[d]), float64(n), float64(shape[d]), scales[d], start[d], end[d])
			if at == "tf_crop_and_resize" && (p < 0 || p > float64(n-1)) {
				return e.float("extrapolation_value", 0)
			}
			if mode := e.text("mode", "nearest"); mode == "nearest" {
				neighbours[d] = []neighbour{{int(limit(nearestOf(round, p), 0, float64(n-1))), 1}}
			} else {
				neighbours[d] = around(e, mode, p, n, scales[d])
			}
		}
		return weighted(x, neighbours, nil)
	}))
}

// resizeTo finds the scales and the shape of the result.
func resizeTo(e *evaluator, x *tensor, old bool, axes []int, scales []float64, shape []int) {
	var list []float64
	switch a := e.node.Attr("scales"); {
	case !old && e.has(3):
		check(len(e.in(3).data) == len(axes), "sizes")
		for k, d := range axes {
			shape[d] = e.in(3).ints()[k]
			scales[d] = float64(shape[d]) / float64(x.shape[d])
			list = append(list, scales[d])
		}
		scale := slices.Max(list)
		switch e.text("keep_aspect_ratio_policy", "stretch") {
		case "stretch":
			return
		case "not_larger":
			scale = slices.Min(list)
		}
		for _, d := range axes {
			scales[d], shape[d] = scale, int(math.Floor(scale*float64(x.shape[d])+0.5))
		}
		return
	case old && e.has(1):
		list = e.in(1).data
	case old && a != nil:
		for _, v := range a.Floats {
			list = append(list, float64(v))
		}
	default:
		list = e.in(2).data
	}
	check(len(list) == len(axes), "scales")
	for k, d := range axes {
		check(list[k] > 0, "scale")
		// Runtimes multiply in float32.
		scales[d], shape[d] = list[k], int(math.Floor(float64(float32(x.shape[d])*float32(list[k]))))
	}
}

// A neighbour is an element along an axis and its weight.
type neighbour struct {
	at     int
	weight float64
}

// around returns the neighbours of a position among n elements.
func around(e *evaluator, mode string, p float64, n int, scale float64) []neighbour {
	reach := map[string]int{"linear": 1, "cubic": 2}[mode]
	check(reach > 0, "mode %q", mode)
	stretch := 1.0
	if e.int("antialias", 0) != 0 {
		stretch = 1 / math.Min(scale, 1)
		reach = int(math.Ceil(float64(reach) * stretch))
	}
	a := e.float("cubic_coeff_a", -0.75)
	var positions []int
	for i := int(math.Floor(p)) - reach - 1; i <= int(math.Ceil(p))+reach+1; i++ {
		positions = append(positions, i)
	}
	slices.SortStableFunc(positions, func(i, j int) int { return cmp.Compare(math.Abs(float64(i)-p), math.Abs(float64(j)-p)) })
	var out []neighbour
	sum := 0.0
	for _, i := range positions[:2*reach] {
		w := 0.0
		switch d := math.Abs(float64(i)-p) / stretch; {
		case mode == "linear":
			w = math.Max(0, 1-d)
		case d <= 1:
			w = (a+2)*d*d*d - (a+3)*d*d + 1
		case d < 2:
			w = a*d*d*d - 5*a*d*d + 8*a*d - 4*a
		}
		if (i < 0 || i >= n) && e.int("exclude_outside", 0) != 0 {
			w = 0
		}
		sum += w
		out = append(out, neighbour{int(limit(float64(i), 0, float64(n-1))), w})
	}
	for k := range out {
		out[k].weight /= sum
	}
	return out
}

// weighted sums the elements at all combinations of neighbours of each axis.
func weighted(x *tensor, neighbours [][]neighbour, idx []int) float64 {
	if len(neighbours) == 0 {
		return x.at(idx...)
	}
	sum := 0.0
	for _, v := range neighbours[0] {
		sum += v.weight * weighted(x, neighbours[1:], append(slices.Clone(idx), v.at))
	}
	return sum
}

func coordinate(mode string, i, in, out, scale, start, end float64) float64 {
	half := (i+0.5)/scale - 0.5
	switch mode {
	case "half_pixel":
		return half
	case "half_pixel_symmetric":
		return in/2*(1-out/(scale*in)) + half
	case "pytorch_half_pixel":
		if out > 1 {
			return half
		}
		return 0
	case "align_corners":
		if out == 1 {
			return 0
		}
		return i * (in - 1) / (out - 1)
	case "tf_half_pixel_for_nn":
		return (i + 0.5) / scale
	case "tf_crop_and_resize":
		if out == 1 {
			return 0.5 * (start + end) * (in - 1)
		}
		return start*(in-1) + i*(end-start)*(in-1)/(out-1)
	}
	check(mode == "asymmetric", "mode %q", mode)
	return i / scale
}
func nearestOf(round string, x float64) float64 {
	whole := math.Floor(x)
	switch part := x - whole; round {
	case "floor":
		return whole
	case "ceil":
		return math.Ceil(x)
	case "round_prefer_floor":
		if part > 0.5 {
			whole++
		}
	case "round_prefer_ceil":
		if part >= 0.5 {
			whole++
		}
	default:
		check(false, "nearest_mode %q", round)
	}
	return whole
}
