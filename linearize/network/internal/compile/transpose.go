package compile

import (
	"fmt"
	"slices"
)

func init() {
	register("Shapes", map[string]operator{
		"Transpose": {translate: (*compiler).transposeOp, inputs: 1},
	})
}

func (c *compiler) transposeOp() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	perm := c.attrInts("perm")
	if perm == nil {
		for i := range v.shape {
			perm = append([]int{i}, perm...)
		}
	}
	sorted := slices.Sorted(slices.Values(perm))
	if len(perm) != len(v.shape) {
		return fmt.Errorf("perm %v does not permute %d dimensions", perm, len(v.shape))
	}
	for i := range v.shape {
		if sorted[i] != i {
			return fmt.Errorf("perm %v does not permute %d dimensions", perm, len(v.shape))
		}
	}
	out, err := c.transpose(v, perm)
	if err == nil && slices.Equal(perm, []int{1, 0}) {
		out.weight, out.transposed = v.weight, !v.transposed
	}
	return c.result(out, err)
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
