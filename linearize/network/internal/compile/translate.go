package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

// An operator describes how nodes of one ONNX operator are translated.
type operator struct {
	translate func(c *compiler) // translates c.node
	integers  integerRule       // what the operator makes of integers that depend on the input
	roles     learnt.Roles      // how the operator treats its inputs; helps to decide what was learnt
	bias      int               // for an operator that multiplies by a weight, the number of the input that is a bias
	inputs    int               // the largest number of inputs in any version, or anyNumber
	note      string            // for the list of operators: what is not read, or is read in a special way
	group     string            // the operator's group in the list
}

// An integerRule says what an operator makes of integers or truth values that depend on the input.
type integerRule int

const (
	keepsType  integerRule = iota + 1 // the operator moves integers: the result has their type
	computes                          // the operator computes with integers; a narrow type would overflow
	ownType                           // the function translate sets the type of the result
	isTruth                           // the result holds truth values
	isPosition                        // the result holds positions, 64-bit integers
)

// anyNumber marks an operator with any number of inputs.
const anyNumber = 0

// operators holds the operators that can be read, by name. Outside ONNX's own domain the name begins with the
// domain: "com.microsoft.Gelu".
var operators = map[string]operator{}

// register adds the operators of a group to the table. The files of this package call it in init.
func register(group string, list map[string]operator) {
	for name, o := range list {
		if _, twice := operators[name]; twice {
			panic("compile: operator " + name + " is registered twice")
		}
		o.group = group
		operators[name] = o
	}
}

// An Operator is an ONNX operator that can be read.
type Operator struct {
	Name  string // begins with the domain if this is not ONNX's own: "com.microsoft.Gelu"
	Group string // the operator's group in the list of operators
	Note  string // what is not read, or is read in a special way; "" if nothing
}

// List returns the operators that can be read, sorted by group and name.
func List() []Operator {
	var list []Operator
	for name, o := range operators {
		list = append(list, Operator{name, o.group, o.note})
	}
	slices.SortFunc(list, func(a, b Operator) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Name, b.Name))
	})
	return list
}

// Facts returns how an operator of ONNX's own domain treats its inputs.
func Facts(op string) learnt.Facts {
	o := operators[op]
	return learnt.Facts{Roles: o.roles, Bias: o.bias}
}

// operatorName returns the name under which a node's operator is registered.
func operatorName(n *onnx.Node) string {
	if standard(n) {
		return n.OpType
	}
	return n.Domain + "." + n.OpType
}

// An UnsupportedError names the operators of a model that cannot be read.
type UnsupportedError struct {
	Opset     int64
	Operators []UnsupportedOperator // in the order of their first nodes
}

// An UnsupportedOperator is an operator that cannot be read, with its nodes.
type UnsupportedOperator struct {
	Name  string   // begins with the domain if this is not ONNX's own
	Nodes []string // the nodes as messages name them: node 3 "/head/Foo"
}

var _ error = (*UnsupportedError)(nil)

// mostOperators is the largest part, in bytes, of a message that names operators with their nodes; operators named
// without nodes may take as much again. mostNodes is the largest number of nodes named for one operator.
const (
	mostOperators = 400
	mostNodes     = 3
)

func (e *UnsupportedError) Error() string { return e.Message().String() }

// Message names all operators, each with its first nodes, with as many nodes as fit.
func (e *UnsupportedError) Message() option.Text {
	text := ""
	for nodes := mostNodes; nodes > 0; nodes-- {
		// If one node for each operator is still too long, later operators are named without a node, and the last
		// ones are only counted.
		text = ""
		for i, o := range e.Operators {
			name, sep := brief(o.Name, 60), ", "
			if i == 0 {
				sep = ""
			}
			shown := o.Nodes[:min(nodes, len(o.Nodes))]
			more := ""
			if n := len(o.Nodes) - len(shown); n > 0 {
				more = fmt.Sprintf(" and %d more", n)
			}
			part := sep + strings.Join(shown, ", ") + more + " (" + name + ")"
			if nodes == 1 && i > 0 && len(text)+len(part) > mostOperators {
				part = sep + name
			}
			if nodes == 1 && i > 0 && len(text)+len(part) > 2*mostOperators {
				text += fmt.Sprintf(" and %d more operators", len(e.Operators)-i)
				break
			}
			text += part
		}
		if len(text) <= mostOperators {
			break
		}
	}
	// Say the reason and the cure of each kind, and of many kinds those of the first ones.
	var kinds []option.Text
	for _, o := range e.Operators {
		u := unreadKind(o.Name)
		if why := u.Reason + "; " + u.Cure; !slices.Contains(kinds, why) && len(kinds) < 3 {
			kinds = append(kinds, why)
		}
	}
	why := option.Join(kinds, "; ")
	if len(e.Operators) == 1 {
		return option.Textf("network: %s, opset %d: this operator is not read, because %s", text, e.Opset, why)
	}
	return option.Textf("network: %d operators of opset %d are not read: %s: %s", len(e.Operators), e.Opset, text, why)
}

// invalid ends messages about files that break ONNX's rules.
const invalid = "this is no valid ONNX model, export it again"

