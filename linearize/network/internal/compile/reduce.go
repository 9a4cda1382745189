package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Reductions", map[string]operator{
		"ReduceMean": {translate: func(c *compiler) error { return c.reduce(true) }, inputs: 2},
		"ReduceSum":  {translate: func(c *compiler) error { return c.reduce(false) }, inputs: 2},
	})
}

func (c *compiler) reduce(mean bool) error {
	x, err := c.float(0)
	if err != nil {
		return err
	}
	axes, given, err := c.intsOr(1, "axes")
	if err != nil {
		return err
	}
	drop := make([]bool, len(x.shape))
	for _, a := range axes {
		if a, err = axis(a, len(drop)); err != nil {
			return err
		}
		drop[a] = true
	}
	if !given || len(axes) == 0 {
		if c.attrInt("noop_with_empty_axes", 0) != 0 {
			return c.result(x, nil)
		}
		for i := range drop {
			drop[i] = true
		}
	}
	return c.result(c.reduceAxes(x, drop, c.attrInt("keepdims", 1) != 0, mean))
}

// reduceAxes sums or averages over the axes marked in drop.
func (c *compiler) reduceAxes(x *value, drop []bool, keep, mean bool) (*value, error) {
	kept := slices.Clone(x.shape)
	items := 1
	for i, d := range drop {
		if d {
			if x.isBatch(i) {
				return nil, errMixes
			}
			items *= x.shape[i]
			kept[i] = 1
		}
	}
	st := strides(kept)
	table, err := c.table(x.shape, func(d, i int) int {
		if drop[d] {
			return 0
		}
		return i * st[d]
	})
	if err != nil {
		return nil, err
	}
	o := &graph.Reduce{Target: table, Scale: 1}
	if mean {
		o.Scale = 1 / float64(items)
	}
	y, err := c.emit(o, kept, x.batch, x)
	if err != nil || keep {
		return y, err
	}
	shape, batch := []int{}, x.batch
	for i, d := range drop {
		switch {
		case !d:
			shape = append(shape, x.shape[i])
		case i < x.batch:
			batch--
		}
	}
	return c.alias(y, shape, batch)
}
