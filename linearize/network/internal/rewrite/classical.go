package rewrite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
)

// The domain of ONNX's operators for classical models, in which skl2onnx writes scikit-learn's, and metadata by which
// a model names its classes.
const (
	classicalDomain = "ai.onnx.ml"
	classesKey      = "funcgp.classes" // whole numbers
	classNamesKey   = "class_names"    // a JSON list
)

// A classical puts nodes of ONNX's own operators in the place of those of the classical domain.
type classical struct {
	model *onnx.Model
	graph *onnx.Graph
	names *names
	nodes []*onnx.Node    // the new list
	sums  map[string]bool // results of which each row sums up to one
}

// plain replaces Scaler, Normalizer, LinearRegressor, LinearClassifier and ZipMap, and records the classes that the
// last two name. Nodes that cannot be replaced stay, and are refused where the output depends on them.
func plain(m *onnx.Model, number map[*onnx.Node]int) {
	if !slices.ContainsFunc(m.Graph.Nodes, func(n *onnx.Node) bool { return n.Domain == classicalDomain }) {
		return
	}
	g := *m.Graph
	c := &classical{model: m, graph: &g, names: newNames(m.Graph), sums: map[string]bool{}}
	g.Initializers, g.Outputs = slices.Clone(g.Initializers), copied(g.Outputs)
	for _, n := range m.Graph.Nodes {
		first := len(c.nodes)
		if n.Domain != classicalDomain || len(n.Inputs) == 0 || len(n.Outputs) == 0 || !c.replace(n) {
			c.nodes = append(c.nodes[:first], n)
		}
		for _, own := range c.nodes[first:] {
			number[own] = number[n]
		}
	}
	g.Nodes, m.Graph = c.nodes, &g
}

// add appends a node that makes result of its inputs; "" is a new name.
func (c *classical) add(n *onnx.Node, result, op string, a *onnx.Attribute, in ...string) string {
	if result == "" {
		result = c.names.fresh(n.Outputs[len(n.Outputs)-1], op)
	}
	own := &onnx.Node{Name: n.Name, OpType: op, Inputs: in, Outputs: []string{result}}
	if a != nil {
		own.Attributes = []*onnx.Attribute{a}
	}
	c.nodes = append(c.nodes, own)
	return result
}

func intAttribute(name string, v int64) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Type: onnx.AttrInt, I: v}
}

// vector appends a constant.
func (c *classical) vector(n *onnx.Node, v ...float32) string {
	t := &onnx.Tensor{Type: onnx.Float, Dims: []int64{int64(len(v))}, Floats: widened(v)}
	return c.add(n, "", "Constant", &onnx.Attribute{Name: "value", Type: onnx.AttrTensor, T: t})
}

