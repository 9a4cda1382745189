package compile

import (
	"cmp"
	"math"
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Shapes", map[string]operator{
		"Resize":   {translate: (*compiler).resize, inputs: 4, roles: learnt.Sets | learnt.Prepares},
		"Upsample": {translate: (*compiler).resize, inputs: 2, roles: learnt.Sets | learnt.Prepares, note: "linear by asymmetric coordinates, which PyTorch does not use"},
	})
}

func (c *compiler) pad() {
	x := c.float(0)
	pads, given := c.intsOr(1, "pads")
	axes := upTo(len(x.shape))
	if c.has(3) {
		axes = c.constants(3)
	}
	if !given || len(pads) != 2*len(axes) {
		panic(refuse("%d pads for %d axes", len(pads), len(axes)))
	}
	fill := 0.0
	if c.has(2) {
		fill = c.bound(2, 0)
	} else {
		fill = c.attrFloat("value", 0)
	}
	begin, shape := make([]int, len(x.shape)), slices.Clone(x.shape)
	for i, a := range axes {
		a = axis(a, len(x.shape))
		lo, hi := pads[i], pads[len(axes)+i]
		if x.isBatch(a) && (lo != 0 || hi != 0) {
			panic(errMixes)
		}
		begin[a] = lo
		shape[a] += lo + hi
	}
	mode := c.attrString("mode", "constant")
	if !slices.Contains([]string{"", "constant", "edge", "wrap", "reflect"}, mode) {
		panic(refuse("mode=%q is not known", mode))
	}
	// Along a dimension of length n, element i + begin of the result reads element i of the input, or the fill
	// value (−1). Outside 0 ≤ i < n the mode maps i to an element.
	c.result(c.moved(x, shape, x.batch, func(d, i int) int {
		i, n := i-begin[d], x.shape[d]
		switch {
		case mode == "edge":
			return min(max(i, 0), n-1)
		case mode == "wrap":
			return ((i % n) + n) % n
		case mode == "reflect" && n == 1:
			return 0
		case mode == "reflect":
			period := 2 * (n - 1)
			i = ((i % period) + period) % period
			return min(i, period-i)
		case i < 0 || i >= n:
			return -1
		}
		return i
	}, fill))
}

// A resizing holds the attributes of a Resize.
type resizing struct {
	mode          string  // nearest, linear or cubic
	coordinates   string  // coordinate_transformation_mode
	rounding      string  // nearest_mode
	a             float64 // cubic_coeff_a
	exclude       bool    // elements outside the input get no weight
	antialias     bool    // stretch the filter where the result is smaller than the input
	extrapolation float64 // the number that tf_crop_and_resize writes outside the input
	axes          []resizedAxis
}

// A resizedAxis describes how one axis is resized from in to out elements. tf_crop_and_resize takes the part of the
// axis from start to end, as fractions of its length.
type resizedAxis struct {
	axis, in, out     int
	scale, start, end float64
}

// resize translates Resize and Upsample. Mode nearest copies elements. Modes linear and cubic apply a sparse linear
// map along each axis.
func (c *compiler) resize() {
	x := c.float(0)
	var r *resizing
	coordinates, rounding := "half_pixel", "round_prefer_floor"
	if c.oldResize() {
		coordinates, rounding = "asymmetric", "floor"
	}
	r = &resizing{mode: c.attrString("mode", "nearest"), coordinates: c.attrString("coordinate_transformation_mode", coordinates),
		rounding: c.attrString("nearest_mode", rounding), exclude: c.attrInt("exclude_outside", 0) != 0, antialias: c.attrInt("antialias", 0) != 0}
	if r.mode != "nearest" && r.mode != "linear" && (r.mode != "cubic" || c.oldResize()) {
		panic(refuse("mode=%q is not known", r.mode))
	}
	if rounded[r.rounding] == nil {
		panic(refuse("nearest_mode=%q is not known", r.rounding))
	}
	if !coordinateModes[r.coordinates] {
		panic(refuse("coordinate_transformation_mode=%q is not known", r.coordinates))
	}
	r.a = c.attrFloat("cubic_coeff_a", -0.75)
	r.extrapolation = c.attrFloat("extrapolation_value", 0)
	c.resizedAxes(r, x)
	if r.coordinates == "tf_crop_and_resize" { // it resizes a part of each axis
		roi := c.floats(1)
		n := len(r.axes)
		if len(roi) != 2*n {
			panic(refuse("a region of %d numbers for %d axes", len(roi), n))
		}
		for i := range r.axes {
			a := &r.axes[i]
			if a.start, a.end = roi[i], roi[n+i]; a.start-a.start != 0 || a.end-a.end != 0 {
				panic(refuse("its region goes from %v to %v", a.start, a.end))
			}
			if x.isBatch(a.axis) && (a.start != 0 || a.end != 1) {
				panic(errMixes)
			}
		}
	}
	if r.mode == "nearest" {
		// Copy the element nearest to each position.
		shape := slices.Clone(x.shape)
		of := make([]*resizedAxis, len(shape))
		for i := range r.axes {
			a := &r.axes[i]
			if !x.isBatch(a.axis) {
				shape[a.axis], of[a.axis] = a.out, a
			} else if r.coordinates == "tf_half_pixel_for_nn" && rounded[r.rounding](0.5) != 0 {
				panic(refuse("%s with nearest_mode=%s takes the next example for each, which would mix examples", r.coordinates, r.rounding))
			}
		}
		c.result(c.moved(x, shape, x.batch, func(d, i int) int {
			a := of[d]
			if a == nil {
				return i
			}
			at, inside := r.position(a, i)
			if !inside {
				return -1
			}
			return int(graph.Clamp(rounded[r.rounding](at), 0, float64(a.in-1)))
		}, r.extrapolation))
		return
	}
	// Resize the axes that shrink most first, so that fewer numbers are computed and kept.
	slices.SortStableFunc(r.axes, func(a, b resizedAxis) int { return cmp.Compare(a.out*b.in, b.out*a.in) })
	for _, a := range r.axes {
		x = c.interpolate(x, r, a)
	}
	c.result(x)
}