// translate translates c.node. If the node reads integers or truth values that depend on the input, the operator's
// integerRule says whether this is allowed, and which type the results have.
func (c *compiler) translate() {
	n, o := c.node, operators[operatorName(c.node)]
	if len(n.Inputs) > o.inputs && o.inputs != anyNumber {
		panic(refuse("it has %d inputs, at most %d are allowed; %s", len(n.Inputs), o.inputs, invalid))
	}
	seen := map[string]bool{}
	for _, a := range n.Attributes {
		if seen[a.Name] {
			panic(refuse("its attribute %s is given twice; %s", quote(a.Name), invalid))
		}
		seen[a.Name] = true
	}
	row := 0
	for i, name := range n.Inputs {
		v := c.env[name]
		if v != nil && v.batch < 0 && c.depends(v) && !o.pointwise(n.OpType) {
			if len(v.shape) == 0 || v.shape[0] != 1 { // see loose
				panic(refuse("input %s, of shape %v, has no dimension of examples left; export the model with a dynamic batch dimension", quote(name), v.shape))
			}
			v = v.onAxis(0, 0)
			c.env[name] = v
		}
		if v == nil || v.row == 0 && !slices.ContainsFunc(v.parts, counts) {
			continue
		}
		switch op := n.OpType; {
		case op == "Shape" || op == "Size":
		case i == 1 && (op == "Gather" && v.row != 0 || op == "GatherND" || op == "ScatterND"):
		case v.row != 0 && (op == "Add" || op == "Sub" || op == "Concat" || shaping[op]):
			row = v.row
		default:
			panic(refuse("input %s holds numbers of examples beside positions that depend on the input, by which only Gather and GatherND may take elements; others would mix examples", quote(name)))
		}
	}
	t := c.integerType()
	switch rule := o.integers; {
	case t == 0:
	case rule == 0:
		panic(refuse("it is applied to %v numbers that depend on the input, which is not supported; cast them to floating point before it", t))
	case rule == computes && t != onnx.Int64 && t != onnx.Int32:
		panic(refuse("it computes with %v numbers that depend on the input, which would overflow; only int32 and int64 are supported", t))
	}
	o.translate(c)
	switch rule := o.integers; {
	case rule == isTruth:
		t = onnx.Bool
	case rule == isPosition:
		t = onnx.Int64
	case rule == ownType:
		t = 0
	}
	for _, name := range n.Outputs {
		if v := c.env[name]; t != 0 && v != nil && !v.isInt {
			v.integer = t
		}
		if v := c.env[name]; shaping[n.OpType] && v != nil {
			v.row = row
		}
	}
}

// pointwise reports whether an operator takes tensors of the only example without a batch axis as they are.
func (o operator) pointwise(name string) bool {
	return slices.Contains([]string{"Elementwise", "Comparisons and masks", "Reductions", "Control flow", "Sequences"}, o.group) || shaping[name] || name == "Cast" || name == "Shape" || name == "Size"
}

// shaping are the nodes that keep the elements of their first input.
var shaping = map[string]bool{"Reshape": true, "Unsqueeze": true, "Squeeze": true, "Flatten": true, "Expand": true}

// counts reports whether elements of v depend on the number of the example, beside what the slot holds.
func counts(v *value) bool {
	return v.row != 0 || slices.ContainsFunc(v.ints, func(a affine) bool { return a.row != 0 })
}

// standard reports whether a node's operator belongs to ONNX's own domain.
func standard(n *onnx.Node) bool { return n.Standard() }

// result makes v the result of the node. Further outputs of the node must be unused.
func (c *compiler) result(v *value) {
	c.only(1)
	c.set(0, v)
}

func init() {
	register("Control flow", map[string]operator{
		"If": {translate: (*compiler).condition, inputs: 1, integers: ownType, note: "where the condition depends on the input, each example is its own batch and chooses between the results of both branches; no derivative through the condition"},
	})
}

// A ConditionsError lists the nodes If, Loop and Scan of a graph and their conditions. The caller replaces each node by
// the branch that it takes, by a choice between both, or by turns, and compiles again; further such nodes may then be met.
type ConditionsError struct{ Conditions []rewrite.Condition }

var _ error = (*ConditionsError)(nil)

func (e *ConditionsError) Error() string {
	return fmt.Sprintf("network: %d nodes If, Loop or Scan are undecided", len(e.Conditions))
}

// An undecided holds the conditions of the nodes If met so far, and the values that are unknown until the branches
// are taken.
type undecided struct {
	conditions []rewrite.Condition
	unknown    map[string]bool
}

func (u *undecided) add(n *onnx.Node) {
	if u.unknown == nil {
		u.unknown = map[string]bool{}
	}
	for _, name := range n.Outputs {
		if name != "" {
			u.unknown[name] = true
		}
	}
}

// condition records which branch a node If takes.
func (c *compiler) condition() {
	v := c.input(0)
	next := rewrite.Condition{Result: rewrite.FirstResult(c.node)}
	switch {
	case graph.Product(v.shape) != 1:
		panic(refuse("its condition is of shape %v, not one truth value; %s", v.shape, invalid))
	case c.depends(v):
		next.Open = true
	case !v.isInt || !v.ints[0].constant():
		panic(refuse("its condition depends on the batch size or the number of an example; export the model with the branch that is meant"))
	default:
		next.Then = v.ints[0].k != 0
	}
	c.undecided.conditions = append(c.undecided.conditions, next)
	c.undecided.add(c.node)
}

// quote and brief format names and texts of the file in messages.
var quote, brief = rewrite.Quote, rewrite.Brief

// label names node i of the graph for messages, with its number in the file.
func (c *compiler) label(i int) string {
	n := c.graph.Nodes[i]
	return fmt.Sprintf("node %d %s (%s)", c.numberOf(i), quote(n.Name), strings.Trim(quote(n.OpType), `"`))
}

// numberOf returns the number in the file of node i of the graph.
func (c *compiler) numberOf(i int) int {
	if at, ok := c.number[c.graph.Nodes[i]]; ok {
		return at
	}
	return i
}
