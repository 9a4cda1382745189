package compile

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Elementwise", map[string]operator{
		"Add":      {translate: func(c *compiler) { c.arithmetic(graph.Add, addInt) }, inputs: 2, integers: computes, roles: learnt.Shifts},
		"Sub":      {translate: func(c *compiler) { c.arithmetic(graph.Sub, subInt) }, inputs: 2, integers: computes, roles: learnt.Shifts},
		"Mul":      {translate: func(c *compiler) { c.arithmetic(graph.Mul, mulInt) }, inputs: 2, integers: computes, roles: learnt.Shifts},
		"Div":      {translate: func(c *compiler) { c.arithmetic(graph.Div, divInt) }, inputs: 2, integers: computes, roles: learnt.Shifts},
		"Pow":      {translate: (*compiler).pow, inputs: 2, note: "a stored exponent of whole numbers is a constant unless it is to be learnt"},
		"PRelu":    {translate: func(c *compiler) { c.result(c.combineInto(graph.PRelu, c.float(0), c.float(1))) }, inputs: 2},
		"Min":      {translate: func(c *compiler) { c.variadic(graph.Min, minInt) }, inputs: anyNumber, integers: computes, note: "two equal numbers share the derivative"},
		"Max":      {translate: func(c *compiler) { c.variadic(graph.Max, maxInt) }, inputs: anyNumber, integers: computes, note: "two equal numbers share the derivative"},
		"Sum":      {translate: func(c *compiler) { c.variadic(graph.Add, addInt) }, inputs: anyNumber, integers: computes},
		"Mean":     {translate: (*compiler).mean, inputs: anyNumber},
		"Clip":     {translate: (*compiler).clip, inputs: 3, integers: keepsType, roles: learnt.Sets | learnt.Prepares, note: "at constant bounds the derivative is 1, as of PyTorch's clamp, while ReLU6 and Hardtanh, which are exported the same, take 0"},
		"Identity": {translate: (*compiler).identity, inputs: 1, integers: keepsType, roles: learnt.Moves | learnt.Passes},
		"Dropout":  {translate: (*compiler).dropout, inputs: 3, integers: keepsType, roles: learnt.Moves | learnt.Passes | learnt.Sets, note: "the identity: training_mode must be off"},
	})
	list := map[string]operator{}
	for name, f := range functions {
		list[name] = operator{translate: f.translate, inputs: 1, integers: f.integers, roles: f.roles, note: f.note}
	}
	register("Elementwise", list)
}

// A function describes an operator that maps each element: op, or make with the values of the attributes.
type function struct {
	op       graph.Op
	attrs    []floatAttr
	make     func(c *compiler, a []float64) graph.Op
	integers integerRule
	onInts   func(a affine) affine // the function of known integers; nil if it is not defined
	whole    bool                  // integers marked as real (shapes) stay unchanged
	roles    learnt.Roles
	note     string
}

// A floatAttr is a float attribute with its default.
type floatAttr struct {
	name string
	def  float32
}

const flat = "its derivative is 0: a tensor that acts through nothing else is no parameter"