func widened(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// weight adds a tensor that was learnt.
func (c *classical) weight(n *onnx.Node, name string, v []float64, dims ...int64) string {
	prefix := n.Name
	if prefix == "" {
		prefix = n.OpType
	}
	t := &onnx.Tensor{Name: c.names.fresh(prefix, name), Type: onnx.Float, Dims: dims, Floats: v}
	c.graph.Initializers = append(c.graph.Initializers, t)
	return t.Name
}

// number makes numbers of an input, which may be integers.
func (c *classical) number(n *onnx.Node) string {
	return c.add(n, "", "Cast", intAttribute("to", int64(onnx.Float)), n.Inputs[0])
}

func floatsOf(n *onnx.Node, name string) []float32 {
	if a := n.Attr(name); a != nil {
		return a.Floats
	}
	return nil
}

func textOf(n *onnx.Node, name, otherwise string) string {
	if a := n.Attr(name); a != nil {
		return string(a.S)
	}
	return otherwise
}

// replace appends the nodes that stand for one, and reports whether there are any.
func (c *classical) replace(n *onnx.Node) bool {
	switch n.OpType {
	case "Scaler": // (x − offset)·scale
		offset, scale := floatsOf(n, "offset"), floatsOf(n, "scale")
		if len(offset) == 0 || len(scale) == 0 {
			return false
		}
		c.add(n, n.Outputs[0], "Mul", nil, c.add(n, "", "Sub", nil, c.number(n), c.vector(n, offset...)), c.vector(n, scale...))
	case "Normalizer": // x/‖x‖ of each row, which leaves a row of zeros as it is
		op, ok := map[string]string{"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}[textOf(n, "norm", "MAX")]
		if !ok {
			return false
		}
		if op == "ReduceL1" && c.sums[n.Inputs[0]] {
			c.add(n, n.Outputs[0], "Identity", nil, n.Inputs[0])
			return true
		}
		x := c.number(n)
		norm := ""
		if c.opset() < 18 {
			norm = c.add(n, "", op, &onnx.Attribute{Name: "axes", Type: onnx.AttrInts, Ints: []int64{1}}, x)
		} else {
			norm = c.add(n, "", op, nil, x, c.integer(n, 1))
		}
		zero := c.add(n, "", "Equal", nil, norm, c.vector(n, 0))
		c.add(n, n.Outputs[0], "Div", nil, x, c.add(n, "", "Where", nil, zero, c.vector(n, 1), norm))
	case "LinearRegressor":
		scores := c.scores(n, n.Outputs[0])
		return scores != "" && textOf(n, "post_transform", "NONE") == "NONE"
	case "LinearClassifier":
		return c.classifier(n)
	case "ZipMap":
		c.classes(n)
		for _, v := range c.graph.Outputs {
			if v.Name == n.Outputs[0] { // was a list of dictionaries
				v.Type, v.HasShape, v.Dims, v.Unknown = onnx.Float, false, nil, nil
			}
		}
		c.add(n, n.Outputs[0], "Identity", nil, n.Inputs[0])
	default:
		return false
	}
	return true
}

// opset is the version of ONNX's own operators.
func (c *classical) opset() (version int64) {
	for _, o := range c.model.OpsetImport {
		if domain(o.Domain) == "" {
			version = max(version, o.Version)
		}
	}
	return version
}

// integer appends a constant of integers.
func (c *classical) integer(n *onnx.Node, v ...int64) string {
	t := &onnx.Tensor{Type: onnx.Int64, Dims: []int64{int64(len(v))}, Ints: v}
	return c.add(n, "", "Constant", &onnx.Attribute{Name: "value", Type: onnx.AttrTensor, T: t})
}

// scores appends x Wᵀ + b under a name, "" for a new one, and returns the name. It returns "" where the node's numbers
// do not fit together.
func (c *classical) scores(n *onnx.Node, result string) string {
	w, b := floatsOf(n, "coefficients"), floatsOf(n, "intercepts")
	targets := len(b)
	if targets == 0 {
		targets = 1
		if a := n.Attr("targets"); a != nil {
			targets = int(a.I)
		}
		if k := len(classLabels(n)); n.OpType == "LinearClassifier" && k > 0 {
			targets = k
		}
	}
	if len(w) == 0 || targets < 1 || len(w)%targets != 0 {
		return ""
	}
	return c.affine(n, result, widened(w), widened(b), targets)
}

func (c *classical) affine(n *onnx.Node, result string, w, b []float64, targets int) string {
	inputs := len(w) / targets
	across := make([]float64, len(w)) // inputs × targets
	for k := range targets {
		for j := range inputs {
			across[j*targets+k] = w[k*inputs+j]
		}
	}
	name := ""
	if len(b) == 0 {
		name = result
	}
	z := c.add(n, name, "MatMul", nil, c.number(n), c.weight(n, "coefficients", across, int64(inputs), int64(targets)))
	if len(b) > 0 {
		z = c.add(n, result, "Add", nil, z, c.weight(n, "intercepts", b, int64(targets)))
	}
	return z
}

// classifier replaces a LinearClassifier, whose results are labels and the scores of the classes.
func (c *classical) classifier(n *onnx.Node) bool {
	labels := classLabels(n)
	w, b := widened(floatsOf(n, "coefficients")), widened(floatsOf(n, "intercepts"))
	transform := textOf(n, "post_transform", "NONE")
	scores := c.names.fresh(n.Name, "scores")
	if len(n.Outputs) > 1 && n.Outputs[1] != "" {
		scores = n.Outputs[1]
	}
	switch half := len(w) / 2; {
	case transform == "LOGISTIC" && len(labels) == 2 && len(w) > 0 && (len(b) == 1 || len(b) == 2 && len(w)%2 == 0 && b[0] == -b[1] && negated(w[:half], w[half:])):
		// One score z, or −z and z: σ(−z) and σ(z), which is the head of two classes.
		if len(b) == 2 {
			w, b = w[half:], b[1:]
		}
		p := c.add(n, "", "Sigmoid", nil, c.affine(n, "", w, b, 1))
		one := c.add(n, "", "Sub", nil, c.vector(n, 1), p)
		c.add(n, scores, "Concat", intAttribute("axis", 1), one, p)
		c.sums[scores] = true
	case len(b) > 0 && len(b) != len(labels), len(labels) < 2:
		return false
	case transform == "NONE":
		if c.scores(n, scores) == "" {
			return false
		}
	case transform == "LOGISTIC", transform == "SOFTMAX":
		z := c.scores(n, "")
		if z == "" {
			return false
		}
		if transform == "SOFTMAX" {
			c.add(n, scores, "Softmax", intAttribute("axis", 1), z)
			c.sums[scores] = true
		} else {
			c.add(n, scores, "Sigmoid", nil, z)
		}
	default:
		return false
	}
	c.classes(n)
	if n.Outputs[0] != "" {
		// The label of the largest score: no number that a network can compute with, but a way back to the scores.
		largest := c.add(n, "", "ArgMax", intAttribute("axis", 1), scores)
		c.add(n, n.Outputs[0], "LabelEncoder", nil, largest)
		c.nodes[len(c.nodes)-1].Domain = classicalDomain
	}
	return true
}

func negated(a, b []float64) bool {
	for i := range a {
		if a[i] != -b[i] {
			return false
		}
	}
	return true
}

// classLabels lists the classes that a node names.
func classLabels(n *onnx.Node) (list []string) {
	for _, name := range []string{"classlabels_ints", "classlabels_int64s", "classlabels_strings"} {
		a := n.Attr(name)
		if a == nil {
			continue
		}
		for _, k := range a.Ints {
			list = append(list, strconv.FormatInt(k, 10))
		}
		for _, s := range a.Strings {
			list = append(list, string(s))
		}
	}
	return list
}

// classes records the classes that a node names, where the model's metadata do not.
func (c *classical) classes(n *onnx.Node) {
	list := classLabels(n)
	if len(list) < 2 || slices.ContainsFunc(c.model.Metadata, func(e onnx.Entry) bool {
		return e.Key == classesKey || e.Key == classNamesKey || e.Key == "funcgp.class_names"
	}) {
		return
	}
	e := onnx.Entry{Key: classesKey, Value: strings.Join(list, ",")}
	if n.Attr("classlabels_strings") != nil {
		text, err := json.Marshal(list)
		if err != nil {
			return
		}
		e = onnx.Entry{Key: classNamesKey, Value: string(text)}
	}
	c.model.Metadata = append(slices.Clone(c.model.Metadata), e)
}

// numbersOf steps back from a label to the numbers of the classes, of which it is the largest one's; "" where a value
// is no label.
func numbersOf(g *onnx.Graph, name string) string {
	p := newProducers(g)
	for range len(g.Nodes) + 1 {
		n := p.node[name]
		if n == nil || len(n.Inputs) == 0 || len(n.Outputs) == 0 || n.Outputs[0] != name {
			return ""
		}
		switch n.OpType {
		case "ArgMax":
			if a := n.Attr("axis"); n.Standard() && a != nil && (a.I == 1 || a.I == -1) {
				return n.Inputs[0]
			}
			return ""
		case "Cast", "Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten", "LabelEncoder":
			name = n.Inputs[0]
		case "Gather", "ArrayFeatureExtractor": // of a list of labels
			if len(n.Inputs) < 2 || p.tensor[n.Inputs[0]] == nil {
				return ""
			}
			name = n.Inputs[1]
		default:
			return ""
		}
	}
	return ""
}

// A Taken says that f is another tensor than the output, which holds labels.
type Taken struct{ Output, Tensor string }

func (t *Taken) String() string {
	return fmt.Sprintf("Output %s holds labels, which have no derivative. The outputs f are the numbers of which it is the largest one's, tensor %s.", Quote(t.Output), Quote(t.Tensor))
}
