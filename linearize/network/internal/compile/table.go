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
