package compile

import (
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
		return c.result(v, nil)
	case to.IsInt() && (v.isInt || c.isStatic(v)):
		return c.result(c.castTo(to, v))
	}
	return fmt.Errorf("a cast to %v of numbers that depend on the input has no derivative", to)
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
	out := &value{shape: v.shape, batch: v.batch, lead: v.lead, isInt: true}
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