func (c *compiler) oldResize() bool { return c.node.OpType == "Upsample" || c.opset < 11 }

// resizedAxes reads the axes and their scales or their lengths in the result; a node gives one of the two. The
// batch axis must keep its length.
func (c *compiler) resizedAxes(r *resizing, x *value) {
	axes := c.attrInts("axes")
	if axes == nil {
		axes = upTo(len(x.shape))
	}
	seen := map[int]bool{}
	for i, a := range axes {
		a := axis(a, len(x.shape))
		if seen[a] {
			panic(refuse("axis %d is resized twice", a))
		}
		axes[i], seen[a] = a, true
	}
	var scales []float64
	var sizes []affine
	at, given := 2, 0
	if c.oldResize() {
		at = 1
	}
	switch {
	case c.has(3) && !c.oldResize():
		v := c.intsAt(3)
		sizes, given = v.ints, len(v.ints)
	case c.has(at):
		scales = c.floats(at)
		given = len(scales)
	default:
		scales = c.attrFloats("scales")
		given = len(scales)
	}
	if given != len(axes) {
		panic(refuse("%d scales or sizes for %d dimensions", given, len(axes)))
	}
	for _, s := range scales {
		if !(s > 0 && s < maxElements) {
			panic(refuse("scales %v", scales))
		}
	}
	for i, a := range axes {
		d := x.shape[a]
		out := resizedAxis{axis: a, in: d, end: 1}
		switch {
		case x.isBatch(a):
			if sizes != nil && !c.isBatchSize(sizes[i], d) || sizes == nil && scales[i] != 1 {
				panic(errMixes)
			}
			out.out, out.scale = d, 1
		case sizes == nil:
			// Scales are float32 and runtimes multiply in float32: ten times 0.7 gives seven.
			out.out, out.scale = int(math.Floor(float64(float32(d)*float32(scales[i])))), scales[i]
		case !sizes[i].constant():
			panic(errMixes)
		default:
			out.out = sizes[i].k
			out.scale = float64(out.out) / float64(d)
		}
		r.axes = append(r.axes, out)
	}
	var compare func(a, b resizedAxis) int
	switch policy := c.attrString("keep_aspect_ratio_policy", "stretch"); policy {
	case "stretch":
	case "not_larger":
		compare = func(a, b resizedAxis) int { return cmp.Compare(a.scale, b.scale) }
	case "not_smaller":
		compare = func(a, b resizedAxis) int { return cmp.Compare(b.scale, a.scale) }
	default:
		panic(refuse("keep_aspect_ratio_policy=%q is not known", policy))
	}
	if compare != nil && sizes != nil && len(r.axes) > 0 { // one scale for all axes, the smallest or the largest
		scale := slices.MinFunc(r.axes, compare).scale
		for i := range r.axes {
			a := &r.axes[i]
			if x.isBatch(a.axis) && scale != 1 {
				panic(errMixes)
			}
			a.scale, a.out = scale, int(math.Floor(min(scale*float64(a.in)+0.5, 2*maxElements)))
		}
	}
	for _, a := range r.axes {
		if a.out < 1 || a.out > maxElements {
			panic(refuse("dimension %d of the result is %d", a.axis, a.out))
		}
	}
}

