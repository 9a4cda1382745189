package compile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// spatial is the geometry of a convolution or a pool along its spatial axes.
type spatial struct {
	kernel, stride, dilation, begin, end []int
}

// readSpatial reads kernel_shape, strides, dilations and pads; in are the
// spatial dimensions the window moves over.
func (c *compiler) readSpatial(kernel, in []int) (*spatial, error) {
	n := len(in)
	s := &spatial{kernel: kernel}
	if k := c.attrInts("kernel_shape"); k != nil {
		if kernel != nil && !slices.Equal(k, kernel) {
			return nil, fmt.Errorf("kernel_shape %v differs from the weight's %v", k, kernel)
		}
		s.kernel = k
	}
	var err error
	if s.stride, err = c.positiveInts("strides", n); err != nil {
		return nil, err
	}
	if s.dilation, err = c.positiveInts("dilations", n); err != nil {
		return nil, err
	}
	if len(s.kernel) != n {
		return nil, fmt.Errorf("a kernel of %d dimensions over %d", len(s.kernel), n)
	}
	for _, k := range s.kernel {
		if k < 1 || k > maxElements {
			return nil, fmt.Errorf("kernel %v", s.kernel)
		}
	}
	pads := c.attrInts("pads")
	if pads == nil {
		pads = make([]int, 2*n)
	}
	if len(pads) != 2*n {
		return nil, fmt.Errorf("pads %v for %d dimensions", pads, n)
	}
	for _, p := range pads {
		if p < 0 || p > maxElements {
			return nil, fmt.Errorf("pads %v", pads)
		}
	}
	s.begin, s.end = slices.Clone(pads[:n]), slices.Clone(pads[n:])
	return s, c.autoPad(s, in)
}

func (c *compiler) positiveInts(name string, n int) ([]int, error) {
	v := c.attrInts(name)
	if v == nil {
		return slices.Repeat([]int{1}, n), nil
	}
	for _, k := range v {
		if len(v) != n || k < 1 || k > maxElements {
			return nil, fmt.Errorf("%s %v for %d dimensions", name, v, n)
		}
	}
	if len(v) != n {
		return nil, fmt.Errorf("%s %v for %d dimensions", name, v, n)
	}
	return v, nil
}

// autoPad replaces the pads by those that auto_pad asks for.
func (c *compiler) autoPad(s *spatial, in []int) error {
	mode := c.attrString("auto_pad", "NOTSET")
	switch mode {
	case "NOTSET", "":
		return nil
	case "VALID":
		clear(s.begin)
		clear(s.end)
		return nil
	case "SAME_UPPER", "SAME_LOWER":
	default:
		return fmt.Errorf("auto_pad=%q is not known", mode)
	}
	for i, d := range in {
		out := (d + s.stride[i] - 1) / s.stride[i]
		total := max((out-1)*s.stride[i]+s.extent(i)-d, 0)
		s.begin[i] = total / 2
		if mode == "SAME_LOWER" {
			s.begin[i] = total - total/2
		}
		s.end[i] = total - s.begin[i]
	}
	return nil
}

// extent is the length that the kernel covers along an axis.
func (s *spatial) extent(i int) int { return (s.kernel[i]-1)*s.dilation[i] + 1 }

// output returns the number of window positions along each axis.
func (s *spatial) output(in []int, ceil bool) ([]int, error) {
	out := make([]int, len(in))
	for i, d := range in {
		room := d + s.begin[i] + s.end[i] - s.extent(i)
		if room < 0 {
			return nil, fmt.Errorf("the kernel covers %d positions along axis %d, the padded input has %d", s.extent(i), i+2, d+s.begin[i]+s.end[i])
		}
		out[i] = room/s.stride[i] + 1
		if ceil && room%s.stride[i] != 0 && out[i]*s.stride[i] < d+s.begin[i] {
			out[i]++ // the last window starts inside the input or its left padding
		}
	}
	return out, nil
}

