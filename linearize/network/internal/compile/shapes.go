package compile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// strides returns the row-major strides of a shape.
func strides(shape []int) []int {
	out := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = n
		n *= shape[i]
	}
	return out
}

// outside marks an index that lies in the padding.
const outside = -1 << 30

// table lists, in row-major order, the element that every multi-index of a
// shape reads: the sum of what source gives for the index along each
// dimension, or −1 where one of them is outside.
func (c *compiler) table(shape []int, source func(d, i int) int) ([]int32, error) {
	n, err := Count(shape)
	if err != nil {
		return nil, err
	}
	base := []int32{0}
	for d, length := range shape {
		if err := c.spend(tableBytes * length * (1 + len(base))); err != nil {
			return nil, err
		}
		at := make([]int32, length)
		for i := range at {
			at[i] = int32(source(d, i))
		}
		if d == len(shape)-1 {
			return leaves(make([]int32, 0, n), base, at), nil
		}
		base = sums(make([]int32, 0, len(base)*length), base, at)
	}
	return base, nil
}

// sums appends every sum of an element of base and one of at.
func sums(dst, base, at []int32) []int32 {
	for _, b := range base {
		for _, a := range at {
			dst = append(dst, max(a+b, outside))
		}
	}
	return dst
}

// leaves appends every sum as the entry of a table.
func leaves(table []int32, base, at []int32) []int32 {
	for _, b := range base {
		for _, a := range at {
			table = append(table, max(a+b, -1))
		}
	}
	return table
}

// entries returns the number of elements of a shape and takes a table of as
// many from the budget.
func (c *compiler) entries(shape []int) (int, error) {
	n, err := Count(shape)
	if err != nil {
		return 0, err
	}
	return n, c.spend(tableBytes * n)
}

// tableOf is table for what does not separate by dimensions: it lists
// source(idx). idx is reused between calls.
func (c *compiler) tableOf(shape []int, source func(idx []int) int) ([]int32, error) {
	n, err := c.entries(shape)
	if err != nil {
		return nil, err
	}
	table := make([]int32, n)
	idx := make([]int, len(shape))
	for i := range table {
		table[i] = int32(source(idx))
		for d := len(idx) - 1; d >= 0; d-- {
			if idx[d]++; idx[d] < shape[d] {
				break
			}
			idx[d] = 0
		}
	}
	return table, nil
}

// identity reports whether a table reads every element of a tensor of size n
// in its place.
func identity(table []int32, n int) bool {
	if len(table) != n {
		return false
	}
	for i, j := range table {
		if int(j) != i {
			return false
		}
	}
	return true
}

// apply reads a value through a table.
func (c *compiler) apply(v *value, shape []int, batch int, table []int32, fill float64) (*value, error) {
	if v.isInt {
		if err := c.spend(intBytes * len(table)); err != nil {
			return nil, err
		}
		out := &value{shape: shape, batch: -1, isInt: true, real: v.real, ints: make([]affine, len(table))}
		for i, j := range table {
			if j < 0 {
				out.ints[i] = affine{k: clampInt(int64(fill))}
			} else {
				out.ints[i] = v.ints[j]
			}
		}
		return out, nil
	}
	if identity(table, graph.Product(v.shape)) {
		return &value{slot: v.slot, shape: shape, batch: batch, lead: v.lead}, nil
	}
	return c.emit(&graph.Index{Source: table, Fill: fill}, shape, batch, v)
}

// alias gives a value another shape with the same elements in the same order.
// The batch dimension must keep its place between the elements before and
// after it; the axis that holds it may hold some of them too.
func (c *compiler) alias(v *value, shape []int, batch int) (*value, error) {
	if graph.Product(shape) != graph.Product(v.shape) || len(shape) > maxRank {
		return nil, fmt.Errorf("cannot reshape %v to %v", v.shape, shape)
	}
	out := *v
	out.shape, out.weight = shape, nil
	if v.batch < 0 {
		return &out, nil
	}
	if out.batch = batch; batch < 0 {
		return nil, fmt.Errorf("reshaping %v to %v leaves no batch dimension, which would mix examples", v.shape, shape)
	}
	before := graph.Product(shape[:batch])
	if out.lead = v.before() / before; out.before() != v.before() || shape[batch]%out.lead != 0 {
		return nil, fmt.Errorf("reshaping %v to %v moves elements across the batch dimension, which would mix examples", v.shape, shape)
	}
	return &out, nil
}

