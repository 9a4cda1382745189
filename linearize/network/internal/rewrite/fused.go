package rewrite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
)

// A Fused is an operator that does what several of ONNX's own do one after another. Tools
// such as ONNX Runtime make them of the nodes of an export.
type Fused struct {
	Inputs int    // the most it has
	Note   string // what of it is not read; "" for nothing
	expand func(e *expansion) error
}

// FusedOperators holds the fused operators by name, with the domain in front where it is
// not ONNX's own. The meaning of those of com.microsoft is that of ONNX Runtime's
// documentation of its operators.
var FusedOperators = map[string]Fused{
	"com.microsoft.Gelu":                             {Inputs: 1, expand: func(e *expansion) error { return e.gelu("none") }},
	"com.microsoft.FastGelu":                         {Inputs: 2, expand: func(e *expansion) error { return e.gelu("tanh") }},
	"com.microsoft.BiasGelu":                         {Inputs: 2, expand: func(e *expansion) error { return e.gelu("none") }},
	"com.microsoft.QuickGelu":                        {Inputs: 1, expand: (*expansion).quickGelu},
	"com.microsoft.SkipLayerNormalization":           {Inputs: 5, Note: "the mean and the deviation are no outputs", expand: (*expansion).skipNorm},
	"com.microsoft.SkipSimplifiedLayerNormalization": {Inputs: 4, Note: "the deviation is no output", expand: (*expansion).skipRMS},
	"com.microsoft.EmbedLayerNormalization":          {Inputs: 9, Note: "without a mask", expand: (*expansion).embed},
	"com.microsoft.FusedMatMul":                      {Inputs: 2, expand: (*expansion).fusedMatMul},
	"com.microsoft.FusedGemm":                        {Inputs: 3, expand: (*expansion).fusedGemm},
	"com.microsoft.FusedConv":                        {Inputs: 4, expand: (*expansion).fusedConv},
	"com.microsoft.Attention":                        {Inputs: 7, Note: "without mask_index and past; attention_bias may be any", expand: (*expansion).attention},
	"com.microsoft.MultiHeadAttention":               {Inputs: 8, Note: "without packed inputs, key_padding_mask and past; attention_bias may be any", expand: (*expansion).multiHead},
	"SimplifiedLayerNormalization":                   {Inputs: 2, Note: "the deviation is no output", expand: (*expansion).rms},
	"RMSNormalization":                               {Inputs: 2, expand: (*expansion).rms},
	"Attention":                                      {Inputs: 7, Note: "without past and truth values as mask, and with as many heads of keys as of queries", expand: (*expansion).standardAttention},
}

// Expand returns nodes of ONNX's own operators that compute a node of a fused one. shapes
// are those of its inputs, nil for one that is not given, with 1 in the batch dimension; the last
// nodes have the node's results.
func Expand(name string, n *onnx.Node, shapes [][]int) ([]*onnx.Node, error) {
	e := &expansion{node: n, shapes: shapes}
	f := FusedOperators[name]
	for _, a := range n.Attributes {
		if a.Ref != "" {
			return nil, fmt.Errorf("its attribute %s refers to one of a function", quote(a.Name))
		}
	}
	err := f.expand(e)
	if err == nil {
		err = e.err
	}
	return e.nodes, err
}

// An expansion is the making of the nodes that compute a fused one.
type expansion struct {
	node   *onnx.Node
	shapes [][]int
	nodes  []*onnx.Node
	err    error // the first one
}

// has reports whether optional input i is given.
func (e *expansion) has(i int) bool { return i < len(e.node.Inputs) && e.node.Inputs[i] != "" }

// in returns the name of input i.
func (e *expansion) in(i int) string {
	if !e.has(i) {
		e.fail("input %d is missing", i)
		return ""
	}
	return e.node.Inputs[i]
}

// shape returns the shape of input i, which must have so many dimensions. A failed one
// gives ones.
func (e *expansion) shape(i, rank int) []int {
	if e.in(i); e.err == nil && len(e.shapes[i]) != rank {
		e.fail("input %d has shape %v, want %d dimensions", i, e.shapes[i], rank)
	}
	if e.err != nil {
		return slices.Repeat([]int{1}, rank)
	}
	return e.shapes[i]
}

func (e *expansion) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// without refuses optional inputs.
func (e *expansion) without(what string, inputs ...int) {
	for _, i := range inputs {
		if e.has(i) {
			e.fail("its input %d (%s) is not supported; export the model without it", i, what)
		}
	}
}

// attribute returns an attribute of a type, or nil.
func (e *expansion) attribute(name string, kind onnx.AttrType) *onnx.Attribute {
	a := e.node.Attr(name)
	if a != nil && a.Type != kind {
		e.fail("its attribute %s is of type %v, not %v", name, a.Type, kind)
		return nil
	}
	return a
}

func (e *expansion) int(name string, def int64) int64 {
	if a := e.attribute(name, onnx.AttrInt); a != nil {
		return a.I
	}
	return def
}

func (e *expansion) float(name string, def float32) float32 {
	if a := e.attribute(name, onnx.AttrFloat); a != nil {
		return a.F
	}
	return def
}

