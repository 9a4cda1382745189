package rewrite

import (
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// An Equal is a tensor that the exporter stored once together with others of the same numbers, and handed on by an
// Identity node.
type Equal struct {
	Name, Of string // the node's result, and the initializer
	Tied     bool   // both are one parameter, as asked
}

// equals makes tensors that come from one floating point initializer through Identity nodes initializers of their own,
// of the name of the node's result. PyTorch's exporter stores tensors of equal numbers once, such as biases that are zero
// and normalizations before training, and they were parameters of their own in the training.
//
// Nodes that read an initializer directly share it, and so do those that read the names in tie, which are results of
// Identity nodes or initializers. Where constant folding made only one of the two names, the tensors are a weight and
// its copy, as in Copies, unless they hold few different numbers. An initializer that serves only one Identity node
// stays as it is. Identity nodes of functions and of graphs inside nodes do not count.
func equals(m *onnx.Model, file *onnx.Graph, tie []string, number map[*onnx.Node]int) ([]Equal, error) {
	stored := map[string]*onnx.Tensor{}
	for _, t := range m.Graph.Initializers {
		if t.Type.IsFloat() {
			stored[t.Name] = t
		}
	}
	root := map[string]string{} // of each result of an Identity node, the initializer
	for _, n := range file.Nodes {
		if n.OpType != "Identity" || !n.Standard() || len(n.Inputs) != 1 || len(n.Outputs) != 1 {
			continue
		}
		from := n.Inputs[0]
		if at, ok := root[from]; ok {
			from = at
		}
		if stored[from] != nil && stored[n.Outputs[0]] == nil {
			root[n.Outputs[0]] = from
		}
	}
	if len(root) == 0 {
		_, err := Select("tie", tie, nil)
		return nil, err
	}
	passes := func(n *onnx.Node) bool { return len(n.Outputs) == 1 && root[n.Outputs[0]] != "" }
	read := map[string]bool{} // by other nodes, or as an output
	for _, n := range m.Graph.Nodes {
		if !passes(n) {
			for _, name := range Reads(n) {
				read[name] = true
			}
		}
	}
	for _, v := range m.Graph.Outputs {
		if root[v.Name] != "" {
			return nil, nil // of a graph that computes nothing from its input
		}
	}
	// List the results of Identity nodes that are read. The first takes the initializer if no other node reads it.
	var equal []Equal
	var names []string
	taken := map[string]bool{}
	for name := range stored {
		taken[name] = read[name]
	}
	for _, n := range m.Graph.Nodes {
		if !passes(n) || !read[n.Outputs[0]] {
			continue
		}
		name := n.Outputs[0]
		of := root[name]
		if !taken[of] {
			taken[of] = true
			continue
		}
		equal = append(equal, Equal{Name: name, Of: of})
		names = append(names, name, of)
	}
	chosen, err := Select("tie", tie, names)
	if err != nil || len(equal) == 0 {
		return nil, err
	}
	g := *m.Graph
	g.Nodes, g.Initializers = nil, slices.Clone(m.Graph.Initializers)
	own := map[string]bool{}
	for i := range equal {
		e := &equal[i]
		t := *stored[e.Of]
		e.Tied = slices.Contains(chosen, e.Name) || slices.Contains(chosen, e.Of) ||
			folded(e.Name) != folded(e.Of) && several(t.Floats)
		if e.Tied {
			continue
		}
		t.Name, own[e.Name] = e.Name, true
		g.Initializers = append(g.Initializers, &t)
	}
	// Of the others, the readers read the initializer itself.
	for _, n := range m.Graph.Nodes {
		if passes(n) && own[n.Outputs[0]] {
			continue
		}
		for i, name := range n.Inputs {
			if of := root[name]; of != "" && !own[name] {
				c := *n
				c.Inputs = slices.Clone(n.Inputs)
				c.Inputs[i] = of
				number[&c] = number[n]
				n = &c
			}
		}
		g.Nodes = append(g.Nodes, n)
	}
	m.Graph, m.IRVersion = &g, max(m.IRVersion, 4) // before, an initializer had to be an input too
	return equal, nil
}
