package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	const known = "of a number of tensors that is known without running the network"
	list := map[string]operator{}
	for name, translate := range map[string]func(c *compiler){
		"SequenceEmpty":     func(c *compiler) { c.result(listOf()) },
		"SequenceConstruct": func(c *compiler) { c.result(listOf(c.inputsFrom(0)...)) },
		"SequenceInsert":    (*compiler).sequenceInsert,
		"SequenceErase": func(c *compiler) {
			l := c.list()
			k := c.position(l, -1)
			c.result(listOf(slices.Delete(slices.Clone(l), k, k+1)...))
		},
		"SequenceAt": func(c *compiler) { l := c.list(); c.result(l[c.position(l, 0)]) },
		"SequenceLength": func(c *compiler) {
			c.result(&value{shape: []int{}, batch: -1, isInt: true, ints: []affine{{k: len(c.list())}}})
		},
		"SplitToSequence":    (*compiler).splitToSequence,
		"ConcatFromSequence": (*compiler).concatFromSequence,
	} {
		list[name] = operator{translate: translate, inputs: anyNumber, integers: ownType, roles: learnt.Moves, note: known}
	}
	register("Sequences", list)
}

// listOf returns a sequence of tensors.
func listOf(tensors ...*value) *value {
	out := &value{batch: -1, list: []*value{}}
	for _, v := range tensors {
		out.list = append(out.list, v.onAxis(v.batch, v.lead)) // no layer finds its weight in it
	}
	return out
}

// list returns input 0, a sequence.
func (c *compiler) list() []*value {
	if !c.has(0) {
		panic(refuse("input 0 is missing"))
	}
	v := c.lookup(c.node.Inputs[0])
	if v.list == nil {
		panic(refuse("input 0 (%s) is no sequence; %s", quote(c.node.Inputs[0]), invalid))
	}
	return v.list
}

// inputsFrom returns the inputs from number i on.
func (c *compiler) inputsFrom(i int) []*value {
	var list []*value
	for ; i < len(c.node.Inputs); i++ {
		list = append(list, c.input(i))
	}
	return list
}

// position returns the last input, a position in l, or def without it. Counted from the end it is negative.
func (c *compiler) position(l []*value, def int) int {
	k := def
	if c.has(1) {
		k = c.scalarInt(1, 0)
	}
	if k < 0 {
		k += len(l)
	}
	if k < 0 || k >= len(l) {
		panic(refuse("position %d of a sequence of %d tensors", k, len(l)))
	}
	return k
}

func (c *compiler) sequenceInsert() {
	l, k := c.list(), 0
	if k = len(l); c.has(2) {
		if k = c.scalarInt(2, 0); k < 0 {
			k += len(l)
		}
	}
	if k < 0 || k > len(l) {
		panic(refuse("position %d of a sequence of %d tensors", k, len(l)))
	}
	c.spend(numberBytes * len(l))
	c.result(listOf(slices.Insert(slices.Clone(l), k, c.input(1))...))
}

// splitToSequence translates SplitToSequence: a split of one number is the length of each part, the last may be
// shorter; without it each part has a length of 1, and no such dimension unless keepdims.
func (c *compiler) splitToSequence() {
	v := c.input(0)
	ax := axis(c.attrInt("axis", 0), len(v.shape))
	if v.isBatch(ax) {
		panic(errMixes)
	}
	sizes, size := []int(nil), 1
	if c.has(1) {
		if sizes = c.constants(1); len(c.input(1).shape) == 0 {
			size, sizes = sizes[0], nil
		}
	}
	if sizes == nil {
		if size < 1 {
			panic(refuse("parts of length %d", size))
		}
		for at := 0; at < v.shape[ax]; at += size {
			sizes = append(sizes, min(size, v.shape[ax]-at))
		}
	}
	var parts []*value
	at := 0
	for _, n := range sizes {
		if n < 1 || n > v.shape[ax]-at {
			panic(refuse("sizes %v do not split %d", sizes, v.shape[ax]))
		}
		part := c.sliceAxis(v, ax, at, at+n, 1)
		if !c.has(1) && c.attrInt("keepdims", 1) == 0 {
			batch := v.batch
			if batch > ax {
				batch--
			}
			part = c.alias(part, slices.Delete(slices.Clone(part.shape), ax, ax+1), batch)
		}
		parts, at = append(parts, part), at+n
	}
	if at != v.shape[ax] {
		panic(refuse("sizes %v do not split %d", sizes, v.shape[ax]))
	}
	c.result(listOf(parts...))
}

// concatFromSequence translates ConcatFromSequence: Concat, with new_axis along a new dimension.
func (c *compiler) concatFromSequence() {
	l := slices.Clone(c.list())
	if len(l) == 0 {
		panic(refuse("a sequence without tensors"))
	}
	ax := c.attrInt("axis", 0)
	if c.attrInt("new_axis", 0) != 0 {
		ax = axis(ax, len(l[0].shape)+1)
		for i, v := range l {
			if ax > len(v.shape) {
				panic(refuse("tensors of shapes %v and %v", l[0].shape, v.shape))
			}
			batch := v.batch
			if batch >= ax {
				batch++
			}
			l[i] = c.alias(v, slices.Insert(slices.Clone(v.shape), ax, 1), batch)
		}
	}
	c.result(c.join(l, ax))
}
