package compile

import (
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Comparisons and masks", map[string]operator{
		"Equal":          comparison(func(sign int) bool { return sign == 0 }),
		"Greater":        comparison(func(sign int) bool { return sign > 0 }),
		"GreaterOrEqual": comparison(func(sign int) bool { return sign >= 0 }),
		"Less":           comparison(func(sign int) bool { return sign < 0 }),
		"LessOrEqual":    comparison(func(sign int) bool { return sign <= 0 }),
		"And":            logical(func(a, b bool) bool { return a && b }),
		"Or":             logical(func(a, b bool) bool { return a || b }),
		"Xor":            logical(func(a, b bool) bool { return a != b }),
		"Not":            {translate: (*compiler).not, inputs: 1, integers: isTruth, roles: learnt.Compares},
		"Where":          {translate: (*compiler).where, inputs: 3, integers: ownType, note: "no derivative through the condition"},
		"Trilu":          {translate: (*compiler).trilu, inputs: 2, integers: keepsType},
	})
}

const knownOnly = "of numbers that do not depend on the input"

func comparison(is func(sign int) bool) operator {
	return operator{translate: func(c *compiler) {
		// Translate a comparison. The result holds truth values. If neither tensor depends on the input, these are
		// the known integers 0 and 1.
		a, b := c.input(0), c.input(1)
		switch {
		case c.depends(a) || c.depends(b):
			c.result(ofType(c.combine(graph.Comparison(is), c.float(0), c.float(1)), onnx.Bool))
			return
		case a.isInt && b.isInt:
			c.result(c.zipInts(a, b, func(x, y affine) affine { return x.compare(y, is) }))
			return
		}
		x := c.numbers(a)
		y := c.numbers(b)
		shape, batch, ia, ib := c.broadcast(a, b)
		out := c.newInts(shape, batch, a, b)
		for i := range out.ints {
			p, q := x[graph.Pick(ia, i)], y[graph.Pick(ib, i)] // neither is NaN
			out.ints[i].k = int(graph.Step(is(int(graph.Step(p > q) - graph.Step(p < q)))))
		}
		c.result(out)
	}, inputs: 2, integers: isTruth, roles: learnt.Compares, note: "no derivative"}
}

func logical(f func(a, b bool) bool) operator {
	return operator{translate: func(c *compiler) {
		// Translate a function of two tensors of truth values.
		if c.integerType() != 0 {
			c.result(ofType(c.combine(graph.Logical(f), c.float(0), c.float(1)), onnx.Bool))
			return
		}
		a, b := c.truth(0), c.truth(1)
		c.result(c.zipInts(a, b, func(x, y affine) affine {
			return affine{k: int(graph.Step(f(x.k != 0, y.k != 0)))}
		}))
	}, inputs: 2, integers: isTruth, roles: learnt.Compares}
}

// numbers returns the elements, for one example, of a tensor that does not depend on the input. A parameter from
// which the tensor is computed enters with its stored value and is marked as known.
func (c *compiler) numbers(v *value) []float64 {
	switch {
	case v.isInt:
		f := c.toFloat(v)
		return c.static[f.slot]
	case c.static[v.slot] != nil:
		return c.static[v.slot]
	case c.bySlot[v.slot] != nil:
		in := c.bySlot[v.slot]
		in.known = true
		return in.t.Floats
	case !c.isStatic(v):
		panic(refuse("it compares numbers that depend on the input"))
	}
	// Compute a static slot from the stored values of the parameters.
	need, values := map[int]bool{v.slot: true}, slices.Clone(c.static)
	for _, nd := range slices.Backward(c.prog.Nodes) {
		if need[nd.Out] {
			values[nd.Out] = make([]float64, c.prog.Slots[nd.Out].Size)
			for _, in := range nd.In {
				need[in] = true
			}
		}
	}
	for slot, in := range c.bySlot {
		if need[slot] {
			in.known, values[slot] = true, in.t.Floats
		}
	}
	s := &graph.State{Program: c.prog, Static: values, N: 1}
	for i := range c.prog.Nodes {
		if nd := &c.prog.Nodes[i]; need[nd.Out] {
			nd.Op.Forward(s, nd)
		}
	}
	return values[v.slot]
}

func (c *compiler) not() {
	if c.integerType() != 0 {
		c.elementwise(graph.Not)
		return
	}
	v := c.truth(0)
	c.result(c.mapInts(v, func(a affine) affine { return affine{k: int(graph.Step(a.k == 0))} }))
}

