package compile

import (
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Integer arithmetic", map[string]operator{
		"Shape": {translate: (*compiler).shape, inputs: 1, integers: ownType, note: "with the batch size as a symbol, of which sums and multiples are known"},
		"Size":  {translate: (*compiler).size, inputs: 1},
		"Mod":   {translate: (*compiler).mod, inputs: 2, integers: computes},
	})
}

// bounded returns a. It refuses an integer that is so large that arithmetic could overflow.
func bounded(a affine) affine {
	if max(abs(a.n), abs(a.row), abs(a.k)) > intBound {
		panic(refuse("integer arithmetic leaves the range of any shape"))
	}
	return a
}

func addInt(a, b affine) affine { return bounded(affine{a.n + b.n, a.row + b.row, a.k + b.k}) }
func subInt(a, b affine) affine { return bounded(affine{a.n - b.n, a.row - b.row, a.k - b.k}) }

func mulInt(a, b affine) affine {
	const bound = 1 << 31
	switch {
	case max(abs(a.n), abs(a.row), abs(a.k), abs(b.n), abs(b.row), abs(b.k)) > bound:
		panic(refuse("integer arithmetic leaves the range of any shape"))
	case a.constant():
		return bounded(affine{a.k * b.n, a.k * b.row, a.k * b.k})
	case b.constant():
		return bounded(affine{b.k * a.n, b.k * a.row, b.k * a.k})
	}
	panic(refuse("it multiplies two batch sizes"))
}

func abs(a int) int { return max(a, -a) }

var errZeroDivisor = refuse("integer division by zero")

func divInt(a, b affine) affine {
	switch {
	case b == affine{}:
		panic(errZeroDivisor)
	case a.constant() && b.constant():
		return affine{k: a.k / b.k}
	case b.constant() && a.n%b.k == 0 && a.row%b.k == 0 && a.k%b.k == 0:
		return affine{a.n / b.k, a.row / b.k, a.k / b.k}
	case a.row == 0 && b.row == 0 && a.k == 0 && b.k == 0 && b.n != 0 && a.n%b.n == 0:
		return affine{k: a.n / b.n}
	}
	panic(refuse("it divides the batch size, which would mix examples"))
}

func modInt(a, b affine) affine {
	switch {
	case b == affine{}:
		panic(errZeroDivisor)
	case a.constant() && b.constant():
		m := a.k % b.k
		if m != 0 && (m < 0) != (b.k < 0) {
			m += b.k
		}
		return affine{k: m}
	case b.constant() && a.n%b.k == 0 && a.row%b.k == 0:
		return modInt(affine{k: a.k}, b)
	}
	panic(refuse("it divides the batch size, which would mix examples"))
}

// remInt is Mod with fmod=1: the remainder has the sign of the dividend.
func remInt(a, b affine) affine {
	switch {
	case b == affine{}:
		panic(errZeroDivisor)
	case a.constant() && b.constant():
		return affine{k: a.k % b.k}
	case a.constant() || a.n < 0 || a.row < 0 || a.k < 0:
		panic(refuse("a remainder of numbers that are not known"))
	case b.constant():
		b.k = abs(b.k)
	}
	return modInt(a, b)
}

func (c *compiler) mod() {
	if c.integerType() != 0 { // the operands depend on the input
		fn := graph.Mod
		if c.attrInt("fmod", 0) != 0 {
			fn = graph.Rem
		}
		c.result(c.combine(fn, c.float(0), c.float(1)))
		return
	}
	if v := c.input(0); !v.isInt {
		if c.attrInt("fmod", 0) == 0 {
			panic(refuse("fmod=0 is defined for integers only"))
		}
		c.arithmetic(graph.Fmod, nil)
		return
	}
	a, b := c.indices(0), c.indices(1)
	if c.attrInt("fmod", 0) != 0 {
		c.result(c.combineInts(a, b, remInt))
		return
	}
	c.result(c.combineInts(a, b, modInt))
}

// combineInts returns f of each pair of elements of two tensors of known integers, with broadcasting. It refuses
// integers outside ±intBound.
func (c *compiler) combineInts(a, b *value, f func(a, b affine) affine) *value {
	if len(a.ints) == 0 || len(b.ints) == 0 {
		panic(refuse("an operand is empty"))
	}
	real := a.real || b.real
	out := c.zipInts(a, b, func(x, y affine) affine {
		out := f(bounded(x), bounded(y))
		// divInt itself refuses a quotient that contains the batch size and is not whole.
		if real && c.node.OpType == "Div" && x.constant() && y.constant() && x.k%y.k != 0 {
			panic(refuse("a shape computed from the batch size is not whole"))
		}
		return out
	})
	out.real = real
	return out
}