var functions = map[string]function{
	"Relu":     {op: graph.Relu{}, integers: computes},
	"Tanh":     {op: graph.Tanh},
	"Sigmoid":  {op: graph.Sigmoid, roles: learnt.Positive},
	"Softplus": {op: graph.Softplus, roles: learnt.Positive},
	"Erf":      {op: graph.Erf},
	"Sqrt":     {op: graph.Sqrt, roles: learnt.Prepares},
	"Exp":      {op: graph.Exp, roles: learnt.Positive},
	"Log":      {op: graph.Log, roles: learnt.Prepares},
	"Abs":      {op: graph.Abs, onInts: absInt, integers: computes, roles: learnt.Prepares},
	"Neg": {op: graph.Neg, integers: computes, roles: learnt.Prepares,
		onInts: func(a affine) affine { return subInt(affine{}, a) }},
	"Reciprocal": {op: graph.Reciprocal},
	"Mish":       {op: graph.Mish},
	"HardSwish":  {op: graph.HardSwish},
	"Sin":        {op: graph.Sin},
	"Cos":        {op: graph.Cos},
	"Tan":        {op: graph.Tan},
	"Asin":       {op: graph.Asin},
	"Acos":       {op: graph.Acos},
	"Atan":       {op: graph.Atan},
	"Sinh":       {op: graph.Sinh},
	"Cosh":       {op: graph.Cosh},
	"Asinh":      {op: graph.Asinh},
	"Acosh":      {op: graph.Acosh},
	"Atanh":      {op: graph.Atanh},
	"Softsign":   {op: graph.Softsign},
	"Sign":       {op: graph.Sign, onInts: signInt, integers: computes, note: flat},
	"Floor":      {op: graph.Floor, whole: true, note: flat},
	"Ceil":       {op: graph.Ceil, whole: true, note: flat},
	"Round":      {op: graph.Round, whole: true, note: flat},
	"LeakyRelu":  {attrs: []floatAttr{{"alpha", 0.01}}, make: func(_ *compiler, a []float64) graph.Op { return graph.LeakyRelu(a[0]) }},
	"Elu":        {attrs: []floatAttr{{"alpha", 1}}, make: func(_ *compiler, a []float64) graph.Op { return graph.Elu(a[0], 1, 1) }},
	"Selu": {attrs: []floatAttr{{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}},
		make: func(_ *compiler, a []float64) graph.Op { return graph.Elu(a[0], a[1], 1) }},
	"Celu": {attrs: []floatAttr{{"alpha", 1}}, make: func(_ *compiler, a []float64) graph.Op {
		if a[0] <= 0 {
			panic(refuse("alpha is %v, not positive", a[0]))
		}
		return graph.Elu(a[0], 1, a[0])
	}},
	"ThresholdedRelu": {attrs: []floatAttr{{"alpha", 1}}, make: func(_ *compiler, a []float64) graph.Op { return graph.ThresholdedRelu(a[0]) }},
	"Swish":           {attrs: []floatAttr{{"alpha", 1}}, make: func(_ *compiler, a []float64) graph.Op { return graph.Swish(a[0]) }},
	"Shrink":          {attrs: []floatAttr{{"lambd", 0.5}, {"bias", 0}}, make: func(_ *compiler, a []float64) graph.Op { return graph.Shrink(a[0], a[1]) }},
	"HardSigmoid":     {attrs: []floatAttr{{"alpha", 0.2}, {"beta", 0.5}}, make: func(_ *compiler, a []float64) graph.Op { return graph.HardSigmoid(a[0], a[1]) }},
	"Gelu": {make: func(c *compiler, _ []float64) graph.Op {
		switch a := c.attrString("approximate", "none"); a {
		case "none":
			return graph.Gelu
		case "tanh":
			return graph.GeluTanh()
		default:
			panic(refuse("approximate=%q is not known", a))
		}
	}},
}

func (f function) translate(c *compiler) {
	switch v := c.input(0); {
	case v.isInt && f.onInts != nil:
		c.result(c.mapInts(v, f.onInts))
	case v.real && f.whole:
		c.result(v)
	default:
		var args []float64
		for _, a := range f.attrs {
			args = append(args, c.attrFloat(a.name, a.def))
		}
		c.elementwise(f.of(c, args))
	}
}

// of returns the graph operator of a function with these values of its attributes.
func (f function) of(c *compiler, args []float64) graph.Op {
	if f.make == nil {
		return f.op
	}
	return f.make(c, args)
}

// elementwise makes o, a function of each element, of input 0 the result of the node.
func (c *compiler) elementwise(o graph.Op) { c.result(c.mapped(o, c.float(0))) }

// mapped returns the result of o, a function of each element, for x.
func (c *compiler) mapped(o graph.Op, x *value) *value { return c.emit(o, x.shape, x.batch, x) }

// single returns a constant of rank 0.
func (c *compiler) single(v float64) *value { return c.addConstant([]float64{v}, []int{}) }

// times emits x·v.
func (c *compiler) times(x *value, v float64) *value { return c.combine(graph.Mul, x, c.single(v)) }

func (c *compiler) clip() {
	if v := c.input(0); v.isInt {
		for i, f := range []func(a, b affine) affine{maxInt, minInt} {
			if !c.has(i + 1) {
				continue
			}
			bound := only(i+1, c.intsAt(i+1).ints)
			v = c.mapInts(v, func(a affine) affine { return f(a, bound) })
		}
		c.result(v)
		return
	}
	for i := 1; i <= 2; i++ {
		// Bounds that are computed are those of Max and Min.
		if v := c.optional(i); v != nil && c.static[v.slot] == nil && c.bySlot[v.slot] == nil {
			x := c.float(0)
			for k, fn := range []graph.BinaryFunc{graph.Max, graph.Min} {
				if v := c.optional(k + 1); v != nil {
					if graph.Product(v.shape) != 1 || v.batch >= 0 && c.batch != 1 {
						panic(refuse("its bound of shape %v is no single number; take Max and Min", v.shape))
					}
					x = c.combineInto(fn, x, v)
				}
			}
			c.result(x)
			return
		}
	}
	lo, hi := math.Inf(-1), math.Inf(1)
	if a := c.attr("min", onnx.AttrFloat); a != nil {
		lo = float64(a.F)
	}
	if a := c.attr("max", onnx.AttrFloat); a != nil {
		hi = float64(a.F)
	}
	for i, to := range []*float64{&lo, &hi} {
		*to = c.bound(i+1, *to)
	}
	if math.IsNaN(lo) || math.IsNaN(hi) {
		panic(refuse("its bounds are %v and %v", lo, hi))
	}
	c.elementwise(graph.Clip(lo, hi))
}

