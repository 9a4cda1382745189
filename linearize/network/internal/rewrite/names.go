package rewrite

import (
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// A names holds the names of values.
type names struct {
	used map[string]bool
	next map[string]int // by the beginning of a name
}

// newNames holds the names of a graph and of the graphs inside its nodes.
func newNames(g *onnx.Graph) *names {
	n := &names{map[string]bool{}, map[string]int{}}
	n.addAll(g)
	return n
}

func (s *names) addAll(g *onnx.Graph) {
	s.add(g)
	for _, n := range g.Nodes {
		for _, a := range n.Attributes {
			if a.G != nil {
				s.addAll(a.G)
			}
			for _, inner := range a.Graphs {
				s.addAll(inner)
			}
		}
	}
}

// add adds the names of a graph alone.
func (s *names) add(g *onnx.Graph) {
	for _, name := range defined(g) {
		s.used[name] = true
	}
	for _, v := range g.Outputs {
		s.used[v.Name] = true
	}
	for _, n := range g.Nodes {
		for _, name := range n.Inputs {
			s.used[name] = true
		}
	}
}

// fresh returns a name that no value has, made of a prefix and a name.
func (s *names) fresh(prefix, name string) string {
	base := Brief(prefix, 120) + "/" + Brief(name, 120)
	full := base
	for s.used[full] {
		s.next[base]++
		full = fmt.Sprintf("%s_%d", base, s.next[base]+1)
	}
	s.used[full] = true
	return full
}

// Distinct returns a model whose nodes have names of their own, where they have one: onnxruntime reads no others. Nodes
// that take the place of another have its name at first. number, the place in the file of each node, gets those that
// are renamed.
func Distinct(m *onnx.Model, number map[*onnx.Node]int) *onnx.Model {
	model, g := *m, *m.Graph
	model.Graph = &g
	g.Nodes = slices.Clone(g.Nodes)
	all, seen := &names{map[string]bool{}, map[string]int{}}, map[string]bool{}
	for _, n := range g.Nodes {
		all.used[n.Name] = true
	}
	for i, n := range g.Nodes {
		if n.Name == "" || !seen[n.Name] {
			seen[n.Name] = true
			continue
		}
		own := *n
		own.Name = all.fresh(n.Name, FirstResult(n))
		if at, ok := number[n]; ok {
			number[&own] = at
		}
		g.Nodes[i] = &own
	}
	return &model
}

// holdsGraphs reports whether an attribute has graphs inside.
func holdsGraphs(a *onnx.Attribute) bool { return a.G != nil || len(a.Graphs) > 0 }

// Reads returns the names of the values outside that a node reads, also in the graphs inside it.
func Reads(n *onnx.Node) []string {
	list := n.Inputs[:len(n.Inputs):len(n.Inputs)]
	for _, a := range n.Attributes {
		graphs := a.Graphs
		if a.G != nil {
			graphs = append(graphs[:len(graphs):len(graphs)], a.G)
		}
		for _, g := range graphs {
			own, read := map[string]bool{"": true}, []string{}
			for _, name := range defined(g) {
				own[name] = true
			}
			for _, inner := range g.Nodes {
				read = append(read, Reads(inner)...)
			}
			for _, v := range g.Outputs {
				read = append(read, v.Name)
			}
			for _, name := range read {
				if !own[name] {
					list = append(list, name)
				}
			}
		}
	}
	return list
}

// eachGraph returns the attribute with its graphs changed.
func eachGraph(a *onnx.Attribute, change func(g *onnx.Graph) (*onnx.Graph, error)) (*onnx.Attribute, error) {
	own := *a
	var err error
	if a.G != nil {
		if own.G, err = change(a.G); err != nil {
			return nil, err
		}
	}
	own.Graphs = nil
	for _, g := range a.Graphs {
		c, err := change(g)
		if err != nil {
			return nil, err
		}
		own.Graphs = append(own.Graphs, c)
	}
	return &own, nil
}
