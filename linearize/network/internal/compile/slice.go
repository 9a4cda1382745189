package compile

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Shapes", map[string]operator{
		"Slice":  {translate: (*compiler).slice, inputs: 5, integers: keepsType, roles: learnt.Moves | learnt.Passes | learnt.Sets, note: "starts, ends, axes and steps are known without running the network; not along the batch"},
		"Split":  {translate: (*compiler).split, inputs: 2, integers: keepsType, roles: learnt.Moves | learnt.Passes, note: "the sizes are known without running the network; not along the batch"},
		"Concat": {translate: (*compiler).concat, inputs: anyNumber, integers: keepsType},
		"Gather": {inputs: 2, integers: ownType, roles: learnt.Passes | learnt.Sets,
			translate: func(c *compiler) { c.result(c.gathered(0, c.attrInt("axis", 0), 1)) },
			note:      "along the batch only elements of the same example; with indices of the input an embedding"},
		"Pad": {translate: (*compiler).pad, inputs: 4, integers: keepsType, roles: learnt.Moves | learnt.Sets | learnt.Prepares, note: "by known numbers of elements; mode constant, reflect, edge or wrap"},
	})
}

func (c *compiler) slice() {
	v := c.input(0)
	starts, _ := c.intsOr(1, "starts")
	ends, _ := c.intsOr(2, "ends")
	axes, given := c.intsOr(3, "axes")
	steps, stepped := c.intsOr(4, "steps")
	if len(starts) != len(ends) || given && len(axes) != len(starts) || stepped && len(steps) != len(starts) {
		panic(refuse("starts, ends, axes and steps differ in length"))
	}
	for i := range starts {
		ax, by := i, 1
		if given {
			ax = axes[i]
		}
		if stepped {
			by = steps[i]
		}
		ax = axis(ax, len(v.shape))
		v = c.sliceAxis(v, ax, starts[i], ends[i], by)
	}
	c.result(v)
}

func (c *compiler) sliceAxis(v *value, ax, start, end, by int) *value {
	dim := v.shape[ax]
	if by == 0 {
		panic(refuse("a step of zero"))
	}
	// The batch axis can only be taken as a whole.
	if v.isBatch(ax) {
		if whole := end >= 1<<30 || c.batch > 0 && end >= c.batch*dim; start != 0 || by != 1 || !whole {
			panic(errMixes)
		}
		return v
	}
	if start < 0 {
		start += dim
	}
	if end < 0 {
		end += dim
	}
	if by > 0 {
		start, end = min(max(start, 0), dim), min(max(end, 0), dim)
	} else {
		start, end = min(max(start, 0), dim-1), min(max(end, -1), dim-1)
	}
	c.spend(numberBytes * max(0, (end-start)/by))
	positions := make([]int, 0, max(0, (end-start)/by)+1)
	for p := start; by > 0 && p < end || by < 0 && p > end; p += by {
		positions = append(positions, p)
	}
	if by == 1 && start == 0 && end == dim {
		return v
	}
	if v.isInt && len(positions) == 0 {
		return &value{shape: slices.Concat(v.shape[:ax], []int{0}, v.shape[ax+1:]), batch: v.batch, lead: v.lead, isInt: true}
	}
	return c.takeAxis(v, ax, positions, nil)
}

func (c *compiler) split() {
	v := c.input(0)
	ax := axis(c.attrInt("axis", 0), len(v.shape))
	sizes, given := c.intsOr(1, "split")
	n := len(c.node.Outputs)
	if parts := c.attrInt("num_outputs", n); parts != n {
		panic(refuse("num_outputs is %d, and it has %d", parts, n))
	}
	if !given {
		each := (v.shape[ax] + n - 1) / max(n, 1)
		for i := range n {
			sizes = append(sizes, min(each, v.shape[ax]-i*each))
		}
	}
	if len(sizes) != n {
		panic(refuse("%d sizes for %d outputs", len(sizes), n))
	}
	at := 0
	for i, size := range sizes {
		if size <= 0 || size > v.shape[ax]-at {
			panic(refuse("sizes %v do not split %d", sizes, v.shape[ax]))
		}
		part := c.sliceAxis(v, ax, at, at+size, 1)
		c.set(i, part)
		at += size
	}
	if at != v.shape[ax] {
		panic(refuse("sizes %v do not split %d", sizes, v.shape[ax]))
	}
}

// concat translates Concat. Vectors of known integers, such as the parts of a shape, may be empty.
func (c *compiler) concat() {
	if len(c.node.Inputs) == 0 {
		panic(refuse("it has no inputs"))
	}
	in := c.inputsFrom(0)
	vectors := !slices.ContainsFunc(in, func(v *value) bool { return !v.isInt || len(v.shape) != 1 || v.batch >= 0 })
	if c.node.Attr("axis") == nil && !vectors {
		panic(refuse("it has no axis"))
	}
	c.result(c.join(in, c.attrInt("axis", 0)))
}

