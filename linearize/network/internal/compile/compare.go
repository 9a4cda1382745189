package compile

import (
	"errors"
	"fmt"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
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
		"Not":            {translate: (*compiler).not, inputs: 1},
		"Where":          {translate: (*compiler).where, inputs: 3, note: "no derivative through the condition"},
		"Trilu":          {translate: (*compiler).trilu, inputs: 2},
	})
}

const knownOnly = "of numbers that do not depend on the input"

func comparison(is func(sign int) bool) operator {
	return operator{translate: func(c *compiler) error { return c.compare(is) }, inputs: 2, note: "no derivative"}
}

func logical(f func(a, b bool) bool) operator {
	return operator{translate: func(c *compiler) error { return c.logic(f) }, inputs: 2}
}

// compare translates a comparison. The result is truth values, and where neither
// tensor depends on the input they are the integers 0 and 1.
func (c *compiler) compare(is func(sign int) bool) error {
	a, err := c.input(0)
	if err != nil {
		return err
	}
	b, err := c.input(1)
	if err != nil {
		return err
	}
	switch {
	case c.depends(a) || c.depends(b):
		return c.compareDepending(graph.Comparison(is))
	case a.isInt && b.isInt:
		return c.result(c.zipInts(a, b, func(x, y affine) (affine, error) { return x.compare(y, is) }))
	}
	x, err := c.numbers(a)
	if err != nil {
		return err
	}
	y, err := c.numbers(b)
	if err != nil {
		return err
	}
	shape, batch, ia, ib, err := c.broadcast(a, b)
	if err != nil {
		return err
	}
	out, err := c.newInts(shape, batch, a, b)
	if err != nil {
		return err
	}
	for i := range out.ints {
		out.ints[i].k = int(graph.Step(is(signOf(x[graph.Pick(ia, i)], y[graph.Pick(ib, i)]))))
	}
	return c.result(out, nil)
}

// signOf returns the sign of a − b, neither of which is NaN.
func signOf(a, b float64) int {
	return int(graph.Step(a > b)) - int(graph.Step(a < b))
}

// numbers returns the elements of a tensor that does not depend on the input, for
// one example. The value of a parameter among what it is computed from is the
// trained one, and marked known.
func (c *compiler) numbers(v *value) ([]float64, error) {
	switch {
	case v.isInt:
		f, err := c.toFloat(v)
		if err != nil {
			return nil, err
		}
		return c.static[f.slot], nil
	case c.static[v.slot] != nil:
		return c.static[v.slot], nil
	case c.bySlot[v.slot] != nil:
		in := c.bySlot[v.slot]
		in.known = true
		return in.t.Floats, nil
	case !c.isStatic(v):
		return nil, errors.New("it compares numbers that depend on the input")
	}
	return c.evaluated(v.slot), nil
}

// evaluated returns the value that a static slot has at the trained parameters.
func (c *compiler) evaluated(slot int) []float64 {
	need := make([]bool, len(c.prog.Slots))
	need[slot] = true
	for i := len(c.prog.Nodes) - 1; i >= 0; i-- {
		if nd := &c.prog.Nodes[i]; need[nd.Out] {
			for _, in := range nd.In {
				need[in] = true
			}
		}
	}
	values := make([][]float64, len(need))
	for i := range need {
		switch in := c.bySlot[i]; {
		case !need[i]:
		case c.static[i] != nil:
			values[i] = c.static[i]
		case in != nil:
			in.known = true
			values[i] = in.t.Floats
		default:
			values[i] = make([]float64, c.prog.Slots[i].Size)
		}
	}
	s := &graph.State{Program: c.prog, Static: values, N: 1}
	for i := range c.prog.Nodes {
		if nd := &c.prog.Nodes[i]; need[nd.Out] {
			nd.Op.Forward(s, nd)
		}
	}
	return values[slot]
}

// logic translates a function of two tensors of truth values.
func (c *compiler) logic(f func(a, b bool) bool) error {
	if c.integerType() != 0 {
		return c.compareDepending(graph.Logical(f))
	}
	a, err := c.truth(0)
	if err != nil {
		return err
	}
	b, err := c.truth(1)
	if err != nil {
		return err
	}
	return c.result(c.zipInts(a, b, func(x, y affine) (affine, error) {
		return affine{k: int(graph.Step(f(x.k != 0, y.k != 0)))}, nil
	}))
}

func (c *compiler) not() error {
	if c.integerType() != 0 {
		return c.elementwise(graph.Not)
	}
	v, err := c.truth(0)
	if err != nil {
		return err
	}
	return c.result(c.mapInts(v, func(a affine) (affine, error) { return affine{k: int(graph.Step(a.k == 0))}, nil }))
}

