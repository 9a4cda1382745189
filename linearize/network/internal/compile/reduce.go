package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Comparisons and masks", map[string]operator{
		"ArgMax": {translate: func(c *compiler) { c.argMax(false) }, inputs: 1, integers: isPosition, note: "no derivative"},
		"ArgMin": {translate: func(c *compiler) { c.argMax(true) }, inputs: 1, integers: isPosition, note: "no derivative"},
	})
	prod := reduction(func(target []int32, _ int) graph.Op { return &graph.GroupProduct{Target: target} }, mulInt)
	prod.integers = 0 // a product of integers that depend on the input would overflow
	register("Reductions", map[string]operator{
		"ReduceMean":      reduction(meanOf, nil),
		"ReduceSum":       reduction(sumOf, addInt),
		"ReduceMax":       extreme(graph.GroupMax, maxInt),
		"ReduceMin":       extreme(graph.GroupMin, minInt),
		"ReduceL1":        reduction(groupOf(graph.GroupL1), nil),
		"ReduceL2":        reduction(groupOf(graph.GroupL2), nil),
		"ReduceLogSum":    reduction(groupOf(graph.GroupLogSum), nil),
		"ReduceSumSquare": reduction(groupOf(graph.GroupSumSquare), nil),
		"ReduceLogSumExp": reduction(func(target []int32, _ int) graph.Op { return &graph.LogSumExp{Target: target} }, nil),
		"ReduceProd":      prod,
		"CumSum":          {translate: (*compiler).cumSum, inputs: 2},
	})
}

// extreme returns the operator for the largest or smallest elements.
func extreme(fn graph.GroupFunc, onInts func(a, b affine) affine) operator {
	o := reduction(groupOf(fn), onInts)
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

// reduction returns the operator that reduces axes by what make makes, and known integers
// by onInts.
func reduction(make reducer, onInts func(a, b affine) affine) operator {
	o := operator{inputs: 2, roles: learnt.Sets, note: "of each example by itself"}
	if onInts != nil {
		o.integers = computes
	}
	o.translate = func(c *compiler) {
		if v := c.input(0); v.isInt && onInts != nil {
			c.result(c.reduceInts(v, onInts))
			return
		}
		x := c.float(0)
		c.result(c.reduceAxes(x, c.reducedAxes(len(x.shape)), c.attrInt("keepdims", 1) != 0, make))
	}
	return o
}

// reducedAxes marks the axes over which a node reduces: those of its input or
// attribute axes or, where it lists none, all of them or, with
// noop_with_empty_axes, none.
func (c *compiler) reducedAxes(rank int) []bool {
	axes, _ := c.intsOr(1, "axes")
	drop := slices.Repeat([]bool{len(axes) == 0 && c.attrInt("noop_with_empty_axes", 0) == 0}, rank)
	for _, a := range axes {
		a = axis(a, rank)
		drop[a] = true
	}
	return drop
}

// reduceAxes reduces over the axes marked in drop.
func (c *compiler) reduceAxes(x *value, drop []bool, keep bool, make reducer) *value {
	kept := slices.Clone(x.shape)
	items := 1
	for i, d := range drop {
		if d {
			if x.isBatch(i) {
				panic(errMixes)
			}
			items *= x.shape[i]
			kept[i] = 1
		}
	}
	st := strides(kept)
	table := c.table(x.shape, func(d, i int) int {
		if drop[d] {
			return 0
		}
		return i * st[d]
	})
	y := c.emit(make(table, items), kept, x.batch, x)
	if keep {
		return y
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
func (c *compiler) cumSum() {
	v := c.input(0)
	ax := c.scalarInt(1, 0)
	rank := len(v.shape)
	ax = axis(ax, rank)
	if v.isBatch(ax) {
		panic(errMixes)
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
		// Add up those integers along an axis that counts names for each place.
		n, inner := v.shape[ax], graph.Product(v.shape[ax+1:])
		out := c.newInts(v.shape, v.batch, v)
		if len(v.ints)*n > maxElements {
			panic(refuse("its size makes it too much work"))
		}
		out.real = v.real
		for at := range out.ints {
			i := at / inner % n
			for j := range n {
				if !counts(i, j) {
					continue
				}
				out.ints[at] = addInt(out.ints[at], v.ints[at+(j-i)*inner])
			}
		}
		c.result(out)
		return
	}
	n := v.shape[ax]
	c.spend(numberBytes * n * n)
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
	v = c.transpose(v, perm)
	if rank == 1 {
		v = c.alias(v, []int{1, n}, v.batch)
	}
	v = c.product(v, c.addConstant(sums, []int{n, n}))
	if rank == 1 {
		v = c.alias(v, []int{n}, v.batch)
	}
	c.result(c.transpose(v, perm))
}

// argMax translates ArgMax and ArgMin.
func (c *compiler) argMax(smallest bool) {
	x := c.float(0)
	ax := axis(c.attrInt("axis", 0), len(x.shape))
	if x.isBatch(ax) {
		panic(errMixes)
	}
	o := &graph.ArgMax{Outer: graph.Product(x.shape[:ax]), Length: x.shape[ax], Inner: graph.Product(x.shape[ax+1:]), Min: smallest, Last: c.attrInt("select_last_index", 0) != 0}
	kept := slices.Clone(x.shape)
	kept[ax] = 1
	out := c.emit(o, kept, x.batch, x)
	if c.attrInt("keepdims", 1) != 0 {
		c.result(out)
		return
	}
	batch := out.batch
	if batch > ax {
		batch--
	}
	c.result(c.alias(out, slices.Delete(slices.Clone(kept), ax, ax+1), batch))
}
