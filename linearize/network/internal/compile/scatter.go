package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

const constantIndices = "the indices must not depend on the input"

func init() {
	register("Shapes", map[string]operator{
		"GatherElements":  {translate: (*compiler).gatherElements, inputs: 2, integers: ownType, roles: learnt.Sets},
		"GatherND":        {translate: (*compiler).gatherND, inputs: 2, integers: ownType, roles: learnt.Sets, note: constantIndices + ", but for one position in each example, beside the number of the example"},
		"ScatterElements": {translate: (*compiler).scatterElements, inputs: 3, note: constantIndices + "; reduction none or add"},
		"Scatter":         {translate: (*compiler).scatterElements, inputs: 3, note: constantIndices},
		"ScatterND":       {translate: (*compiler).scatterND, inputs: 3, note: constantIndices + "; reduction none or add"},
	})
}

// indices returns input i, integers that are known or depend on nothing but the batch size and the number of the
// example.
func (c *compiler) indices(i int) *value {
	v := c.input(i)
	if v.isInt && !v.real {
		return v
	}
	panic(refuse("input %d (%s) must be integers known without running the network", i, quote(c.node.Inputs[i])))
}

// place returns the position on axis ax of v, for one example, that an index means. Along the batch axis, the index
// must mean an element of the same example.
func (c *compiler) place(v *value, ax int, a affine) int {
	dim := v.shape[ax]
	if !v.isBatch(ax) || c.batch == 1 && a.constant() {
		switch {
		case !a.constant():
			panic(refuse("an index depends on the batch size, which would mix examples"))
		case a.k < -dim || a.k >= dim:
			panic(refuse("index %d is out of range for a dimension of %d", a.k, dim))
		case a.k < 0:
			return a.k + dim
		}
		return a.k
	}
	// Element e·dim + k belongs to example e. Counting from the end (minus dim·N) means the same example.
	if a.n == -dim {
		a.n = 0
	}
	if v.leading() != 1 || a.n != 0 || a.row != dim || a.k < 0 || a.k >= dim {
		panic(errMixes)
	}
	return a.k
}

// matched returns v with a batch axis, where the file fixes the batch size and only another tensor of the same rank
// has that axis.
func (c *compiler) matched(v *value, axis int) *value {
	if c.batch > 1 {
		return c.perExample(v, axis, true)
	}
	if v.batch >= 0 || axis < 0 || c.batch != 1 || axis >= len(v.shape) || v.shape[axis] != 1 {
		return v
	}
	return v.onAxis(axis, v.lead)
}

func (c *compiler) gatherElements() {
	v := c.input(0)
	at := c.input(1)
	ax := axis(c.attrInt("axis", 0), len(v.shape))
	if at.integer != 0 { // the indices depend on the input
		t := typeOf(v)
		v = c.asFloat(v)
		checkElements(v, at, ax)
		if at.isBatch(ax) || v.batch != at.batch || at.shape[v.batch] != v.shape[v.batch] || at.leading() != v.leading() {
			panic(errMixes)
		}
		c.result(ofType(c.pickup(v, at, ax), t))
		return
	}
	at = c.indices(1)
	batch := max(v.batch, at.batch)
	v, at = c.matched(v, batch), c.matched(at, batch)
	table := c.elements(v, at, ax)
	if v.batch < 0 && at.batch >= 0 {
		if at.batch != ax {
			panic(errMixes) // each example would read another row of a constant
		}
		v = v.onAxis(at.batch, at.lead)
	}
	out := c.apply(v, at.shape, at.batch, table, 0)
	if !out.isInt {
		out = ofType(out, v.integer)
	}
	c.result(out)
}

// pickup returns the elements of v at the positions at along axis ax.
func (c *compiler) pickup(v, at *value, ax int) *value {
	st := strides(v.shape)
	base := c.table(at.shape, func(d, i int) int {
		if d == ax {
			return 0
		}
		return i * st[d]
	})
	o := &graph.Pickup{Base: base, Length: v.shape[ax], Stride: st[ax], Name: brief(c.node.Inputs[0], 80)}
	return c.emit(o, at.shape, at.batch, v, at)
}

