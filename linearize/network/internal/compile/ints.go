package compile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Integer arithmetic", map[string]operator{
		"Shape": {translate: (*compiler).shape, inputs: 1, note: "with the batch size as a symbol, of which sums and multiples are known"},
		"Size":  {translate: (*compiler).size, inputs: 1},
		"Mod":   {translate: (*compiler).mod, inputs: 2},
	})
}

// bounded returns a, or an error if it is so large that arithmetic could
// overflow.
func bounded(a affine) (affine, error) {
	if max(abs(a.n), abs(a.row), abs(a.k)) > intBound {
		return a, errors.New("integer arithmetic leaves the range of any shape")
	}
	return a, nil
}

func addInt(a, b affine) (affine, error) { return bounded(affine{a.n + b.n, a.row + b.row, a.k + b.k}) }
func subInt(a, b affine) (affine, error) { return bounded(affine{a.n - b.n, a.row - b.row, a.k - b.k}) }

func mulInt(a, b affine) (affine, error) {
	const bound = 1 << 31
	switch {
	case max(abs(a.n), abs(a.row), abs(a.k), abs(b.n), abs(b.row), abs(b.k)) > bound:
		return a, errors.New("integer arithmetic leaves the range of any shape")
	case a.constant():
		return bounded(affine{a.k * b.n, a.k * b.row, a.k * b.k})
	case b.constant():
		return bounded(affine{b.k * a.n, b.k * a.row, b.k * a.k})
	}
	return a, errors.New("it multiplies two batch sizes")
}

func abs(a int) int { return max(a, -a) }

var errZeroDivisor = errors.New("integer division by zero")

func divInt(a, b affine) (affine, error) {
	switch {
	case b == affine{}:
		return a, errZeroDivisor
	case a.constant() && b.constant():
		return affine{k: a.k / b.k}, nil
	case b.constant() && a.n%b.k == 0 && a.row%b.k == 0 && a.k%b.k == 0:
		return affine{a.n / b.k, a.row / b.k, a.k / b.k}, nil
	case a.row == 0 && b.row == 0 && a.k == 0 && b.k == 0 && b.n != 0 && a.n%b.n == 0:
		return affine{k: a.n / b.n}, nil
	}
	return a, errors.New("it divides the batch size, which would mix examples")
}

func modInt(a, b affine) (affine, error) {
	switch {
	case b == affine{}:
		return a, errZeroDivisor
	case a.constant() && b.constant():
		m := a.k % b.k
		if m != 0 && (m < 0) != (b.k < 0) {
			m += b.k
		}
		return affine{k: m}, nil
	case b.constant() && a.n%b.k == 0 && a.row%b.k == 0:
		return modInt(affine{k: a.k}, b)
	}
	return a, errors.New("it divides the batch size, which would mix examples")
}

// remInt is Mod with fmod=1: the remainder has the sign of the dividend.
func remInt(a, b affine) (affine, error) {
	switch {
	case b == affine{}:
		return a, errZeroDivisor
	case a.constant() && b.constant():
		return affine{k: a.k % b.k}, nil
	case a.constant() || a.n < 0 || a.row < 0 || a.k < 0:
		return a, errors.New("a remainder of numbers that are not known")
	case b.constant():
		b.k = abs(b.k)
	}
	return modInt(a, b)
}

func (c *compiler) mod() error {
	if c.integerType() != 0 {
		return c.modDepending()
	}
	if v, err := c.input(0); err == nil && !v.isInt {
		if c.attrInt("fmod", 0) == 0 {
			return errors.New("fmod=0 is defined for integers only")
		}
		return c.arithmetic(graph.Fmod, nil)
	}
	a, err := c.indices(0)
	if err != nil {
		return err
	}
	b, err := c.indices(1)
	if err != nil {
		return err
	}
	if c.attrInt("fmod", 0) != 0 {
		return c.result(c.combineInts(a, b, remInt))
	}
	return c.result(c.combineInts(a, b, modInt))
}

// combineInts applies f to the elements of two integer tensors, with
// broadcasting.
func (c *compiler) combineInts(a, b *value, f func(a, b affine) (affine, error)) (*value, error) {
	if len(a.ints) == 0 || len(b.ints) == 0 {
		return nil, errors.New("an operand is empty")
	}
	real := a.real || b.real
	out, err := c.zipInts(a, b, func(x, y affine) (out affine, err error) {
		if _, err = bounded(x); err == nil {
			_, err = bounded(y)
		}
		if err == nil {
			out, err = f(x, y)
		}
		// divInt refuses a quotient that contains the batch size and is not whole.
		if err == nil && real && c.node.OpType == "Div" && x.constant() && y.constant() && x.k%y.k != 0 {
			err = errors.New("a shape computed from the batch size is not whole")
		}
		return out, err
	})
	if err == nil {
		out.real = real
	}
	return out, err
}

