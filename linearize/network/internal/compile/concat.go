package compile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Shapes", map[string]operator{
		"Concat": {translate: (*compiler).concat, inputs: anyNumber},
	})
}

func (c *compiler) concat() error {
	if len(c.node.Inputs) == 0 {
		return errors.New("it has no inputs")
	}
	var in []*value
	ints := true
	for i := range c.node.Inputs {
		v, err := c.input(i)
		if err != nil {
			return err
		}
		ints = ints && v.isInt
		in = append(in, v)
	}
	if ints && vectors(in) {
		return c.result(c.concatInts(in))
	}
	for i := range in {
		if ints {
			break
		}
		v, err := c.float(i)
		if err != nil {
			return err
		}
		in[i] = v
	}
	a := c.node.Attr("axis")
	if a == nil {
		return errors.New("it has no axis")
	}
	ax, err := axis(clampInt(a.I), len(in[0].shape))
	if err != nil {
		return err
	}
	return c.result(c.concatTensors(in, ax))
}

func (c *compiler) concatTensors(in []*value, ax int) (*value, error) {
	in = c.aligned(true, in...)
	shape := slices.Clone(in[0].shape)
	batch := -1
	o := &graph.Concat{Outer: graph.Product(shape[:ax])}
	shape[ax] = 0
	for i, v := range in {
		if len(v.shape) != len(shape) || !slices.Equal(v.shape[:ax], shape[:ax]) || !slices.Equal(v.shape[ax+1:], shape[ax+1:]) {
			return nil, fmt.Errorf("input %d has shape %v, which does not fit %v beside axis %d", i, v.shape, in[0].shape, ax)
		}
		if v.isBatch(ax) || v.batch >= 0 && batch >= 0 && v.batch != batch {
			return nil, errMixes
		}
		batch = max(batch, v.batch)
		shape[ax] += v.shape[ax]
		if shape[ax] > maxElements {
			return nil, errors.New("the result is too large")
		}
		o.Width = append(o.Width, graph.Product(v.shape[ax:]))
	}
	if batch >= 0 && shape[batch] != 1 {
		for _, v := range in {
			if v.batch < 0 {
				return nil, errMixes
			}
		}
	}
	if in[0].isInt {
		return c.joinInts(o, in, shape, batch)
	}
	return c.emit(o, shape, batch, in...)
}

// joinInts is the Concat o of integers.
func (c *compiler) joinInts(o *graph.Concat, in []*value, shape []int, batch int) (*value, error) {
	out, err := c.newInts(shape, batch, in...)
	if err != nil {
		return nil, err
	}
	at := 0
	for i := range o.Outer {
		for k, v := range in {
			at += copy(out.ints[at:], v.ints[i*o.Width[k]:(i+1)*o.Width[k]])
			out.real = out.real || v.real
		}
	}
	return out, nil
}

// vectors reports whether all values are of rank one and for no example in
// particular, as the parts of a shape are.
func vectors(in []*value) bool {
	return !slices.ContainsFunc(in, func(v *value) bool { return len(v.shape) != 1 || v.batch >= 0 })
}

// concatInts joins vectors of integers, which may be empty.
func (c *compiler) concatInts(in []*value) (*value, error) {
	out := &value{batch: -1, isInt: true}
	for _, v := range in {
		if err := c.spend(intBytes * len(v.ints)); err != nil {
			return nil, err
		}
		out.ints, out.real = append(out.ints, v.ints...), out.real || v.real
	}
	out.shape = []int{len(out.ints)}
	return out, nil
}
