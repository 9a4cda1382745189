package compile

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Shapes", map[string]operator{
		"Cast": {translate: (*compiler).cast, inputs: 1},
	})
	register("Constants", map[string]operator{
		"Constant":        {translate: (*compiler).constant, inputs: 1, note: "strings and sparse tensors are not read; which stored tensors are parameters, inspect says"},
		"ConstantOfShape": {translate: (*compiler).constantOfShape, inputs: 1, note: "the shape is known up to the batch size"},
		"Range":           {translate: (*compiler).rangeOp, inputs: 3, note: "the bounds are known without running the network, or count the examples"},
		"EyeLike":         {translate: (*compiler).eyeLike, inputs: 1},
		"OneHot":          {translate: (*compiler).oneHot, inputs: 3, note: "no derivative in the indices"},
		"NonZero":         {translate: (*compiler).nonZero, inputs: 1, note: knownOnly},
	})
}

func (c *compiler) constant() error {
	for _, a := range c.node.Attributes {
		switch {
		case a.Name == "value" && a.T != nil && a.T.Type.IsFloat():
			shape := dims(a.T)
			if _, err := Count(shape); err != nil {
				// An empty tensor stands for an absent optional input.
				return c.set(0, &value{shape: shape, batch: -1, isInt: true})
			}
			for j, v := range a.T.Floats {
				if math.IsNaN(v) {
					return fmt.Errorf("the constant holds NaN at element %d", j)
				}
			}
			return c.result(c.addConstant(a.T.Floats, shape), nil)
		case a.Name == "value" && a.T != nil:
			return c.result(c.intTensor(a.T))
		case a.Name == "value_float":
			v := float64(a.F)
			if math.IsNaN(v) {
				return errors.New("the constant is NaN")
			}
			return c.result(c.addConstant([]float64{v}, []int{}), nil)
		case a.Name == "value_floats" && len(a.Floats) > 0:
			data := make([]float64, len(a.Floats))
			for i, v := range a.Floats {
				if data[i] = float64(v); math.IsNaN(data[i]) {
					return fmt.Errorf("the constant holds NaN at element %d", i)
				}
			}
			return c.result(c.addConstant(data, []int{len(data)}), nil)
		case a.Name == "value_int":
			return c.result(&value{shape: []int{}, batch: -1, isInt: true, ints: []affine{{k: clampInt(a.I)}}}, nil)
		case a.Name == "value_ints":
			v := &value{shape: []int{len(a.Ints)}, batch: -1, isInt: true}
			for _, k := range a.Ints {
				v.ints = append(v.ints, affine{k: clampInt(k)})
			}
			return c.result(v, nil)
		}
	}
	return errors.New("it has no tensor or number as its value")
}

func (c *compiler) constantOfShape() error {
	to, err := c.intsAt(0)
	if err != nil {
		return err
	}
	shape, batch, err := known(to)
	if err != nil {
		return err
	}
	n, err := Count(shape)
	if err != nil {
		return err
	}
	if err := c.spend(intBytes * n); err != nil {
		return err
	}
	fill := []float64{0}
	if a := c.node.Attr("value"); a != nil && a.T != nil {
		if fill = a.T.Floats; len(a.T.Ints) == 1 {
			ints := slices.Repeat([]affine{{k: clampInt(a.T.Ints[0])}}, n)
			return c.result(&value{shape: shape, batch: batch, isInt: true, ints: ints}, nil)
		}
	}
	if len(fill) != 1 || math.IsNaN(fill[0]) {
		return errors.New("its value is not a single number")
	}
	v := c.addConstant(slices.Repeat(fill, n), shape)
	v.batch = batch
	return c.result(v, nil)
}

