package compile

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Elementwise", map[string]operator{
		"Add":             {translate: func(c *compiler) { c.arithmetic(graph.Add, addInt) }, inputs: 2, integers: computes, roles: learnt.Shifts},
		"Sub":             {translate: func(c *compiler) { c.arithmetic(graph.Sub, subInt) }, inputs: 2, integers: computes, roles: learnt.Shifts},
		"Mul":             {translate: func(c *compiler) { c.arithmetic(graph.Mul, mulInt) }, inputs: 2, integers: computes, roles: learnt.Shifts},
		"Div":             {translate: func(c *compiler) { c.arithmetic(graph.Div, divInt) }, inputs: 2, integers: computes, roles: learnt.Shifts},
		"Pow":             {translate: (*compiler).pow, inputs: 2, note: "a stored exponent of whole numbers is a constant unless it is to be learnt"},
		"PRelu":           {translate: func(c *compiler) { c.arithmetic(graph.PRelu, nil) }, inputs: 2},
		"Min":             {translate: func(c *compiler) { c.variadic(graph.Min, minInt) }, inputs: anyNumber, integers: computes, note: "two equal numbers share the derivative"},
		"Max":             {translate: func(c *compiler) { c.variadic(graph.Max, maxInt) }, inputs: anyNumber, integers: computes, note: "two equal numbers share the derivative"},
		"Sum":             {translate: func(c *compiler) { c.variadic(graph.Add, addInt) }, inputs: anyNumber, integers: computes},
		"Relu":            {translate: elementwise(graph.Relu{}, nil), inputs: 1, integers: computes},
		"Tanh":            unaryOperator(graph.Tanh),
		"Sigmoid":         {translate: elementwise(graph.Sigmoid, nil), inputs: 1, roles: learnt.Positive},
		"Softplus":        {translate: elementwise(graph.Softplus, nil), inputs: 1, roles: learnt.Positive},
		"Erf":             unaryOperator(graph.Erf),
		"Sqrt":            {translate: elementwise(graph.Sqrt, nil), inputs: 1, roles: learnt.Prepares},
		"Exp":             {translate: elementwise(graph.Exp, nil), inputs: 1, roles: learnt.Positive},
		"Log":             {translate: elementwise(graph.Log, nil), inputs: 1, roles: learnt.Prepares},
		"Abs":             {translate: elementwise(graph.Abs, absInt), inputs: 1, integers: computes, roles: learnt.Prepares},
		"Neg":             {translate: elementwise(graph.Neg, negInt), inputs: 1, integers: computes, roles: learnt.Prepares},
		"Reciprocal":      unaryOperator(graph.Reciprocal),
		"Mish":            unaryOperator(graph.Mish),
		"HardSwish":       unaryOperator(graph.HardSwish),
		"Sin":             unaryOperator(graph.Sin),
		"Cos":             unaryOperator(graph.Cos),
		"Tan":             unaryOperator(graph.Tan),
		"Asin":            unaryOperator(graph.Asin),
		"Acos":            unaryOperator(graph.Acos),
		"Atan":            unaryOperator(graph.Atan),
		"Sinh":            unaryOperator(graph.Sinh),
		"Cosh":            unaryOperator(graph.Cosh),
		"Asinh":           unaryOperator(graph.Asinh),
		"Acosh":           unaryOperator(graph.Acosh),
		"Atanh":           unaryOperator(graph.Atanh),
		"Softsign":        unaryOperator(graph.Softsign),
		"Sign":            {translate: elementwise(graph.Sign, signInt), inputs: 1, integers: computes, note: "its derivative is 0: a tensor that acts through nothing else is no parameter"},
		"Floor":           rounding(graph.Floor),
		"Ceil":            rounding(graph.Ceil),
		"Round":           rounding(graph.Round),
		"Mean":            {translate: (*compiler).mean, inputs: anyNumber},
		"Celu":            {translate: (*compiler).celu, inputs: 1},
		"ThresholdedRelu": thresholdedAttr.operator(),
		"Shrink":          shrinkAttr.operator(),
		"Swish":           swishAttr.operator(),
		"Gelu":            {translate: (*compiler).gelu, inputs: 1},
		"Clip":            {translate: (*compiler).clip, inputs: 3, integers: keepsType, roles: learnt.Sets | learnt.Prepares, note: "the bounds must be constants; at them the derivative is 1, as of PyTorch's clamp, while ReLU6 and Hardtanh, which are exported the same, take 0"},
		"LeakyRelu":       leakyAttr.operator(),
		"Elu":             eluAttr.operator(),
		"Selu":            seluAttr.operator(),
		"HardSigmoid":     hardSigmoidAttr.operator(),
		"Identity":        {translate: (*compiler).identity, inputs: 1, integers: keepsType, roles: learnt.Moves | learnt.Passes},
		"Dropout":         {translate: (*compiler).dropout, inputs: 3, integers: keepsType, roles: learnt.Moves | learnt.Passes | learnt.Sets, note: "the identity: training_mode must be off"},
	})
}

