package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Convolutions", map[string]operator{
		"Conv":          {translate: func(c *compiler) { c.result(c.conv()) }, inputs: 3, roles: learnt.Multiplies, bias: 2, note: "the weight must not depend on the input"},
		"ConvTranspose": {translate: (*compiler).convTranspose, inputs: 3, roles: learnt.Multiplies, bias: 2, note: "the weight must not depend on the input"},
	})
}

// image refuses a value unless its dimensions are the batch, the channels and at least one spatial dimension.
func image(v *value) {
	if len(v.shape) < 3 {
		panic(refuse("its input of shape %v has no spatial dimensions", v.shape))
	}
	if v.batch > 0 || v.shape[0] != 1 {
		panic(refuse("its input of shape %v does not have the batch dimension first", v.shape))
	}
}

func (c *compiler) conv() *value {
	x, w := c.imageAndWeight()
	group := c.attrInt("group", 1)
	cin, cout := x.shape[1], w.shape[0]
	if group < 1 || cin%group != 0 || cout%group != 0 || w.shape[1] != cin/group {
		panic(refuse("a weight of shape %v in %d groups does not fit %d input channels", w.shape, group, cin))
	}
	s := c.readSpatial(w.shape[2:], x.shape[2:])
	out := s.output(x.shape[2:], false)
	win := c.window(s, x.shape[2:], out)
	win.NumGroups, win.Cin, win.Cout = group, cin, cout
	count([]int{win.Out, cin / group, win.Taps})
	return c.convolution(x, w, win, &graph.Convolve{Window: win}, slices.Concat([]int{1, cout}, out))
}

// imageAndWeight returns the first two inputs of a convolution, the image N×C×spatial and the weight, which must
// not depend on the input of the network.
func (c *compiler) imageAndWeight() (x, w *value) {
	x = c.float(0)
	image(x)
	w = c.float(1)
	if !c.isStatic(w) {
		panic(refuse("its weight depends on the input"))
	}
	if len(w.shape) != len(x.shape) || w.batch >= 0 {
		panic(refuse("a weight of shape %v over an input of shape %v", w.shape, x.shape))
	}
	return x, w
}

// convolution emits the operator o (Convolve or ConvolveTranspose with window win) for the image x, the weight w
// and the bias of input 2, if there is one. It returns the result, of the given shape. If the learnt weight and
// bias are private to this node, it also registers them as a place of the program.
func (c *compiler) convolution(x, w *value, win *graph.Window, o graph.Op, shape []int) *value {
	st := graph.Place{Input: x.slot, Layout: win, Weight: -1, Bias: -1, Transposed: win.Transposed}
	c.spend(runBytes * len(win.Source))
	win.FindRuns()
	tied := c.isStatic(x)
	args := []*value{x, w}
	if c.needsGrad(w) {
		st.Weight = w.slot
		tied = tied || !c.private(w, 1) || w.transposed
	}
	if c.has(2) {
		bias := c.float(2)
		if len(bias.shape) != 1 || bias.shape[0] != shape[1] || !c.isStatic(bias) {
			panic(refuse("a bias of shape %v for %d channels", bias.shape, shape[1]))
		}
		switch {
		case !c.needsGrad(bias):
		case c.private(bias, 2):
			st.Bias = bias.slot
		default: // used elsewhere too: the weight stays a place of its own
			win.TiedBias = true
		}
		args = append(args, bias)
	}
	win.Tied = tied
	y := c.emit(o, shape, x.batch, args...)
	if tied || c.isStatic(y) {
		return y
	}
	st.Node = len(c.prog.Nodes) - 1
	c.prog.Places = append(c.prog.Places, st)
	return y
}

func (c *compiler) convTranspose() {
	x, w := c.imageAndWeight()
	group := c.attrInt("group", 1)
	channels := x.shape[1]
	if group < 1 || channels%group != 0 || w.shape[0] != channels {
		panic(refuse("a weight of shape %v in %d groups does not fit %d input channels", w.shape, group, channels))
	}
	in := x.shape[2:]
	s := c.readSpatial(w.shape[2:], in)
	// Compute the spatial shape of the result. Where output_shape or auto_pad decides the pads, s gets these pads.
	extra := c.attrInts("output_padding")
	if extra == nil {
		extra = make([]int, len(in))
	}
	want := c.attrInts("output_shape")
	if len(extra) != len(in) || want != nil && len(want) != len(in) {
		panic(refuse("output_padding or output_shape has the wrong length"))
	}
	mode := c.attrString("auto_pad", "NOTSET")
	out := make([]int, len(in))
	for i, d := range in {
		if extra[i] < 0 || extra[i] > maxElements || d > maxElements/s.stride[i] {
			panic(refuse("its sizes are out of range"))
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
			panic(refuse("its result has the spatial shape %v", out))
		}
	}
	win := c.window(s, out, in)
	if w.shape[1] > maxElements/group {
		panic(refuse("a weight of shape %v in %d groups", w.shape, group))
	}
	win.NumGroups, win.Cin, win.Cout, win.Transposed = group, w.shape[1]*group, channels, true
	count([]int{win.Out, w.shape[1], win.Taps})
	c.result(c.convolution(x, w, win, &graph.ConvolveTranspose{Window: win}, slices.Concat([]int{1, win.Cin}, out)))
}
