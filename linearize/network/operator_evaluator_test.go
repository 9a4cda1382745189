package network_test

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// A tensor is an array with all of its dimensions, the batch's included.
// Integers are held as float64, exact to 2^53.
type tensor struct {
	shape []int
	data  []float64
	isInt bool
	list  []*tensor // of a sequence
}

// evaluateLimit bounds the elements of a tensor in evaluate.
const evaluateLimit = 1 << 18

func newTensor(shape []int) *tensor {
	n := 1
	for _, d := range shape {
		check(d >= 0 && n*d <= evaluateLimit, "a tensor of shape %v", shape)
		n *= d
	}
	return &tensor{shape: slices.Clone(shape), data: make([]float64, n)}
}

// A refusal is what evaluate panics with inside, and returns as an error.
type refusal string

func check(ok bool, format string, args ...any) {
	if !ok {
		panic(refusal(fmt.Sprintf(format, args...)))
	}
}

// each calls do for every multi-index of a shape in row-major order.
func each(shape []int, do func(idx []int)) {
	if slices.Contains(shape, 0) {
		return
	}
	idx := make([]int, len(shape))
	for {
		do(idx)
		d := len(shape) - 1
		for ; d >= 0; d-- {
			if idx[d]++; idx[d] < shape[d] {
				break
			}
			idx[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

func (t *tensor) place(idx []int) int {
	at := 0
	for d, i := range idx {
		check(i >= 0 && i < t.shape[d], "index %v of shape %v", idx, t.shape)
		at = at*t.shape[d] + i
	}
	return at
}

func (t *tensor) at(idx ...int) float64         { return t.data[t.place(idx)] }
func (t *tensor) set(v float64, idx ...int)     { t.data[t.place(idx)] = v }
func (t *tensor) add(v float64, idx ...int)     { t.data[t.place(idx)] += v }
func (t *tensor) broadcastAt(idx []int) float64 { return t.data[t.place(alignTo(t.shape, idx))] }
func (t *tensor) rank() int                     { return len(t.shape) }
func (t *tensor) with(shape ...int) *tensor {
	return &tensor{shape: shape, data: t.data, isInt: t.isInt}
}
func (t *tensor) filled(v float64) *tensor {
	return &tensor{shape: t.shape, data: slices.Repeat([]float64{v}, len(t.data)), isInt: t.isInt}
}
func (t *tensor) ints() []int          { return toInts(t.data) }
func (t *tensor) normalAxis(a int) int { return normalAxis(a, t.rank()) }

// alignTo drops leading indices and reads dimensions of one at 0.
func alignTo(shape, idx []int) []int {
	out := slices.Clone(idx[len(idx)-len(shape):])
	for d := range out {
		if shape[d] == 1 {
			out[d] = 0
		}
	}
	return out
}

func toInts(v []float64) []int {
	out := make([]int, len(v))
	for i, x := range v {
		check(x == math.Trunc(x), "%v is no integer", x)
		out[i] = int(limit(x, -1<<53, 1<<53))
	}
	return out
}

func normalAxis(a, rank int) int {
	check(a >= -rank && a < rank, "axis %d of rank %d", a, rank)
	if a < 0 {
		a += rank
	}
	return a
}

// broadcastShapes is the numpy rule.
func broadcastShapes(a, b []int) []int {
	rank := max(len(a), len(b))
	out := make([]int, rank)
	for i := range rank {
		da, db := 1, 1
		if k := i - rank + len(a); k >= 0 {
			da = a[k]
		}
		if k := i - rank + len(b); k >= 0 {
			db = b[k]
		}
		check(da == db || da == 1 || db == 1, "%v and %v", a, b)
		out[i] = da
		if da == 1 {
			out[i] = db
		}
	}
	return out
}

func combine(a, b *tensor, f func(a, b float64) float64) *tensor {
	out := newTensor(broadcastShapes(a.shape, b.shape))
	out.isInt = a.isInt && b.isInt
	each(out.shape, func(idx []int) { out.set(f(a.broadcastAt(idx), b.broadcastAt(idx)), idx...) })
	return out
}

// from builds a tensor from the source of each element.
func from(shape []int, isInt bool, f func(idx []int) float64) *tensor {
	out := newTensor(shape)
	out.isInt = isInt
	each(shape, func(idx []int) { out.set(f(idx), idx...) })
	return out
}

// An evaluator runs a model as the ONNX operator specification says, on whole
// tensors with their batch dimension, node by node and element by element. It
// shares nothing with the package under test.
type evaluator struct {
	graph   *onnx.Graph
	opset   int64
	env     map[string]*tensor
	running map[*onnx.Node]bool
	node    *onnx.Node

	functions []*onnx.Function
	theta     map[string][]float64
	outer     *evaluator // of the graph around this one
}

// evaluate returns the output of m at x; theta replaces initializers by name.
func evaluate(m *onnx.Model, x *tensor, theta map[string][]float64) (*tensor, error) {
	_, out, err := run(m, x, theta)
	return out, err
}

// examplesFirst moves the axis of the examples of out, the output for the inputs x, to the front, where a Network has
// it. The axis is the one that is longer for one example more, or of a model of a fixed number of examples the one along which
// an example changes its own place alone; merged says that it may hold other axes too.
func examplesFirst(m *onnx.Model, x, out *tensor, merged bool) *tensor {
	more := &tensor{shape: slices.Clone(x.shape), isInt: x.isInt, data: slices.Concat(x.data, x.data[:len(x.data)/x.shape[0]])}
	more.shape[0]++
	perm := make([]int, out.rank())
	for i := range perm {
		perm[i] = i
	}
	_, longer, err := tryRun(m, more)
	if err != nil {
		for i, d := range out.shape {
			if d == x.shape[0] && changesOwn(m, x, out, i) {
				return transposed(out, slices.Insert(slices.Delete(perm, i, i+1), 0, i))
			}
		}
		return out
	}
	if longer.rank() != out.rank() {
		return out
	}
	for i, d := range out.shape {
		if longer.shape[i] != d {
			if d != x.shape[0] && !merged { // other axes are merged with it, which the case does not mean
				return out
			}
			return transposed(out, slices.Insert(slices.Delete(perm, i, i+1), 0, i))
		}
	}
	return out
}

// changesOwn tells whether other inputs of an example change out at the example's index of an axis alone.
func changesOwn(m *onnx.Model, x, out *tensor, axis int) bool {
	size, inner := len(x.data)/x.shape[0], 1
	for _, d := range out.shape[axis+1:] {
		inner *= d
	}
	for example := range x.shape[0] {
		other := &tensor{shape: x.shape, isInt: x.isInt, data: slices.Clone(x.data)}
		for j := range size {
			other.data[example*size+j] += 1 + float64(j)/8
		}
		_, changed, err := tryRun(m, other)
		if err != nil || !slices.Equal(changed.shape, out.shape) {
			return false
		}
		for k, v := range changed.data {
			if v != out.data[k] && k/inner%out.shape[axis] != example {
				return false
			}
		}
	}
	return true
}

// run is evaluate that also returns what was computed on the way.
func run(m *onnx.Model, x *tensor, theta map[string][]float64) (e *evaluator, out *tensor, err error) {
	defer func() {
		if r := recover(); r != nil {
			text, ok := r.(refusal)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("evaluate: %s", string(text))
		}
	}()
	e = newEvaluator(m.Graph, &evaluator{functions: m.Functions, theta: theta})
	e.outer = nil
	for _, o := range m.OpsetImport {
		if o.Domain == "" || o.Domain == "ai.onnx" {
			e.opset = max(e.opset, o.Version)
		}
	}
	for _, in := range m.Graph.Inputs {
		if e.env[in.Name] == nil {
			e.env[in.Name] = &tensor{shape: x.shape, data: x.data, isInt: in.Type.IsInt()}
		}
	}
	check(len(m.Graph.Outputs) == 1, "outputs")
	return e, e.value(m.Graph.Outputs[0].Name), nil
}

func constantTensor(t *onnx.Tensor) *tensor {
	v := &tensor{shape: []int{}, isInt: t.Type.IsInt()}
	for _, d := range t.Dims {
		v.shape = append(v.shape, int(d))
	}
	v.data = slices.Clone(t.Floats)
	for _, k := range t.Ints {
		v.data = append(v.data, float64(k))
	}
	return v
}

func (e *evaluator) producer(name string) *onnx.Node {
	for _, n := range e.graph.Nodes {
		if slices.Contains(n.Outputs, name) {
			return n
		}
	}
	return nil
}

func (e *evaluator) value(name string) *tensor {
	if v := e.env[name]; v != nil {
		return v
	}
	n := e.producer(name)
	if n == nil && e.outer != nil {
		return e.outer.value(name)
	}
	check(n != nil && !e.running[n], "nothing provides %q", name)
	e.running[n] = true
	for _, in := range n.Inputs {
		if in != "" {
			e.env[in] = e.value(in)
		}
	}
	e.node = n
	do := e.operator(n)
	check(do != nil, "operator %s", n.OpType)
	for i, v := range do(e) {
		if i < len(n.Outputs) && v != nil {
			if own := e.theta[n.Outputs[i]]; own != nil { // a tensor that was stored with others
				v = &tensor{shape: v.shape, data: own}
			}
			e.env[n.Outputs[i]] = v
		}
	}
	v := e.env[name]
	check(v != nil, "output %q", name)
	return v
}

func (e *evaluator) has(i int) bool { return i < len(e.node.Inputs) && e.node.Inputs[i] != "" }

func (e *evaluator) in(i int) *tensor {
	check(e.has(i), "input %d", i)
	return e.env[e.node.Inputs[i]]
}

func (e *evaluator) int(name string, def int) int {
	if a := e.node.Attr(name); a != nil {
		return int(a.I)
	}
	return def
}

func (e *evaluator) float(name string, def float64) float64 {
	if a := e.node.Attr(name); a != nil {
		return float64(a.F)
	}
	return float64(float32(def))
}

func (e *evaluator) text(name, def string) string {
	if a := e.node.Attr(name); a != nil {
		return string(a.S)
	}
	return def
}

func (e *evaluator) ints(name string, def []int) []int {
	a := e.node.Attr(name)
	if a == nil {
		return def
	}
	out := []int{}
	for _, v := range a.Ints {
		out = append(out, int(v))
	}
	return out
}

// intsOr reads integers from input i or the attribute; nil where neither is.
func (e *evaluator) intsOr(i int, name string) []int {
	if e.has(i) {
		return e.in(i).ints()
	}
	return e.ints(name, nil)
}

// unaryOp maps every element.
func unaryOp(f func(e *evaluator) func(x float64) float64) func(e *evaluator) []*tensor {
	return func(e *evaluator) []*tensor {
		g, x := f(e), e.in(0)
		return []*tensor{from(x.shape, x.isInt, func(idx []int) float64 { return g(x.at(idx...)) })}
	}
}

func plain(f func(x float64) float64) func(e *evaluator) []*tensor {
	return unaryOp(func(*evaluator) func(x float64) float64 { return f })
}

func binaryOp(f func(e *evaluator, ints bool) func(a, b float64) float64) func(e *evaluator) []*tensor {
	return func(e *evaluator) []*tensor {
		a, b := e.in(0), e.in(1)
		return []*tensor{combine(a, b, f(e, a.isInt && b.isInt))}
	}
}

func plain2(f func(a, b float64) float64) func(e *evaluator) []*tensor {
	return binaryOp(func(*evaluator, bool) func(a, b float64) float64 { return f })
}

func fold(f func(a, b float64) float64) func(e *evaluator) []*tensor {
	return func(e *evaluator) []*tensor {
		out := e.in(0)
		for i := 1; i < len(e.node.Inputs); i++ {
			out = combine(out, e.in(i), f)
		}
		return []*tensor{out}
	}
}

func one(t *tensor) []*tensor { return []*tensor{t} }

func limit(x, lo, hi float64) float64 { return math.Min(math.Max(x, lo), hi) }

// evaluators hold every operator, from the formulas of its documentation.
var evaluators map[string]func(e *evaluator) []*tensor

func init() {
	evaluators = map[string]func(e *evaluator) []*tensor{
		"Relu":       plain(func(x float64) float64 { return math.Max(x, 0) }),
		"Tanh":       plain(math.Tanh),
		"Sigmoid":    plain(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }),
		"Softplus":   plain(func(x float64) float64 { return math.Log1p(math.Exp(x)) }),
		"Erf":        plain(math.Erf),
		"Sqrt":       plain(math.Sqrt),
		"Exp":        plain(math.Exp),
		"Log":        plain(math.Log),
		"Abs":        plain(math.Abs),
		"Neg":        plain(func(x float64) float64 { return -x }),
		"Reciprocal": plain(func(x float64) float64 { return 1 / x }),
		"Mish":       plain(func(x float64) float64 { return x * math.Tanh(math.Log1p(math.Exp(x))) }),
		"HardSwish":  plain(func(x float64) float64 { return x * math.Max(0, math.Min(1, x/6+0.5)) }),
		"Gelu": unaryOp(func(e *evaluator) func(x float64) float64 {
			if e.text("approximate", "none") == "tanh" {
				return func(x float64) float64 {
					return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*math.Pow(x, 3))))
				}
			}
			return func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) } // 1 + erf(x/√2)
		}),
		"LeakyRelu": unaryOp(func(e *evaluator) func(x float64) float64 {
			alpha := e.float("alpha", 0.01)
			return func(x float64) float64 { return math.Max(x, 0) + alpha*math.Min(x, 0) }
		}),
		"Elu": unaryOp(func(e *evaluator) func(x float64) float64 {
			alpha := e.float("alpha", 1)
			return func(x float64) float64 { return math.Max(x, 0) + alpha*math.Expm1(math.Min(x, 0)) }
		}),
		"Selu": unaryOp(func(e *evaluator) func(x float64) float64 {
			alpha, gamma := e.float("alpha", 1.67326319217681884765625), e.float("gamma", 1.05070102214813232421875)
			return func(x float64) float64 {
				return gamma * (math.Max(x, 0) + alpha*math.Expm1(math.Min(x, 0)))
			}
		}),
		"HardSigmoid": unaryOp(func(e *evaluator) func(x float64) float64 {
			alpha, beta := e.float("alpha", 0.2), e.float("beta", 0.5)
			return func(x float64) float64 { return math.Max(0, math.Min(1, alpha*x+beta)) }
		}),
		"Clip": unaryOp(func(e *evaluator) func(x float64) float64 {
			lo, hi := e.float("min", math.Inf(-1)), e.float("max", math.Inf(1))
			if e.has(1) {
				lo = e.in(1).at(slices.Repeat([]int{0}, e.in(1).rank())...)
			}
			if e.has(2) {
				hi = e.in(2).at(slices.Repeat([]int{0}, e.in(2).rank())...)
			}
			return func(x float64) float64 { return limit(x, lo, hi) }
		}),

		"Add": plain2(func(a, b float64) float64 { return a + b }),
		"Sub": plain2(func(a, b float64) float64 { return a - b }),
		"Mul": plain2(func(a, b float64) float64 { return a * b }),
		"Pow": plain2(math.Pow),
		"Div": binaryOp(func(_ *evaluator, ints bool) func(a, b float64) float64 {
			if !ints {
				return func(a, b float64) float64 { return a / b }
			}
			return func(a, b float64) float64 { return math.Trunc(a / b) }
		}),
		"PRelu": func(e *evaluator) []*tensor {
			x, slope := e.in(0), e.in(1)
			check(slices.Equal(broadcastShapes(x.shape, slope.shape), x.shape), "slope %v for %v", slope.shape, x.shape)
			return one(combine(x, slope, func(a, b float64) float64 { return math.Max(a, 0) + b*math.Min(a, 0) }))
		},
		"Min": fold(math.Min),
		"Max": fold(math.Max),
		"Sum": fold(func(a, b float64) float64 { return a + b }),

		"Gemm":                  evalGemm,
		"MatMul":                func(e *evaluator) []*tensor { return one(matrixProduct(e.in(0), e.in(1))) },
		"Conv":                  evalConv,
		"ConvTranspose":         evalConvTranspose,
		"MaxPool":               evalMaxPool,
		"AveragePool":           evalAveragePool,
		"GlobalAveragePool":     func(e *evaluator) []*tensor { return one(evalGlobal(e.in(0), average)) },
		"GlobalMaxPool":         func(e *evaluator) []*tensor { return one(evalGlobal(e.in(0), slices.Max[[]float64])) },
		"BatchNormalization":    evalBatchNorm,
		"LayerNormalization":    evalLayerNorm,
		"InstanceNormalization": evalInstanceNorm,
		"GroupNormalization":    evalGroupNorm,
		"Softmax":               func(e *evaluator) []*tensor { return one(evalSoftmax(e)) },
		"LogSoftmax": func(e *evaluator) []*tensor {
			y := evalSoftmax(e)
			return one(from(y.shape, false, func(idx []int) float64 { return math.Log(y.at(idx...)) }))
		},
		"ReduceMean": func(e *evaluator) []*tensor { return one(evalReduce(e, average)) },
		"ReduceSum":  func(e *evaluator) []*tensor { return one(evalReduce(e, total)) },

		"Identity":        func(e *evaluator) []*tensor { return one(e.in(0)) },
		"Dropout":         evalDropout,
		"Cast":            evalCast,
		"Constant":        evalConstant,
		"ConstantOfShape": evalConstantOfShape,
		"Shape":           evalShape,
		"Range":           evalRange,
		"Flatten":         evalFlatten,
		"Reshape":         evalReshape,
		"Transpose":       evalTranspose,
		"Squeeze":         evalSqueeze,
		"Unsqueeze":       evalUnsqueeze,
		"Concat":          evalConcat,
		"Slice":           evalSlice,
		"Split":           evalSplit,
		"Gather":          evalGather,
		"Expand":          evalExpand,
		"Pad":             evalPad,
		"Resize":          evalResize,
		"Upsample":        evalResize,
	}
	maps.Copy(evaluators, functionEvaluators())
	maps.Copy(evaluators, reductionEvaluators())
	maps.Copy(evaluators, maskEvaluators)
	maps.Copy(evaluators, indexEvaluators)
	maps.Copy(evaluators, tokenShapeEvaluators)
	maps.Copy(evaluators, sequenceEvaluators)
}

func total(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

func average(v []float64) float64 { return total(v) / float64(len(v)) }