// unaryOperator returns an elementwise operator of one tensor, without attributes.
func unaryOperator(o graph.Op) operator {
	return operator{translate: elementwise(o, nil), inputs: 1}
}

// elementwise translates a function of each element, which known integers may have too.
func elementwise(o graph.Op, onInts func(a affine) affine) func(c *compiler) {
	return func(c *compiler) {
		if v := c.input(0); v.isInt && onInts != nil {
			c.result(c.mapInts(v, onInts))
			return
		}
		c.elementwise(o)
	}
}

func (c *compiler) elementwise(o graph.Op) {
	v := c.float(0)
	c.result(c.emit(o, v.shape, v.batch, v))
}

// rounding returns the operator of a function that rounds. Shapes computed from
// the batch size are whole already.
func rounding(o graph.Op) operator {
	return operator{inputs: 1, note: "its derivative is 0: a tensor that acts through nothing else is no parameter", translate: func(c *compiler) {
		if v := c.input(0); v.real {
			c.result(v)
			return
		}
		c.elementwise(o)
	}}
}

// A floatAttr is a float attribute and its default.
type floatAttr struct {
	name string
	def  float32
}

// An attrOp is an elementwise operator with float attributes.
type attrOp struct {
	attrs []floatAttr
	make  func(a []float64) graph.Op
}

func (o attrOp) operator() operator {
	return operator{translate: func(c *compiler) {
		// Build an elementwise operator from its float attributes.
		var args []float64
		for _, a := range o.attrs {
			v := c.attrFloat(a.name, a.def)
			args = append(args, v)
		}
		c.elementwise(o.make(args))
	}, inputs: 1}
}

var (
	leakyAttr = attrOp{[]floatAttr{{"alpha", 0.01}}, func(a []float64) graph.Op { return graph.LeakyRelu(a[0]) }}
	eluAttr   = attrOp{[]floatAttr{{"alpha", 1}}, func(a []float64) graph.Op { return graph.Elu(a[0], 1) }}
	seluAttr  = attrOp{[]floatAttr{{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}},
		func(a []float64) graph.Op { return graph.Elu(a[0], a[1]) }}
	thresholdedAttr = attrOp{[]floatAttr{{"alpha", 1}}, func(a []float64) graph.Op { return graph.ThresholdedRelu(a[0]) }}
	swishAttr       = attrOp{[]floatAttr{{"alpha", 1}}, func(a []float64) graph.Op { return graph.Swish(a[0]) }}
	shrinkAttr      = attrOp{[]floatAttr{{"lambd", 0.5}, {"bias", 0}}, func(a []float64) graph.Op { return graph.Shrink(a[0], a[1]) }}
	hardSigmoidAttr = attrOp{[]floatAttr{{"alpha", 0.2}, {"beta", 0.5}}, func(a []float64) graph.Op { return graph.HardSigmoid(a[0], a[1]) }}
)

func (c *compiler) gelu() {
	switch a := c.attrString("approximate", "none"); a {
	case "none":
		c.elementwise(graph.Gelu)
		return
	case "tanh":
		c.elementwise(graph.GeluTanh())
		return
	default:
		panic(refuse("approximate=%q is not known", a))
	}
}

func (c *compiler) celu() {
	alpha := c.attrFloat("alpha", 1)
	if alpha <= 0 {
		panic(refuse("alpha is %v, not positive", alpha))
	}
	c.elementwise(graph.Celu(alpha))
}

func (c *compiler) clip() {
	if v := c.input(0); v.isInt {
		for i, f := range []func(a, b affine) affine{maxInt, minInt} {
			if !c.has(i + 1) {
				continue
			}
			bound := c.intsAt(i + 1)
			if len(bound.ints) != 1 {
				panic(refuse("input %d has %d numbers, one is expected", i+1, len(bound.ints)))
			}
			v = c.mapInts(v, func(a affine) affine { return f(a, bound.ints[0]) })
		}
		c.result(v)
		return
	}
	lo, hi := math.Inf(-1), math.Inf(1)
	if a := c.node.Attr("min"); a != nil {
		lo = float64(a.F)
	}
	if a := c.node.Attr("max"); a != nil {
		hi = float64(a.F)
	}
	lo = c.scalar(1, lo)
	hi = c.scalar(2, hi)
	if math.IsNaN(lo) || math.IsNaN(hi) {
		panic(refuse("its bounds are %v and %v", lo, hi))
	}
	c.elementwise(graph.Clip(lo, hi))
}