func (c *compiler) rangeOp() error {
	if v, err := c.input(0); err == nil && !v.isInt {
		return c.rangeOfFloats()
	}
	if v, err := c.intsAt(1); err == nil && len(v.ints) == 1 && !v.ints[0].constant() {
		return c.rangeOfExamples(v.ints[0])
	}
	var arg [3]int
	for i := range arg {
		list, err := c.constants(i)
		if err != nil {
			return err
		}
		if len(list) != 1 {
			return fmt.Errorf("input %d is not a single number", i)
		}
		arg[i] = list[0]
	}
	start, limit, delta := arg[0], arg[1], arg[2]
	if delta == 0 || abs(limit-start)/abs(delta) > maxElements {
		return fmt.Errorf("a range from %d to %d by %d", start, limit, delta)
	}
	if err := c.spend(intBytes * abs(limit-start) / abs(delta)); err != nil {
		return err
	}
	out := &value{batch: -1, isInt: true, ints: make([]affine, 0, abs(limit-start)/abs(delta)+1)}
	for k := start; delta > 0 && k < limit || delta < 0 && k > limit; k += delta {
		out.ints = append(out.ints, affine{k: k})
	}
	out.shape = []int{len(out.ints)}
	return c.result(out, nil)
}

// rangeOfExamples translates Range from 0 to a multiple of the batch size, which
// numbers the examples or elements of theirs.
func (c *compiler) rangeOfExamples(limit affine) error {
	start, err := c.scalarInt(0, 0)
	if err != nil {
		return err
	}
	delta, err := c.scalarInt(2, 1)
	if err != nil {
		return err
	}
	if start != 0 || delta != 1 || limit.k != 0 || limit.n < 1 {
		return errMixes
	}
	out, err := c.newInts([]int{limit.n}, 0)
	if err != nil {
		return err
	}
	for i := range out.ints {
		out.ints[i] = affine{row: limit.n, k: i}
	}
	return c.result(out, nil)
}

// rangeOfFloats translates Range with floating point inputs.
func (c *compiler) rangeOfFloats() error {
	var arg [3]float64
	for i := range arg {
		var err error
		if arg[i], err = c.scalar(i, 0); err != nil {
			return err
		}
	}
	n := math.Ceil((arg[1] - arg[0]) / arg[2])
	if !(n >= 1 && n <= maxElements) {
		return fmt.Errorf("a range from %v to %v by %v", arg[0], arg[1], arg[2])
	}
	if err := c.spend(numberBytes * int(n)); err != nil {
		return err
	}
	data := make([]float64, int(n))
	for i := range data {
		data[i] = arg[0] + float64(i)*arg[2]
	}
	return c.result(c.addConstant(data, []int{len(data)}), nil)
}

// eyeLike translates EyeLike: ones on a diagonal of a matrix with the shape of another.
func (c *compiler) eyeLike() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	if len(v.shape) != 2 {
		return fmt.Errorf("a tensor of shape %v is no matrix", v.shape)
	}
	if v.batch >= 0 {
		return errMixes
	}
	out, err := c.newInts(v.shape, -1)
	if err != nil {
		return err
	}
	k := c.attrInt("k", 0)
	for i := range out.ints {
		out.ints[i].k = int(graph.Step(i%v.shape[1]-i/v.shape[1] == k))
	}
	isInt := v.isInt && !v.real
	if a := c.node.Attr("dtype"); a != nil {
		isInt = onnx.DataType(a.I).IsInt()
	}
	if isInt {
		return c.result(out, nil)
	}
	return c.result(c.toFloat(out))
}