// op adds a node and returns the name of its result, which cannot occur in a file of a
// usual tool.
func (e *expansion) op(kind string, inputs []string, attrs ...*onnx.Attribute) string {
	name := fmt.Sprintf("%s\x00%d", FirstResult(e.node), len(e.nodes))
	e.nodes = append(e.nodes, &onnx.Node{Name: e.node.Name, OpType: kind, Inputs: inputs, Outputs: []string{name}, Attributes: attrs})
	return name
}

// result makes a value result i of the node, if that is wanted.
func (e *expansion) result(i int, name string) {
	if i < len(e.node.Outputs) && e.node.Outputs[i] != "" {
		e.nodes = append(e.nodes, &onnx.Node{Name: e.node.Name, OpType: "Identity", Inputs: []string{name}, Outputs: []string{e.node.Outputs[i]}})
	}
}

// number adds a constant of rank 0.
func (e *expansion) number(v float64) string { return e.numbers([]float64{v}) }

func (e *expansion) numbers(v []float64, dims ...int64) string {
	return e.op("Constant", nil, &onnx.Attribute{Name: "value", Type: onnx.AttrTensor, T: &onnx.Tensor{Type: onnx.Double, Floats: v, Dims: dims}})
}

// ints adds a vector of integers.
func (e *expansion) ints(v ...int64) string {
	t := &onnx.Tensor{Type: onnx.Int64, Ints: v, Dims: []int64{int64(len(v))}}
	return e.op("Constant", nil, &onnx.Attribute{Name: "value", Type: onnx.AttrTensor, T: t})
}

func intAttribute(name string, v int64) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrInt, I: v}
}

func intsAttribute(name string, v ...int64) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrInts, Ints: v}
}

func floatAttribute(name string, v float32) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrFloat, F: v}
}

// gelu is that of the input, or of its sum with a bias.
func (e *expansion) gelu(approximate string) error {
	x := e.in(0)
	if e.has(1) {
		x = e.op("Add", []string{x, e.in(1)})
	} else if e.node.OpType == "BiasGelu" {
		e.in(1)
	}
	e.result(0, e.op("Gelu", []string{x}, &onnx.Attribute{Name: "approximate", Type: onnx.AttrString, S: []byte(approximate)}))
	return nil
}

// quickGelu is x σ(α x).
func (e *expansion) quickGelu() error {
	x := e.in(0)
	s := e.op("Sigmoid", []string{e.op("Mul", []string{x, e.number(float64(e.float("alpha", 1.702)))})})
	e.result(0, e.op("Mul", []string{x, s}))
	return nil
}

// skipNorm normalizes the sum of the input, a skip connection and perhaps a bias.
func (e *expansion) skipNorm() error {
	sum := e.sum(0, 1, 4)
	in := []string{sum, e.in(2)}
	if e.has(3) {
		in = append(in, e.in(3))
	}
	e.result(0, e.op("LayerNormalization", in, floatAttribute("epsilon", e.float("epsilon", 1e-12))))
	e.result(3, sum)
	return nil
}

// skipRMS is skipNorm by root mean squares.
func (e *expansion) skipRMS() error {
	sum := e.sum(0, 1, 3)
	e.result(0, e.rmsOf(sum, e.in(2), -1, e.float("epsilon", 1e-12)))
	e.result(3, sum)
	return nil
}

// sum adds inputs, of which the first must be given.
func (e *expansion) sum(inputs ...int) string {
	sum := e.in(inputs[0])
	for _, i := range inputs[1:] {
		if e.has(i) {
			sum = e.op("Add", []string{sum, e.in(i)})
		}
	}
	return sum
}

// rms divides by the root of the mean square over the last dimensions.
func (e *expansion) rms() error {
	x := e.in(0)
	axis := e.int("axis", -1)
	if e.err == nil && axis >= 0 {
		axis -= int64(len(e.shapes[0]))
	}
	e.result(0, e.rmsOf(x, e.in(1), axis, e.float("epsilon", 1e-5)))
	return nil
}

// rmsOf is scale·x/√(mean x² + ε), the mean over the dimensions from a negative axis on.
func (e *expansion) rmsOf(x, scale string, axis int64, epsilon float32) string {
	if axis >= 0 || axis < -16 {
		e.fail("axis %d is out of range", axis)
		return ""
	}
	axes := []int64{}
	for a := axis; a < 0; a++ {
		axes = append(axes, a)
	}
	square := e.op("ReduceMean", []string{e.op("Mul", []string{x, x}), e.ints(axes...)})
	root := e.op("Sqrt", []string{e.op("Add", []string{square, e.number(float64(epsilon))})})
	return e.op("Mul", []string{e.op("Div", []string{x, root}), scale})
}