// zipInts is combineInts for integers of any size.
func (c *compiler) zipInts(a, b *value, f func(a, b affine) (affine, error)) (*value, error) {
	if len(a.ints) == 0 || len(b.ints) == 0 {
		return c.emptyInts(a, b)
	}
	both := c.aligned(false, a, b)
	a, b = both[0], both[1]
	shape, batch, ia, ib, err := c.broadcast(a, b)
	if err != nil {
		return nil, err
	}
	out, err := c.newInts(shape, batch, a, b)
	if err != nil {
		return nil, err
	}
	for i := range out.ints {
		if out.ints[i], err = f(a.ints[graph.Pick(ia, i)], b.ints[graph.Pick(ib, i)]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// emptyInts returns what a function of two vectors gives, of which one has no
// elements and the other none or one.
func (c *compiler) emptyInts(a, b *value) (*value, error) {
	if len(a.shape) != 1 || len(b.shape) != 1 || len(a.ints) > 1 || len(b.ints) > 1 {
		return nil, errors.New("an operand is empty")
	}
	return &value{shape: []int{0}, batch: -1, isInt: true}, nil
}

// newInts returns integers of a shape, all zero, that are made from those of in.
func (c *compiler) newInts(shape []int, batch int, in ...*value) (*value, error) {
	lead, err := commonLead(in...)
	if err != nil {
		return nil, err
	}
	n, err := Count(shape)
	if err != nil {
		return nil, err
	}
	if err := c.spend(intBytes * n); err != nil {
		return nil, err
	}
	return &value{shape: shape, batch: batch, lead: lead, isInt: true, ints: make([]affine, n)}, nil
}

// mapInts applies f to each element of known integers.
func (c *compiler) mapInts(v *value, f func(a affine) (affine, error)) (*value, error) {
	if err := c.spend(intBytes * len(v.ints)); err != nil {
		return nil, err
	}
	out := *v
	out.ints = make([]affine, len(v.ints))
	for i, a := range v.ints {
		var err error
		if out.ints[i], err = f(a); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// sign returns the sign of an integer that has the same one for every example and
// batch size; ok is false if it has not. An integer that is zero for some and
// positive for others is never negative: atLeast is then true, and atMost where
// it is never positive.
func (a affine) sign() (sign int, ok, atLeast, atMost bool) {
	// Over 1 ≤ N and 0 ≤ e < N an affine function is least or largest at a corner:
	// N = 1, or far out where e = 0 or e = N − 1.
	atLeast = a.n >= 0 && a.n+a.row >= 0 && a.one() >= 0
	atMost = a.n <= 0 && a.n+a.row <= 0 && a.one() <= 0
	switch {
	case atLeast && atMost:
		return 0, true, true, true
	case atLeast && a.one() > 0:
		return 1, true, true, false
	case atMost && a.one() < 0:
		return -1, true, false, true
	}
	return 0, false, atLeast, atMost
}

// compare returns 1 if the sign of a − b fulfills a condition and 0 if it does not,
// or an error where that depends on the batch size.
func (a affine) compare(b affine, is func(sign int) bool) (affine, error) {
	d := affine{a.n - b.n, a.row - b.row, a.k - b.k}
	sign, ok, atLeast, atMost := d.sign()
	switch {
	case ok:
	case atLeast && is(0) == is(1):
		sign = 1
	case atMost && is(0) == is(-1):
		sign = -1
	default:
		return affine{}, errors.New("a comparison of the batch size, which would mix examples")
	}
	return affine{k: int(graph.Step(is(sign)))}, nil
}

func (c *compiler) shape() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	out := &value{batch: -1, isInt: true}
	for i, d := range v.shape {
		if v.isBatch(i) {
			out.ints = append(out.ints, affine{n: d})
		} else {
			out.ints = append(out.ints, affine{k: d})
		}
	}
	rank := len(v.shape)
	start, end := c.attrInt("start", 0), c.attrInt("end", rank)
	if start < 0 {
		start += rank
	}
	if end < 0 {
		end += rank
	}
	start = min(max(start, 0), rank)
	end = min(max(end, start), rank)
	out.ints = out.ints[start:end]
	out.shape = []int{len(out.ints)}
	return c.result(out, nil)
}

// known returns a shape that a graph gives as integers, for a batch of one
// example, and its batch axis or −1.
func known(to *value) (shape []int, batch int, err error) {
	shape, batch = []int{}, -1
	if len(to.shape) != 1 {
		return nil, 0, errors.New("its shape is not a vector")
	}
	for i, a := range to.ints {
		if a.n != 0 {
			if a.k != 0 || batch >= 0 {
				return nil, 0, errors.New("its shape combines batch sizes in a way that would mix examples")
			}
			batch = i
		}
		shape = append(shape, a.one())
	}
	return shape, batch, nil
}

func (c *compiler) size() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	size := affine{k: graph.Product(v.shape)}
	if v.batch >= 0 {
		size = affine{n: size.k}
	}
	return c.result(&value{shape: []int{}, batch: -1, isInt: true, ints: []affine{size}}, nil)
}

// Functions of one known integer, and of two, which a node of several inputs takes
// from left to right.
var (
	intFunctions = map[string]func(a affine) (affine, error){
		"Abs": absInt,
		"Neg": func(a affine) (affine, error) { return subInt(affine{}, a) },
		"Sign": func(a affine) (affine, error) {
			sign, ok, _, _ := a.sign()
			if !ok {
				return a, errors.New("the sign of the batch size, which would mix examples")
			}
			return affine{k: sign}, nil
		},
	}
	intFunctions2 = map[string]func(a, b affine) (affine, error){"Sum": addInt, "Max": maxInt, "Min": minInt}
	// intReductions combine the elements of known integers.
	intReductions = map[string]func(a, b affine) (affine, error){"ReduceSum": addInt, "ReduceProd": mulInt, "ReduceMax": maxInt, "ReduceMin": minInt}
)

func absInt(a affine) (affine, error) {
	negative, err := a.compare(affine{}, func(sign int) bool { return sign < 0 })
	if err != nil || negative.k == 0 {
		return a, err
	}
	return subInt(affine{}, a)
}

func maxInt(a, b affine) (affine, error) {
	less, err := a.compare(b, func(sign int) bool { return sign < 0 })
	if less.k != 0 {
		return b, err
	}
	return a, err
}

func minInt(a, b affine) (affine, error) {
	less, err := b.compare(a, func(sign int) bool { return sign < 0 })
	if less.k != 0 {
		return b, err
	}
	return a, err
}

// allInts reports whether all inputs of the node are known integers.
func (c *compiler) allInts() bool {
	for i := range c.node.Inputs {
		if v, err := c.input(i); err != nil || !v.isInt {
			return false
		}
	}
	return len(c.node.Inputs) > 0
}

func (c *compiler) combineAllInts(f func(a, b affine) (affine, error)) (*value, error) {
	acc, err := c.input(0)
	for i := 1; i < len(c.node.Inputs) && err == nil; i++ {
		var v *value
		if v, err = c.input(i); err == nil {
			acc, err = c.zipInts(acc, v, f)
		}
	}
	return acc, err
}

// clipInts is Clip of integers, whose bounds are integers too.
func (c *compiler) clipInts(v *value) (*value, error) {
	for i, f := range []func(a, b affine) (affine, error){maxInt, minInt} {
		if !c.has(i + 1) {
			continue
		}
		bound, err := c.intsAt(i + 1)
		if err == nil && len(bound.ints) != 1 {
			err = fmt.Errorf("input %d has %d numbers, one is expected", i+1, len(bound.ints))
		}
		if err == nil {
			v, err = c.mapInts(v, func(a affine) (affine, error) { return f(a, bound.ints[0]) })
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

// reduceInts is a reduction of known integers.
func (c *compiler) reduceInts(v *value) (*value, error) {
	drop, err := c.reducedAxes(len(v.shape))
	if err != nil {
		return nil, err
	}
	kept, out := slices.Clone(v.shape), &value{shape: []int{}, batch: v.batch, lead: v.lead, isInt: true, real: v.real}
	for i, d := range drop {
		switch {
		case d && v.isBatch(i):
			return nil, errMixes
		case d:
			kept[i] = 1
			if c.attrInt("keepdims", 1) != 0 {
				out.shape = append(out.shape, 1)
			} else if i < v.batch {
				out.batch--
			}
		default:
			out.shape = append(out.shape, v.shape[i])
		}
	}
	n, err := Count(kept)
	if err != nil {
		return nil, err
	}
	if len(v.ints) == 0 {
		empty, ok := map[string]int{"ReduceSum": 0, "ReduceProd": 1}[c.node.OpType]
		if !ok || n != 1 {
			return nil, errors.New("a reduction of no elements")
		}
		out.ints = []affine{{k: empty}}
		return out, nil
	}
	if err := c.spend(intBytes * n); err != nil {
		return nil, err
	}
	table, err := c.broadcastTable(v.shape, kept)
	if err != nil {
		return nil, err
	}
	out.ints = make([]affine, n)
	seen := make([]bool, n)
	for i, a := range v.ints {
		at := graph.Pick(table, i)
		if a, err = bounded(a); err == nil && seen[at] {
			a, err = intReductions[c.node.OpType](out.ints[at], a)
		}
		if err != nil {
			return nil, err
		}
		out.ints[at], seen[at] = a, true
	}
	return out, nil
}
