package compile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// An operator says how the nodes of one ONNX operator are translated.
type operator struct {
	translate func(c *compiler) error // translates c.node
	inputs    int                     // the most it has in any version, or anyNumber
	note      string                  // for the list of operators: what of it is not read, or read in a special way
	group     string                  // in that list
}

// anyNumber is the number of inputs of an operator that takes any.
const anyNumber = 0

// operators holds the operators that are read, by name; those of another domain
// than ONNX's own have it in front: "com.microsoft.Gelu".
var operators = map[string]operator{}

// register adds the operators of a group to the table. The files of this package
// call it as they are initialized.
func register(group string, list map[string]operator) {
	for name, o := range list {
		if _, twice := operators[name]; twice {
			panic("compile: operator " + name + " is registered twice")
		}
		o.group = group
		operators[name] = o
	}
}

// Operators returns the ONNX operators that can be read, sorted.
func Operators() []string { return slices.Sorted(maps.Keys(operators)) }

// operatorName returns the name under which a node's operator is registered.
func operatorName(n *onnx.Node) string {
	if standard(n) {
		return n.OpType
	}
	return n.Domain + "." + n.OpType
}

// translate translates c.node.
func (c *compiler) translate() error {
	o, ok := operators[operatorName(c.node)]
	if !ok {
		return fmt.Errorf("operator %s of domain %s is not supported; rewrite that layer with supported operators, or export the part of the network before it", quote(c.node.OpType), quote(c.node.Domain))
	}
	if n := len(c.node.Inputs); n > o.inputs && o.inputs != anyNumber {
		return fmt.Errorf("it has %d inputs, at most %d are allowed", n, o.inputs)
	}
	if err := checkAttributes(c.node); err != nil {
		return err
	}
	return o.translate(c)
}

// standard reports whether a node's operator is one of ONNX itself.
func standard(n *onnx.Node) bool { return n.Standard() }

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
