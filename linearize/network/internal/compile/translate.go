package compile

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// translators holds a method for each operator, which translates c.node.
var translators map[string]func(c *compiler) error

func init() {
	translators = map[string]func(c *compiler) error{
		"Gemm": (*compiler).gemm, "MatMul": (*compiler).matMul,
		"Conv": (*compiler).conv, "ConvTranspose": (*compiler).convTranspose,
		"MaxPool": (*compiler).maxPool, "AveragePool": (*compiler).averagePool,
		"GlobalAveragePool": (*compiler).globalAveragePool, "GlobalMaxPool": (*compiler).globalMaxPool,
		"BatchNormalization": (*compiler).batchNorm, "LayerNormalization": (*compiler).layerNorm,
		"InstanceNormalization": (*compiler).instanceNorm, "GroupNormalization": (*compiler).groupNorm,
		"Softmax":    func(c *compiler) error { return c.softmax(false) },
		"LogSoftmax": func(c *compiler) error { return c.softmax(true) },

		"Add": func(c *compiler) error { return c.arithmetic(graph.Add, addInt) },
		"Sub": func(c *compiler) error { return c.arithmetic(graph.Sub, subInt) },
		"Mul": func(c *compiler) error { return c.arithmetic(graph.Mul, mulInt) },
		"Div": func(c *compiler) error { return c.arithmetic(graph.Div, divInt) },
		"Mod": (*compiler).mod, "Pow": func(c *compiler) error { return c.arithmetic(graph.Pow, nil) },
		"PRelu": func(c *compiler) error { return c.arithmetic(graph.PRelu, nil) },
		"Min":   func(c *compiler) error { return c.variadic(graph.Min) },
		"Max":   func(c *compiler) error { return c.variadic(graph.Max) },
		"Sum":   func(c *compiler) error { return c.variadic(graph.Add) },

		"Relu": func(c *compiler) error { return c.elementwise(graph.Relu{}) },
		"Tanh": func(c *compiler) error { return c.elementwise(graph.Tanh) }, "Sigmoid": func(c *compiler) error { return c.elementwise(graph.Sigmoid) },
		"Softplus": func(c *compiler) error { return c.elementwise(graph.Softplus) }, "Erf": func(c *compiler) error { return c.elementwise(graph.Erf) },
		"Sqrt": func(c *compiler) error { return c.elementwise(graph.Sqrt) }, "Exp": func(c *compiler) error { return c.elementwise(graph.Exp) },
		"Log": func(c *compiler) error { return c.elementwise(graph.Log) }, "Abs": func(c *compiler) error { return c.elementwise(graph.Abs) },
		"Neg": func(c *compiler) error { return c.elementwise(graph.Neg) }, "Reciprocal": func(c *compiler) error { return c.elementwise(graph.Reciprocal) },
		"Mish": func(c *compiler) error { return c.elementwise(graph.Mish) }, "HardSwish": func(c *compiler) error { return c.elementwise(graph.HardSwish) },
		"Gelu": (*compiler).gelu, "Clip": (*compiler).clip,
		"LeakyRelu":   func(c *compiler) error { return c.withFloats(leakyAttr) },
		"Elu":         func(c *compiler) error { return c.withFloats(eluAttr) },
		"Selu":        func(c *compiler) error { return c.withFloats(seluAttr) },
		"HardSigmoid": func(c *compiler) error { return c.withFloats(hardSigmoidAttr) },

		"Identity": (*compiler).identity, "Dropout": (*compiler).dropout, "Cast": (*compiler).cast,
		"Constant": (*compiler).constant, "ConstantOfShape": (*compiler).constantOfShape,
		"Shape": (*compiler).shape, "Range": (*compiler).rangeOp,
		"Flatten": (*compiler).flatten, "Reshape": (*compiler).reshapeOp, "Transpose": (*compiler).transposeOp,
		"Squeeze": (*compiler).squeeze, "Unsqueeze": (*compiler).unsqueeze,
		"Concat": (*compiler).concat, "Slice": (*compiler).slice, "Split": (*compiler).split,
		"Gather": (*compiler).gather, "Expand": (*compiler).expand, "Pad": (*compiler).pad,
		"Resize": (*compiler).resize, "Upsample": (*compiler).resize,
		"ReduceMean": func(c *compiler) error { return c.reduce(true) },
		"ReduceSum":  func(c *compiler) error { return c.reduce(false) },
	}
}