var coordinateModes = set("asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "tf_half_pixel_for_nn", "tf_crop_and_resize")

// rounded holds the rounding functions of nearest_mode.
var rounded = map[string]func(float64) float64{
	"floor": math.Floor, "ceil": math.Ceil,
	"round_prefer_floor": func(x float64) float64 { return math.Ceil(x - 0.5) },
	"round_prefer_ceil":  func(x float64) float64 { return math.Floor(x + 0.5) },
}

// position returns where in the input element i of the result lies. inside is false where tf_crop_and_resize
// extrapolates.
func (r *resizing) position(a *resizedAxis, i int) (x float64, inside bool) {
	at, in, out := float64(i), float64(a.in), float64(a.out)
	half := (at+0.5)/a.scale - 0.5
	switch {
	case r.coordinates == "tf_crop_and_resize" && a.out > 1:
		x = a.start*(in-1) + at*(a.end-a.start)*(in-1)/(out-1)
		return x, x >= 0 && x <= in-1
	case r.coordinates == "tf_crop_and_resize":
		x = 0.5 * (a.start + a.end) * (in - 1)
		return x, x >= 0 && x <= in-1
	case r.coordinates == "half_pixel" || r.coordinates == "pytorch_half_pixel" && a.out > 1:
		return half, true
	case r.coordinates == "half_pixel_symmetric":
		// The centre of the result stays at the centre of the input, although the length was rounded.
		return half + in/2*(1-out/(a.scale*in)), true
	case r.coordinates == "tf_half_pixel_for_nn":
		return (at + 0.5) / a.scale, true
	case r.coordinates == "asymmetric":
		return at / a.scale, true
	case a.out == 1: // pytorch_half_pixel and align_corners
		return 0, true
	}
	// Whole lengths are used even if the scale would give a fraction of an element more. As in PyTorch, the first
	// and last elements of result and input coincide.
	return at * (in - 1) / (out - 1), true
}

// interpolate resizes one axis with the linear or cubic filter.
func (c *compiler) interpolate(x *value, r *resizing, a resizedAxis) *value {
	if x.isBatch(a.axis) {
		return x
	}
	shape := slices.Clone(x.shape)
	shape[a.axis] = a.out
	count(shape)
	// An element has a weight if it is less than reach from the position. With antialias, the filter is stretched
	// where the result is smaller than the input.
	reach, stretch := 1.0, 1.0
	if r.mode == "cubic" {
		reach = 2
	}
	if r.antialias {
		stretch = max(1, 1/a.scale)
		reach *= stretch
	}
	c.spend((tableBytes + numberBytes) * (a.out + 1) * int(2*reach+1))
	o := &graph.AxisMap{Outer: graph.Product(x.shape[:a.axis]), In: a.in, Inner: graph.Product(x.shape[a.axis+1:]), First: make([]int32, 1, a.out+1)}
	if r.coordinates == "tf_crop_and_resize" {
		o.Offset = make([]float64, a.out)
	}
	unchanged := a.in == a.out
	for i := range a.out {
		at, inside := r.position(&a, i)
		unchanged = unchanged && inside && at == float64(i)
		switch {
		case !inside:
			o.Offset[i] = r.extrapolation
		case at == math.Trunc(at) && at >= 0 && at < float64(a.in) && !r.antialias:
			o.Source, o.Weight = append(o.Source, int32(at)), append(o.Weight, 1)
		default:
			// An element outside the input is read as the first or last element; with exclude it is left out. With
			// exclude or antialias the weights are scaled to a sum of 1.
			at = graph.Clamp(at, -reach-1, float64(a.in)+reach)
			first, sum := len(o.Weight), 0.0
			for j := math.Floor(at-reach) + 1; j < at+reach; j++ {
				if r.exclude && (j < 0 || j >= float64(a.in)) {
					continue
				}
				// The weight at distance d is the triangle 1 − d, or the cubic kernel of Keys with coefficient a.
				w := 0.0
				switch d := math.Abs((j - at) / stretch); {
				case r.mode == "linear":
					w = max(1-d, 0)
				case d <= 1:
					w = ((r.a+2)*d-(r.a+3))*d*d + 1
				case d < 2:
					w = r.a * (((d-5)*d+8)*d - 4)
				}
				sum += w
				o.Source, o.Weight = append(o.Source, int32(graph.Clamp(j, 0, float64(a.in-1)))), append(o.Weight, w)
			}
			if sum == 0 {
				panic(refuse("position %g of axis %d has no element of the input next to it", at, a.axis))
			}
			if r.exclude || r.antialias {
				for k := range o.Weight[first:] {
					o.Weight[first+k] /= sum
				}
			}
		}
		o.First = append(o.First, int32(len(o.Source)))
	}
	if unchanged {
		return x
	}
	return c.emit(o, shape, x.batch, x)
}