// join returns tensors one after another along axis ax.
func (c *compiler) join(in []*value, ax int) *value {
	in = slices.Clone(in)
	ints, vectors, t := true, true, onnx.DataType(0)
	for _, v := range in {
		ints, vectors, t = ints && v.isInt, vectors && len(v.shape) == 1 && v.batch < 0, max(t, v.integer)
	}
	if ints && vectors {
		out := &value{batch: -1, isInt: true}
		for _, v := range in {
			c.spend(intBytes * len(v.ints))
			out.ints, out.real = append(out.ints, v.ints...), out.real || v.real
		}
		out.shape = []int{len(out.ints)}
		return out
	}
	ax = axis(ax, len(in[0].shape))
	tuples := t != 0 && ax == len(in[0].shape)-1
	for i, v := range in {
		if v.row != 0 && !tuples {
			panic(errMixes)
		}
		if !ints && !tuples {
			within(func() { in[i] = c.floatOf(v) }, "input %d", i)
		}
	}
	in = c.aligned(true, in...)
	var parts []*value
	if tuples {
		parts = slices.Clone(in)
		for i, v := range parts {
			if !ints {
				in[i] = c.numbered(v)
			}
		}
	}
	shape, batch := slices.Clone(in[0].shape), -1
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
	}
	if batch >= 0 && shape[batch] != 1 && slices.ContainsFunc(in, func(v *value) bool { return v.batch < 0 }) {
		panic(errMixes)
	}
	table := make([]int32, 0, c.entries(shape))
	for i := range graph.Product(shape[:ax]) {
		first := 0 // element of v
		for _, v := range in {
			width := graph.Product(v.shape[ax:])
			for k := range width {
				table = append(table, int32(first+i*width+k))
			}
			first += graph.Product(v.shape)
		}
	}
	out := c.picked(shape, batch, table, in...)
	if !out.isInt {
		out = ofType(out, t)
		out.parts = parts
	}
	return out
}

// gathered takes elements of input i along axis ax, at the positions that the integers of input j give.
func (c *compiler) gathered(i, ax, j int) *value {
	v, at := c.input(i), c.input(j)
	ax = axis(ax, len(v.shape))
	if !at.isInt {
		// The indices depend on the input: look up rows of a table.
		t := typeOf(v)
		if at.integer == 0 || at.integer == onnx.Bool {
			panic(refuse("its indices are neither integers known without running the network nor integers computed from integer inputs"))
		}
		v = c.asFloat(v)
		if at.row != 0 || v.batch >= 0 || !c.isStatic(v) {
			return ofType(c.taken(v, ax, at, false), t)
		}
		o := &graph.Lookup{Name: brief(c.node.Inputs[i], 80), Outer: graph.Product(v.shape[:ax]), Rows: v.shape[ax], Inner: graph.Product(v.shape[ax+1:])}
		if v.weight != nil && !v.transposed && o.Outer == 1 {
			o.Padding = c.padding(v.weight, o)
		}
		return ofType(c.emit(o, slices.Concat(v.shape[:ax], at.shape, v.shape[ax+1:]), at.batch+ax, at, v), t)
	}
	at = c.indices(j)
	if v.batch < 0 && len(at.shape) > 1 && at.shape[0] == c.batch {
		// The positions are repeated for each example of a model with a fixed batch size.
		at = c.perExample(at, 0, false)
	}
	positions := make([]int, len(at.ints))
	for i, a := range at.ints {
		positions[i] = c.place(v, ax, a)
	}
	newDims := at.shape
	if newDims == nil {
		newDims = []int{}
	}
	if at.batch >= 0 && v.batch >= 0 {
		if !v.isBatch(ax) || at.leading() != 1 {
			panic(errMixes) // every example of the indices would read every example of the tensor
		}
		// Along the batch axis place has let pass only elements of the same example.
		dims := slices.Concat(v.shape[:ax], []int{len(positions)}, v.shape[ax+1:])
		out := c.moved(v, dims, ax, func(d, i int) int {
			if d == ax {
				return positions[i]
			}
			return i
		}, 0)
		return c.alias(out, slices.Concat(v.shape[:ax], newDims, v.shape[ax+1:]), ax+at.batch)
	}
	out := c.takeAxis(v, ax, positions, newDims)
	if at.batch >= 0 {
		out = out.onAxis(ax+at.batch, at.lead)
	}
	return out
}

// padding returns 1 + the number of the row of a table that was not learnt, or 0 if all rows were. PyTorch keeps
// the row padding_idx of an embedding at zero, and a file does not store padding_idx. padding takes it to be the
// only row of zeros, if rows have several numbers. The gradient of the row is zero, as in PyTorch.
func (c *compiler) padding(in *initializer, o *graph.Lookup) int {
	if c.learn[in.t.Name] || o.Inner < 2 {
		return 0
	}
	found := 0
	for r := range o.Rows {
		if slices.ContainsFunc(in.t.Floats[r*o.Inner:(r+1)*o.Inner], func(x float64) bool { return x != 0 }) {
			continue
		}
		if found > 0 {
			return 0
		}
		found = r + 1
	}
	if found > 0 {
		c.warns = append(c.warns, linearize.NewWarning("taken-for-constants", math.NaN(), math.NaN(), "Name what was learnt in ReadOptions.Learn.", "Row %d of table %s holds zeros and is taken for padding. The posterior holds it fixed.", found-1, quote(in.t.Name)))
	}
	return found
}

// takeAxis returns the elements of v at the listed positions along axis ax. If newDims is not nil, the dimensions
// newDims replace the axis in the shape.
func (c *compiler) takeAxis(v *value, ax int, positions []int, newDims []int) *value {
	if v.isBatch(ax) {
		panic(errMixes)
	}
	shape := slices.Concat(v.shape[:ax], []int{len(positions)}, v.shape[ax+1:])
	out := c.moved(v, shape, v.batch, func(d, i int) int {
		if d == ax {
			return positions[i]
		}
		return i
	}, 0)
	if newDims == nil {
		return out
	}
	batch := v.batch
	if batch > ax {
		batch += len(newDims) - 1
	}
	return c.alias(out, slices.Concat(v.shape[:ax], newDims, v.shape[ax+1:]), batch)
}