// oneHot translates OneHot.
func (c *compiler) oneHot() error {
	at, err := c.input(0)
	if err == nil && !at.isInt && !c.depends(at) {
		at, err = c.castTo(onnx.Int64, at)
	}
	if err != nil {
		return err
	}
	sizes, err := c.floatsOrInts(1)
	if err != nil {
		return err
	}
	if len(sizes) != 1 || !(sizes[0] >= 1 && sizes[0] <= maxElements) {
		return fmt.Errorf("its depth is %v", sizes)
	}
	depth := int(sizes[0])
	ax, err := axis(c.attrInt("axis", -1), len(at.shape)+1)
	if err != nil {
		return err
	}
	values, err := c.input(2)
	if err != nil {
		return err
	}
	if graph.Product(values.shape) != 2 || values.isInt && len(values.ints) != 2 {
		return fmt.Errorf("its values are of shape %v, not an off and an on value", values.shape)
	}
	if c.depends(at) {
		return c.result(c.oneHotDepending(at, ax, depth, values))
	}
	shape, batch := slices.Insert(slices.Clone(at.shape), ax, depth), at.batch
	if batch >= ax {
		batch++
	}
	inner := graph.Product(at.shape[ax:])
	n, err := c.entries(shape)
	if err != nil {
		return err
	}
	table := make([]int32, n)
	for i := range table {
		a := at.ints[i/(inner*depth)*inner+i%inner]
		if !a.constant() {
			return errMixes
		}
		if a.k < 0 {
			a.k += depth
		}
		table[i] = int32(graph.Step(a.k == i/inner%depth))
	}
	w := *values
	w.weight, w.lead = nil, at.lead
	return c.result(c.apply(&w, shape, batch, table, 0))
}

// floatsOrInts returns input i, numbers that are known without running the network.
func (c *compiler) floatsOrInts(i int) ([]float64, error) {
	v, err := c.input(i)
	if err != nil {
		return nil, err
	}
	return c.numbers(v)
}

// nonZero translates NonZero of known numbers: the indices of those that are not zero.
func (c *compiler) nonZero() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	if v.batch >= 0 && c.batch != 1 {
		return errMixes
	}
	numbers, err := c.numbers(v)
	if err != nil {
		return err
	}
	var places []int
	for i, x := range numbers {
		if x != 0 {
			places = append(places, i)
		}
	}
	rank := len(v.shape)
	if err := c.spend(intBytes * rank * len(places)); err != nil {
		return err
	}
	out := &value{shape: []int{rank, len(places)}, batch: -1, isInt: true}
	for d, st := range strides(v.shape) {
		for _, p := range places {
			out.ints = append(out.ints, affine{k: p / st % v.shape[d]})
		}
	}
	return c.result(out, nil)
}

func (c *compiler) cast() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	to := onnx.DataType(c.attrInt("to", 0))
	switch {
	case to.IsFloat() && v.isInt:
		return c.result(c.castInts(v))
	case to.IsFloat():
		return c.result(ofType(v, 0), nil)
	case to.IsInt() && (v.isInt || c.isStatic(v)):
		return c.result(c.castTo(to, v))
	}
	return c.result(c.castDepending(to, v))
}

// castInts casts integers to floating point. Integers that depend on the batch
// size stay integers and are only marked, so that a shape that the graph
// computes in floating point remains known.
func (c *compiler) castInts(v *value) (*value, error) {
	if len(v.ints) > 0 && !slices.ContainsFunc(v.ints, func(a affine) bool { return !a.constant() }) {
		return c.toFloat(v)
	}
	out := *v
	out.real = true
	return &out, nil
}

// castTo casts known numbers to integers or truth values.
func (c *compiler) castTo(to onnx.DataType, v *value) (*value, error) {
	out := &value{shape: v.shape, batch: v.batch, lead: v.lead, isInt: true, stored: to}
	if v.isInt {
		out.ints = slices.Clone(v.ints)
	} else {
		numbers, err := c.numbers(v)
		if err == nil {
			err = c.spend(intBytes * len(numbers))
		}
		if err != nil {
			return nil, err
		}
		for _, x := range numbers {
			if to == onnx.Bool {
				x = graph.Step(x != 0)
			}
			out.ints = append(out.ints, affine{k: int(graph.Clamp(math.Trunc(x), -2*intBound, 2*intBound))})
		}
	}
	for i, a := range out.ints {
		if to == onnx.Bool {
			zero, err := a.compare(affine{}, func(sign int) bool { return sign != 0 })
			if err != nil {
				return nil, err
			}
			out.ints[i] = zero
		}
	}
	return out, nil
}