// embed is the normalized sum of the embeddings of words, positions and segments.
func (e *expansion) embed() error {
	ids, positions := e.shape(0, 2), e.shape(3, 2)
	e.without("mask", 7)
	sum := e.op("Gather", []string{e.in(2), e.in(0)}, intAttribute("axis", 0))
	if e.has(8) {
		sum = e.op("Add", []string{sum, e.op("Gather", []string{e.in(3), e.in(8)}, intAttribute("axis", 0))})
	} else {
		if ids[1] > positions[0] {
			e.fail("%d positions are embedded, and there are %d", ids[1], positions[0])
		}
		order := make([]int64, ids[1])
		for i := range order {
			order[i] = int64(i)
		}
		sum = e.op("Add", []string{sum, e.op("Gather", []string{e.in(3), e.ints(order...)}, intAttribute("axis", 0))})
	}
	if e.has(4) {
		sum = e.op("Add", []string{sum, e.op("Gather", []string{e.in(4), e.in(1)}, intAttribute("axis", 0))})
	}
	e.result(0, e.op("LayerNormalization", []string{sum, e.in(5), e.in(6)}, floatAttribute("epsilon", e.float("epsilon", 1e-12))))
	e.result(2, sum)
	return nil
}

// fusedMatMul is α A·B with the last two dimensions of A and B perhaps transposed, and before
// that perhaps the matrix dimensions first.
func (e *expansion) fusedMatMul() error {
	var in [2]string
	for i := range in {
		in[i] = e.in(i)
		which := []string{"A", "B"}[i]
		batch, trans := e.int("transBatch"+which, 0) != 0, e.int("trans"+which, 0) != 0
		if e.err != nil {
			return e.err
		}
		rank := len(e.shapes[i])
		if rank < 2 {
			continue // a vector is never transposed
		}
		perm := make([]int64, rank)
		for d := range perm {
			perm[d] = int64(d)
		}
		if batch {
			// The dimensions are (M, batch…, K): the first goes next to the last.
			perm = slices.Insert(perm[1:rank-1:rank-1], rank-2, 0)
			perm = append(perm, int64(rank-1))
		}
		if trans {
			perm[rank-2], perm[rank-1] = perm[rank-1], perm[rank-2]
		}
		if batch || trans {
			in[i] = e.op("Transpose", []string{in[i]}, intsAttribute("perm", perm...))
		}
	}
	y := e.op("MatMul", in[:])
	if alpha := e.float("alpha", 1); alpha != 1 {
		y = e.op("Mul", []string{y, e.number(float64(alpha))})
	}
	e.result(0, y)
	return nil
}

// own returns the attributes of the node except those of a list.
func (e *expansion) own(except ...string) (list []*onnx.Attribute) {
	for _, a := range e.node.Attributes {
		if !slices.Contains(except, a.Name) {
			list = append(list, a)
		}
	}
	return list
}

// fusedGemm is an activation of Gemm.
func (e *expansion) fusedGemm() error {
	gemm := e.op("Gemm", e.node.Inputs, e.own("activation", "activation_alpha", "activation_beta", "activation_gamma")...)
	var params []float32
	for _, name := range []string{"activation_alpha", "activation_beta", "activation_gamma"} {
		if a := e.attribute(name, onnx.AttrFloat); a != nil {
			params = append(params, a.F)
		}
	}
	e.result(0, e.activation(gemm, params))
	return nil
}

// fusedConv is an activation of Conv, perhaps with a sum before it.
func (e *expansion) fusedConv() error {
	inputs := slices.Clone(e.node.Inputs)
	y := e.op("Conv", inputs[:min(len(inputs), 3)], e.own("activation", "activation_params")...)
	if e.has(3) {
		y = e.op("Add", []string{y, e.in(3)})
	}
	var params []float32
	if a := e.attribute("activation_params", onnx.AttrFloats); a != nil {
		params = a.Floats
	}
	e.result(0, e.activation(y, params))
	return nil
}

// activation applies the function that the attribute of that name names.
func (e *expansion) activation(x string, params []float32) string {
	a := e.attribute("activation", onnx.AttrString)
	if a == nil || len(a.S) == 0 {
		return x
	}
	kind := string(a.S)
	attributes := map[string][]string{"Relu": {}, "Tanh": {}, "Sigmoid": {}, "LeakyRelu": {"alpha"}, "HardSigmoid": {"alpha", "beta"}, "Clip": nil, "Elu": {"alpha"}, "HardSwish": {}, "Gelu": {}}
	names, ok := attributes[kind]
	switch {
	case !ok:
		e.fail("its activation %s is not supported; export the model without fused operators", quote(kind))
		return x
	case kind == "Clip":
		if len(params) != 2 {
			e.fail("its activation Clip has %d parameters, want 2", len(params))
			return x
		}
		return e.op("Clip", []string{x, e.number(float64(params[0])), e.number(float64(params[1]))})
	case len(params) > len(names):
		e.fail("its activation %s has %d parameters, want at most %d", kind, len(params), len(names))
	}
	var attrs []*onnx.Attribute
	for i, v := range params[:min(len(params), len(names))] {
		attrs = append(attrs, floatAttribute(names[i], v))
	}
	return e.op(kind, []string{x}, attrs...)
}

var errHeads = errors.New("its number of heads does not divide the hidden size; export the model again")

// unsupported names what of a node is not supported.
func (e *expansion) unsupported(what ...string) {
	e.fail("%s: not supported; export the model without fused operators", strings.Join(what, " "))
}
