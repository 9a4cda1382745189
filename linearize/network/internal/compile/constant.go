package compile

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

func init() {
	register("Shapes", map[string]operator{
		"Cast": {translate: (*compiler).cast, inputs: 1, integers: ownType, roles: learnt.Moves | learnt.Passes},
	})
	register("Constants", map[string]operator{
		"Constant":        {translate: (*compiler).constant, inputs: 1, note: "strings and sparse tensors are not read; which stored tensors are parameters, inspect says"},
		"ConstantOfShape": {translate: (*compiler).constantOfShape, inputs: 1, roles: learnt.Sets, note: "the shape is known up to the batch size"},
		"Range":           {translate: (*compiler).rangeOp, inputs: 3, roles: learnt.Sets, note: "the bounds are known without running the network, or count the examples"},
		"EyeLike":         {translate: (*compiler).eyeLike, inputs: 1},
		"OneHot":          {translate: (*compiler).oneHot, inputs: 3, integers: ownType, roles: learnt.Sets, note: "no derivative in the indices"},
		"NonZero":         {translate: (*compiler).nonZero, inputs: 1, note: knownOnly},
	})
}

func (c *compiler) constant() {
	if a := c.attr("value", onnx.AttrTensor); a != nil && a.T != nil {
		shape := rewrite.Shape(a.T)
		if !a.T.Type.IsFloat() {
			c.result(c.intTensor(a.T))
		} else if _, err := Count(shape); err != nil {
			// An empty tensor represents an optional input that is absent.
			c.set(0, &value{shape: shape, batch: -1, isInt: true})
		} else {
			c.result(c.addConstant(a.T.Floats, shape))
		}
	} else if a := c.attr("value_float", onnx.AttrFloat); a != nil {
		c.result(c.addConstant([]float64{float64(a.F)}, []int{}))
	} else if list := c.attrFloats("value_floats"); len(list) > 0 {
		c.result(c.addConstant(list, []int{len(list)}))
	} else if a := c.attr("value_int", onnx.AttrInt); a != nil {
		c.result(&value{shape: []int{}, batch: -1, isInt: true, ints: []affine{{k: clampInt(a.I)}}})
	} else if list := c.attrInts("value_ints"); list != nil {
		v := &value{shape: []int{len(list)}, batch: -1, isInt: true}
		for _, k := range list {
			v.ints = append(v.ints, affine{k: k})
		}
		c.result(v)
	} else {
		panic(refuse("it has no tensor or number as its value"))
	}
}

func (c *compiler) constantOfShape() {
	to := c.intsAt(0)
	shape, batch := known(to)
	n := count(shape)
	c.spend(intBytes * n)
	fill := []float64{0}
	if a := c.attr("value", onnx.AttrTensor); a != nil && a.T != nil {
		if fill = a.T.Floats; len(a.T.Ints) == 1 {
			ints := slices.Repeat([]affine{{k: clampInt(a.T.Ints[0])}}, n)
			c.result(&value{shape: shape, batch: batch, isInt: true, ints: ints})
			return
		}
	}
	if len(fill) != 1 || math.IsNaN(fill[0]) {
		panic(refuse("its value is not a single number"))
	}
	v := c.addConstant(slices.Repeat(fill, n), shape)
	v.batch = batch
	c.result(v)
}

// rangeOp translates Range for known numbers or integers. A range from 0 to a multiple m·N of the batch size N gets
// a batch axis with m elements: example e has the integers m·e to m·e + m − 1.
func (c *compiler) rangeOp() {
	if v := c.input(0); !v.isInt {
		var arg [3]float64
		for i := range arg {
			arg[i] = c.scalar(i, 0)
		}
		n := math.Ceil((arg[1] - arg[0]) / arg[2])
		if !(n >= 1 && n <= maxElements) {
			panic(refuse("a range from %v to %v by %v", arg[0], arg[1], arg[2]))
		}
		c.spend(numberBytes * int(n))
		data := make([]float64, int(n))
		for i := range data {
			data[i] = arg[0] + float64(i)*arg[2]
		}
		c.result(c.addConstant(data, []int{len(data)}))
		return
	}
	if v := c.intsAt(1); len(v.ints) == 1 && !v.ints[0].constant() {
		limit := v.ints[0]
		start := c.scalarInt(0, 0)
		delta := c.scalarInt(2, 1)
		if start != 0 || delta != 1 || limit.k != 0 || limit.n < 1 {
			panic(errMixes)
		}
		out := c.newInts([]int{limit.n}, 0)
		for i := range out.ints {
			out.ints[i] = affine{row: limit.n, k: i}
		}
		c.result(out)
		return
	}
	var arg [3]int
	for i := range arg {
		arg[i] = only(i, c.constants(i))
	}
	start, limit, delta := arg[0], arg[1], arg[2]
	if delta == 0 || abs(limit-start)/abs(delta) > maxElements {
		panic(refuse("a range from %d to %d by %d", start, limit, delta))
	}
	c.spend(intBytes * abs(limit-start) / abs(delta))
	out := &value{batch: -1, isInt: true, ints: make([]affine, 0, abs(limit-start)/abs(delta)+1)}
	for k := start; delta > 0 && k < limit || delta < 0 && k > limit; k += delta {
		out.ints = append(out.ints, affine{k: k})
	}
	out.shape = []int{len(out.ints)}
	c.result(out)
}

