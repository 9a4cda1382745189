package rewrite

import (
	"fmt"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
)

// A scope copies the nodes of a function or of a graph inside a node to a place where
// their values have other names.
type scope struct {
	names    *names
	prefix   string            // of names
	value    map[string]string // name outside of each value inside; "" for an input that is not given
	outer    *scope            // in which the graph of this one is; nil for none
	captures bool              // values that are not inside are those of the same name outside

	// attribute returns what takes the place of an attribute that refers to one of a call,
	// and nil where it is left out.
	attribute func(ref *onnx.Attribute) *onnx.Attribute
	// spend takes the nodes and numbers of a copy from what there may be.
	spend func(nodes, numbers int) error
	// constants gets the stored tensors and Constant nodes of graphs, which then do not have them; nil for no change.
	constants func(t *onnx.Tensor, n *onnx.Node)
}

// name returns the name outside of a value.
func (s *scope) name(inside string) (string, error) {
	if inside == "" {
		return "", nil
	}
	for at := s; ; at = at.outer {
		if to, ok := at.value[inside]; ok {
			return to, nil
		}
		if at.outer == nil {
			break
		}
	}
	if s.captures {
		return inside, nil
	}
	return "", fmt.Errorf("it reads %s, which is no input of the function and no result of its nodes", Quote(inside))
}

// rename returns the names outside of values. Trailing ones that are not given are left
// out.
func (s *scope) rename(list []string) (out []string, err error) {
	for _, name := range list {
		to, err := s.name(name)
		if err != nil {
			return nil, err
		}
		out = append(out, to)
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out, nil
}

// node copies a node.
func (s *scope) node(n *onnx.Node) (*onnx.Node, error) {
	if err := s.spend(1, 0); err != nil {
		return nil, err
	}
	own := &onnx.Node{Name: Brief(strings.Trim(s.prefix+"/"+n.Name, "/"), 200), OpType: n.OpType, Domain: n.Domain, Overload: n.Overload, Unknown: n.Unknown}
	var err error
	if own.Inputs, err = s.rename(n.Inputs); err != nil {
		return nil, err
	}
	if own.Outputs, err = s.rename(n.Outputs); err != nil {
		return nil, err
	}
	for _, a := range n.Attributes {
		switch {
		case a.Ref != "" && s.attribute != nil:
			if a = s.attribute(a); a == nil {
				continue
			}
		case holdsGraphs(a):
			if a, err = eachGraph(a, s.graph); err != nil {
				return nil, err
			}
		}
		if a.T != nil {
			if err := s.spend(0, a.T.Len()); err != nil {
				return nil, err
			}
		}
		own.Attributes = append(own.Attributes, a)
	}
	return own, nil
}

// graph copies a graph inside a node.
func (s *scope) graph(g *onnx.Graph) (*onnx.Graph, error) {
	inner := *s
	inner.value, inner.outer = map[string]string{}, s
	for _, name := range defined(g) {
		if s.constants != nil && !s.names.used[name] { // those that stay in the graph get other names with each copy
			s.names.used[name], inner.value[name] = true, name
			continue
		}
		inner.value[name] = s.names.fresh(s.prefix, name)
	}
	own := &onnx.Graph{Name: g.Name, Unknown: g.Unknown}
	for _, t := range g.Initializers {
		c, err := inner.initializer(t)
		if err != nil {
			return nil, err
		}
		if s.constants != nil {
			s.constants(c, nil)
		} else {
			own.Initializers = append(own.Initializers, c)
		}
	}
	for _, n := range g.Nodes {
		c, err := inner.node(n)
		if err != nil {
			return nil, err
		}
		if s.constants != nil && n.OpType == "Constant" && n.Standard() {
			s.constants(nil, c)
		} else {
			own.Nodes = append(own.Nodes, c)
		}
	}
	for _, list := range []struct{ from, to *[]*onnx.ValueInfo }{{&g.Inputs, &own.Inputs}, {&g.Outputs, &own.Outputs}} {
		for _, v := range *list.from {
			c := *v
			var err error
			if c.Name, err = inner.name(v.Name); err != nil {
				return nil, err
			}
			*list.to = append(*list.to, &c)
		}
	}
	return own, nil
}

// initializer copies a tensor, whose elements stay where they are.
func (s *scope) initializer(t *onnx.Tensor) (*onnx.Tensor, error) {
	c := *t
	c.Name = s.value[t.Name]
	return &c, s.spend(0, t.Len())
}

// defined lists the values that a graph itself has.
func defined(g *onnx.Graph) (list []string) {
	for _, v := range g.Inputs {
		list = append(list, v.Name)
	}
	for _, t := range g.Initializers {
		list = append(list, t.Name)
	}
	return append(list, results(g.Nodes)...)
}

// results lists the values that nodes compute.
func results(nodes []*onnx.Node) (list []string) {
	for _, n := range nodes {
		for _, name := range n.Outputs {
			if name != "" {
				list = append(list, name)
			}
		}
	}
	return list
}

// A passed is an output of a function or graph that is no result of its nodes, or a
// second one of the same result.
type passed struct{ from, to string }

// outputs gives results of nodes that are outputs the names that these have outside, and
// returns the other outputs. There are at least as many inside as outside.
func (s *scope) outputs(made, inside, outside []string) (others []passed) {
	own := map[string]bool{}
	for _, name := range made {
		own[name] = true
	}
	for i, name := range outside {
		if name == "" {
			continue
		}
		if _, taken := s.value[inside[i]]; taken || !own[inside[i]] {
			others = append(others, passed{inside[i], name})
		} else {
			s.value[inside[i]] = name
		}
	}
	return others
}

// copies returns nodes that pass values on as outputs.
func (s *scope) copies(list []passed) ([]*onnx.Node, error) {
	var nodes []*onnx.Node
	for _, p := range list {
		from, err := s.name(p.from)
		if err == nil && from == "" {
			err = fmt.Errorf("its output %s is an input that is not given", Quote(p.from))
		}
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, &onnx.Node{Name: s.prefix, OpType: "Identity", Inputs: []string{from}, Outputs: []string{p.to}})
	}
	return nodes, nil
}
