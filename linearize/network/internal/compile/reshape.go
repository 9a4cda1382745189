package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Shapes", map[string]operator{
		"Flatten":   {translate: (*compiler).flatten, inputs: 1, integers: keepsType, roles: learnt.Moves | learnt.Passes},
		"Reshape":   {translate: (*compiler).reshapeOp, inputs: 2, integers: keepsType, roles: learnt.Moves | learnt.Passes | learnt.Sets, note: "the shape is known up to the batch size, and must keep examples apart"},
		"Squeeze":   {translate: (*compiler).squeeze, inputs: 2, integers: keepsType, roles: learnt.Moves | learnt.Passes | learnt.Sets, note: "the axes are known without running the network"},
		"Unsqueeze": {translate: (*compiler).unsqueeze, inputs: 2, integers: keepsType, roles: learnt.Moves | learnt.Passes | learnt.Sets, note: "the axes are known without running the network"},
		"Expand":    {translate: (*compiler).expand, inputs: 2, integers: keepsType, roles: learnt.Moves | learnt.Passes | learnt.Sets, note: "the shape is known up to the batch size"},
		"Tile":      {translate: (*compiler).tile, inputs: 2, integers: keepsType, roles: learnt.Moves | learnt.Sets, note: "the repeats are known without running the network"},
	})
}

func (c *compiler) reshapeOp() {
	v := c.input(0)
	to := c.intsAt(1)
	if len(to.shape) != 1 {
		panic(refuse("its shape is not a vector"))
	}
	// Read the target shape as ONNX defines it: one dimension of −1 is inferred, and 0 copies the dimension of v
	// unless allowZero.
	target := to.ints
	allowZero := c.attrInt("allowzero", 0) != 0
	target = slices.Clone(target)
	open, batch := -1, -1
	for i, a := range target {
		switch {
		case a == affine{k: -1}:
			if open >= 0 {
				panic(refuse("its shape has two dimensions of −1"))
			}
			open = i
		case a == affine{} && !allowZero:
			if i >= len(v.shape) {
				panic(refuse("its shape copies dimension %d of %v, which does not exist", i, v.shape))
			}
			target[i] = affine{k: v.shape[i]}
			if v.isBatch(i) {
				target[i] = affine{n: v.shape[i]}
			}
		}
		if target[i].n != 0 {
			if batch >= 0 || target[i].k != 0 {
				panic(refuse("its shape combines batch sizes in a way that would mix examples"))
			}
			batch = i
		}
	}
	if v.batch >= 0 && batch < 0 {
		// The inferred axis holds the examples. In a model exported with a fixed batch size, it is an axis whose
		// length fits. If several fit (batch size 1), prefer an axis without elements before the examples, and an
		// axis other than the last, which holds the features.
		for _, rule := range []struct{ inside, last bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
			if c.batch != 0 && batch < 0 {
				batch = c.batchAxis(v, target, open, rule.inside, rule.last)
			}
		}
		if batch < 0 {
			batch = open
		}
	}
	if v.batch < 0 && batch >= 0 && c.batch != 1 {
		panic(refuse("its shape holds the batch size and its tensor does not"))
	}
	if v.batch >= 0 && batch < 0 {
		if c.batch != 1 {
			panic(refuse("its shape fixes the batch size; export the model with a dynamic batch dimension"))
		}
		v = c.loose(v)
	}
	shape := make([]int, len(target))
	known := 1
	for i, a := range target {
		if shape[i] = a.one(); i == open {
			continue
		}
		if shape[i] <= 0 || shape[i] > maxElements/known {
			panic(refuse("cannot reshape %v: dimension %d of the new shape is %d", v.shape, i, shape[i]))
		}
		known *= shape[i]
	}
	if open >= 0 {
		if shape[open] = graph.Product(v.shape) / known; shape[open] < 1 {
			panic(refuse("cannot reshape %v: its %d elements do not fill the new shape", v.shape, graph.Product(v.shape)))
		}
	}
	c.result(c.alias(v, shape, batch))
}