// eyeLike translates EyeLike: a matrix of another matrix's shape, with ones on a diagonal.
func (c *compiler) eyeLike() {
	v := c.input(0)
	if len(v.shape) != 2 {
		panic(refuse("a tensor of shape %v is no matrix", v.shape))
	}
	if v.batch >= 0 {
		panic(errMixes)
	}
	out := c.newInts(v.shape, -1)
	k := c.attrInt("k", 0)
	for i := range out.ints {
		out.ints[i].k = int(graph.Step(i%v.shape[1]-i/v.shape[1] == k))
	}
	isInt := v.isInt && !v.real
	if t := c.attrInt("dtype", 0); t != 0 {
		isInt = onnx.DataType(t).IsInt()
	}
	if isInt {
		c.result(out)
		return
	}
	c.result(c.toFloat(out))
}

// oneHot translates OneHot.
func (c *compiler) oneHot() {
	at := c.input(0)
	if !at.isInt && !c.depends(at) {
		at = c.castTo(onnx.Int64, at)
	}
	sizes := c.numbers(c.input(1))
	if len(sizes) != 1 || !(sizes[0] >= 1 && sizes[0] <= maxElements) {
		panic(refuse("its depth is %v", sizes))
	}
	depth := int(sizes[0])
	ax := axis(c.attrInt("axis", -1), len(at.shape)+1)
	values := c.input(2)
	if graph.Product(values.shape) != 2 || values.isInt && len(values.ints) != 2 {
		panic(refuse("its values are of shape %v, not an off and an on value", values.shape))
	}
	batch := at.batch
	if batch >= ax {
		batch++
	}
	if c.depends(at) {
		// The integers depend on the input: compare them with the numbers of all classes.
		t := typeOf(values)
		values = c.asFloat(values)
		column := c.alias(at, slices.Insert(slices.Clone(at.shape), ax, 1), batch)
		c.spend(numberBytes * depth)
		classes := make([]float64, depth)
		for k := range classes {
			classes[k] = float64(k)
		}
		classShape := append([]int{depth}, slices.Repeat([]int{1}, len(at.shape)-ax)...)
		is := c.combine(graph.Indicator(depth), column, c.addConstant(classes, classShape))
		values = c.alias(values, []int{2}, -1)
		off := c.takeAxis(values, 0, []int{0}, nil)
		on := c.takeAxis(values, 0, []int{1}, nil)
		c.result(ofType(c.choice([]*value{is, on, off}), t))
		return
	}
	shape := slices.Insert(slices.Clone(at.shape), ax, depth)
	inner := graph.Product(at.shape[ax:])
	n := c.entries(shape)
	table := make([]int32, n)
	for i := range table {
		a := at.ints[i/(inner*depth)*inner+i%inner]
		if !a.constant() {
			panic(errMixes)
		}
		if a.k < 0 {
			a.k += depth
		}
		table[i] = int32(graph.Step(a.k == i/inner%depth))
	}
	c.result(c.apply(values.onAxis(values.batch, at.lead), shape, batch, table, 0))
}

// nonZero translates NonZero of known numbers: it returns the indices of the numbers that are not zero.
func (c *compiler) nonZero() {
	v := c.input(0)
	if v.batch >= 0 && c.batch != 1 {
		panic(errMixes)
	}
	numbers := c.numbers(v)
	var places []int
	for i, x := range numbers {
		if x != 0 {
			places = append(places, i)
		}
	}
	rank := len(v.shape)
	c.spend(intBytes * rank * len(places))
	out := &value{shape: []int{rank, len(places)}, batch: -1, isInt: true}
	for d, st := range strides(v.shape) {
		for _, p := range places {
			out.ints = append(out.ints, affine{k: p / st % v.shape[d]})
		}
	}
	c.result(out)
}

// cast translates Cast. Known integers cast to floating point stay integers, marked as real, if they depend on the
// batch size; so a shape that the graph computes in floating point remains known. A cast of numbers that depend on
// the input to integers has derivative zero.
func (c *compiler) cast() {
	v, to := c.input(0), onnx.DataType(c.attrInt("to", 0))
	switch from := v.integer; {
	case to.IsFloat() && v.isInt:
		if len(v.ints) > 0 && !slices.ContainsFunc(v.ints, func(a affine) bool { return !a.constant() }) {
			v = c.toFloat(v)
		} else {
			w := *v
			w.real = true
			v = &w
		}
	case to.IsFloat():
		v = ofType(v, 0)
	case to.IsInt() && (v.isInt || c.isStatic(v)):
		v = c.castTo(to, v)
	case !to.IsInt():
		panic(refuse("a cast to %v", to))
	case to == onnx.Bool && from != onnx.Bool:
		v = ofType(c.combine(graph.NotEqual, v, c.addConstant([]float64{0}, []int{})), onnx.Bool)
	case from == 0: // ONNX casts to integers by truncation
		v = ofType(c.emit(graph.Trunc, v.shape, v.batch, v), to)
	case from == onnx.Bool || to == from || to == onnx.Int64 || to == onnx.Int32:
		// Integers that do not fit into 32 bits are too large for any table.
		v = ofType(v, to)
	default:
		panic(refuse("a cast of %v numbers that depend on the input to %v, which may not hold them, is not supported", from, to))
	}
	c.result(v)
}

// castTo casts known numbers to integers or truth values.
func (c *compiler) castTo(to onnx.DataType, v *value) *value {
	var out *value
	if v.isInt {
		out = c.mapInts(v, func(a affine) affine {
			if to == onnx.Bool {
				a = a.compare(affine{}, func(sign int) bool { return sign != 0 })
			}
			return a
		})
		out.real = false
	} else {
		out = c.newInts(v.shape, v.batch, v)
		for i, x := range c.numbers(v) {
			switch {
			case to == onnx.Bool:
				x = graph.Step(x != 0)
			case math.IsNaN(x):
				panic(refuse("element %d is NaN, which is no integer", i))
			}
			out.ints[i].k = int(graph.Clamp(math.Trunc(x), -2*intBound, 2*intBound))
		}
	}
	out.stored = to
	return out
}