// combine emits an elementwise function of two tensors, with broadcasting.
func (c *compiler) combine(fn graph.BinaryFunc, a, b *value) *value {
	both := c.aligned(false, a, b)
	a, b = both[0], both[1]
	shape, batch, ia, ib := c.broadcast(a, b)
	return c.emit(&graph.Binary{Fn: fn, Left: ia, Right: ib}, shape, batch, a, b)
}

// combineInto is combine with the condition that the result has the shape of a.
func (c *compiler) combineInto(fn graph.BinaryFunc, a, b *value) *value {
	shape, batch := broadcastShape(a, b, 0)
	if !slices.Equal(shape, a.shape) || batch != a.batch {
		panic(refuse("a tensor of shape %v does not broadcast to %v", b.shape, a.shape))
	}
	return c.combine(fn, a, b)
}

// arithmetic translates a function of two tensors, or of known integers if
// onInts is not nil. An Add after a dense layer may become its bias.
func (c *compiler) arithmetic(fn graph.BinaryFunc, onInts func(a, b affine) affine) {
	a, b := c.input(0), c.input(1)
	if a.isInt && b.isInt && onInts != nil {
		c.result(c.combineInts(a, b, onInts))
		return
	}
	a = c.float(0)
	b = c.float(1)
	if c.node.OpType == "Div" && c.integerType() != 0 {
		fn = graph.DivTrunc
	}
	if c.node.OpType == "Add" {
		if v := c.fuseBias(a, b, 0); v != nil {
			c.result(v)
			return
		}
		if v := c.fuseBias(b, a, 1); v != nil {
			c.result(v)
			return
		}
	}
	if c.node.OpType == "PRelu" {
		c.result(c.combineInto(fn, a, b))
		return
	}
	c.result(c.combine(fn, a, b))
}

func fractional(v float64) bool { return v != math.Trunc(v) }

// pow translates Pow. A stored exponent of whole numbers is no parameter unless
// it is to be learnt: the power of a negative number has no derivative with
// respect to its exponent.
func (c *compiler) pow() {
	if c.has(1) {
		name := c.node.Inputs[1]
		in := c.inits[name]
		if in != nil && in.value == nil && len(in.t.Dims) > 0 && in.t.Type.IsFloat() && !c.learn[name] && !c.freeze[name] && !slices.ContainsFunc(in.t.Floats, fractional) {
			c.fixed[name] = true
			c.decisions[name] = learnt.Decision{Reason: "is an exponent of whole numbers", Doubtful: true}
		}
	}
	c.arithmetic(graph.Pow, nil)
}

// variadic combines any number of inputs from left to right, known integers by onInts.
func (c *compiler) variadic(fn graph.BinaryFunc, onInts func(a, b affine) affine) {
	all := len(c.node.Inputs) > 0
	for i := range c.node.Inputs {
		all = all && c.input(i).isInt
	}
	if !all {
		c.result(c.combineAll(fn))
		return
	}
	acc := c.input(0)
	for i := 1; i < len(c.node.Inputs); i++ {
		acc = c.zipInts(acc, c.input(i), onInts)
	}
	c.result(acc)
}

func (c *compiler) combineAll(fn graph.BinaryFunc) *value {
	acc := c.float(0)
	for i := 1; i < len(c.node.Inputs); i++ {
		acc = c.combine(fn, acc, c.float(i))
	}
	return acc
}

func (c *compiler) mean() {
	sum := c.combineAll(graph.Add)
	c.result(c.combine(graph.Div, sum, c.addConstant([]float64{float64(len(c.node.Inputs))}, []int{})))
}

func (c *compiler) identity() {
	c.result(c.input(0))
}

// dropout is the identity outside of training.
func (c *compiler) dropout() {
	if c.training {
		c.trainingDropout()
		return
	}
	if c.has(2) {
		training := c.constants(2)
		ratio := c.scalar(1, 0.5)
		if ratio != 0 && slices.ContainsFunc(training, func(k int) bool { return k != 0 }) {
			panic(refuse("training_mode is on; export the model in evaluation mode"))
		}
	}
	c.identity()
}

// trainingDropout drops elements at random. Its ratio is an attribute before opset 12.
func (c *compiler) trainingDropout() {
	ratio := c.attrFloat("ratio", 0.5)
	if c.opset >= 12 {
		ratio = c.scalar(1, 0.5)
	}
	x := c.float(0)
	switch {
	case !(ratio >= 0 && ratio < 1):
		panic(refuse("its ratio is %v, but must be at least 0 and below 1", ratio))
	case ratio == 0:
		c.identity()
		return
	case c.prog.Slots[x.slot].Static:
		panic(refuse("it drops elements of what does not depend on the input, and cannot be trained"))
	}
	c.prog.Dropouts++
	c.result(c.emit(&graph.Dropout{Ratio: ratio, Layer: c.prog.Dropouts - 1}, x.shape, x.batch, x))
}