// truth returns input i, which must be known truth values: a zero or another
// integer each.
func (c *compiler) truth(i int) (*value, error) {
	v, err := c.input(i)
	if err != nil {
		return nil, err
	}
	if !v.isInt {
		return nil, fmt.Errorf("input %d (%s) must be truth values that do not depend on the input", i, quote(c.node.Inputs[i]))
	}
	for _, a := range v.ints {
		if !a.constant() {
			return nil, fmt.Errorf("input %d depends on the batch size, which would mix examples", i)
		}
	}
	return v, nil
}

// where translates Where.
func (c *compiler) where() error {
	if v, err := c.input(0); err == nil && v.integer != 0 {
		return c.whereDepending(v)
	}
	cond, err := c.truth(0)
	if err != nil {
		return err
	}
	a, err := c.input(1)
	if err != nil {
		return err
	}
	b, err := c.input(2)
	if err != nil {
		return err
	}
	if a.isInt && b.isInt && len(cond.ints)*len(a.ints)*len(b.ints) == 0 {
		return c.result(c.emptyInts(a, b))
	}
	if !(a.isInt && b.isInt) {
		if a, err = c.float(1); err != nil {
			return err
		}
		if b, err = c.float(2); err != nil {
			return err
		}
	}
	return c.result(c.choose(cond, a, b))
}

// choose returns the elements of a where cond holds and those of b elsewhere, with
// broadcasting. Both are floating point tensors, or both integers.
func (c *compiler) choose(cond, a, b *value) (*value, error) {
	all := c.aligned(false, cond, a, b)
	cond, a, b = all[0], all[1], all[2]
	shape, batch, err := broadcastShape(a, b, 0)
	if err != nil {
		return nil, err
	}
	if shape, batch, err = broadcastShape(&value{shape: shape, batch: batch}, cond, 0); err != nil {
		return nil, err
	}
	var from [3][]int32
	for i, v := range []*value{cond, a, b} {
		if from[i], err = c.broadcastTable(shape, v.shape); err != nil {
			return nil, err
		}
	}
	if _, err := commonLead(cond, a, b); err != nil {
		return nil, err
	}
	n, err := c.entries(shape)
	if err != nil {
		return nil, err
	}
	table := make([]int32, n)
	for i := range table {
		if cond.ints[graph.Pick(from[0], i)].k != 0 {
			table[i] = int32(graph.Pick(from[1], i))
		} else {
			table[i] = ^int32(graph.Pick(from[2], i))
		}
	}
	out, err := c.selected(a, b, shape, batch, table)
	if err == nil && out.batch >= 0 && out.lead == 0 {
		out.lead = cond.lead
	}
	return out, err
}

// selected returns the elements of a, or of b, that the Source of a graph.Select
// lists.
func (c *compiler) selected(a, b *value, shape []int, batch int, table []int32) (*value, error) {
	if !a.isInt {
		return c.emit(&graph.Select{Source: table}, shape, batch, a, b)
	}
	out, err := c.newInts(shape, batch, a, b)
	if err != nil {
		return nil, err
	}
	out.real = a.real || b.real
	for i, j := range table {
		if j < 0 {
			out.ints[i] = b.ints[^j]
		} else {
			out.ints[i] = a.ints[j]
		}
	}
	return out, nil
}

// trilu translates Trilu: the elements on one side of a diagonal, and zeros.
func (c *compiler) trilu() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	k, err := c.scalarInt(1, 0)
	if err != nil {
		return err
	}
	rank := len(v.shape)
	if rank < 2 {
		return fmt.Errorf("a tensor of shape %v is no matrix", v.shape)
	}
	if v.batch >= rank-2 {
		return errMixes
	}
	upper := c.attrInt("upper", 1) != 0
	at := 0
	table, err := c.tableOf(v.shape, func(idx []int) int {
		at++
		if d := idx[rank-1] - idx[rank-2]; upper && d >= k || !upper && d <= k {
			return at - 1
		}
		return -1
	})
	if err != nil {
		return err
	}
	return c.result(c.apply(v, v.shape, v.batch, table, 0))
}

// scalarInt returns the only integer of input i, or def if the input is missing.
func (c *compiler) scalarInt(i, def int) (int, error) {
	if !c.has(i) {
		return def, nil
	}
	list, err := c.constants(i)
	if err != nil {
		return 0, err
	}
	if len(list) != 1 {
		return 0, fmt.Errorf("input %d has %d numbers, one is expected", i, len(list))
	}
	return list[0], nil
}