// window lists the input position of every kernel tap at every output
// position.
func (c *compiler) window(s *spatial, in, out []int) (*graph.Window, error) {
	for _, shape := range [][]int{in, out, s.kernel} {
		if _, err := Count(shape); err != nil {
			return nil, err
		}
	}
	n, err := c.entries([]int{graph.Product(out), graph.Product(s.kernel)})
	if err != nil {
		return nil, err
	}
	w := &graph.Window{NumGroups: 1, Taps: graph.Product(s.kernel), In: graph.Product(in), Out: graph.Product(out), Source: make([]int32, 0, n)}
	axes := make([][]int32, len(in)) // out×kernel of each
	for i, st := range strides(in) {
		if err := c.spend(tableBytes * out[i] * s.kernel[i]); err != nil {
			return nil, err
		}
		axes[i] = s.taps(i, in[i], out[i], st)
	}
	idx, base, next := make([]int, len(in)), []int32{}, []int32{}
	for range w.Out {
		base = append(base[:0], 0)
		last := len(in) - 1
		for i, at := range axes[:last] {
			next = sums(next[:0], base, at[idx[i]*s.kernel[i]:][:s.kernel[i]])
			base, next = next, base
		}
		w.Source = leaves(w.Source, base, axes[last][idx[last]*s.kernel[last]:][:s.kernel[last]])
		for d := last; d >= 0; d-- {
			if idx[d]++; idx[d] < out[d] {
				break
			}
			idx[d] = 0
		}
	}
	w.ReachesPadding = slices.Min(w.Source) < 0
	return w, nil
}

// taps lists the element that each tap along axis i reads at each of n
// positions, times the axis's stride in memory.
func (s *spatial) taps(i, in, n, stride int) []int32 {
	at := make([]int32, 0, n*s.kernel[i])
	for o := range n {
		for k := range s.kernel[i] {
			p := o*s.stride[i] - s.begin[i] + k*s.dilation[i]
			if p < 0 || p >= in {
				at = append(at, outside)
			} else {
				at = append(at, int32(p*stride))
			}
		}
	}
	return at
}

// image checks that a value has a batch dimension first, then channels, then
// at least one spatial dimension.
func image(v *value) error {
	if len(v.shape) < 3 {
		return fmt.Errorf("its input of shape %v has no spatial dimensions", v.shape)
	}
	if v.batch > 0 || v.shape[0] != 1 {
		return fmt.Errorf("its input of shape %v does not have the batch dimension first", v.shape)
	}
	return nil
}

func (c *compiler) conv() error {
	x, w, err := c.imageAndWeight()
	if err != nil {
		return err
	}
	group := c.attrInt("group", 1)
	cin, cout := x.shape[1], w.shape[0]
	if group < 1 || cin%group != 0 || cout%group != 0 || w.shape[1] != cin/group {
		return fmt.Errorf("a weight of shape %v in %d groups does not fit %d input channels", w.shape, group, cin)
	}
	s, err := c.readSpatial(w.shape[2:], x.shape[2:])
	if err != nil {
		return err
	}
	out, err := s.output(x.shape[2:], false)
	if err != nil {
		return err
	}
	win, err := c.window(s, x.shape[2:], out)
	if err != nil {
		return err
	}
	win.NumGroups, win.Cin, win.Cout = group, cin, cout
	if _, err := Count([]int{win.Out, cin / group, win.Taps}); err != nil {
		return err
	}
	return c.result(c.convolution(x, w, win, &graph.Convolve{Window: win}, slices.Concat([]int{1, cout}, out)))
}

func (c *compiler) imageAndWeight() (x, w *value, err error) {
	if x, err = c.float(0); err != nil {
		return nil, nil, err
	}
	if err = image(x); err != nil {
		return nil, nil, err
	}
	if w, err = c.float(1); err != nil {
		return nil, nil, err
	}
	if !c.isStatic(w) {
		return nil, nil, errors.New("its weight depends on the input")
	}
	if len(w.shape) != len(x.shape) || w.batch >= 0 {
		return nil, nil, fmt.Errorf("a weight of shape %v over an input of shape %v", w.shape, x.shape)
	}
	return x, w, nil
}

