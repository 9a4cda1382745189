package rewrite

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// What the functions of a file may grow to when their bodies take the place of calls.
const (
	mostNodes   = 100_000 // and as many as the file has
	mostNumbers = 1 << 22 // in the tensors of nodes, and as many as the file has in its nodes
	mostCalls   = 100     // inside one another
)

// An inliner puts the bodies of functions in the place of the nodes that call them.
type inliner struct {
	functions map[operator]*onnx.Function
	names     *names
	calls     []operator // those inside which it is
	nodes     int        // left of what the result may have
	numbers   int
}

// An operator is what a node applies.
type operator struct{ domain, name, overload string }

func operatorOf(n *onnx.Node) operator {
	return operator{domain(n.Domain), n.OpType, n.Overload}
}

// domain returns "" for both names of ONNX's own domain.
func domain(name string) string {
	if name == "ai.onnx" {
		return ""
	}
	return name
}

// inline returns a graph without calls of functions of the model, and the operator sets
// that it needs. number holds the number in the file of each node.
func inline(m *onnx.Model, number map[*onnx.Node]int) (*onnx.Graph, []onnx.Opset, error) {
	s := &inliner{functions: map[operator]*onnx.Function{}, names: newNames(m.Graph), nodes: mostNodes, numbers: mostNumbers}
	for _, fn := range m.Functions {
		key := operator{domain(fn.Domain), fn.Name, fn.Overload}
		if s.functions[key] != nil {
			return nil, nil, fmt.Errorf("function %s is defined twice; export the model again", Quote(fn.Name))
		}
		s.functions[key] = fn
	}
	// Find the operator sets of the model and of its functions. The same operator in two versions of
	// ONNX's own set is an error, because the graph has only one.
	opsets := slices.Clone(m.OpsetImport)
	version := map[string]int64{}
	for _, o := range opsets {
		version[domain(o.Domain)] = max(version[domain(o.Domain)], o.Version)
	}
	for _, fn := range m.Functions {
		for _, o := range fn.OpsetImport {
			d := domain(o.Domain)
			switch have, ok := version[d]; {
			case !ok:
				version[d] = o.Version
				opsets = append(opsets, o)
			case d == "" && have != o.Version:
				return nil, nil, fmt.Errorf("function %s is written for opset %d, and the model for %d; export all of it with one opset", Quote(fn.Name), o.Version, have)
			}
		}
	}
	g := *m.Graph
	g.Nodes = nil
	for i, n := range m.Graph.Nodes {
		body, err := s.expand(n)
		if err != nil {
			return nil, nil, fmt.Errorf("node %d %s: %w", i, Quote(n.Name), err)
		}
		for _, b := range body {
			number[b] = i
		}
		g.Nodes = append(g.Nodes, body...)
	}
	return &g, opsets, nil
}

// expand returns the nodes that take the place of n: itself, unless it calls a function.
// Graphs in its attributes are expanded too.
func (s *inliner) expand(n *onnx.Node) ([]*onnx.Node, error) {
	if fn := s.functions[operatorOf(n)]; fn != nil {
		// Put the body of a function, with the values and attributes of the call, in its place.
		call := n
		key := operatorOf(call)
		switch {
		case slices.Contains(s.calls, key):
			return nil, fmt.Errorf("function %s calls itself; such models are not read, export the model without local functions", Quote(fn.Name))
		case len(s.calls) == mostCalls:
			return nil, fmt.Errorf("more than %d functions inside one another; export the model without local functions", mostCalls)
		case len(call.Inputs) > len(fn.Inputs):
			return nil, fmt.Errorf("it gives %d inputs to function %s, which takes %d", len(call.Inputs), Quote(fn.Name), len(fn.Inputs))
		case len(call.Outputs) > len(fn.Outputs):
			return nil, fmt.Errorf("it takes %d outputs of function %s, which has %d", len(call.Outputs), Quote(fn.Name), len(fn.Outputs))
		}
		s.calls = append(s.calls, key)
		defer func() { s.calls = s.calls[:len(s.calls)-1] }()

		b := &scope{names: s.names, prefix: call.Name, value: map[string]string{}, spend: s.spend,
			attribute: func(ref *onnx.Attribute) *onnx.Attribute {
				// Find the attribute of the call that an attribute of a node refers to, or its default, and nil if there is
				// neither.
				a := call.Attr(ref.Ref)
				if a == nil {
					i := slices.IndexFunc(fn.Defaults, func(a *onnx.Attribute) bool { return a.Name == ref.Ref })
					if i < 0 {
						return nil
					}
					a = fn.Defaults[i]
				}
				own := *a
				own.Name = ref.Name
				return &own
			}}
		if b.prefix == "" {
			b.prefix = fn.Name
		}
		for i, name := range fn.Inputs {
			if _, twice := b.value[name]; twice || name == "" {
				return nil, fmt.Errorf("function %s has two inputs %s, or one without a name", Quote(fn.Name), Quote(name))
			}
			b.value[name] = ""
			if i < len(call.Inputs) {
				b.value[name] = call.Inputs[i]
			}
		}
		made := results(fn.Nodes)
		others := b.outputs(made, fn.Outputs, call.Outputs)
		for _, name := range made {
			if _, known := b.value[name]; !known {
				b.value[name] = s.names.fresh(b.prefix, name)
			}
		}
		var list []*onnx.Node
		for i, n := range fn.Nodes {
			own, err := b.node(n)
			var inner []*onnx.Node
			if err == nil {
				inner, err = s.expand(own)
			}
			if inner := (*bodyError)(nil); err != nil && !errors.As(err, &inner) {
				err = &bodyError{fmt.Errorf("function %s, node %d %s: %w", Quote(fn.Name), i, Quote(n.Name), err)}
			}
			if err != nil {
				return nil, err
			}
			list = append(list, inner...)
		}
		copies, err := b.copies(others)
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", Quote(fn.Name), err)
		}
		return append(list, copies...), nil
	}
	if i := slices.IndexFunc(n.Attributes, func(a *onnx.Attribute) bool { return a.Ref != "" }); i >= 0 {
		return nil, fmt.Errorf("its attribute %s refers to one of a function, but it is in none", Quote(n.Attributes[i].Name))
	}
	if !slices.ContainsFunc(n.Attributes, holdsGraphs) {
		return []*onnx.Node{n}, nil
	}
	own := *n
	own.Attributes = slices.Clone(n.Attributes)
	for i, a := range own.Attributes {
		if !holdsGraphs(a) {
			continue
		}
		b, err := eachGraph(a, func(g *onnx.Graph) (*onnx.Graph, error) {
			own := *g
			own.Nodes = nil
			for _, n := range g.Nodes {
				body, err := s.expand(n)
				if err != nil {
					return nil, err
				}
				own.Nodes = append(own.Nodes, body...)
			}
			return &own, nil
		})
		if err != nil {
			return nil, fmt.Errorf("in its %s: %w", Quote(a.Name), err)
		}
		own.Attributes[i] = b
	}
	return []*onnx.Node{&own}, nil
}

// A bodyError names the function that it is in, the innermost one.
type bodyError struct{ error }

// spend takes nodes and numbers from what the result may have.
func (s *inliner) spend(nodes, numbers int) error {
	s.nodes, s.numbers = s.nodes-nodes, s.numbers-numbers
	if s.nodes < 0 || s.numbers < 0 {
		return fmt.Errorf("with the bodies of functions in the place of calls there are more than %d nodes or %d numbers in them; export the model without local functions", mostNodes, mostNumbers)
	}
	return nil
}
