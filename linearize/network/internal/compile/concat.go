package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Shapes", map[string]operator{
		"Concat": {translate: (*compiler).concat, inputs: anyNumber, integers: keepsType},
	})
}

func (c *compiler) concat() {
	if len(c.node.Inputs) == 0 {
		panic(refuse("it has no inputs"))
	}
	var in []*value
	ints := true
	for i := range c.node.Inputs {
		v := c.input(i)
		ints = ints && v.isInt
		in = append(in, v)
	}
	if ints && vectors(in) {
		c.result(c.concatInts(in))
		return
	}
	for i := range in {
		if ints {
			break
		}
		v := c.float(i)
		in[i] = v
	}
	a := c.node.Attr("axis")
	if a == nil {
		panic(refuse("it has no axis"))
	}
	ax := axis(clampInt(a.I), len(in[0].shape))
	c.result(c.concatTensors(in, ax))
}

func (c *compiler) concatTensors(in []*value, ax int) *value {
	in = c.aligned(true, in...)
	shape := slices.Clone(in[0].shape)
	batch := -1
	o := &graph.Concat{Outer: graph.Product(shape[:ax])}
	shape[ax] = 0
	for i, v := range in {
		if len(v.shape) != len(shape) || !slices.Equal(v.shape[:ax], shape[:ax]) || !slices.Equal(v.shape[ax+1:], shape[ax+1:]) {
			panic(refuse("input %d has shape %v, which does not fit %v beside axis %d", i, v.shape, in[0].shape, ax))
		}
		if v.isBatch(ax) || v.batch >= 0 && batch >= 0 && v.batch != batch {
			panic(errMixes)
		}
		batch = max(batch, v.batch)
		shape[ax] += v.shape[ax]
		if shape[ax] > maxElements {
			panic(refuse("the result is too large"))
		}
		o.Width = append(o.Width, graph.Product(v.shape[ax:]))
	}
	if batch >= 0 && shape[batch] != 1 {
		for _, v := range in {
			if v.batch < 0 {
				panic(errMixes)
			}
		}
	}
	if in[0].isInt {
		return c.joinInts(o, in, shape, batch)
	}
	return c.emit(o, shape, batch, in...)
}

// joinInts is the Concat o of integers.
func (c *compiler) joinInts(o *graph.Concat, in []*value, shape []int, batch int) *value {
	out := c.newInts(shape, batch, in...)
	at := 0
	for i := range o.Outer {
		for k, v := range in {
			at += copy(out.ints[at:], v.ints[i*o.Width[k]:(i+1)*o.Width[k]])
			out.real = out.real || v.real
		}
	}
	return out
}

// vectors reports whether all values are of rank one and for no example in
// particular, as the parts of a shape are.
func vectors(in []*value) bool {
	return !slices.ContainsFunc(in, func(v *value) bool { return len(v.shape) != 1 || v.batch >= 0 })
}

// concatInts joins vectors of integers, which may be empty.
func (c *compiler) concatInts(in []*value) *value {
	out := &value{batch: -1, isInt: true}
	for _, v := range in {
		c.spend(intBytes * len(v.ints))
		out.ints, out.real = append(out.ints, v.ints...), out.real || v.real
	}
	out.shape = []int{len(out.ints)}
	return out
}
