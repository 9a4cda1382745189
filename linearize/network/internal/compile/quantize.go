package compile

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

func init() {
	register("Quantization", map[string]operator{
		"QuantizeLinear":   {translate: (*compiler).quantize, inputs: 3, roles: learnt.Sets, note: "8 and 16 bits, by tensor or by axis; the derivative passes straight through inside the range and is 0 outside"},
		"DequantizeLinear": {translate: (*compiler).dequantize, inputs: 3, integers: ownType, roles: learnt.Sets, note: "weights stored as integers are constants unless they are to be learnt"},
	})
}

// quantized collects facts for messages about a network with quantized numbers.
type quantized struct {
	straight bool     // whether the warning "rounding-steps" was given
	integers []string // names of constant tensors that are stored as integers
}

// quantization returns scale (input 1) and zero point (input 2) for the tensor v. Each is one number or a vector
// along an axis, in a shape that broadcasts over v. Without input 2 the zero points are 0.
func (c *compiler) quantization(v *value) (scale, zero *value) {
	if c.attrInt("block_size", 0) != 0 {
		panic(refuse("a scale for each block of numbers is not supported"))
	}
	s := c.floats(1)
	shape := []int{}
	if n := len(s); n != 1 {
		ax := axis(c.attrInt("axis", 1), len(v.shape))
		if v.isBatch(ax) {
			panic(errMixes)
		}
		if n != v.shape[ax] {
			panic(refuse("%d scales for an axis of %d", n, v.shape[ax]))
		}
		shape = append([]int{n}, slices.Repeat([]int{1}, len(v.shape)-ax-1)...)
	}
	for i, x := range s {
		if !(x > 0) || math.IsInf(x, 0) {
			panic(refuse("scale %d is %v", i, x))
		}
	}
	z := make([]float64, len(s))
	if c.has(2) {
		list := c.constants(2)
		if len(list) != len(z) {
			panic(refuse("%d zero points for %d scales", len(list), len(z)))
		}
		for i, k := range list {
			z[i] = float64(k)
		}
	}
	return c.addConstant(s, shape), c.addConstant(z, shape)
}

// quantize translates QuantizeLinear, round(x/scale) + zero, limited to the range of the integer type.
func (c *compiler) quantize() {
	x := c.float(0)
	scale, zero := c.quantization(x)
	// The type of the result is the zero point's type, or output_dtype if there is no zero point; the default is
	// uint8.
	t := onnx.DataType(c.attrInt("output_dtype", 0))
	if c.has(2) {
		t = c.input(2).stored
	} else if t == 0 {
		t = onnx.Uint8
	}
	if !slices.Contains([]onnx.DataType{onnx.Uint8, onnx.Int8, onnx.Uint16, onnx.Int16}, t) {
		panic(refuse("a quantization to %v is not supported", t))
	}
	lo, hi := t.Range()
	y := c.combine(graph.RoundTo(float64(lo), float64(hi)), c.combine(graph.Div, x, scale), zero)
	if c.needsGrad(x) && !c.quantized.straight {
		c.quantized.straight = true
		c.warns = append(c.warns, linearize.NewWarning("rounding-steps", math.NaN(), math.NaN(), "", "The network rounds to steps (QuantizeLinear), which has no derivative. It is passed straight through, 1 inside the range and 0 outside, as in quantization-aware training by PyTorch."))
	}
	c.result(ofType(y, t))
}

// dequantize translates DequantizeLinear, (q − zero)·scale.
func (c *compiler) dequantize() {
	v := c.input(0)
	stored := v.isInt
	if stored {
		v = c.toFloat(v)
	} else if v.integer == 0 {
		panic(refuse("input 0 (%s) holds no integers", quote(c.node.Inputs[0])))
	}
	scale, zero := c.quantization(v)
	y := c.combine(graph.Mul, c.combine(graph.Sub, v, zero), scale)
	if name := c.node.Inputs[0]; stored && c.inits[name] != nil {
		c.quantized.integers = append(c.quantized.integers, name)
	}
	c.result(ofType(y, 0))
}

func (c *compiler) integerNames() string { return rewrite.List(c.quantized.integers) }
