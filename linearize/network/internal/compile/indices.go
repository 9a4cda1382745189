package compile

import (
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

// outside is the index of an element in the padding. It stays negative after other indices are added to it.
const outside = -1 << 30

// table returns the Source of a graph.Index for a result of this shape. The element at multi-index (i_d) reads
// element Σ_d source(d, i_d). It reads the padding (−1) if one of the terms is outside.
func (c *compiler) table(shape []int, source func(d, i int) int) []int32 {
	n := count(shape)
	base := []int32{0}
	for d, length := range shape {
		c.spend(tableBytes * length * (1 + len(base)))
		at := make([]int32, length)
		for i := range at {
			at[i] = int32(source(d, i))
		}
		if d == len(shape)-1 {
			return sums(make([]int32, 0, n), base, at, -1)
		}
		base = sums(make([]int32, 0, len(base)*length), base, at, outside)
	}
	return base
}

// upTo returns 0, 1, …, n−1.
func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// sums appends to dst the sums of every element of base with every element of at. A sum below least (in the
// padding) becomes least.
func sums(dst, base, at []int32, least int32) []int32 {
	for _, b := range base {
		for _, a := range at {
			dst = append(dst, max(a+b, least))
		}
	}
	return dst
}

// entries returns the number of elements of a shape, and takes the memory of a table with as many entries from the
// budget.
func (c *compiler) entries(shape []int) int {
	n := count(shape)
	c.spend(tableBytes * n)
	return n
}

// tableOf returns source(idx) for every multi-index of a shape, in row-major order. idx is reused between calls.
func (c *compiler) tableOf(shape []int, source func(idx []int) int) []int32 {
	n := c.entries(shape)
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
	return table
}

// moved returns a tensor of this shape whose elements are read from v. Position i on axis d reads position from(d,
// i) of that axis; −1 stands for fill.
func (c *compiler) moved(v *value, shape []int, batch int, from func(d, i int) int, fill float64) *value {
	st := strides(v.shape)
	table := c.table(shape, func(d, i int) int {
		if at := from(d, i); at >= 0 {
			return at * st[d]
		}
		return outside
	})
	return c.apply(v, shape, batch, table, fill)
}

// apply returns a tensor of this shape, and of the type of v, whose elements are the elements of v that table lists;
// −1 stands for fill.
func (c *compiler) apply(v *value, shape []int, batch int, table []int32, fill float64) *value {
	if v.isInt {
		c.spend(intBytes * len(table))
		out := &value{shape: shape, batch: batch, lead: v.lead, isInt: true, real: v.real, ints: make([]affine, len(table))}
		for i, j := range table {
			if j < 0 {
				out.ints[i] = affine{k: clampInt(int64(fill))}
			} else {
				out.ints[i] = v.ints[j]
			}
		}
		return out
	}
	same := len(table) == graph.Product(v.shape) // whether the table lists all elements of v in order
	for i := 0; i < len(table) && same; i++ {
		same = int(table[i]) == i
	}
	if same {
		return &value{slot: v.slot, shape: shape, batch: batch, lead: v.lead, integer: v.integer}
	}
	return ofType(c.emit(&graph.Index{Source: table, Fill: fill}, shape, batch, v), v.integer)
}