// zipInts does what combineInts does for integers of any size.
func (c *compiler) zipInts(a, b *value, f func(a, b affine) affine) *value {
	if len(a.ints) == 0 || len(b.ints) == 0 {
		return c.emptyInts(a, b)
	}
	both := c.aligned(false, a, b)
	a, b = both[0], both[1]
	shape, batch, ia, ib := c.broadcast(a, b)
	out := c.newInts(shape, batch, a, b)
	for i := range out.ints {
		out.ints[i] = f(a.ints[graph.Pick(ia, i)], b.ints[graph.Pick(ib, i)])
	}
	return out
}

// emptyInts returns the result of a function of two vectors when one vector is empty and the other has at most one
// element: an empty vector.
func (c *compiler) emptyInts(a, b *value) *value {
	if len(a.shape) != 1 || len(b.shape) != 1 || len(a.ints) > 1 || len(b.ints) > 1 {
		panic(refuse("an operand is empty"))
	}
	return &value{shape: []int{0}, batch: -1, isInt: true}
}

// newInts returns a tensor of known integers, all zero, with the lead of in. The caller computes the integers from
// in.
func (c *compiler) newInts(shape []int, batch int, in ...*value) *value {
	lead := commonLead(in...)
	n := count(shape)
	c.spend(intBytes * n)
	return &value{shape: shape, batch: batch, lead: lead, isInt: true, ints: make([]affine, n)}
}

// mapInts applies f to each element of known integers.
func (c *compiler) mapInts(v *value, f func(a affine) affine) *value {
	c.spend(intBytes * len(v.ints))
	out := *v
	out.ints = make([]affine, len(v.ints))
	for i, a := range v.ints {
		out.ints[i] = f(a)
	}
	return &out
}

// sign returns the sign of an integer if the sign is the same for every example and batch size; otherwise ok is
// false. atLeast reports that the integer is never negative, atMost that it is never positive.
func (a affine) sign() (sign int, ok, atLeast, atMost bool) {
	// Over 1 ≤ N and 0 ≤ e < N, an affine function is least or largest at N = 1, or for N → ∞ with e = 0 or e = N −
	// 1.
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

// compare returns 1 if is holds for the sign of a − b, otherwise 0. It refuses a comparison whose result depends on
// the batch size or the example.
func (a affine) compare(b affine, is func(sign int) bool) affine {
	d := affine{a.n - b.n, a.row - b.row, a.k - b.k}
	sign, ok, atLeast, atMost := d.sign()
	switch {
	case ok:
	case atLeast && is(0) == is(1):
		sign = 1
	case atMost && is(0) == is(-1):
		sign = -1
	default:
		panic(refuse("a comparison of the batch size, which would mix examples"))
	}
	return affine{k: int(graph.Step(is(sign)))}
}

func (c *compiler) shape() {
	v := c.input(0)
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
	c.result(out)
}

// known returns the shape that a tensor of integers gives, for a batch of one example, and its batch axis or −1.
func known(to *value) (shape []int, batch int) {
	shape, batch = []int{}, -1
	if len(to.shape) != 1 {
		panic(refuse("its shape is not a vector"))
	}
	for i, a := range to.ints {
		if a.n != 0 {
			if a.k != 0 || batch >= 0 {
				panic(refuse("its shape combines batch sizes in a way that would mix examples"))
			}
			batch = i
		}
		shape = append(shape, a.one())
	}
	return shape, batch
}

func (c *compiler) size() {
	v := c.input(0)
	size := affine{k: graph.Product(v.shape)}
	if v.batch >= 0 {
		size = affine{n: size.k}
	}
	c.result(&value{shape: []int{}, batch: -1, isInt: true, ints: []affine{size}})
}

// Functions of one known integer, and of two.

func signInt(a affine) affine {
	sign, ok, _, _ := a.sign()
	if !ok {
		panic(refuse("the sign of the batch size, which would mix examples"))
	}
	return affine{k: sign}
}

func absInt(a affine) affine {
	negative := a.compare(affine{}, func(sign int) bool { return sign < 0 })
	if negative.k == 0 {
		return a
	}
	return subInt(affine{}, a)
}

func maxInt(a, b affine) affine {
	less := a.compare(b, func(sign int) bool { return sign < 0 })
	if less.k != 0 {
		return b
	}
	return a
}

func minInt(a, b affine) affine {
	less := b.compare(a, func(sign int) bool { return sign < 0 })
	if less.k != 0 {
		return b
	}
	return a
}