// convolution emits a Conv or ConvTranspose; channels of the result are
// shape[1].
func (c *compiler) convolution(x, w *value, win *graph.Window, o graph.Op, shape []int) (*value, error) {
	st := graph.Site{Input: x.slot, Layout: win, Weight: -1, Bias: -1, Transposed: win.Transposed}
	if err := c.spend(runBytes * len(win.Source)); err != nil {
		return nil, err
	}
	win.FindRuns()
	tied := c.isStatic(x)
	args := []*value{x, w}
	if c.isDiff(w) {
		st.Weight = w.slot
		tied = tied || !c.private(w, 1) || w.transposed
	}
	if c.has(2) {
		bias, err := c.float(2)
		if err != nil {
			return nil, err
		}
		if len(bias.shape) != 1 || bias.shape[0] != shape[1] || !c.isStatic(bias) {
			return nil, fmt.Errorf("a bias of shape %v for %d channels", bias.shape, shape[1])
		}
		if c.isDiff(bias) {
			st.Bias = bias.slot
			tied = tied || !c.private(bias, 2)
		}
		args = append(args, bias)
	}
	switch o := o.(type) {
	case *graph.Convolve:
		o.Tied = tied
	case *graph.ConvolveTranspose:
		o.Tied = tied
	}
	y, err := c.emit(o, shape, x.batch, args...)
	if err != nil || tied || c.isStatic(y) {
		return y, err
	}
	st.Node = len(c.prog.Nodes) - 1
	c.prog.Sites = append(c.prog.Sites, st)
	return y, nil
}

func (c *compiler) convTranspose() error {
	x, w, err := c.imageAndWeight()
	if err != nil {
		return err
	}
	group := c.attrInt("group", 1)
	channels := x.shape[1]
	if group < 1 || channels%group != 0 || w.shape[0] != channels {
		return fmt.Errorf("a weight of shape %v in %d groups does not fit %d input channels", w.shape, group, channels)
	}
	in := x.shape[2:]
	s, err := c.readSpatial(w.shape[2:], in)
	if err != nil {
		return err
	}
	out, err := c.transposedOutput(s, in)
	if err != nil {
		return err
	}
	win, err := c.window(s, out, in)
	if err != nil {
		return err
	}
	if w.shape[1] > maxElements/group {
		return fmt.Errorf("a weight of shape %v in %d groups", w.shape, group)
	}
	win.NumGroups, win.Cin, win.Cout, win.Transposed = group, w.shape[1]*group, channels, true
	if _, err := Count([]int{win.Out, w.shape[1], win.Taps}); err != nil {
		return err
	}
	return c.result(c.convolution(x, w, win, &graph.ConvolveTranspose{Window: win}, slices.Concat([]int{1, win.Cin}, out)))
}

// transposedOutput returns the spatial size of a ConvTranspose's result and
// adjusts the pads where output_shape or auto_pad ask for it.
func (c *compiler) transposedOutput(s *spatial, in []int) ([]int, error) {
	extra := c.attrInts("output_padding")
	if extra == nil {
		extra = make([]int, len(in))
	}
	want := c.attrInts("output_shape")
	if len(extra) != len(in) || want != nil && len(want) != len(in) {
		return nil, errors.New("output_padding or output_shape has the wrong length")
	}
	mode := c.attrString("auto_pad", "NOTSET")
	out := make([]int, len(in))
	for i, d := range in {
		if extra[i] < 0 || extra[i] > maxElements || d > maxElements/s.stride[i] {
			return nil, errors.New("its sizes are out of range")
		}
		full := (d-1)*s.stride[i] + extra[i] + s.extent(i)
		switch {
		case want != nil:
			out[i] = want[i]
		case mode == "SAME_UPPER" || mode == "SAME_LOWER":
			out[i] = d * s.stride[i]
		default:
			out[i] = full - s.begin[i] - s.end[i]
			continue
		}
		total := max(full-out[i], 0)
		s.begin[i] = total / 2
		if mode != "SAME_UPPER" {
			s.begin[i] = total - total/2
		}
		s.end[i] = total - s.begin[i]
	}
	for _, d := range out {
		if d < 1 {
			return nil, fmt.Errorf("its result has the spatial shape %v", out)
		}
	}
	return out, nil
}

