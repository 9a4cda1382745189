package compile

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Comparisons and masks", map[string]operator{
		"ArgMax": {translate: func(c *compiler) { c.argMax(false) }, inputs: 1, note: "no derivative"},
		"ArgMin": {translate: func(c *compiler) { c.argMax(true) }, inputs: 1, note: "no derivative"},
	})
}

// An integerRule says what an operator makes of integers or truth values that depend
// on the input.
type integerRule int

const (
	keepsType  integerRule = iota + 1 // it moves them: the result is of the same type
	computes                          // it computes with integers; a narrow type would overflow
	ownType                           // its translation gives the result its type
	isTruth                           // the result are truth values
	isPosition                        // the result are positions, 64-bit integers
)

// integerRules holds the operators that can be applied to integers that depend on the
// input, by name.
var integerRules = map[string]integerRule{
	"Identity": keepsType, "Reshape": keepsType, "Flatten": keepsType, "Squeeze": keepsType, "Unsqueeze": keepsType,
	"Transpose": keepsType, "Slice": keepsType, "Split": keepsType, "Concat": keepsType, "Expand": keepsType, "Tile": keepsType,
	"Pad": keepsType, "Dropout": keepsType, "GatherND": keepsType, "Trilu": keepsType,
	"Clip": keepsType, "MaxPool": keepsType, // which cannot overflow
	"Add": computes, "Sub": computes, "Mul": computes, "Div": computes, "Mod": computes, "Neg": computes, "Abs": computes,
	"Sign": computes, "Min": computes, "Max": computes, "Sum": computes, "Relu": computes,
	"ReduceSum": computes, "ReduceMax": computes, "ReduceMin": computes,
	"Cast": ownType, "Gather": ownType, "Where": ownType, "OneHot": ownType, "GatherElements": ownType, "Shape": ownType, "DequantizeLinear": ownType,
	"Equal": isTruth, "Greater": isTruth, "GreaterOrEqual": isTruth, "Less": isTruth, "LessOrEqual": isTruth,
	"Not": isTruth, "And": isTruth, "Or": isTruth, "Xor": isTruth,
	"ArgMax": isPosition, "ArgMin": isPosition,
}

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

// checkIntegers returns an error if the node cannot be applied to integers of type t
// that depend on the input.
func (c *compiler) checkIntegers(t onnx.DataType) {
	if t == 0 || !standard(c.node) {
		return
	}
	switch integerRules[c.node.OpType] {
	case 0:
		panic(refuse("it is applied to %v numbers that depend on the input, which is not supported; cast them to floating point before it", t))
	case computes:
		if t != onnx.Int64 && t != onnx.Int32 {
			panic(refuse("it computes with %v numbers that depend on the input, which would overflow; only int32 and int64 are supported", t))
		}
	}
}

// setIntegers marks the results of a node that was applied to integers of type t.
func (c *compiler) setIntegers(t onnx.DataType) {
	rule := integerRules[c.node.OpType]
	switch {
	case rule == isTruth:
		t = onnx.Bool
	case rule == isPosition:
		t = onnx.Int64
	case rule == ownType || t == 0:
		return
	}
	for _, name := range c.node.Outputs {
		if v := c.env[name]; v != nil && !v.isInt {
			v.integer = t
		}
	}
}

// ofType returns v as integers of type t, or as floating point for 0.
func ofType(v *value, t onnx.DataType) *value {
	w := *v
	w.integer = t
	return &w
}

// typeOf returns the type of the integers that v holds, and 0 for floating point.
func typeOf(v *value) onnx.DataType {
	if v.isInt && !v.real {
		return onnx.Int64
	}
	return v.integer
}

// lookUp takes the rows of v along an axis that the integers in at say, which depend
// on the input.
func (c *compiler) lookUp(v *value, ax int, at *value) *value {
	t := typeOf(v)
	if at.integer == 0 || at.integer == onnx.Bool {
		panic(refuse("its indices are neither integers known without running the network nor integers computed from integer inputs"))
	}
	if v.isInt {
		v = c.toFloat(v)
	}
	if v.batch >= 0 || !c.isStatic(v) {
		panic(refuse("both its tensor and its indices depend on the input, which would mix examples"))
	}
	o := &graph.Lookup{Name: brief(c.node.Inputs[0], 80), Outer: graph.Product(v.shape[:ax]), Rows: v.shape[ax], Inner: graph.Product(v.shape[ax+1:])}
	if v.weight != nil && !v.transposed && o.Outer == 1 {
		o.Padding = c.padding(v.weight, o)
	}
	out := c.emit(o, slices.Concat(v.shape[:ax], at.shape, v.shape[ax+1:]), at.batch+ax, at, v)
	return ofType(out, t)
}

// padding returns the number, plus one, of the row of a table that was not learnt, or
// 0. PyTorch leaves the row padding_idx of an embedding at zero, and a file does not
// say which one that is: it is taken to be the only row of zeros among several
// numbers. Its gradient is zero, as PyTorch's is.
func (c *compiler) padding(in *initializer, o *graph.Lookup) int {
	if c.learn[in.t.Name] || o.Inner < 2 {
		return 0
	}
	found := 0
	for r := range o.Rows {
		if slices.ContainsFunc(in.t.Floats[r*o.Inner:(r+1)*o.Inner], func(x float64) bool { return x != 0 }) {
			continue
		}
		if found > 0 {
			return 0
		}
		found = r + 1
	}
	if found > 0 {
		c.warns = append(c.warns, linearize.NewWarning("taken-for-constants", math.NaN(), math.NaN(), "Name what was learnt in ReadOptions.Learn.", "Row %d of table %s holds zeros and is taken for padding. The posterior holds it fixed.", found-1, quote(in.t.Name)))
	}
	return found
}