// bound returns the only number of constant input i, which may be infinite, or def if the node does not have it.
func (c *compiler) bound(i int, def float64) float64 {
	if c.has(i) {
		if in := c.inits[c.node.Inputs[i]]; in != nil && in.mask != nil {
			return only(i, in.t.Floats)
		}
	}
	return c.scalar(i, def)
}

// combine returns fn of each pair of elements of a and b, with broadcasting.
func (c *compiler) combine(fn graph.BinaryFunc, a, b *value) *value {
	both := c.aligned(false, a, b)
	a, b = both[0], both[1]
	shape, batch, ia, ib := c.broadcast(a, b)
	return c.emit(graph.NewBinary(fn, ia, ib, count(shape)), shape, batch, a, b)
}

// combineInto does what combine does, and refuses a result of another shape than a.
func (c *compiler) combineInto(fn graph.BinaryFunc, a, b *value) *value {
	shape, batch := broadcastShape(a, b, 0)
	if !slices.Equal(shape, a.shape) || batch != a.batch {
		panic(refuse("a tensor of shape %v does not broadcast to %v", b.shape, a.shape))
	}
	return c.combine(fn, a, b)
}

// addInputs returns the sum of the node's first two inputs. If the Add follows a dense layer, the other input may
// become the bias of the layer.
func (c *compiler) addInputs(a, b *value) *value {
	if v := c.fuseBias(a, b, 0); v != nil {
		return v
	}
	if v := c.fuseBias(b, a, 1); v != nil {
		return v
	}
	return c.combine(graph.Add, a, b)
}

// arithmetic translates a function of two tensors. Known integers are combined by onInts, if it is not nil.
func (c *compiler) arithmetic(fn graph.BinaryFunc, onInts func(a, b affine) affine) {
	a, b := c.input(0), c.input(1)
	if a.isInt && b.isInt && onInts != nil {
		c.result(c.combineInts(a, b, onInts))
		return
	}
	if add, subtract := c.node.OpType == "Add", c.node.OpType == "Sub"; c.integerType() != 0 && a.isInt != b.isInt && (add || subtract) || a.row != 0 || b.row != 0 {
		both := c.aligned(true, a, b)
		a, b = c.numbered(both[0]), c.numbered(both[1])
		out := c.combine(fn, a, b)
		if out.row = a.row + b.row; subtract {
			out.row = a.row - b.row
		}
		c.result(out)
		return
	}
	a, b = c.float(0), c.float(1)
	switch {
	case c.node.OpType == "Add":
		c.result(c.addInputs(a, b))
	case c.node.OpType == "Div" && c.integerType() != 0:
		c.result(c.combine(graph.DivTrunc, a, b))
	default:
		c.result(c.combine(fn, a, b))
	}
}

// pow translates Pow. A stored exponent of whole numbers is taken for a constant unless it is to be learnt, because
// the power of a negative number has no derivative with respect to its exponent.
func (c *compiler) pow() {
	if c.has(1) {
		name := c.node.Inputs[1]
		in := c.inits[name]
		free := in != nil && in.value == nil && len(in.t.Dims) > 0 && in.t.Type.IsFloat() && !c.learn[name] && !c.freeze[name]
		if free && !slices.ContainsFunc(in.t.Floats, func(v float64) bool { return v != math.Trunc(v) }) {
			c.fixed[name] = true
			c.decisions[name] = learnt.Decision{Reason: "is an exponent of whole numbers", Doubtful: true}
		}
	}
	c.arithmetic(graph.Pow, nil)
}

// variadic combines any number of inputs from left to right. onInts combines them if all are known integers.
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
	c.result(c.combine(graph.Div, sum, c.single(float64(len(c.node.Inputs)))))
}

func (c *compiler) identity() {
	if c.has(0) {
		if v := c.lookup(c.node.Inputs[0]); v.list != nil {
			c.result(v)
			return
		}
	}
	c.result(c.input(0))
}

// dropout translates Dropout. It is the identity, except that in training it drops elements at random. The ratio is
// an attribute before opset 12, and input 1 since.
func (c *compiler) dropout() {
	if c.training {
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
