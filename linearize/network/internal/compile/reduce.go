package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Comparisons and masks", map[string]operator{
		"ArgMax": {translate: func(c *compiler) { c.argMax(false) }, inputs: 1, integers: isPosition, note: "no derivative"},
		"ArgMin": {translate: func(c *compiler) { c.argMax(true) }, inputs: 1, integers: isPosition, note: "no derivative"},
		"TopK":   {translate: (*compiler).topK, inputs: 2, integers: ownType, note: "the number is known without running the network; no derivative of the positions"},
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

// extreme returns the operator that reduces groups to their largest or smallest elements.
func extreme(fn graph.GroupFunc, onInts func(a, b affine) affine) operator {
	o := reduction(groupOf(fn), onInts)
	o.note = "equal elements share the derivative, as of PyTorch's amax; max of one axis, exported the same, takes one of them there"
	return o
}

// A reducer returns the graph operator that reduces each group of elements to one number. target holds the group of
// every input element; every group has items elements.
type reducer func(target []int32, items int) graph.Op

func sumOf(target []int32, _ int) graph.Op { return &graph.Reduce{Target: target, Scale: 1} }

func meanOf(target []int32, items int) graph.Op {
	return &graph.Reduce{Target: target, Scale: 1 / float64(items)}
}

func groupOf(fn graph.GroupFunc) reducer {
	return func(target []int32, _ int) graph.Op { return &graph.Group{Target: target, Fn: fn} }
}

// reduction returns an ONNX operator that reduces over axes. make gives the graph operator for numbers; onInts
// combines known integers, if it is not nil.
func reduction(make reducer, onInts func(a, b affine) affine) operator {
	o := operator{inputs: 2, roles: learnt.Sets, note: "of each example by itself; over the batch where the file fixes a batch of 1"}
	if onInts != nil {
		o.integers = computes
	}
	o.translate = func(c *compiler) {
		if v := c.input(0); v.isInt && onInts != nil {
			c.result(c.reduceInts(v, onInts))
			return
		}
		x, keep := c.float(0), c.attrInt("keepdims", 1) != 0
		drop := c.reducedAxes(len(x.shape))
		if x.batch < 0 || !drop[x.batch] {
			c.result(c.reduceAxes(x, drop, keep, make))
			return
		}
		if c.batch != 1 {
			var give []option.Text
			for _, in := range c.prog.Inputs {
				give = append(give, bound(in.Name+"=1,"+strings.Trim(strings.ReplaceAll(fmt.Sprint(in.Shape), " ", ","), "[]")))
			}
			panic(refuse("it reduces over the batch dimension, which would mix examples; if each is to be a batch of its own, give %s, and otherwise reduce over the other dimensions", few(give, "{,}", 200)))
		}
		// Reduce over elements of the only example. The result has no batch axis left unless it keeps the reduced ones.
		y := c.reduceAxes(c.loose(x), drop, keep, make)
		if keep {
			y = y.onAxis(x.batch, 0)
		}
		c.result(y)
	}
	return o
}

// reducedAxes marks the axes over which a node reduces. They are listed in input 1 or in the attribute axes. If the
// list is empty, the node reduces over all axes or, with noop_with_empty_axes, over none.
func (c *compiler) reducedAxes(rank int) []bool {
	axes, _ := c.intsOr(1, "axes")
	drop := slices.Repeat([]bool{len(axes) == 0 && c.attrInt("noop_with_empty_axes", 0) == 0}, rank)
	for _, a := range axes {
		a = axis(a, rank)
		drop[a] = true
	}
	return drop
}

// A reducedShape describes the result of a reduction: kept is the shape with the reduced axes at length 1; shape
// and batch are the shape and the batch axis without the reduced axes.
type reducedShape struct {
	kept, shape []int
	batch       int
	items       int // number of elements in each group
}

func reduced(x *value, drop []bool) *reducedShape {
	r := &reducedShape{kept: slices.Clone(x.shape), shape: []int{}, batch: x.batch, items: 1}
	for i, d := range drop {
		switch {
		case d && x.isBatch(i):
			panic(errMixes)
		case d:
			r.items *= x.shape[i]
			r.kept[i] = 1
			r.batch -= int(graph.Step(i < x.batch))
		default:
			r.shape = append(r.shape, x.shape[i])
		}
	}
	return r
}

