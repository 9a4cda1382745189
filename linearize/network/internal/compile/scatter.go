package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

const (
	constantIndices = "the indices must not depend on the input"
	ownPositions    = ", but for one position in each example, beside the number of the example"
)

func init() {
	register("Shapes", map[string]operator{
		"GatherElements":  {translate: (*compiler).gatherElements, inputs: 2, integers: ownType, roles: learnt.Sets},
		"GatherND":        {translate: (*compiler).gatherND, inputs: 2, integers: ownType, roles: learnt.Sets, note: constantIndices + ownPositions},
		"ScatterElements": {translate: (*compiler).scatterElements, inputs: 3, note: constantIndices + "; reduction none or add"},
		"Scatter":         {translate: (*compiler).scatterElements, inputs: 3, note: constantIndices},
		"ScatterND":       {translate: (*compiler).scatterND, inputs: 3, integers: ownType, note: constantIndices + ownPositions + "; reduction none or add"},
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
		c.result(ofType(c.pickup(v, at, ax, true), t))
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
	c.result(c.apply(v, at.shape, at.batch, table, 0))
}

// pickup returns the elements of v at the positions at along axis ax. With wraps, negative positions count from the
// end of the axis.
func (c *compiler) pickup(v, at *value, ax int, wraps bool) *value {
	st := strides(v.shape)
	base := c.table(at.shape, func(d, i int) int {
		if d == ax {
			return 0
		}
		return i * st[d]
	})
	o := &graph.Pickup{Base: base, Length: v.shape[ax], Stride: st[ax], Wraps: wraps, Name: brief(c.node.Inputs[0], 80)}
	return c.emit(o, at.shape, at.batch, v, at)
}

// taken returns the elements of v at the positions at along axis ax, as Gather. Both depend on the input, so each
// example must take its own elements. With own, the positions count from the first element of the example along the
// batch axis; otherwise from the first of all, so that at.row must be the number of elements of one.
func (c *compiler) taken(v *value, ax int, at *value, own bool) *value {
	batch, one := ax+at.batch, c.batch == 1 && at.row == 0
	switch {
	case v.leading() != 1 || at.leading() != 1 || v.batch < 0 || at.batch < 0:
		panic(refuse("both its tensor and its indices depend on the input, in a way that is not supported; export with torch.gather along one dimension"))
	case v.isBatch(ax) && (own || one || at.row == v.shape[ax]):
	case v.isBatch(ax) || !one:
		panic(refuse("both its tensor and its indices depend on the input, and not each example takes its own elements, which would mix examples"))
	case v.batch > ax: // the only example of a file with a batch of one
		batch = v.batch + len(at.shape) - 1
	default:
		batch = v.batch
	}
	shape := slices.Concat(v.shape[:ax], []int{graph.Product(at.shape)}, v.shape[ax+1:])
	count(shape)
	table := c.tableOf(shape, func(idx []int) int { return idx[ax] })
	out := c.pickup(v, c.apply(at, shape, v.batch, table, 0), ax, own || one)
	w := *out
	w.shape, w.batch = slices.Concat(v.shape[:ax], at.shape, v.shape[ax+1:]), batch
	return &w
}

// positions reads the indices at of a GatherND or ScatterND on v, which depend on the input. Each tuple holds one
// position along axis 1 of v, after the number of the example or, if skip is 1, without it. positions returns v and
// these positions.
func (c *compiler) positions(v, at *value, skip int) (*value, *value) {
	last := len(at.shape) - 1
	ok := v.batch == 0 && v.leading() == 1 && len(v.shape) > 1 && v.shape[0] == 1 && last >= 0
	switch {
	case ok && skip == 1 && at.batch == 0 && at.leading() == 1 && last > 0 && at.shape[0] == 1 && at.shape[last] == 1 && at.row == 0:
		return v, c.alias(at, at.shape[:last], 0)
	case ok && skip == 0 && len(at.parts) == 2 && at.shape[last] == 2:
		number, own := at.parts[0], at.parts[1]
		for _, a := range number.ints {
			ok = ok && (a == affine{row: 1} || c.batch == 1 && a == affine{})
		}
		if ok && number.isInt && own.row == 0 && own.batch >= 0 && own.batch < last {
			return v, c.alias(own, own.shape[:last], own.batch)
		}
	}
	panic(refuse("its indices depend on the input, and are not one position in each example beside the number of the example; export with torch.gather or torch.scatter along one dimension"))
}

// numbered returns v as a floating point tensor. If v is known integers, of which each counts the examples by the
// same step, the step becomes the field row.
func (c *compiler) numbered(v *value) *value {
	if !v.isInt || len(v.ints) == 0 {
		return c.asFloat(v)
	}
	step := v.ints[0].row
	w := c.toFloat(c.mapInts(v, func(a affine) affine {
		if a.row == step {
			a.row = 0
		}
		return a
	}))
	w.row, w.fromInts = step, true
	return w
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
	if at := c.input(1); at.integer != 0 {
		t := typeOf(v)
		v, at = c.positions(c.asFloat(v), at, skip)
		c.result(ofType(c.taken(c.alias(v, v.shape[1:], 0), 0, at, true), t))
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
	c.result(c.apply(v, shape, w.batch, table, 0))
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
			if int(source[p]) >= size {
				panic(refuse("two updates of element %d, and no reduction that adds them", p))
			}
			source[p] = int32(size + i)
		}
		return c.picked(v.shape, v.batch, source, v, from)
	case r != "add":
		panic(refuse("reduction=%q is not supported", r))
	case v.isInt:
		panic(refuse("integers that are added at their places are not supported"))
	}
	sums := c.emit(&graph.Reduce{Target: table, Scale: 1}, v.shape, from.batch, from)
	return c.combine(graph.Add, v, sums)
}

// scatterOwn translates a ScatterND that writes to one position of each example, which depends on the input.
func (c *compiler) scatterOwn(at *value) {
	v, at := c.positions(c.matched(c.float(0), 0), at, 0)
	from := c.matched(c.float(2), at.batch)
	if graph.Product(at.shape) != 1 || from.batch != at.batch || from.leading() != 1 || !slices.Equal(from.shape, slices.Concat(at.shape, v.shape[2:])) {
		panic(refuse("its indices depend on the input, and are not one position in each example; export with torch.scatter along one dimension"))
	}
	// Compare the position, from the start of the axis, with every position on it.
	shape := slices.Repeat([]int{1}, len(v.shape))
	all, places := shape, slices.Clone(shape)
	places[1] = v.shape[1]
	numbers := make([]float64, v.shape[1])
	for i := range numbers {
		numbers[i] = float64(i)
	}
	axis := c.addConstant(numbers, places)
	other := c.combine(graph.NotEqual, axis, c.pickup(axis, c.alias(at, all, 0), 1, true))
	from = c.alias(from, slices.Concat([]int{1, 1}, v.shape[2:]), 0)
	switch r := c.attrString("reduction", "none"); r {
	case "none":
		c.result(c.choice([]*value{other, v, from}))
	case "add":
		c.result(c.choice([]*value{other, v, c.combine(graph.Add, v, from)}))
	default:
		panic(refuse("reduction=%q is not supported", r))
	}
}

func (c *compiler) scatterND() {
	switch at := c.input(1); {
	case c.input(0).integer != 0 || c.input(2).integer != 0:
		panic(refuse("it writes integers that depend on the input, which is not supported; cast them to floating point before it"))
	case at.integer != 0:
		c.scatterOwn(at)
		return
	}
	v, at, from := c.scatterInputs()
	batch, lead := v.batch, v.lead
	if c.batch == 1 {
		v, at, from = c.loose(v), c.loose(at), c.loose(from)
	}
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
	out := c.scatter(v, from, table)
	if c.batch == 1 {
		out = out.onAxis(batch, lead)
	}
	c.result(out)
}
