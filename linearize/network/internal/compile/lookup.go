package compile

import (
	"math"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

// lookup returns the value with this name: an input, a node's output or an initializer. When a floating point
// initializer is looked up for the first time, it becomes a parameter or a constant, as findConstants decided.
func (c *compiler) lookup(name string) *value {
	if v := c.env[name]; v != nil {
		return v
	}
	in := c.inits[name]
	switch {
	case in == nil:
		panic(refuse("it reads %s, which no node, initializer or input provides; %s", quote(name), invalid))
	case in.value != nil:
		return in.value
	case in.t.Type.IsFloat():
		in.value = c.tensor(in)
	default:
		in.value = c.intTensor(in.t)
	}
	return in.value
}

// tensor returns the value of a floating point initializer.
func (c *compiler) tensor(in *initializer) *value {
	shape := rewrite.Shape(in.t)
	within(func() { count(shape) }, "initializer %s", quote(in.t.Name))
	if in.mask != nil {
		v := c.addConstant(in.t.Floats, shape)
		c.masks[v.slot].from = in.mask
		if c.learn[in.t.Name] {
			panic(refusal{in.mask})
		}
		return v
	}
	if name := in.t.Name; c.freeze[name] || c.fixed[name] || len(shape) == 0 && !c.learn[name] && !c.scalars[name] {
		return c.addConstant(in.t.Floats, shape)
	}
	in.uses = c.uses[in.t.Name]
	in.param = c.addSlot(graph.Slot{Size: in.t.Len(), Static: true, NeedsGrad: true, Param: -1})
	c.bySlot[in.param] = in
	return &value{slot: in.param, shape: shape, batch: -1, weight: in}
}

// intTensor returns the value of an integer tensor.
func (c *compiler) intTensor(t *onnx.Tensor) *value {
	if t.Type == onnx.String {
		panic(refuse("tensor %s holds strings", quote(t.Name)))
	}
	shape := rewrite.Shape(t)
	if len(shape) > maxRank {
		panic(refuse("integer tensor %s has %d dimensions, too many", quote(t.Name), len(shape)))
	}
	c.spend(intBytes * len(t.Ints))
	v := &value{shape: shape, batch: -1, isInt: true, stored: t.Type, ints: make([]affine, len(t.Ints))}
	for i, k := range t.Ints {
		v.ints[i] = affine{k: clampInt(k)}
	}
	return v
}

// intBound is the largest magnitude of an integer in arithmetic.
const intBound = 1 << 40

// clampInt limits an integer to ±2·intBound, so that sums cannot overflow. A huge integer that means "to the end"
// remains larger than intBound.
func clampInt(k int64) int { return int(min(max(k, -2*intBound), 2*intBound)) }

// has reports whether optional input i of the node is given.
func (c *compiler) has(i int) bool { return i < len(c.node.Inputs) && c.node.Inputs[i] != "" }

// input returns input i of the node.
func (c *compiler) input(i int) *value {
	if !c.has(i) {
		panic(refuse("input %d is missing", i))
	}
	v := c.lookup(c.node.Inputs[i])
	if v.list != nil {
		panic(refuse("input %d (%s) is a sequence of tensors; %s", i, quote(c.node.Inputs[i]), invalid))
	}
	return v
}

// float returns input i, which must be a floating point tensor.
func (c *compiler) float(i int) *value {
	v := c.input(i)
	within(func() { v = c.floatOf(v) }, "input %d (%s)", i, quote(c.node.Inputs[i]))
	return v
}

// floatOf returns v as a floating point tensor, marked if it was known integers.
func (c *compiler) floatOf(v *value) *value {
	if v.isInt {
		v = c.toFloat(v)
		v.fromInts = true
	}
	return v
}

// optional returns input i as float does, or nil if the node does not have it.
func (c *compiler) optional(i int) *value {
	if !c.has(i) {
		return nil
	}
	return c.float(i)
}

// toFloat turns known integers into a constant.
func (c *compiler) toFloat(v *value) *value {
	count(v.shape)
	c.spend(numberBytes * len(v.ints))
	data := make([]float64, len(v.ints))
	for i, a := range v.ints {
		if !a.constant() {
			panic(refuse("a number computed from the batch size enters the outputs, which would mix examples"))
		}
		bounded(a)
		data[i] = float64(a.k)
	}
	out := c.addConstant(data, v.shape)
	out.batch, out.lead = v.batch, v.lead
	return out
}

// asFloat returns v as a floating point tensor.
func (c *compiler) asFloat(v *value) *value {
	if v.isInt {
		return c.toFloat(v)
	}
	return v
}

// floats returns the numbers of input i (a statistic, scale or bound), which must be a constant. If the input is an
// initializer, its stored numbers are returned and the initializer is marked as known.
func (c *compiler) floats(i int) []float64 {
	if !c.has(i) {
		panic(refuse("input %d is missing", i))
	}
	name := c.node.Inputs[i]
	if in := c.inits[name]; in != nil && in.t.Type.IsFloat() {
		if in.mask != nil {
			panic(refusal{in.mask})
		}
		in.known = true
		return in.t.Floats
	}
	v := c.float(i)
	if in := c.bySlot[v.slot]; in != nil { // an initializer that passed through a node under another name
		in.known = true
		return in.t.Floats
	}
	if data := c.static[v.slot]; data != nil {
		return data
	}
	panic(refuse("input %d (%s) must be a constant", i, quote(name)))
}

// scalar returns the only number of constant input i, or def if the node does not have the input.
func (c *compiler) scalar(i int, def float64) float64 {
	if !c.has(i) {
		return def
	}
	return only(i, c.floats(i))
}

// only returns the only number of a list, the numbers of input i.
func only[T any](i int, list []T) T {
	if len(list) != 1 {
		panic(refuse("input %d has %d numbers, one is expected", i, len(list)))
	}
	return list[0]
}

// intsAt returns input i, which must be integers that are known or depend on nothing but the batch size.
func (c *compiler) intsAt(i int) *value {
	v := c.input(i)
	if v.isInt && !v.real && v.batch < 0 {
		return v
	}
	panic(refuse("input %d (%s) must be integers known without running the network", i, quote(c.node.Inputs[i])))
}

// constants returns input i as plain integers.
func (c *compiler) constants(i int) []int {
	v := c.intsAt(i)
	out := make([]int, len(v.ints))
	for j, a := range v.ints {
		if !a.constant() {
			panic(refuse("input %d depends on the batch size, which would mix examples", i))
		}
		out[j] = a.k
	}
	return out
}

// intsOr returns the integers of input i or, in older opsets, of an attribute. ok is false if the node has neither.
func (c *compiler) intsOr(i int, attr string) (list []int, ok bool) {
	if c.has(i) {
		return c.constants(i), true
	}
	list = c.attrInts(attr)
	return list, list != nil
}

// attr returns an attribute, or nil if the node does not have it. An attribute of another type than as is refused.
func (c *compiler) attr(name string, as onnx.AttrType) *onnx.Attribute {
	a := c.node.Attr(name)
	if a != nil && a.Type != as {
		panic(refuse("its attribute %s is of type %v, not %v; %s", name, a.Type, as, invalid))
	}
	return a
}

func (c *compiler) attrInts(name string) []int {
	a := c.attr(name, onnx.AttrInts)
	if a == nil {
		return nil
	}
	out := make([]int, len(a.Ints))
	for i, v := range a.Ints {
		out[i] = clampInt(v)
	}
	return out
}

// attrFloats returns the exact values of a list of float32 numbers, or none if the node does not have the
// attribute.
func (c *compiler) attrFloats(name string) (out []float64) {
	if a := c.attr(name, onnx.AttrFloats); a != nil {
		for _, v := range a.Floats {
			out = append(out, float64(v))
		}
	}
	return out
}

func (c *compiler) attrInt(name string, def int) int {
	if a := c.attr(name, onnx.AttrInt); a != nil {
		return clampInt(a.I)
	}
	return def
}

// attrFloat returns the exact value of a float32 attribute.
func (c *compiler) attrFloat(name string, def float32) float64 {
	if a := c.attr(name, onnx.AttrFloat); a != nil {
		def = a.F
	}
	v := float64(def)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		panic(refuse("attribute %s is %v", name, v))
	}
	return v
}

