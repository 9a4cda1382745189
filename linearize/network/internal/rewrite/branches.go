package rewrite

import (
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// A Condition is that of a node If, Loop or Scan, whose first result it names.
type Condition struct {
	Result string
	Then   bool // the condition holds
	Open   bool // the condition depends on the input: each example chooses between the results of both branches

	// Of a Loop or Scan, how many turns to write out next, whether these are the last ones, and otherwise the largest
	// number of turns after them.
	Turns int
	Last  bool
	Left  int64
}

// Conditional reports whether the graph has a node If, Loop or Scan, which is to be written out.
func (m *Rewritten) Conditional() bool {
	return m.Model.Graph != nil && slices.ContainsFunc(m.Model.Graph.Nodes, func(n *onnx.Node) bool {
		return (n.OpType == "If" || n.OpType == "Loop" || n.OpType == "Scan") && n.Standard()
	})
}

// Branches returns the model with the nodes and tensors of the branches that are taken in the place of nodes If, and
// of the turns that are taken in the place of nodes Loop and Scan.
func (m *Rewritten) Branches(taken []Condition) (*Rewritten, error) {
	conditions := map[string]Condition{}
	for _, c := range taken {
		conditions[c.Result] = c
	}
	g := *m.Model.Graph
	b := &brancher{names: &names{map[string]bool{}, map[string]int{}}, graph: &g, left: m.left, loops: m.loops}
	b.names.add(&g)
	g.Nodes, g.Initializers = nil, slices.Clone(g.Initializers)
	out := &Rewritten{Model: new(*m.Model), Number: map[*onnx.Node]int{}, Taken: m.Taken}
	out.Model.Graph = &g
	for _, n := range m.Model.Graph.Nodes {
		list := []*onnx.Node{n}
		if c, ok := conditions[FirstResult(n)]; ok {
			var err error
			switch {
			case n.OpType != "If":
				list, err = b.unroll(n, c)
			case c.Open:
				list, err = b.choose(n)
			default:
				list, err = b.lift(n, c.Then)
			}
			if err != nil {
				return nil, fmt.Errorf("node %d %s (%s): %w", m.Number[n], Quote(n.Name), n.OpType, err)
			}
		}
		for _, own := range list {
			out.Number[own] = m.Number[n]
		}
		g.Nodes = append(g.Nodes, list...)
	}
	out.left, out.loops = b.left, b.loops
	return out, nil
}

// FirstResult returns the name of a node's first result, "" if it has none.
func FirstResult(n *onnx.Node) string {
	i := slices.IndexFunc(n.Outputs, func(name string) bool { return name != "" })
	if i < 0 {
		return ""
	}
	return n.Outputs[i]
}

// A brancher puts branches into a graph.
type brancher struct {
	names *names
	graph *onnx.Graph
	left  int // nodes that may still be copied
	loops map[*onnx.Node]*loop
}

// choose returns the nodes of both branches, and nodes that choose between their results, which must have one shape.
// The condition is one truth value for each example, whatever its shape.
func (b *brancher) choose(n *onnx.Node) ([]*onnx.Node, error) {
	var list []*onnx.Node
	branches := [2]*onnx.Node{}
	for i, name := range []string{"then", "else"} {
		own := *n
		own.Outputs = make([]string, len(n.Outputs))
		for k, result := range n.Outputs {
			if result != "" {
				own.Outputs[k] = b.names.fresh(name, result)
			}
		}
		nodes, err := b.lift(&own, i == 0)
		if err != nil {
			return nil, err
		}
		list, branches[i] = append(list, nodes...), &own
	}
	number := func(k int64) string {
		t := &onnx.Tensor{Name: b.names.fresh(n.Name, "number"), Type: onnx.Int64, Dims: []int64{1}, Ints: []int64{k}}
		b.graph.Initializers = append(b.graph.Initializers, t)
		return t.Name
	}
	add := func(op, result string, attributes []*onnx.Attribute, inputs ...string) string {
		if result == "" {
			result = b.names.fresh(n.Name, op)
		}
		list = append(list, &onnx.Node{Name: n.Name, OpType: op, Inputs: inputs, Outputs: []string{result}, Attributes: attributes})
		return result
	}
	rest, one := number(-1), number(1)
	for k, result := range n.Outputs {
		if result == "" {
			continue
		}
		// The condition gets the shape N×1×…×1 with as many dimensions as the result.
		shape := add("Shape", "", nil, branches[0].Outputs[k])
		others := add("Sub", "", nil, add("Shape", "", nil, shape), one)
		fill := &onnx.Tensor{Type: onnx.Int64, Dims: []int64{1}, Ints: []int64{1}}
		ones := add("ConstantOfShape", "", []*onnx.Attribute{{Name: "value", Type: onnx.AttrTensor, T: fill}}, others)
		dims := add("Concat", "", []*onnx.Attribute{{Name: "axis", Type: onnx.AttrInt}}, rest, ones)
		condition := add("Reshape", "", nil, n.Inputs[0], dims)
		add("Where", result, nil, condition, branches[0].Outputs[k], add("Reshape", "", nil, branches[1].Outputs[k], shape))
	}
	return list, nil
}

// lift returns the nodes of a branch, and adds its tensors to the graph. Names that the
// graph has already are changed.
func (b *brancher) lift(n *onnx.Node, then bool) ([]*onnx.Node, error) {
	attribute := "else_branch"
	if then {
		attribute = "then_branch"
	}
	a := n.Attr(attribute)
	if a == nil || a.G == nil {
		return nil, fmt.Errorf("it has no %s", attribute)
	}
	g := a.G
	if len(g.Inputs) > 0 || len(g.Outputs) < len(n.Outputs) {
		return nil, fmt.Errorf("its %s takes %d inputs and has %d outputs, want none and %d; export the model again", attribute, len(g.Inputs), len(g.Outputs), len(n.Outputs))
	}
	s := &scope{names: b.names, prefix: n.Name, value: map[string]string{}, captures: true, spend: b.spend}
	made := results(g.Nodes)
	inside := make([]string, len(g.Outputs))
	for i, v := range g.Outputs {
		inside[i] = v.Name
	}
	others := s.outputs(made, inside, n.Outputs)
	for _, name := range defined(g) {
		if _, known := s.value[name]; known {
			continue
		}
		if s.value[name] = name; b.names.used[name] {
			s.value[name] = b.names.fresh(s.prefix, name)
		}
		b.names.used[s.value[name]] = true
	}
	for _, t := range g.Initializers {
		c, err := s.initializer(t)
		if err != nil {
			return nil, err
		}
		b.graph.Initializers = append(b.graph.Initializers, c)
	}
	var list []*onnx.Node
	for _, inner := range g.Nodes {
		own, err := s.node(inner)
		if err != nil {
			return nil, err
		}
		list = append(list, own)
	}
	copies, err := s.copies(others)
	return append(list, copies...), err
}

// spend takes nodes from what may be copied; their numbers are those of the file.
func (b *brancher) spend(nodes, _ int) error {
	if b.left -= nodes; b.left < 0 {
		return fmt.Errorf("branches and turns of loops have more than %d nodes; export the model with fewer turns, or with RNN, GRU or LSTM nodes in the place of loops", mostNodes)
	}
	return nil
}