// truth returns input i, which must be known truth values. They are stored as integers; every integer but 0 is
// true.
func (c *compiler) truth(i int) *value {
	v := c.input(i)
	if !v.isInt {
		panic(refuse("input %d (%s) must be truth values that do not depend on the input", i, quote(c.node.Inputs[i])))
	}
	for _, a := range v.ints {
		if !a.constant() {
			panic(refuse("input %d depends on the batch size, which would mix examples", i))
		}
	}
	return v
}

// where translates Where.
func (c *compiler) where() {
	if cond := c.input(0); cond.integer != 0 { // the condition depends on the input
		t := max(typeOf(c.input(1)), typeOf(c.input(2)))
		a, b := c.float(1), c.float(2)
		c.result(ofType(c.choice(c.aligned(false, cond, a, b)), t))
		return
	}
	cond := c.truth(0)
	a := c.input(1)
	b := c.input(2)
	if a.isInt && b.isInt && len(cond.ints)*len(a.ints)*len(b.ints) == 0 {
		c.result(c.emptyInts(a, b))
		return
	}
	if !(a.isInt && b.isInt) {
		a = c.float(1)
		b = c.float(2)
	}
	// Take the elements of a where cond is true and the elements of b elsewhere, with broadcasting. a and b are
	// both floating point or both integers.
	in := c.aligned(false, cond, a, b)
	shape, batch, from := c.broadcastThree(in)
	commonLead(in...)
	n := c.entries(shape)
	table := make([]int32, n)
	for i := range table {
		if in[0].ints[graph.Pick(from[0], i)].k != 0 {
			table[i] = int32(graph.Pick(from[1], i))
		} else {
			table[i] = int32(graph.Product(in[1].shape) + graph.Pick(from[2], i))
		}
	}
	out := c.picked(shape, batch, table, in[1], in[2])
	if out.batch >= 0 && out.lead == 0 {
		out.lead = in[0].lead
	}
	c.result(out)
}

// broadcastThree does what broadcast does for a condition and the two tensors from which the condition chooses.
func (c *compiler) broadcastThree(in []*value) (shape []int, batch int, from [3][]int32) {
	shape, batch = broadcastShape(in[1], in[2], 0)
	shape, batch = broadcastShape(&value{shape: shape, batch: batch}, in[0], 0)
	for i, v := range in {
		from[i] = c.broadcastTable(shape, v.shape)
	}
	return shape, batch, from
}

// choice emits a graph.Where that chooses, with broadcasting, between in[1] (in[0] is true) and in[2].
func (c *compiler) choice(in []*value) *value {
	shape, batch, from := c.broadcastThree(in)
	return c.emit(&graph.Where{Cond: from[0], Left: from[1], Right: from[2]}, shape, batch, in...)
}

// picked returns elements of tensors, which are all floating point or all known integers. table lists them as the
// Source of a graph.Index does.
func (c *compiler) picked(shape []int, batch int, table []int32, in ...*value) *value {
	if !in[0].isInt {
		return c.emit(&graph.Index{Source: table}, shape, batch, in...)
	}
	out, all := c.newInts(shape, batch, in...), []affine(nil)
	for _, v := range in {
		all, out.real = append(all, v.ints...), out.real || v.real
	}
	for i, j := range table {
		out.ints[i] = all[j]
	}
	return out
}

// trilu translates Trilu: it keeps the elements on one side of a diagonal and sets the others to zero.
func (c *compiler) trilu() {
	v := c.input(0)
	k := c.scalarInt(1, 0)
	rank := len(v.shape)
	if rank < 2 {
		panic(refuse("a tensor of shape %v is no matrix", v.shape))
	}
	if v.batch >= rank-2 {
		panic(errMixes)
	}
	upper := c.attrInt("upper", 1) != 0
	at := 0
	table := c.tableOf(v.shape, func(idx []int) int {
		at++
		if d := idx[rank-1] - idx[rank-2]; upper && d >= k || !upper && d <= k {
			return at - 1
		}
		return -1
	})
	c.result(c.apply(v, v.shape, v.batch, table, 0))
}

// scalarInt returns the only integer of input i, or def if the node does not have the input.
func (c *compiler) scalarInt(i, def int) int {
	if !c.has(i) {
		return def
	}
	return only(i, c.constants(i))
}
