package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Reductions", map[string]operator{
		"ReduceMean":      reduction(meanOf),
		"ReduceSum":       reduction(sumOf),
		"ReduceMax":       reduction(groupOf(graph.GroupMax)),
		"ReduceMin":       reduction(groupOf(graph.GroupMin)),
		"ReduceL1":        reduction(groupOf(graph.GroupL1)),
		"ReduceL2":        reduction(groupOf(graph.GroupL2)),
		"ReduceLogSum":    reduction(groupOf(graph.GroupLogSum)),
		"ReduceSumSquare": reduction(groupOf(graph.GroupSumSquare)),
		"ReduceLogSumExp": reduction(func(target []int32, _ int) graph.Op { return &graph.LogSumExp{Target: target} }),
		"ReduceProd":      reduction(func(target []int32, _ int) graph.Op { return &graph.GroupProduct{Target: target} }),
	})
}

// A reducer makes the operator that reduces groups of items elements each;
// target is the group of every element.
type reducer func(target []int32, items int) graph.Op

func sumOf(target []int32, _ int) graph.Op { return &graph.Reduce{Target: target, Scale: 1} }

func meanOf(target []int32, items int) graph.Op {
	return &graph.Reduce{Target: target, Scale: 1 / float64(items)}
}

func groupOf(fn graph.GroupFunc) reducer {
	return func(target []int32, _ int) graph.Op { return &graph.Group{Target: target, Fn: fn} }
}

// reduction returns the operator that reduces axes by what make makes.
func reduction(make reducer) operator {
	return operator{translate: func(c *compiler) error { return c.reduce(make) }, inputs: 2}
}

func (c *compiler) reduce(make reducer) error {
	x, err := c.float(0)
	if err != nil {
		return err
	}
	drop, err := c.reducedAxes(len(x.shape))
	if err != nil {
		return err
	}
	return c.result(c.reduceAxes(x, drop, c.attrInt("keepdims", 1) != 0, make))
}

// reducedAxes marks the axes over which a node reduces: those of its input or
// attribute axes or, where it lists none, all of them or, with
// noop_with_empty_axes, none.
func (c *compiler) reducedAxes(rank int) ([]bool, error) {
	axes, _, err := c.intsOr(1, "axes")
	if err != nil {
		return nil, err
	}
	drop := slices.Repeat([]bool{len(axes) == 0 && c.attrInt("noop_with_empty_axes", 0) == 0}, rank)
	for _, a := range axes {
		if a, err = axis(a, rank); err != nil {
			return nil, err
		}
		drop[a] = true
	}
	return drop, nil
}

// reduceAxes reduces over the axes marked in drop.
func (c *compiler) reduceAxes(x *value, drop []bool, keep bool, make reducer) (*value, error) {
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
	y, err := c.emit(make(table, items), kept, x.batch, x)
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