// Operators returns the ONNX operators that can be read, sorted.
func Operators() []string {
	var names []string
	for name := range translators {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// translate translates c.node.
func (c *compiler) translate() error {
	do := translators[c.node.OpType]
	if do == nil || !standard(c.node) {
		return fmt.Errorf("operator %s of domain %s is not supported; rewrite that layer with supported operators, or export the part of the network before it", quote(c.node.OpType), quote(c.node.Domain))
	}
	most, ok := mostInputs[c.node.OpType]
	if !ok {
		most = 1
	}
	if n := len(c.node.Inputs); n > most && most > 0 {
		return fmt.Errorf("it has %d inputs, at most %d are allowed", n, most)
	}
	if err := checkAttributes(c.node); err != nil {
		return err
	}
	return do(c)
}

// mostInputs is the largest number of inputs of an operator in any version; 0
// means any number. An operator that is not listed has one input.
var mostInputs = map[string]int{
	"Gemm": 3, "MatMul": 2, "Conv": 3, "ConvTranspose": 3, "BatchNormalization": 5, "LayerNormalization": 3, "InstanceNormalization": 3,
	"GroupNormalization": 3, "Add": 2, "Sub": 2, "Mul": 2, "Div": 2, "Mod": 2, "Pow": 2, "PRelu": 2, "Min": 0, "Max": 0, "Sum": 0, "Concat": 0,
	"Clip": 3, "Dropout": 3, "Range": 3, "Reshape": 2, "Squeeze": 2, "Unsqueeze": 2, "Slice": 5, "Split": 2, "Gather": 2, "Expand": 2, "Pad": 4,
	"Resize": 4, "Upsample": 2, "ReduceMean": 2, "ReduceSum": 2,
}

// standard reports whether a node's operator is one of ONNX itself.
func standard(n *onnx.Node) bool { return n.Domain == "" || n.Domain == "ai.onnx" }

// attributeTypes holds the types of the attributes that are read. "value" is
// not among them: it is a number in Pad and a tensor elsewhere.
var attributeTypes = map[string]onnx.AttrType{
	"allowzero": onnx.AttrInt, "alpha": onnx.AttrFloat, "approximate": onnx.AttrString, "auto_pad": onnx.AttrString,
	"axes": onnx.AttrInts, "axis": onnx.AttrInt, "beta": onnx.AttrFloat, "ceil_mode": onnx.AttrInt,
	"coordinate_transformation_mode": onnx.AttrString, "count_include_pad": onnx.AttrInt, "dilations": onnx.AttrInts,
	"end": onnx.AttrInt, "ends": onnx.AttrInts, "epsilon": onnx.AttrFloat, "fmod": onnx.AttrInt, "gamma": onnx.AttrFloat,
	"group": onnx.AttrInt, "keep_aspect_ratio_policy": onnx.AttrString, "keepdims": onnx.AttrInt, "kernel_shape": onnx.AttrInts,
	"max": onnx.AttrFloat, "min": onnx.AttrFloat, "mode": onnx.AttrString, "nearest_mode": onnx.AttrString,
	"noop_with_empty_axes": onnx.AttrInt, "num_groups": onnx.AttrInt, "num_outputs": onnx.AttrInt, "output_padding": onnx.AttrInts,
	"output_shape": onnx.AttrInts, "pads": onnx.AttrInts, "perm": onnx.AttrInts, "scales": onnx.AttrFloats,
	"spatial": onnx.AttrInt, "split": onnx.AttrInts, "start": onnx.AttrInt, "starts": onnx.AttrInts, "storage_order": onnx.AttrInt,
	"strides": onnx.AttrInts, "to": onnx.AttrInt, "training_mode": onnx.AttrInt, "transA": onnx.AttrInt, "transB": onnx.AttrInt,
	"value_float": onnx.AttrFloat, "value_floats": onnx.AttrFloats, "value_int": onnx.AttrInt, "value_ints": onnx.AttrInts,
}

// checkAttributes verifies that each attribute has the type as which it is read
// and occurs once.
func checkAttributes(n *onnx.Node) error {
	seen := map[string]bool{}
	for _, a := range n.Attributes {
		want, ok := attributeTypes[a.Name]
		if a.Name == "value" {
			if want, ok = onnx.AttrTensor, true; n.OpType == "Pad" {
				want = onnx.AttrFloat
			}
		}
		if ok && a.Type != want {
			return fmt.Errorf("its attribute %s is of type %v, not %v", a.Name, a.Type, want)
		}
		if seen[a.Name] {
			return fmt.Errorf("its attribute %s is given twice", quote(a.Name))
		}
		seen[a.Name] = true
	}
	return nil
}

// result makes v the result of the node, whose further outputs must be unused.
func (c *compiler) result(v *value, err error) error {
	if err != nil {
		return err
	}
	if err := c.only(1); err != nil {
		return err
	}
	return c.set(0, v)
}

func (c *compiler) elementwise(o graph.Op) error {
	v, err := c.float(0)
	if err != nil {
		return err
	}
	return c.result(c.emit(o, v.shape, v.batch, v))
}

// A floatAttr is a float attribute and its default.
type floatAttr struct {
	name string
	def  float32
}

// withFloats builds an elementwise operator from its float attributes.
func (c *compiler) withFloats(o attrOp) error {
	var args []float64
	for _, a := range o.attrs {
		v, err := c.attrFloat(a.name, a.def)
		if err != nil {
			return err
		}
		args = append(args, v)
	}
	return c.elementwise(o.make(args))
}

// An attrOp is an elementwise operator with float attributes.
type attrOp struct {
	attrs []floatAttr
	make  func(a []float64) graph.Op
}

var (
	leakyAttr = attrOp{[]floatAttr{{"alpha", 0.01}}, func(a []float64) graph.Op { return graph.LeakyRelu(a[0]) }}
	eluAttr   = attrOp{[]floatAttr{{"alpha", 1}}, func(a []float64) graph.Op { return graph.Elu(a[0], 1) }}
	seluAttr  = attrOp{[]floatAttr{{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}},
		func(a []float64) graph.Op { return graph.Elu(a[0], a[1]) }}
	hardSigmoidAttr = attrOp{[]floatAttr{{"alpha", 0.2}, {"beta", 0.5}}, func(a []float64) graph.Op { return graph.HardSigmoid(a[0], a[1]) }}
)

func (c *compiler) gelu() error {
	switch a := c.attrString("approximate", "none"); a {
	case "none":
		return c.elementwise(graph.Gelu)
	case "tanh":
		return c.elementwise(graph.GeluTanh())
	default:
		return fmt.Errorf("approximate=%q is not known", a)
	}
}

func (c *compiler) clip() error {
	lo, hi := math.Inf(-1), math.Inf(1)
	if a := c.node.Attr("min"); a != nil {
		lo = float64(a.F)
	}
	if a := c.node.Attr("max"); a != nil {
		hi = float64(a.F)
	}
	lo, err := c.scalar(1, lo)
	if err != nil {
		return err
	}
	if hi, err = c.scalar(2, hi); err != nil {
		return err
	}
	if math.IsNaN(lo) || math.IsNaN(hi) {
		return fmt.Errorf("its bounds are %v and %v", lo, hi)
	}
	return c.elementwise(graph.Clip(lo, hi))
}

// combine emits an elementwise function of two tensors, with broadcasting.
func (c *compiler) combine(fn graph.BinaryFunc, a, b *value) (*value, error) {
	shape, batch, ia, ib, err := c.broadcast(a, b)
	if err != nil {
		return nil, err
	}
	return c.emit(&graph.Binary{Fn: fn, Left: ia, Right: ib}, shape, batch, a, b)
}

// combineInto is combine with the condition that the result has the shape of a.
func (c *compiler) combineInto(fn graph.BinaryFunc, a, b *value) (*value, error) {
	shape, batch, err := broadcastShape(a, b, 0)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(shape, a.shape) || batch != a.batch {
		return nil, fmt.Errorf("a tensor of shape %v does not broadcast to %v", b.shape, a.shape)
	}
	return c.combine(fn, a, b)
}

// arithmetic translates a function of two tensors, or of known integers if
// onInts is not nil. An Add after a dense layer may become its bias.
func (c *compiler) arithmetic(fn graph.BinaryFunc, onInts func(a, b affine) (affine, error)) error {
	a, err := c.input(0)
	if err != nil {
		return err
	}
	b, err := c.input(1)
	if err != nil {
		return err
	}
	if a.isInt && b.isInt && onInts != nil {
		return c.result(c.combineInts(a, b, onInts))
	}
	if a, err = c.float(0); err != nil {
		return err
	}
	if b, err = c.float(1); err != nil {
		return err
	}
	if c.node.OpType == "Add" {
		if v := c.fuseBias(a, b, 0); v != nil {
			return c.result(v, nil)
		}
		if v := c.fuseBias(b, a, 1); v != nil {
			return c.result(v, nil)
		}
	}
	if c.node.OpType == "PRelu" {
		return c.result(c.combineInto(fn, a, b))
	}
	return c.result(c.combine(fn, a, b))
}

// variadic combines any number of inputs from left to right.
func (c *compiler) variadic(fn graph.BinaryFunc) error {
	acc, err := c.float(0)
	if err != nil {
		return err
	}
	for i := 1; i < len(c.node.Inputs); i++ {
		v, err := c.float(i)
		if err != nil {
			return err
		}
		if acc, err = c.combine(fn, acc, v); err != nil {
			return err
		}
	}
	return c.result(acc, nil)
}

func (c *compiler) identity() error {
	v, err := c.input(0)
	if err != nil {
		return err
	}
	return c.result(v, nil)
}

// dropout is the identity outside of training.
func (c *compiler) dropout() error {
	if c.has(2) {
		training, err := c.constants(2)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(training, func(k int) bool { return k != 0 }) {
			return errors.New("training_mode is on; export the model in evaluation mode")
		}
	}
	return c.identity()
}