// reshape applies ONNX Reshape: −1 is inferred, 0 copies unless allowzero.
func (c *compiler) reshape(v *value, target []affine, allowZero bool) (*value, error) {
	target = slices.Clone(target)
	open, batch := -1, -1
	for i, a := range target {
		switch {
		case a == affine{k: -1}:
			if open >= 0 {
				return nil, errors.New("its shape has two dimensions of −1")
			}
			open = i
		case a == affine{} && !allowZero:
			if i >= len(v.shape) {
				return nil, fmt.Errorf("its shape copies dimension %d of %v, which does not exist", i, v.shape)
			}
			target[i] = affine{k: v.shape[i]}
			if v.isBatch(i) {
				target[i] = affine{n: v.shape[i]}
			}
		}
		if target[i].n != 0 {
			if batch >= 0 || target[i].k != 0 {
				return nil, errors.New("its shape combines batch sizes in a way that would mix examples")
			}
			batch = i
		}
	}
	if v.batch >= 0 && batch < 0 {
		batch = c.findBatch(v, target, open)
	}
	if v.batch < 0 && batch >= 0 && c.batch != 1 {
		return nil, errors.New("its shape holds the batch size and its tensor does not")
	}
	return c.reshapeKnown(v, target, open, batch)
}

// findBatch decides which axis of a target shape without the batch size in it
// holds the batch dimension: the inferred one, or for a model exported with a
// fixed batch size the one at the batch's place.
func (c *compiler) findBatch(v *value, target []affine, open int) int {
	if c.batch == 0 {
		return open
	}
	// An axis is preferred at which they begin, and one that does not mix
	// them with what is last, the features. For a batch of one all may fit.
	for _, rule := range []struct{ inside, last bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		if i := c.batchAxis(v, target, open, rule.inside, rule.last); i >= 0 {
			return i
		}
	}
	return open
}

// batchAxis looks for the axis at which the examples begin or, with inside,
// in which they do; with last it may be the last one. −1 is none.
func (c *compiler) batchAxis(v *value, target []affine, open int, inside, last bool) int {
	before := 1
	for i, a := range target {
		lead := v.before() / before
		begins := lead*before == v.before() && (lead == 1 || inside)
		switch {
		case i == open && begins:
			return i
		case i == open:
			return -1
		case i == len(target)-1 && a.k != lead*c.batch && !last:
		case begins && a.k >= lead*c.batch && a.k%(lead*c.batch) == 0:
			target[i] = affine{n: a.k / c.batch}
			return i
		}
		if a.k <= 0 || a.k > maxElements/before {
			return -1
		}
		before *= a.k
	}
	return -1
}

func (c *compiler) reshapeKnown(v *value, target []affine, open, batch int) (*value, error) {
	if v.batch >= 0 && batch < 0 {
		return nil, errors.New("its shape fixes the batch size; export the model with a dynamic batch dimension")
	}
	shape := make([]int, len(target))
	known := 1
	for i, a := range target {
		if shape[i] = a.one(); i == open {
			continue
		}
		if shape[i] <= 0 || shape[i] > maxElements/known {
			return nil, fmt.Errorf("cannot reshape %v: dimension %d of the new shape is %d", v.shape, i, shape[i])
		}
		known *= shape[i]
	}
	if open >= 0 {
		if shape[open] = graph.Product(v.shape) / known; shape[open] < 1 {
			return nil, fmt.Errorf("cannot reshape %v: its %d elements do not fill the new shape", v.shape, graph.Product(v.shape))
		}
	}
	return c.alias(v, shape, batch)
}

