package rewrite

import (
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

// A Literal is a floating point tensor that a Constant node holds.
type Literal struct {
	Name   string // of the node's result
	Shape  []int
	Weight bool // a layer multiplies by it, and it holds more than 0 and 1
}

// Constants returns a model in which weights that Constant nodes hold are initializers
// of the name of the node's result, the names of these tensors, and the literals that stay.
// Some exporters store all weights in Constant nodes. Where a file has floating point
// initializers too, a Constant node holds what the program had as a literal, and stays.
// Tensors named in learn become initializers anyway, and those named in freeze do not.
// facts says how an operator treats its inputs.
func Constants(m *onnx.Model, freeze, learn []string, facts func(op string) learnt.Facts) (out *onnx.Model, moved []string, left []Literal) {
	if !slices.ContainsFunc(m.Graph.Nodes, func(n *onnx.Node) bool { return literal(n) != nil }) {
		return m, nil, nil
	}
	s := newStorage(m.Graph)
	s.facts = facts
	// Find the literals of more than one number from which weights of layers are computed.
	var next, weights []string
	for _, n := range s.graph.Nodes {
		facts := s.facts(n.OpType)
		if n.OpType == "Gather" {
			facts = learnt.Facts{Roles: learnt.Multiplies, Bias: 1} // what follows the table
		}
		if !facts.Has(learnt.Multiplies) || !slices.ContainsFunc(n.Inputs, func(name string) bool { return s.dynamic[name] }) {
			continue
		}
		for i, name := range n.Inputs {
			if facts.Bias > 0 && i == facts.Bias {
				break
			}
			next = append(next, name)
		}
	}
	for seen := map[string]bool{}; len(next) > 0; {
		name := next[len(next)-1]
		next = next[:len(next)-1]
		if seen[name] || s.dynamic[name] {
			continue
		}
		seen[name] = true
		if t := s.literal[name]; t != nil && t.Len() > 1 {
			weights = append(weights, name)
		} else if n := s.producer[name]; n != nil {
			next = append(next, n.Inputs...)
		}
	}
	model, g := *m, *m.Graph
	model.Graph = &g
	g.Nodes, g.Initializers = nil, slices.Clone(m.Graph.Initializers)
	for _, n := range m.Graph.Nodes {
		var t *onnx.Tensor
		if len(n.Outputs) == 1 && s.producer[n.Outputs[0]] == n {
			t = s.literal[n.Outputs[0]]
		}
		if t == nil {
			g.Nodes = append(g.Nodes, n)
			continue
		}
		name := n.Outputs[0]
		weight := slices.Contains(weights, name)
		if slices.Contains(learn, name) || !s.mixed && len(weights) > 0 && !slices.Contains(freeze, name) && s.learnable(t, name) {
			moved, g.Initializers = append(moved, name), append(g.Initializers, t)
			continue
		}
		g.Nodes = append(g.Nodes, n)
		left = append(left, Literal{Name: name, Shape: Shape(t), Weight: weight && slices.ContainsFunc(t.Floats, func(v float64) bool { return v != 0 && v != 1 })})
	}
	if len(moved) == 0 {
		return m, nil, left
	}
	model.IRVersion = max(m.IRVersion, 4) // before, an initializer had to be an input too
	return &model, moved, left
}

// A storage says where a graph has its tensors.
type storage struct {
	graph    *onnx.Graph
	facts    func(op string) learnt.Facts
	mixed    bool                    // a node reads a floating point initializer of rank one or more
	literal  map[string]*onnx.Tensor // of Constant nodes, by name
	producer map[string]*onnx.Node
	dynamic  map[string]bool // values that depend on the input
}

func newStorage(g *onnx.Graph) *storage {
	s := &storage{graph: g, literal: map[string]*onnx.Tensor{}, producer: map[string]*onnx.Node{}, dynamic: map[string]bool{}}
	stored := map[string]bool{}
	for _, t := range g.Initializers {
		stored[t.Name] = true
	}
	consumers := map[string][]*onnx.Node{}
	for _, n := range g.Nodes {
		for _, name := range n.Inputs {
			consumers[name] = append(consumers[name], n)
		}
		for _, name := range n.Outputs {
			s.producer[name] = n
		}
		if t := literal(n); t != nil && !stored[n.Outputs[0]] {
			s.literal[n.Outputs[0]] = t
		}
	}
	for _, t := range g.Initializers {
		s.mixed = s.mixed || t.Type.IsFloat() && len(t.Dims) > 0 && len(consumers[t.Name]) > 0
	}
	var next []string
	for _, in := range g.Inputs {
		if !stored[in.Name] {
			next = append(next, in.Name)
		}
	}
	for len(next) > 0 {
		name := next[len(next)-1]
		next = next[:len(next)-1]
		if name == "" || s.dynamic[name] {
			continue
		}
		s.dynamic[name] = true
		for _, n := range consumers[name] {
			if n.OpType != "Shape" && n.OpType != "Size" {
				next = append(next, n.Outputs...)
			}
		}
	}
	return s
}

// Floats lists the names of the floating point tensors that a graph stores.
func Floats(g *onnx.Graph) (names []string) {
	for _, t := range g.Initializers {
		if t.Type.IsFloat() {
			names = append(names, t.Name)
		}
	}
	for _, n := range g.Nodes {
		if literal(n) != nil {
			names = append(names, n.Outputs[0])
		}
	}
	return names
}

// literal returns the floating point tensor that a Constant node holds, or nil.
func literal(n *onnx.Node) *onnx.Tensor {
	if n.OpType != "Constant" || n.Domain != "" && n.Domain != "ai.onnx" || len(n.Outputs) != 1 || n.Outputs[0] == "" || len(n.Attributes) != 1 {
		return nil
	}
	t := &onnx.Tensor{Type: onnx.Float}
	switch a := n.Attributes[0]; {
	case a.Name == "value" && a.T != nil && a.T.Type.IsFloat():
		*t = *a.T
	case a.Name == "value_float":
		t.Floats = []float64{float64(a.F)}
	case a.Name == "value_floats":
		t.Dims = []int64{int64(len(a.Floats))}
		for _, v := range a.Floats {
			t.Floats = append(t.Floats, float64(v))
		}
	default:
		return nil
	}
	t.Name = n.Outputs[0]
	return t
}

// learnable reports whether a literal may be a parameter: it is finite and holds several
// numbers, or is the weight, bias or scale of a layer of one.
func (s *storage) learnable(t *onnx.Tensor, name string) bool {
	if len(t.Dims) == 0 || slices.ContainsFunc(t.Floats, func(v float64) bool { return v-v != 0 }) {
		return false
	}
	if t.Len() > 1 {
		return true
	}
	for _, n := range s.graph.Nodes {
		for i, in := range n.Inputs {
			switch facts := s.facts(n.OpType); {
			case in != name:
			case facts.Has(learnt.Multiplies) && (i > 0 || facts.Bias == 0), facts.Has(learnt.Normalizes) && (i == 1 || i == 2):
				return true
			case n.OpType == "Add" && len(n.Inputs) == 2:
				if p := s.producer[n.Inputs[1-i]]; p != nil && (s.facts(p.OpType).Has(learnt.Multiplies) || p.OpType == "Gather") && s.dynamic[n.Inputs[1-i]] {
					return true
				}
			}
		}
	}
	return false
}