// checkElements refuses indices of GatherElements or ScatterElements whose shape does not fit v.
func checkElements(v, at *value, ax int) {
	fits := len(at.shape) == len(v.shape)
	for d, n := range at.shape {
		fits = fits && (d == ax || n <= v.shape[d])
	}
	if !fits {
		panic(refuse("indices of shape %v for a tensor of shape %v", at.shape, v.shape))
	}
}

// elements returns for each index of a GatherElements or ScatterElements the element of v that it means.
func (c *compiler) elements(v, at *value, ax int) []int32 {
	checkElements(v, at, ax)
	if v.batch >= 0 && (at.batch != v.batch || v.isBatch(ax) || at.shape[v.batch] != v.shape[v.batch] || at.leading() != v.leading()) {
		panic(errMixes)
	}
	st, i := strides(v.shape), -1
	return c.tableOf(at.shape, func(idx []int) int {
		i++
		from := c.place(v, ax, at.ints[i]) * st[ax]
		for d, k := range idx {
			if d != ax {
				from += k * st[d]
			}
		}
		return from
	})
}

// windows describes the indices of a GatherND or ScatterND. They are tuples; each gives the first coordinates of a
// block of a tensor.
type windows struct {
	starts []int // for each tuple, where its block starts in the tensor, for one example
	size   int   // number of elements of a block
	tuples []int // shape of the indices without their last axis
	batch  int   // batch axis of the result (axes of the tuples, then of a block), or −1
	lead   int
}

// windows reads the indices at of a GatherND or ScatterND on v. The first skip axes of at and v run over the same
// examples and positions.
func (c *compiler) windows(v, at *value, skip int) *windows {
	rank := len(at.shape)
	if rank == 0 || skip < 0 || skip >= min(rank, len(v.shape)) || !slices.Equal(at.shape[:skip], v.shape[:skip]) {
		panic(refuse("indices of shape %v for a tensor of shape %v", at.shape, v.shape))
	}
	last := at.shape[rank-1]
	if last < 1 || skip+last > len(v.shape) || at.batch == rank-1 {
		panic(refuse("indices of shape %v for a tensor of shape %v", at.shape, v.shape))
	}
	w := &windows{tuples: at.shape[:rank-1], size: graph.Product(v.shape[skip+last:]), batch: at.batch, lead: at.lead}
	switch {
	case v.batch >= skip+last: // the examples are inside the blocks
		if at.batch >= 0 {
			panic(errMixes)
		}
		w.batch, w.lead = rank-1+v.batch-skip-last, v.lead
	case v.batch >= 0 && at.batch < 0 || v.batch >= 0 && v.batch < skip && at.batch != v.batch || at.batch >= 0 && at.batch < skip && at.batch != v.batch:
		panic(errMixes)
	case v.batch >= 0 && (at.leading() != 1 || v.leading() != 1):
		panic(errMixes)
	}
	n := len(at.ints) / last
	c.spend(numberBytes * n)
	st := strides(v.shape)
	for t := range n {
		start := 0
		// The first axes of v have the same position as the tuple.
		for d, rest := skip-1, t/graph.Product(w.tuples[skip:]); d >= 0; d-- {
			start += rest % v.shape[d] * st[d]
			rest /= v.shape[d]
		}
		for j := range last {
			p := c.place(v, skip+j, at.ints[t*last+j])
			start += p * st[skip+j]
		}
		w.starts = append(w.starts, start)
	}
	return w
}

// covered returns the elements of all blocks, block after block.
func (c *compiler) covered(w *windows) []int32 {
	n := c.entries([]int{max(len(w.starts), 1), w.size})
	table := make([]int32, 0, n)
	for _, start := range w.starts {
		for i := range w.size {
			table = append(table, int32(start+i))
		}
	}
	return table
}

