package compile

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

func init() {
	register("Constants", map[string]operator{
		"Constant":        {translate: (*compiler).constant, inputs: 1},
		"ConstantOfShape": {translate: (*compiler).constantOfShape, inputs: 1},
		"Range":           {translate: (*compiler).rangeOp, inputs: 3},
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
