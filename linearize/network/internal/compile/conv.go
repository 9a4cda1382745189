package compile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Convolutions", map[string]operator{
		"Conv":          {translate: (*compiler).conv, inputs: 3, note: "the weight must not depend on the input"},
		"ConvTranspose": {translate: (*compiler).convTranspose, inputs: 3, note: "the weight must not depend on the input"},
	})
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

// imageAndWeight returns the first two inputs of a convolution.
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

// convolution emits o, a Convolve or ConvolveTranspose with window win, whose
// result has this shape.
func (c *compiler) convolution(x, w *value, win *graph.Window, o graph.Op, shape []int) (*value, error) {
	st := graph.Site{Input: x.slot, Layout: win, Weight: -1, Bias: -1, Transposed: win.Transposed}
	if err := c.spend(runBytes * len(win.Source)); err != nil {
		return nil, err
	}
	win.FindRuns()
	tied := c.isStatic(x)
	args := []*value{x, w}
	if c.needsGrad(w) {
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
		if c.needsGrad(bias) {
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

// transposedOutput returns the spatial shape of a ConvTranspose's result. It
// changes the pads of s if output_shape or auto_pad decide them.
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