// pool reads the geometry of a pooling node.
func (c *compiler) pool() (x *value, s *spatial, win *graph.Window, shape []int, err error) {
	if x, err = c.float(0); err != nil {
		return
	}
	if err = image(x); err != nil {
		return
	}
	if c.node.Attr("kernel_shape") == nil {
		err = errors.New("it has no kernel_shape")
		return
	}
	if s, err = c.readSpatial(nil, x.shape[2:]); err != nil {
		return
	}
	for i := range s.kernel {
		if s.begin[i] >= s.extent(i) || s.end[i] >= s.extent(i) {
			err = fmt.Errorf("pads %v %v reach beyond the kernel %v", s.begin, s.end, s.kernel)
			return
		}
	}
	out, err := s.output(x.shape[2:], c.attrInt("ceil_mode", 0) != 0)
	if err != nil {
		return
	}
	if win, err = c.window(s, x.shape[2:], out); err != nil {
		return
	}
	win.Cin, win.Cout = x.shape[1], x.shape[1]
	return x, s, win, slices.Concat(x.shape[:2], out), nil
}

func (c *compiler) maxPool() error {
	x, _, win, shape, err := c.pool()
	if err != nil {
		return err
	}
	if c.attrInt("storage_order", 0) != 0 {
		return errors.New("storage_order=1 is not supported")
	}
	for t := range win.Out {
		if !slices.ContainsFunc(win.Source[t*win.Taps:(t+1)*win.Taps], func(s int32) bool { return s >= 0 }) {
			return errors.New("a window lies wholly in the padding")
		}
	}
	return c.result(c.emit(&graph.MaxPool{Window: win}, shape, x.batch, x))
}

func (c *compiler) averagePool() error {
	x, s, win, shape, err := c.pool()
	if err != nil {
		return err
	}
	padded := c.attrInt("count_include_pad", 0) != 0
	o := &graph.AveragePool{Window: win, Share: make([]float64, win.Out)}
	counts, err := c.counted(s, x.shape[2:], shape[2:], padded)
	if err != nil {
		return err
	}
	for t, n := range counts {
		if n == 0 {
			return errors.New("a window lies wholly in the padding")
		}
		o.Share[t] = 1 / float64(n)
	}
	return c.result(c.emit(o, shape, x.batch, x))
}

// counted returns how many positions of each window an average divides by:
// those inside the input, or inside the padded input.
func (c *compiler) counted(s *spatial, in, out []int, padded bool) ([]int32, error) {
	return c.tableOf(out, func(idx []int) int {
		n := 1
		for i := range in {
			lo, hi := 0, in[i]
			if padded {
				lo, hi = -s.begin[i], in[i]+s.end[i]
			}
			inside := 0
			for k := range s.kernel[i] {
				if p := idx[i]*s.stride[i] - s.begin[i] + k*s.dilation[i]; p >= lo && p < hi {
					inside++
				}
			}
			n *= inside
		}
		return n
	})
}

func (c *compiler) globalAveragePool() error {
	x, err := c.float(0)
	if err != nil {
		return err
	}
	if err := image(x); err != nil {
		return err
	}
	axes := make([]bool, len(x.shape))
	for i := 2; i < len(axes); i++ {
		axes[i] = true
	}
	return c.result(c.reduceAxes(x, axes, true, true))
}

func (c *compiler) globalMaxPool() error {
	x, err := c.float(0)
	if err != nil {
		return err
	}
	if err := image(x); err != nil {
		return err
	}
	n := len(x.shape) - 2
	s := &spatial{kernel: x.shape[2:], stride: slices.Repeat([]int{1}, n), dilation: slices.Repeat([]int{1}, n), begin: make([]int, n), end: make([]int, n)}
	ones := slices.Repeat([]int{1}, n)
	win, err := c.window(s, x.shape[2:], ones)
	if err != nil {
		return err
	}
	win.Cin, win.Cout = x.shape[1], x.shape[1]
	return c.result(c.emit(&graph.MaxPool{Window: win}, slices.Concat(x.shape[:2], ones), x.batch, x))
}