func (c *compiler) gatherND() {
	v := c.input(0)
	skip := c.attrInt("batch_dims", 0)
	if at := c.input(1); at.own {
		if skip != 0 || v.batch != 0 || v.leading() != 1 || v.shape[0] != 1 || !slices.Equal(at.shape, []int{1, 2}) || at.batch != 0 || len(v.shape) < 2 {
			panic(errMixes)
		}
		// Take the elements of each example at its own position along axis 1.
		t := typeOf(v)
		v = c.asFloat(v)
		rest := slices.Concat([]int{1, 1}, v.shape[2:])
		at = c.apply(c.takeAxis(at, 1, []int{1}, nil), rest, 0, slices.Repeat([]int32{0}, c.entries(rest)), 0)
		c.result(ofType(c.alias(c.pickup(v, at, 1), slices.Concat([]int{1}, v.shape[2:]), 0), t))
		return
	}
	at := c.indices(1)
	if v.batch >= 0 && v.batch < skip+lastOf(at.shape) && v.batch < len(at.shape)-1 {
		at = c.matched(at, v.batch)
	}
	w := c.windows(v, at, skip)
	table := c.covered(w)
	shape := slices.Concat(w.tuples, v.shape[skip+lastOf(at.shape):])
	if v.batch < 0 && w.batch >= 0 {
		v = v.onAxis(w.batch, w.lead)
	}
	out := c.apply(v, shape, w.batch, table, 0)
	if !out.isInt {
		out = ofType(out, v.integer)
	}
	c.result(out)
}

func lastOf(shape []int) int {
	if len(shape) == 0 {
		return 0
	}
	return shape[len(shape)-1]
}

func (c *compiler) scatterElements() {
	v, at, from := c.scatterInputs()
	ax := axis(c.attrInt("axis", 0), len(v.shape))
	batch := max(v.batch, from.batch, at.batch)
	v, at, from = c.matched(v, batch), c.matched(at, batch), c.matched(from, batch)
	if !slices.Equal(at.shape, from.shape) {
		panic(refuse("%v indices for updates of shape %v", at.shape, from.shape))
	}
	if from.batch >= 0 && from.batch != v.batch || v.batch >= 0 && from.batch < 0 && v.shape[v.batch] != 1 {
		panic(errMixes)
	}
	table := c.elements(v, at, ax)
	c.result(c.scatter(v, from, table))
}

// scatterInputs returns the tensor, the indices and the updates of a node. The tensor and the updates are both
// floating point or both integers.
func (c *compiler) scatterInputs() (v, at, from *value) {
	v, at, from = c.input(0), c.indices(1), c.input(2)
	if !(v.isInt && from.isInt) {
		v, from = c.float(0), c.float(2)
	}
	return v, at, from
}

// scatter writes or adds each element of from to the element of v that table names.
func (c *compiler) scatter(v, from *value, table []int32) *value {
	size := graph.Product(v.shape)
	switch r := c.attrString("reduction", "none"); {
	case r == "none":
		source := make([]int32, size)
		c.spend(tableBytes * size)
		for i := range source {
			source[i] = int32(i)
		}
		for i, p := range table {
			if source[p] < 0 {
				panic(refuse("two updates of element %d, and no reduction that adds them", p))
			}
			source[p] = ^int32(i)
		}
		return c.selected(v, from, v.shape, v.batch, source)
	case r != "add":
		panic(refuse("reduction=%q is not supported", r))
	case v.isInt:
		panic(refuse("integers that are added at their places are not supported"))
	}
	sums := c.emit(&graph.Reduce{Target: table, Scale: 1}, v.shape, from.batch, from)
	return c.combine(graph.Add, v, sums)
}

func (c *compiler) scatterND() {
	v, at, from := c.scatterInputs()
	// Where the file fixes the batch size, the tensor and the indices get the batch axis that the updates have.
	tuples, last := len(at.shape)-1, lastOf(at.shape)
	if tuples >= 0 && v.batch < 0 && from.batch >= tuples {
		v = c.matched(v, from.batch-tuples+last)
	}
	if v.batch < 0 && from.batch >= 0 && from.batch < tuples {
		v = c.matched(v, slices.Index(v.shape[:min(last, len(v.shape))], max(c.batch, 1)))
	}
	if v.batch >= 0 && v.batch < last && from.batch >= 0 && from.batch < tuples {
		at = c.matched(at, from.batch)
	}
	w := c.windows(v, at, 0)
	if want := slices.Concat(w.tuples, v.shape[last:]); !slices.Equal(want, from.shape) {
		panic(refuse("updates of shape %v where %v fit", from.shape, want))
	}
	// Each example may only write to its own elements.
	if v.batch < 0 && (w.batch >= 0 || from.batch >= 0) || from.batch >= 0 && from.batch != w.batch || from.batch < 0 && w.batch >= 0 && from.shape[w.batch] != 1 {
		panic(errMixes)
	}
	table := c.covered(w)
	c.result(c.scatter(v, from, table))
}