// reduceAxes reduces x over the axes marked in drop. With keep, the result has these axes with length 1.
func (c *compiler) reduceAxes(x *value, drop []bool, keep bool, make reducer) *value {
	r := reduced(x, drop)
	st := strides(r.kept)
	table := c.table(x.shape, func(d, i int) int {
		if drop[d] {
			return 0
		}
		return i * st[d]
	})
	y := c.emit(make(table, r.items), r.kept, x.batch, x)
	if keep {
		return y
	}
	return c.alias(y, r.shape, r.batch)
}

// reduceInts reduces known integers over the node's axes; f combines two integers.
func (c *compiler) reduceInts(v *value, f func(a, b affine) affine) *value {
	r := reduced(v, c.reducedAxes(len(v.shape)))
	out := &value{shape: r.shape, batch: r.batch, lead: v.lead, isInt: true, real: v.real}
	if c.attrInt("keepdims", 1) != 0 {
		out.shape, out.batch = r.kept, v.batch
	}
	n := count(r.kept)
	if len(v.ints) == 0 {
		empty, ok := map[string]int{"ReduceSum": 0, "ReduceProd": 1}[c.node.OpType]
		if !ok || n != 1 {
			panic(refuse("a reduction of no elements"))
		}
		out.ints = []affine{{k: empty}}
		return out
	}
	c.spend(intBytes * n)
	table := c.broadcastTable(v.shape, r.kept)
	out.ints = make([]affine, n)
	seen := make([]bool, n)
	for i, a := range v.ints {
		at := graph.Pick(table, i)
		if a = bounded(a); seen[at] {
			a = f(out.ints[at], a)
		}
		out.ints[at], seen[at] = a, true
	}
	return out
}

// cumSum translates CumSum: element i is the sum of the elements up to i along an axis.
func (c *compiler) cumSum() {
	v := c.input(0)
	ax := c.scalarInt(1, 0)
	ax = axis(ax, len(v.shape))
	if v.isBatch(ax) {
		panic(errMixes)
	}
	// counts reports whether element j of the input is a term of sum i.
	exclusive, reverse := c.attrInt("exclusive", 0) != 0, c.attrInt("reverse", 0) != 0
	counts := func(i, j int) bool {
		if reverse {
			i, j = j, i
		}
		return j < i || j == i && !exclusive
	}
	if v.isInt {
		// For each i, add up the integers j for which counts is true.
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
	c.spend((tableBytes + numberBytes) * n * n)
	o := &graph.AxisMap{Outer: graph.Product(v.shape[:ax]), In: n, Inner: graph.Product(v.shape[ax+1:]), First: make([]int32, 1, n+1)}
	for i := range n {
		for j := range n {
			if counts(i, j) {
				o.Source, o.Weight = append(o.Source, int32(j)), append(o.Weight, 1)
			}
		}
		o.First = append(o.First, int32(len(o.Source)))
	}
	c.result(c.emit(o, v.shape, v.batch, v))
}

// extremes returns the positions of the k largest (smallest) elements of x along axis ax. If last, the last of
// equal elements is taken, otherwise the first.
func (c *compiler) extremes(x *value, ax, k int, smallest, last bool) *value {
	shape := slices.Clone(x.shape)
	switch {
	case x.isBatch(ax):
		panic(errMixes)
	case k < 1 || k > shape[ax]:
		panic(refuse("%d of %d elements", k, shape[ax]))
	}
	shape[ax] = k
	o := &graph.Extremes{Outer: graph.Product(x.shape[:ax]), Length: x.shape[ax], Inner: graph.Product(x.shape[ax+1:]), K: k, Min: smallest, Last: last}
	return c.emit(o, shape, x.batch, x)
}

// argMax translates ArgMax, and ArgMin with smallest.
func (c *compiler) argMax(smallest bool) {
	x := c.float(0)
	ax := axis(c.attrInt("axis", 0), len(x.shape))
	out := c.extremes(x, ax, 1, smallest, c.attrInt("select_last_index", 0) != 0)
	if c.attrInt("keepdims", 1) == 0 {
		drop := make([]bool, len(x.shape))
		drop[ax] = true
		r := reduced(x, drop)
		out = c.alias(out, r.shape, r.batch)
	}
	c.result(out)
}

// topK translates TopK: output 0 holds the k largest or smallest elements along an axis, output 1 their positions.
func (c *compiler) topK() {
	x, t := c.float(0), typeOf(c.input(0))
	ax := axis(c.attrInt("axis", -1), len(x.shape))
	at := c.extremes(x, ax, c.scalarInt(1, c.attrInt("k", 0)), c.attrInt("largest", 1) == 0, false)
	c.set(0, ofType(c.pickup(x, at, ax, false), t))
	if len(c.node.Outputs) > 1 {
		c.set(1, ofType(at, onnx.Int64))
	}
}
