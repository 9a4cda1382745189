package compile

import (
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func (c *compiler) expand() {
	v := c.input(0)
	to := c.intsAt(1)
	target := &value{}
	target.shape, target.batch = known(to)
	count(target.shape)
	lead := len(target.shape) - len(v.shape)
	if i := target.batch - lead; v.batch < 0 && c.batch > 1 && target.batch >= 0 && i >= 0 && v.shape[i] == c.batch {
		if v.isInt {
			v = c.perExample(v, i, true) // as for the numbers of the examples
		}
		if v.batch < 0 {
			v = c.sameForAll(v, i) // as for the initial states of a recurrent layer
		}
	}
	switch i := v.batch + lead; {
	case target.batch >= 0:
	case v.batch >= 0 && i >= 0 && target.shape[i] != 1:
		if !c.isBatchSize(to.ints[i], v.shape[v.batch]) {
			panic(errMixes)
		}
		target.shape[i], target.batch = v.shape[v.batch], i
	case v.batch < 0 && !v.isInt && c.batch > 1 && len(to.ints) > 1 && lead >= 0 && to.ints[0] == affine{k: c.batch} && (lead > 0 || v.shape[0] == 1):
		// A class token repeated for the examples of a model with a fixed batch size.
		target.shape[0], target.batch = 1, 0
	}
	shape, batch := broadcastShape(v, target, 0)
	table := c.broadcastTable(shape, v.shape)
	if table == nil {
		w := *v
		w.batch = batch
		c.result(&w)
		return
	}
	c.result(c.apply(v, shape, batch, table, 0))
}

// sameForAll returns the first example of a tensor that holds every example of a model exported with a fixed batch
// size, on axis batch. The examples must be equal: the tensor is a constant with equal blocks, or its elements are
// copies of the same elements of another tensor. Otherwise the tensor is refused.
func (c *compiler) sameForAll(v *value, batch int) *value {
	if v.isInt {
		panic(refuse("integers of shape %v for %d examples", v.shape, c.batch))
	}
	data, from := c.static[v.slot], c.copied(v.slot)
	inner := graph.Product(v.shape[batch+1:])
	for i := range graph.Product(v.shape) {
		first := i - i/inner%v.shape[batch]*inner
		if first != i && (data == nil || data[i] != data[first]) && (from == nil || from[i] != from[first]) {
			panic(refuse("a tensor of shape %v may differ between the %d examples", v.shape, c.batch))
		}
	}
	return c.takeAxis(v, batch, []int{0}, nil)
}

// copied follows the copying nodes (graph.Index) that make the tensor of a slot. It returns for each element the
// element of the first node's input that is copied, or nil if a computing node makes the tensor.
func (c *compiler) copied(slot int) []int32 {
	var from []int32
	for i := len(c.prog.Nodes) - 1; i >= 0; i-- {
		nd := &c.prog.Nodes[i]
		if nd.Out != slot {
			continue
		}
		index, ok := nd.Op.(*graph.Index)
		if !ok || index.Fill != 0 || len(nd.In) > 1 {
			break
		}
		slot = nd.In[0]
		if from == nil {
			from = slices.Clone(index.Source)
			continue
		}
		for k, at := range from {
			if at >= 0 {
				from[k] = index.Source[at]
			}
		}
	}
	return from
}

// isBatchSize reports whether a is the length of a batch axis with d elements
// for each example.
func (c *compiler) isBatchSize(a affine, d int) bool {
	return a == affine{n: d} || c.batch > 0 && a == affine{k: c.batch * d}
}

// broadcast returns the shape and batch axis of the result of broadcasting two operands, and for each operand the
// table that names the operand's element for each element of the result (broadcastTable).
func (c *compiler) broadcast(a, b *value) (shape []int, batch int, ia, ib []int32) {
	shape, batch = broadcastShape(a, b, 0)
	return shape, batch, c.broadcastTable(shape, a.shape), c.broadcastTable(shape, b.shape)
}

// broadcastShape returns the shape and batch axis of the result of broadcasting a and b, both without their last
// skip dimensions. It refuses operands that meet along the batch axis with different lengths.
func broadcastShape(a, b *value, skip int) (shape []int, batch int) {
	ra, rb := len(a.shape)-skip, len(b.shape)-skip
	rank := max(ra, rb)
	shape, batch = make([]int, rank), -1
	for i := range rank {
		da, db := dimFromEnd(a.shape[:ra], rank-i), dimFromEnd(b.shape[:rb], rank-i)
		if da != db && da != 1 && db != 1 || da == 0 || db == 0 {
			panic(refuse("shapes %v and %v do not broadcast", a.shape, b.shape))
		}
		shape[i] = max(da, db)
		inA, inB := a.batch >= 0 && a.batch == i-(rank-ra), b.batch >= 0 && b.batch == i-(rank-rb)
		if !inA && !inB {
			continue
		}
		// The batch axis of one operand meets the batch axis of the other with the same length, or a length of 1.
		if batch >= 0 || inA && db != 1 && !(inB && da == db) || inB && da != 1 && !(inA && da == db) || inA && inB && da != db {
			panic(refuse("shapes %v and %v meet along the batch dimension, which would mix examples", a.shape, b.shape))
		}
		batch = i
	}
	return shape, batch
}

// dimFromEnd returns the length of a dimension that is counted from the end (1 is the last), or 1 beyond the first
// dimension.
func dimFromEnd(shape []int, fromEnd int) int {
	if fromEnd > len(shape) {
		return 1
	}
	return shape[len(shape)-fromEnd]
}

// broadcastTable returns for each element of a broadcast result of the given shape the element to read in a tensor
// of shape of. It returns nil if the shapes are equal.
func (c *compiler) broadcastTable(shape, of []int) []int32 {
	if slices.Equal(shape, of) {
		return nil
	}
	key := fmt.Sprint(shape, of)
	if t := c.tables[key]; t != nil {
		return t
	}
	st := strides(of)
	lead := len(shape) - len(of)
	t := c.table(shape, func(d, i int) int {
		if d < lead || of[d-lead] == 1 {
			return 0
		}
		return i * st[d-lead]
	})
	c.tables[key] = t
	return t
}

// tile translates Tile: it repeats a tensor along its axes. A repeat once for every example makes a batch axis.
func (c *compiler) tile() {
	v := c.input(0)
	repeats := c.intsAt(1)
	if len(repeats.shape) != 1 || len(repeats.ints) != len(v.shape) {
		panic(refuse("%d repeats for %d dimensions", len(repeats.ints), len(v.shape)))
	}
	shape, batch := slices.Clone(v.shape), v.batch
	for i, r := range repeats.ints {
		switch one := (affine{k: 1}); {
		case r == one:
			continue
		case v.isBatch(i):
			panic(errMixes)
		case r.n > 0 && r.k == 0 && batch < 0:
			r.k, batch = r.n, i
		case !r.constant():
			panic(errMixes)
		case i == 0 && c.batch > 1 && r.k == c.batch && v.batch < 0 && !v.isInt && v.shape[0] == 1:
			// A class token repeated for the examples of a model with a fixed batch size.
			r, batch = one, 0
		}
		if r.k < 1 || r.k > maxElements {
			panic(refuse("%d repeats of dimension %d", r.k, i))
		}
		shape[i] *= r.k
	}
	c.result(c.moved(v, shape, batch, func(d, i int) int { return i % v.shape[d] }, 0))
}

// aligned returns values that are to be broadcast together. In a model with a fixed batch size, a constant with a
// row for each example gets a batch axis where another value has its batch axis (perExample). With numbered,
// integers may also count the examples. In a model with a batch of one, one number loses its batch axis.
func (c *compiler) aligned(numbered bool, values ...*value) []*value {
	i := slices.IndexFunc(values, func(v *value) bool { return v.batch >= 0 && v.leading() == 1 })
	if c.batch < 1 || i < 0 {
		return values
	}
	out, with := slices.Clone(values), values[i]
	if c.batch == 1 {
		// One number of the only example is for all elements of another tensor, on whatever axis they meet.
		for j, v := range values {
			if v.batch >= 0 && graph.Product(v.shape) == 1 && slices.ContainsFunc(values, func(w *value) bool { return len(w.shape) > len(v.shape) }) {
				out[j] = v.onAxis(-1, 0)
			}
		}
		return out
	}
	for j, v := range values {
		ax := with.batch - len(with.shape) + len(v.shape)
		if ax >= 0 && ax < len(v.shape) && v.shape[ax] == c.batch*with.shape[with.batch] {
			out[j] = c.perExample(v, ax, numbered)
		}
	}
	return out
}

// perExample turns an axis of a constant into a batch axis. The axis holds all examples of a model with a fixed
// batch size, and all must be equal; otherwise perExample returns the constant unchanged. With numbered, integers
// may instead increase by the same step from example to example, as row numbers do.
func (c *compiler) perExample(v *value, ax int, numbered bool) *value {
	if c.batch <= 1 || v.batch >= 0 || ax < 0 || ax >= len(v.shape) || v.shape[ax] == 0 || v.shape[ax]%c.batch != 0 || !v.isInt && c.static[v.slot] == nil {
		return v
	}
	shape := slices.Clone(v.shape)
	shape[ax] /= c.batch
	size := graph.Product(shape[ax:])
	if attempt(func() { c.spend(intBytes * graph.Product(shape)) }) != nil {
		return v
	}
	w := *v
	if v.isInt {
		w.ints = nil
	}
	var data []float64
	for outer := range graph.Product(shape[:ax]) {
		for i := range size {
			at := outer*c.batch*size + i
			if !v.isInt {
				data = append(data, c.static[v.slot][at])
				for e := range c.batch {
					if c.static[v.slot][at+e*size] != data[len(data)-1] {
						return v
					}
				}
				continue
			}
			a := v.ints[at]
			if numbered {
				a.row = v.ints[at+size].k - a.k
			}
			for e := range c.batch {
				if v.ints[at+e*size] != (affine{n: a.n, k: a.k + e*a.row}) {
					return v
				}
			}
			w.ints = append(w.ints, a)
		}
	}
	if !v.isInt {
		w = *c.addConstant(data, shape)
		w.fromInts = v.fromInts
	}
	w.shape, w.batch = shape, ax
	return &w
}