// broadcast returns the shape two operands combine to and the tables that
// read them in it.
func (c *compiler) broadcast(a, b *value) (shape []int, batch int, ia, ib []int32, err error) {
	shape, batch, err = broadcastShape(a, b, 0)
	if err != nil {
		return nil, 0, nil, nil, err
	}
	if ia, err = c.broadcastTable(shape, a.shape); err == nil {
		ib, err = c.broadcastTable(shape, b.shape)
	}
	return shape, batch, ia, ib, err
}

// broadcastShape combines two shapes aligned at their ends, leaving out the
// last skip dimensions of each, and finds the batch axis of the result.
func broadcastShape(a, b *value, skip int) (shape []int, batch int, err error) {
	ra, rb := len(a.shape)-skip, len(b.shape)-skip
	rank := max(ra, rb)
	shape, batch = make([]int, rank), -1
	for i := range rank {
		da, db := dimFromEnd(a.shape[:ra], rank-i), dimFromEnd(b.shape[:rb], rank-i)
		if da != db && da != 1 && db != 1 || da == 0 || db == 0 {
			return nil, 0, fmt.Errorf("shapes %v and %v do not broadcast", a.shape, b.shape)
		}
		shape[i] = max(da, db)
		inA, inB := a.batch >= 0 && a.batch == i-(rank-ra), b.batch >= 0 && b.batch == i-(rank-rb)
		if !inA && !inB {
			continue
		}
		// A batch dimension meets its like or a dimension of one.
		if batch >= 0 || inA && db != 1 && !(inB && da == db) || inB && da != 1 && !(inA && da == db) || inA && inB && da != db {
			return nil, 0, fmt.Errorf("shapes %v and %v meet along the batch dimension, which would mix examples", a.shape, b.shape)
		}
		batch = i
	}
	return shape, batch, nil
}

func dimFromEnd(shape []int, fromEnd int) int {
	if fromEnd > len(shape) {
		return 1
	}
	return shape[len(shape)-fromEnd]
}

// broadcastTable returns which element of a tensor each element of the
// broadcast result reads, or nil where it is its own.
func (c *compiler) broadcastTable(shape, of []int) ([]int32, error) {
	if slices.Equal(shape, of) {
		return nil, nil
	}
	key := fmt.Sprint(shape, of)
	if t := c.tables[key]; t != nil {
		return t, nil
	}
	st := strides(of)
	lead := len(shape) - len(of)
	t, err := c.table(shape, func(d, i int) int {
		if d < lead || of[d-lead] == 1 {
			return 0
		}
		return i * st[d-lead]
	})
	c.tables[key] = t
	return t, err
}

// transpose permutes the dimensions of a value.
func (c *compiler) transpose(v *value, perm []int) (*value, error) {
	shape, batch := make([]int, len(perm)), -1
	for i, p := range perm {
		shape[i] = v.shape[p]
		if v.isBatch(p) {
			batch = i
		}
	}
	st := strides(v.shape)
	table, err := c.table(shape, func(d, i int) int { return i * st[perm[d]] })
	if err != nil {
		return nil, err
	}
	return c.apply(v, shape, batch, table, 0)
}

// takeAxis replaces a dimension by the listed positions along it.
func (c *compiler) takeAxis(v *value, ax int, positions []int, newDims []int) (*value, error) {
	if v.isBatch(ax) {
		return nil, errMixes
	}
	shape := slices.Concat(v.shape[:ax], []int{len(positions)}, v.shape[ax+1:])
	st := strides(v.shape)
	table, err := c.table(shape, func(d, i int) int {
		if d == ax {
			i = positions[i]
		}
		return i * st[d]
	})
	if err != nil {
		return nil, err
	}
	out, err := c.apply(v, shape, v.batch, table, 0)
	if err != nil || newDims == nil {
		return out, err
	}
	batch := v.batch
	if batch > ax {
		batch += len(newDims) - 1
	}
	return c.alias(out, slices.Concat(v.shape[:ax], newDims, v.shape[ax+1:]), batch)
}
