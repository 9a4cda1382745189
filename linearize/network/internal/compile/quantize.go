package compile

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Quantization", map[string]operator{
		"QuantizeLinear":   {translate: (*compiler).quantize, inputs: 3, note: "8 and 16 bits, by tensor or by axis; the derivative passes straight through inside the range and is 0 outside"},
		"DequantizeLinear": {translate: (*compiler).dequantize, inputs: 3, note: "weights stored as integers are constants unless they are to be learnt"},
	})
}

// quantized is what is said of a network with quantized numbers.
type quantized struct {
	straight bool     // the warning that derivatives pass straight through was given
	integers []string // names of tensors stored as integers that are constants, quoted
}

// quantizedRanges holds the ranges of the types to which numbers are quantized.
var quantizedRanges = map[onnx.DataType][2]float64{
	onnx.Uint8: {0, math.MaxUint8}, onnx.Int8: {math.MinInt8, math.MaxInt8},
	onnx.Uint16: {0, math.MaxUint16}, onnx.Int16: {math.MinInt16, math.MaxInt16},
}

// quantization reads scale and zero point for a tensor of this shape: inputs 1 and 2,
// one number of each or one for each element of an axis.
func (c *compiler) quantization(v *value) (q graph.Quantization, err error) {
	if c.attrInt("block_size", 0) != 0 {
		return q, errors.New("a scale for each block of numbers is not supported")
	}
	if q.Scale, err = c.floats(1); err != nil {
		return q, err
	}
	q.Outer, q.Channels, q.Inner = 1, 1, graph.Product(v.shape)
	if n := len(q.Scale); n != 1 {
		ax, err := axis(c.attrInt("axis", 1), len(v.shape))
		if err != nil {
			return q, err
		}
		if v.isBatch(ax) {
			return q, errMixes
		}
		if n != v.shape[ax] {
			return q, fmt.Errorf("%d scales for an axis of %d", n, v.shape[ax])
		}
		q.Outer, q.Channels, q.Inner = graph.Product(v.shape[:ax]), n, graph.Product(v.shape[ax+1:])
	}
	for i, s := range q.Scale {
		if !(s > 0) || math.IsInf(s, 0) {
			return q, fmt.Errorf("scale %d is %v", i, s)
		}
	}
	q.Zero = make([]float64, len(q.Scale))
	if !c.has(2) {
		return q, nil
	}
	zero, err := c.constants(2)
	if err != nil {
		return q, err
	}
	if len(zero) != len(q.Zero) {
		return q, fmt.Errorf("%d zero points for %d scales", len(zero), len(q.Zero))
	}
	for i, z := range zero {
		q.Zero[i] = float64(z)
	}
	return q, nil
}

// quantizedType returns the type of the result: that of the zero point or of
// output_dtype, otherwise uint8.
func (c *compiler) quantizedType() (onnx.DataType, error) {
	t := onnx.DataType(c.attrInt("output_dtype", 0))
	if c.has(2) {
		zero, err := c.input(2)
		if err != nil {
			return 0, err
		}
		t = zero.stored
	} else if t == 0 {
		t = onnx.Uint8
	}
	if _, ok := quantizedRanges[t]; !ok {
		return 0, fmt.Errorf("a quantization to %v is not supported", t)
	}
	return t, nil
}

func (c *compiler) quantize() error {
	x, err := c.float(0)
	if err != nil {
		return err
	}
	q, err := c.quantization(x)
	if err != nil {
		return err
	}
	t, err := c.quantizedType()
	if err != nil {
		return err
	}
	o := &graph.Quantize{Quantization: q, Lo: quantizedRanges[t][0], Hi: quantizedRanges[t][1]}
	y, err := c.emit(o, x.shape, x.batch, x)
	if err != nil {
		return err
	}
	if c.needsGrad(x) && !c.quantized.straight {
		c.quantized.straight = true
		c.warns = append(c.warns, linearize.NewWarning("rounding-steps", math.NaN(), math.NaN(), "", "The network rounds to steps (QuantizeLinear), which has no derivative. It is passed straight through, 1 inside the range and 0 outside, as in quantization-aware training by PyTorch."))
	}
	return c.result(ofType(y, t), nil)
}

func (c *compiler) dequantize() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	stored := v.isInt
	if stored {
		if v, err = c.toFloat(v); err != nil {
			return err
		}
	} else if v.integer == 0 {
		return fmt.Errorf("input 0 (%s) holds no integers", quote(c.node.Inputs[0]))
	}
	q, err := c.quantization(v)
	if err != nil {
		return err
	}
	y, err := c.emit(&graph.Dequantize{Quantization: q}, v.shape, v.batch, v)
	if err != nil {
		return err
	}
	if name := c.node.Inputs[0]; stored && c.inits[name] != nil {
		c.quantized.integers = append(c.quantized.integers, quote(name))
	}
	return c.result(ofType(y, 0), nil)
}

// warnIntegers warns of weights that are constants because they are stored as
// integers.
func (c *compiler) warnIntegers() {
	if len(c.quantized.integers) > 0 {
		c.warns = append(c.warns, linearize.NewWarning("taken-for-constants", math.NaN(), math.NaN(), "Name what was learnt in ReadOptions.Learn.", "%s: stored as integers with a scale, and taken for constants. The posterior holds them fixed.", c.integerNames()))
	}
}

func (c *compiler) integerNames() string { return brief(strings.Join(c.quantized.integers, ", "), 400) }

// noParameter is the error for an output that depends on no parameter.
func (c *compiler) noParameter(output string) error {
	if len(c.quantized.integers) > 0 {
		return fmt.Errorf("network: output %s does not depend on any parameter: weights are stored as integers, %s; name them in --learn (ReadOptions.Learn) to make them parameters by their numbers", quote(output), c.integerNames())
	}
	return fmt.Errorf("network: output %s does not depend on any parameter; check --freeze and the export", quote(output))
}
