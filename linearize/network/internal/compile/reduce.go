package compile

import (
	"errors"
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Reductions", map[string]operator{
		"ReduceMean":      reduction(meanOf),
		"ReduceSum":       reduction(sumOf),
		"ReduceMax":       extreme(graph.GroupMax),
		"ReduceMin":       extreme(graph.GroupMin),
		"ReduceL1":        reduction(groupOf(graph.GroupL1)),
		"ReduceL2":        reduction(groupOf(graph.GroupL2)),
		"ReduceLogSum":    reduction(groupOf(graph.GroupLogSum)),
		"ReduceSumSquare": reduction(groupOf(graph.GroupSumSquare)),
		"ReduceLogSumExp": reduction(func(target []int32, _ int) graph.Op { return &graph.LogSumExp{Target: target} }),
		"ReduceProd":      reduction(func(target []int32, _ int) graph.Op { return &graph.GroupProduct{Target: target} }),
		"CumSum":          {translate: (*compiler).cumSum, inputs: 2},
	})
}

// extreme returns the operator for the largest or smallest elements.
func extreme(fn graph.GroupFunc) operator {
	o := reduction(groupOf(fn))
	o.note = "equal elements share the derivative, as of PyTorch's amax; max of one axis, exported the same, takes one of them there"
	return o
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
	return operator{translate: func(c *compiler) error { return c.reduce(make) }, inputs: 2, note: "of each example by itself"}
}

func (c *compiler) reduce(make reducer) error {
	if v, err := c.input(0); err == nil && v.isInt && intReductions[c.node.OpType] != nil {
		return c.result(c.reduceInts(v))
	}
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

// cumSum translates CumSum, the sums of the elements up to each along an axis.
func (c *compiler) cumSum() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	ax, err := c.scalarInt(1, 0)
	if err != nil {
		return err
	}
	rank := len(v.shape)
	if ax, err = axis(ax, rank); err != nil {
		return err
	}
	if v.isBatch(ax) {
		return errMixes
	}
	// Element i of the sums counts element j of the terms.
	exclusive, reverse := c.attrInt("exclusive", 0) != 0, c.attrInt("reverse", 0) != 0
	counts := func(i, j int) bool {
		if reverse {
			i, j = j, i
		}
		return j < i || j == i && !exclusive
	}
	if v.isInt {
		return c.result(c.sumInts(v, ax, counts))
	}
	n := v.shape[ax]
	if err := c.spend(numberBytes * n * n); err != nil {
		return err
	}
	sums := make([]float64, n*n)
	for i := range n {
		for j := range n {
			sums[j*n+i] = graph.Step(counts(i, j))
		}
	}
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = i
	}
	perm[ax], perm[rank-1] = rank-1, ax
	if v, err = c.transpose(v, perm); err != nil {
		return err
	}
	if rank == 1 {
		v, err = c.alias(v, []int{1, n}, v.batch)
	}
	if err == nil {
		v, err = c.product(v, c.addConstant(sums, []int{n, n}))
	}
	if err == nil && rank == 1 {
		v, err = c.alias(v, []int{n}, v.batch)
	}
	if err != nil {
		return err
	}
	return c.result(c.transpose(v, perm))
}

// sumInts adds up those integers along an axis that counts names for each place.
func (c *compiler) sumInts(v *value, ax int, counts func(i, j int) bool) (*value, error) {
	n, inner := v.shape[ax], graph.Product(v.shape[ax+1:])
	out, err := c.newInts(v.shape, v.batch, v)
	if err != nil {
		return nil, err
	}
	if len(v.ints)*n > maxElements {
		return nil, errors.New("its size makes it too much work")
	}
	out.real = v.real
	for at := range out.ints {
		i := at / inner % n
		for j := range n {
			if !counts(i, j) {
				continue
			}
			if out.ints[at], err = addInt(out.ints[at], v.ints[at+(j-i)*inner]); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
