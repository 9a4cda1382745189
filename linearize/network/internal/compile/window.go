package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// A spatial is the geometry of a convolution or a pool along its spatial axes.
type spatial struct {
	kernel, stride, dilation []int
	begin, end               []int // pads
}

// readSpatial reads kernel_shape, strides, dilations and pads of a window that moves over the spatial dimensions
// in. kernel is the spatial shape of the weight, or nil for a pool.
func (c *compiler) readSpatial(kernel, in []int) *spatial {
	n := len(in)
	s := &spatial{kernel: kernel}
	if k := c.attrInts("kernel_shape"); k != nil {
		if kernel != nil && !slices.Equal(k, kernel) {
			panic(refuse("kernel_shape %v differs from the weight's %v", k, kernel))
		}
		s.kernel = k
	}
	s.stride = c.positiveInts("strides", n)
	s.dilation = c.positiveInts("dilations", n)
	if len(s.kernel) != n {
		panic(refuse("a kernel of %d dimensions over %d", len(s.kernel), n))
	}
	if slices.ContainsFunc(s.kernel, func(k int) bool { return k < 1 || k > maxElements }) {
		panic(refuse("kernel %v", s.kernel))
	}
	pads := c.attrInts("pads")
	if pads == nil {
		pads = make([]int, 2*n)
	}
	if len(pads) != 2*n {
		panic(refuse("pads %v for %d dimensions", pads, n))
	}
	if slices.ContainsFunc(pads, func(p int) bool { return p < 0 || p > maxElements }) {
		panic(refuse("pads %v", pads))
	}
	s.begin, s.end = slices.Clone(pads[:n]), slices.Clone(pads[n:])
	switch mode := c.attrString("auto_pad", "NOTSET"); mode {
	case "NOTSET", "":
	case "VALID":
		clear(s.begin)
		clear(s.end)
	case "SAME_UPPER", "SAME_LOWER":
		for i, d := range in {
			out := (d + s.stride[i] - 1) / s.stride[i]
			total := max((out-1)*s.stride[i]+s.extent(i)-d, 0)
			s.begin[i] = total / 2
			if mode == "SAME_LOWER" {
				s.begin[i] = total - total/2
			}
			s.end[i] = total - s.begin[i]
		}
	default:
		panic(refuse("auto_pad=%q is not known", mode))
	}
	return s
}

// positiveInts reads an attribute of n positive integers. The default is all ones.
func (c *compiler) positiveInts(name string, n int) []int {
	v := c.attrInts(name)
	if v == nil {
		return slices.Repeat([]int{1}, n)
	}
	if len(v) != n || slices.ContainsFunc(v, func(k int) bool { return k < 1 || k > maxElements }) {
		panic(refuse("%s %v for %d dimensions", name, v, n))
	}
	return v
}

// extent returns the length that the kernel covers along axis i.
func (s *spatial) extent(i int) int { return (s.kernel[i]-1)*s.dilation[i] + 1 }

// output returns the number of window positions along each axis. ceil is the attribute ceil_mode.
func (s *spatial) output(in []int, ceil bool) []int {
	out := make([]int, len(in))
	for i, d := range in {
		room := d + s.begin[i] + s.end[i] - s.extent(i)
		if room < 0 {
			panic(refuse("the kernel covers %d positions along axis %d, the padded input has %d", s.extent(i), i+2, d+s.begin[i]+s.end[i]))
		}
		out[i] = room/s.stride[i] + 1
		if ceil && room%s.stride[i] != 0 && out[i]*s.stride[i] < d+s.begin[i] {
			out[i]++ // the last window starts inside the input or its left padding
		}
	}
	return out
}

// window returns the Window of this geometry with one group; the caller sets the channels. in and out are the
// spatial shapes of input and output. Source lists for each output position and tap the input position that it
// reads.
func (c *compiler) window(s *spatial, in, out []int) *graph.Window {
	for _, shape := range [][]int{in, out, s.kernel} {
		count(shape)
	}
	n := c.entries([]int{graph.Product(out), graph.Product(s.kernel)})
	w := &graph.Window{NumGroups: 1, Taps: graph.Product(s.kernel), In: graph.Product(in), Out: graph.Product(out), Source: make([]int32, 0, n)}
	// axes[i] has, for each output position and tap along axis i (out×kernel), the input position that is read
	// times the stride of the axis in memory, or outside.
	axes := make([][]int32, len(in))
	for i, st := range strides(in) {
		c.spend(tableBytes * out[i] * s.kernel[i])
		axes[i] = make([]int32, 0, out[i]*s.kernel[i])
		for o := range out[i] {
			for k := range s.kernel[i] {
				at := int32(outside)
				if p := o*s.stride[i] - s.begin[i] + k*s.dilation[i]; p >= 0 && p < in[i] {
					at = int32(p * st)
				}
				axes[i] = append(axes[i], at)
			}
		}
	}
	idx, base, next := make([]int, len(in)), []int32{}, []int32{}
	for range w.Out {
		base = append(base[:0], 0)
		last := len(in) - 1
		for i, at := range axes[:last] {
			next = sums(next[:0], base, at[idx[i]*s.kernel[i]:][:s.kernel[i]], outside)
			base, next = next, base
		}
		w.Source = sums(w.Source, base, axes[last][idx[last]*s.kernel[last]:][:s.kernel[last]], -1)
		for d := last; d >= 0; d-- {
			if idx[d]++; idx[d] < out[d] {
				break
			}
			idx[d] = 0
		}
	}
	w.ReachesPadding = slices.Min(w.Source) < 0
	return w
}
