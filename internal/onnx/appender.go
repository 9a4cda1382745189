package onnx

import (
	"fmt"
	"slices"
)

// An Appender adds nodes to a copy of a graph, under names that nothing in it has.
type Appender struct {
	Graph  *Graph
	prefix string
	used   map[string]bool
}

// NewAppender returns an Appender for a copy of a graph. Names begin with the prefix.
func NewAppender(g *Graph, prefix string) *Appender {
	own := *g
	own.Nodes = slices.Clone(g.Nodes)
	a := &Appender{Graph: &own, prefix: prefix, used: map[string]bool{}}
	for _, n := range g.Nodes {
		for _, name := range n.Outputs {
			a.used[name] = true
		}
	}
	for _, t := range g.Initializers {
		a.used[t.Name] = true
	}
	for _, in := range g.Inputs {
		a.used[in.Name] = true
	}
	return a
}

// Add appends a node, with an attribute if it is not nil, and returns the name of its
// result.
func (a *Appender) Add(op string, attr *Attribute, in ...string) string {
	name := ""
	for k := 0; name == "" || a.used[name]; k++ {
		name = fmt.Sprintf("%s_%d_%s", a.prefix, k, op)
	}
	a.used[name] = true
	n := &Node{Name: name, OpType: op, Inputs: in, Outputs: []string{name}}
	if attr != nil {
		n.Attributes = []*Attribute{attr}
	}
	a.Graph.Nodes = append(a.Graph.Nodes, n)
	return name
}

// Constant appends a node that is a tensor, and returns the name of its result.
func (a *Appender) Constant(t *Tensor) string {
	return a.Add("Constant", &Attribute{Name: "value", Type: AttrTensor, T: t})
}