func (c *compiler) attrString(name, def string) string {
	if a := c.attr(name, onnx.AttrString); a != nil {
		return string(a.S)
	}
	return def
}

// set makes v output i of the node. If v is an initializer that the node passes on unchanged, a layer may use it as
// its own weight only if this node alone reads the initializer; otherwise set unmarks it.
func (c *compiler) set(i int, v *value) {
	if v.weight != nil && c.uses[c.node.Inputs[0]] != 1 {
		w := *v
		w.weight = nil
		v = &w
	}
	if i < len(c.node.Outputs) && c.node.Outputs[i] != "" {
		c.env[c.node.Outputs[i]] = v
	}
}

// only refuses the node if an output beyond the first n is used.
func (c *compiler) only(n int) {
	for i := n; i < len(c.node.Outputs); i++ {
		if name := c.node.Outputs[i]; name != "" && c.uses[name] > 0 {
			panic(refuse("its output %d (%s) is used, which is not supported", i, quote(name)))
		}
	}
}

// axis turns a possibly negative axis into one in [0, rank).
func axis(a, rank int) int {
	if a < -rank || a >= rank {
		panic(refuse("axis %d is out of range for %d dimensions", a, rank))
	}
	if a < 0 {
		a += rank
	}
	return a
}

// onAxis returns v with the examples on axis batch and lead elements before the examples. The result is no longer
// marked as a stored weight.
func (v *value) onAxis(batch, lead int) *value {
	w := *v
	w.batch, w.lead, w.weight = batch, lead, nil
	return &w
}

// loose returns v without a batch axis, in a model with a batch of one, whose only example v belongs to. Pointwise nodes
// take such tensors, and others where they may put the batch axis back (see translate).
func (c *compiler) loose(v *value) *value {
	w := v.onAxis(-1, 0)
	if v.isInt {
		w = c.mapInts(w, func(a affine) affine { return affine{k: a.one()} })
	}
	return w
}

func (v *value) isBatch(axis int) bool { return axis == v.batch }

// leading returns the field lead, with 1 in place of 0.
func (v *value) leading() int { return max(v.lead, 1) }

// before returns the number of elements that come before the batch axis in memory, per example.
func (v *value) before() int { return graph.Product(v.shape[:v.batch]) * v.leading() }

var errMixes = refuse("it works along the batch dimension, which would mix examples")

// integerType returns the type of the first input of the node that holds integers or
// truth values that depend on the input of the network, or 0 if there is none.
func (c *compiler) integerType() onnx.DataType {
	for _, name := range c.node.Inputs {
		if v := c.env[name]; v != nil && v.integer != 0 {
			return v.integer
		}
	}
	return 0
}

// ofType returns v marked as integers of type t, or as floating point if t is 0.
func ofType(v *value, t onnx.DataType) *value {
	w := *v
	w.integer = t
	return &w
}

// typeOf returns the type of the integers in v, or 0 if v is floating point.
func typeOf(v *value) onnx.DataType {
	if v.isInt && !v.real {
		return onnx.Int64
	}
	return v.integer
}

// depends reports whether the elements of v depend on the input of the network.
func (c *compiler) depends(v *value) bool { return !v.isInt && v.list == nil && !c.isStatic(v) }