// castDepending casts numbers that depend on the input. The result of a cast to
// integers has no derivative: it is constant between jumps.
func (c *compiler) castDepending(to onnx.DataType, v *value) *value {
	from := v.integer
	switch {
	case !to.IsFloat() && !to.IsInt():
		panic(refuse("a cast to %v", to))
	case to.IsFloat():
		return ofType(v, 0)
	case to == onnx.Bool && from != onnx.Bool:
		zero := c.addConstant([]float64{0}, []int{})
		out := c.combine(graph.NotEqual, v, zero)
		return ofType(out, onnx.Bool)
	case from == 0: // ONNX casts to integers by truncation
		out := c.emit(graph.Trunc, v.shape, v.batch, v)
		return ofType(out, to)
	case from == onnx.Bool || to == from || to == onnx.Int64 || to == onnx.Int32:
		// Integers that do not fit into 32 bits would be past every table.
		return ofType(v, to)
	}
	panic(refuse("a cast of %v numbers that depend on the input to %v, which may not hold them, is not supported", from, to))
}

// modDepending translates Mod of integers that depend on the input.
func (c *compiler) modDepending() {
	a := c.float(0)
	b := c.float(1)
	fn := graph.Mod
	if c.attrInt("fmod", 0) != 0 {
		fn = graph.Rem
	}
	c.result(c.combine(fn, a, b))
}

// depends reports whether the numbers of v depend on the input.
func (c *compiler) depends(v *value) bool { return !v.isInt && !c.isStatic(v) }

// compareDepending translates a function that is constant between jumps, of two tensors
// of which one depends on the input.
func (c *compiler) compareDepending(fn graph.BinaryFunc) {
	a := c.float(0)
	b := c.float(1)
	out := c.combine(fn, a, b)
	c.result(ofType(out, onnx.Bool))
}

// whereDepending translates Where with a condition that depends on the input.
func (c *compiler) whereDepending(cond *value) {
	in := []*value{cond, nil, nil}
	var t onnx.DataType
	for i := 1; i <= 2; i++ {
		v := c.input(i)
		t = max(t, typeOf(v))
		in[i] = c.float(i)
	}
	out := c.choice(in)
	c.result(ofType(out, t))
}

// choice emits a graph.Where of a condition and two tensors, with broadcasting.
func (c *compiler) choice(in []*value) *value {
	shape, batch := broadcastShape(in[1], in[2], 0)
	shape, batch = broadcastShape(&value{shape: shape, batch: batch}, in[0], 0)
	var from [3][]int32
	for i, v := range in {
		from[i] = c.broadcastTable(shape, v.shape)
	}
	return c.emit(&graph.Where{Cond: from[0], Left: from[1], Right: from[2]}, shape, batch, in...)
}

// oneHotDepending returns the one-hot vectors, along a new axis, of integers that depend
// on the input. values holds the number for the other classes and that for the one.
func (c *compiler) oneHotDepending(at *value, ax, depth int, values *value) *value {
	t := typeOf(values)
	if values.isInt {
		values = c.toFloat(values)
	}
	batch := at.batch
	if batch >= ax {
		batch++
	}
	column := c.alias(at, slices.Insert(slices.Clone(at.shape), ax, 1), batch)
	c.spend(numberBytes * depth)
	classes := make([]float64, depth)
	for k := range classes {
		classes[k] = float64(k)
	}
	is := c.combine(graph.Indicator(depth), column, c.addConstant(classes, append([]int{depth}, slices.Repeat([]int{1}, len(at.shape)-ax)...)))
	values = c.alias(values, []int{2}, -1)
	off := c.takeAxis(values, 0, []int{0}, nil)
	on := c.takeAxis(values, 0, []int{1}, nil)
	out := c.choice([]*value{is, on, off})
	return ofType(out, t)
}

// gatherDepending translates GatherElements with indices that depend on the input.
func (c *compiler) gatherDepending(v, at *value, ax int) *value {
	t := typeOf(v)
	if v.isInt {
		v = c.toFloat(v)
	}
	if len(at.shape) != len(v.shape) {
		panic(refuse("indices of shape %v for a tensor of shape %v", at.shape, v.shape))
	}
	for d, n := range at.shape {
		if d != ax && n > v.shape[d] {
			panic(refuse("indices of shape %v for a tensor of shape %v", at.shape, v.shape))
		}
	}
	if at.isBatch(ax) || v.batch != at.batch || at.shape[v.batch] != v.shape[v.batch] || at.leading() != v.leading() {
		panic(errMixes)
	}
	st := strides(v.shape)
	base := c.table(at.shape, func(d, i int) int {
		if d == ax {
			return 0
		}
		return i * st[d]
	})
	o := &graph.Pickup{Base: base, Length: v.shape[ax], Stride: st[ax], Name: brief(c.node.Inputs[0], 80)}
	out := c.emit(o, at.shape, at.batch, v, at)
	return ofType(out, t)
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
