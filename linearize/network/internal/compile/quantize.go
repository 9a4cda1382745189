package compile

import (
	"math"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Quantization", map[string]operator{
		"QuantizeLinear":   {translate: (*compiler).quantize, inputs: 3, roles: learnt.Sets, note: "8 and 16 bits, by tensor or by axis; the derivative passes straight through inside the range and is 0 outside"},
		"DequantizeLinear": {translate: (*compiler).dequantize, inputs: 3, integers: ownType, roles: learnt.Sets, note: "weights stored as integers are constants unless they are to be learnt"},
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
func (c *compiler) quantization(v *value) (q graph.Quantization) {
	if c.attrInt("block_size", 0) != 0 {
		panic(refuse("a scale for each block of numbers is not supported"))
	}
	q.Scale = c.floats(1)
	q.Outer, q.Channels, q.Inner = 1, 1, graph.Product(v.shape)
	if n := len(q.Scale); n != 1 {
		ax := axis(c.attrInt("axis", 1), len(v.shape))
		if v.isBatch(ax) {
			panic(errMixes)
		}
		if n != v.shape[ax] {
			panic(refuse("%d scales for an axis of %d", n, v.shape[ax]))
		}
		q.Outer, q.Channels, q.Inner = graph.Product(v.shape[:ax]), n, graph.Product(v.shape[ax+1:])
	}
	for i, s := range q.Scale {
		if !(s > 0) || math.IsInf(s, 0) {
			panic(refuse("scale %d is %v", i, s))
		}
	}
	q.Zero = make([]float64, len(q.Scale))
	if !c.has(2) {
		return q
	}
	zero := c.constants(2)
	if len(zero) != len(q.Zero) {
		panic(refuse("%d zero points for %d scales", len(zero), len(q.Zero)))
	}
	for i, z := range zero {
		q.Zero[i] = float64(z)
	}
	return q
}

func (c *compiler) quantize() {
	x := c.float(0)
	q := c.quantization(x)
	// The type of the result is that of the zero point or of output_dtype, otherwise uint8.
	t := onnx.DataType(c.attrInt("output_dtype", 0))
	if c.has(2) {
		zero := c.input(2)
		t = zero.stored
	} else if t == 0 {
		t = onnx.Uint8
	}
	if _, ok := quantizedRanges[t]; !ok {
		panic(refuse("a quantization to %v is not supported", t))
	}
	o := &graph.Quantize{Quantization: q, Lo: quantizedRanges[t][0], Hi: quantizedRanges[t][1]}
	y := c.emit(o, x.shape, x.batch, x)
	if c.needsGrad(x) && !c.quantized.straight {
		c.quantized.straight = true
		c.warns = append(c.warns, linearize.NewWarning("rounding-steps", math.NaN(), math.NaN(), "", "The network rounds to steps (QuantizeLinear), which has no derivative. It is passed straight through, 1 inside the range and 0 outside, as in quantization-aware training by PyTorch."))
	}
	c.result(ofType(y, t))
}

func (c *compiler) dequantize() {
	v := c.input(0)
	stored := v.isInt
	if stored {
		v = c.toFloat(v)
	} else if v.integer == 0 {
		panic(refuse("input 0 (%s) holds no integers", quote(c.node.Inputs[0])))
	}
	q := c.quantization(v)
	y := c.emit(&graph.Dequantize{Quantization: q}, v.shape, v.batch, v)
	if name := c.node.Inputs[0]; stored && c.inits[name] != nil {
		c.quantized.integers = append(c.quantized.integers, quote(name))
	}
	c.result(ofType(y, 0))
}

func (c *compiler) integerNames() string { return brief(strings.Join(c.quantized.integers, ", "), 400) }