func (c *compiler) flatten() {
	v := c.input(0)
	ax := c.attrInt("axis", 1)
	if ax < -len(v.shape) || ax > len(v.shape) {
		panic(refuse("axis %d is out of range for %d dimensions", ax, len(v.shape)))
	}
	if ax < 0 {
		ax += len(v.shape)
	}
	c.result(c.alias(v, []int{graph.Product(v.shape[:ax]), graph.Product(v.shape[ax:])}, int(graph.Step(v.batch >= ax))))
}

func (c *compiler) squeeze() {
	v := c.input(0)
	axes, given := c.intsOr(1, "axes")
	drop := make([]bool, len(v.shape))
	for _, a := range axes {
		a = axis(a, len(v.shape))
		if v.isBatch(a) && c.batch == 1 {
			v = c.loose(v)
		}
		if v.shape[a] != 1 || v.isBatch(a) {
			panic(refuse("axis %d of %v cannot be removed", a, v.shape))
		}
		drop[a] = true
	}
	var shape []int
	batch := v.batch
	for i, d := range v.shape {
		if drop[i] || !given && d == 1 && !v.isBatch(i) {
			if i < v.batch {
				batch--
			}
			continue
		}
		shape = append(shape, d)
	}
	c.result(c.alias(v, shape, batch))
}

func (c *compiler) unsqueeze() {
	v := c.input(0)
	axes, _ := c.intsOr(1, "axes")
	rank := len(v.shape) + len(axes)
	if rank > 16 {
		panic(refuse("%d dimensions are too many", rank))
	}
	insert := make([]bool, rank)
	for _, a := range axes {
		a = axis(a, rank)
		if insert[a] {
			panic(refuse("axis %d is inserted twice", a))
		}
		insert[a] = true
	}
	shape, batch, from := make([]int, rank), -1, 0
	for i := range shape {
		if insert[i] {
			shape[i] = 1
			continue
		}
		if v.isBatch(from) {
			batch = i
		}
		shape[i] = v.shape[from]
		from++
	}
	c.result(c.alias(v, shape, batch))
}

// batchAxis returns the axis of target that can hold the examples of v, or −1. If inside, the axis may also hold
// elements that come before the examples. If last, it may be the last axis.
func (c *compiler) batchAxis(v *value, target []affine, open int, inside, last bool) int {
	before := 1
	for i, a := range target {
		lead := v.before() / before
		begins := lead*before == v.before() && (lead == 1 || inside)
		switch {
		case i == open && begins:
			return i
		case i == open:
			return -1
		case i == len(target)-1 && a.k != lead*c.batch && !last:
		case begins && a.k >= lead*c.batch && a.k%(lead*c.batch) == 0:
			target[i] = affine{n: a.k / c.batch}
			return i
		}
		if a.k <= 0 || a.k > maxElements/before {
			return -1
		}
		before *= a.k
	}
	return -1
}

// alias returns v with another shape; the elements and their order stay. Axis batch of the new shape holds the
// examples, perhaps together with elements before or after them. In memory, as many elements must precede the
// examples as before.
func (c *compiler) alias(v *value, shape []int, batch int) *value {
	if graph.Product(shape) != graph.Product(v.shape) || len(shape) > maxRank {
		panic(refuse("cannot reshape %v to %v", v.shape, shape))
	}
	out := *v
	out.shape, out.weight, out.parts = shape, nil, nil
	if v.batch < 0 {
		return &out
	}
	if out.batch = batch; batch < 0 {
		panic(refuse("reshaping %v to %v leaves no batch dimension, which would mix examples", v.shape, shape))
	}
	before := graph.Product(shape[:batch])
	if out.lead = v.before() / before; out.before() != v.before() || shape[batch]%out.lead != 0 {
		panic(refuse("reshaping %v to %v moves elements across the batch dimension, which would mix examples", v.shape, shape))
	}
	return &out
}
