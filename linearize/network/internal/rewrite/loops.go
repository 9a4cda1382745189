package rewrite

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/funcgp/funcgp/internal/onnx"
)

// A loop is what is known of a node Loop or Scan of which turns were written out.
type loop struct {
	body    *onnx.Graph // without constants
	turn    int64       // the number of the next turn
	scanned [][]string  // by output of the body that is collected, its values
}

// LoopBody returns the graph that a node Loop or Scan repeats, with how many values it passes from turn to turn, and
// of how many inputs a Scan reads an element at each turn.
func LoopBody(n *onnx.Node) (body *onnx.Graph, passed, elements int, err error) {
	a := n.Attr("body")
	if a == nil || a.G == nil {
		return nil, 0, 0, fmt.Errorf("it has no body; export the model again")
	}
	extra := 2 // the number of the turn and the condition
	passed = len(n.Inputs) - extra
	if n.OpType == "Scan" {
		extra = 0
		if a := n.Attr("num_scan_inputs"); a != nil {
			elements = int(a.I)
		}
		passed = len(n.Inputs) - elements
	}
	first := passed + min(extra, 1) // of the outputs that are collected
	if passed < 0 || elements < 0 || n.OpType == "Scan" && elements == 0 || len(a.G.Inputs) != extra+passed+elements ||
		len(a.G.Outputs) < first || len(n.Outputs) > len(a.G.Outputs)-min(extra, 1) {
		return nil, 0, 0, fmt.Errorf("its body of %d inputs and %d outputs does not fit its %d inputs and %d outputs; export the model again",
			len(a.G.Inputs), len(a.G.Outputs), len(n.Inputs), len(n.Outputs))
	}
	return a.G, passed, elements, nil
}

// unroll returns the nodes of turns of a Loop or Scan, and then a node for the turns that are left.
func (b *brancher) unroll(n *onnx.Node, c Condition) ([]*onnx.Node, error) {
	body, passed, _, err := LoopBody(n)
	if err != nil {
		return nil, err
	}
	var list []*onnx.Node
	l := b.loops[n]
	if l == nil {
		// Put the constants of the body, which all turns share, before the turns.
		s := &scope{names: b.names, prefix: n.Name, captures: true, spend: b.spend, constants: func(t *onnx.Tensor, n *onnx.Node) {
			if t != nil {
				b.graph.Initializers = append(b.graph.Initializers, t)
			} else {
				list = append(list, n)
			}
		}}
		if body, err = s.graph(body); err != nil {
			return nil, err
		}
		l = &loop{body: body, scanned: make([][]string, len(body.Outputs)-passed)}
	} else {
		body = l.body
	}
	isLoop := n.OpType == "Loop"
	number := func(v int64) string {
		t := &onnx.Tensor{Name: b.names.fresh(n.Name, "turn"), Type: onnx.Int64, Ints: []int64{v}}
		b.graph.Initializers = append(b.graph.Initializers, t)
		return t.Name
	}
	own := *n
	own.Inputs = slices.Clone(n.Inputs)
	values := own.Inputs[:passed] // that are passed on
	if isLoop {
		values = own.Inputs[2:]
		if own.Inputs[1] == "" {
			t := &onnx.Tensor{Name: b.names.fresh(n.Name, "true"), Type: onnx.Bool, Ints: []int64{1}}
			b.graph.Initializers = append(b.graph.Initializers, t)
			own.Inputs[1] = t.Name
		}
	}
	for t := range int64(c.Turns) {
		s := &scope{names: b.names, prefix: Brief(n.Name, 100) + "/" + strconv.FormatInt(l.turn, 10), value: map[string]string{}, captures: true, spend: b.spend}
		inside := body.Inputs
		if isLoop {
			s.value[inside[0].Name], s.value[inside[1].Name] = number(l.turn), own.Inputs[1]
			inside = inside[2:]
		}
		for i, v := range inside {
			if i < passed {
				s.value[v.Name] = values[i]
				continue
			}
			// An element of what a Scan reads.
			k, at := i-passed, t
			if attrOf(n, "scan_input_directions", k) == 1 {
				at = int64(c.Turns) - 1 - t
			}
			e := &onnx.Node{Name: s.prefix, OpType: "Gather", Inputs: []string{n.Inputs[i], number(at)}, Outputs: []string{b.names.fresh(s.prefix, v.Name)},
				Attributes: []*onnx.Attribute{{Name: "axis", Type: onnx.AttrInt, I: attrOf(n, "scan_input_axes", k)}}}
			s.value[v.Name] = e.Outputs[0]
			list = append(list, e)
		}
		for _, name := range results(body.Nodes) {
			s.value[name] = b.names.fresh(s.prefix, name)
		}
		for _, inner := range body.Nodes {
			node, err := s.node(inner)
			if err != nil {
				return nil, err
			}
			list = append(list, node)
		}
		var out []string
		for _, v := range body.Outputs {
			name, err := s.name(v.Name)
			if err != nil {
				return nil, err
			}
			out = append(out, name)
		}
		if isLoop {
			own.Inputs[1], out = out[0], out[1:]
		}
		copy(values, out)
		for k, name := range out[passed:] {
			if l.scanned[k] = append(l.scanned[k], name); !isLoop && attrOf(n, "scan_output_directions", k) == 1 {
				l.scanned[k] = slices.Insert(l.scanned[k][:len(l.scanned[k])-1], 0, name)
			}
		}
		l.turn++
	}
	if !c.Last {
		b.loops[&own] = l
		own.Inputs[0] = number(c.Left)
		return append(list, &own), nil
	}
	for i, result := range n.Outputs {
		switch {
		case result == "":
		case i < passed:
			list = append(list, &onnx.Node{Name: n.Name, OpType: "Identity", Inputs: []string{values[i]}, Outputs: []string{result}})
		default:
			axis := int64(0)
			if !isLoop {
				axis = attrOf(n, "scan_output_axes", i-passed)
			}
			all := &onnx.Node{Name: n.Name, OpType: "SequenceConstruct", Inputs: l.scanned[i-passed], Outputs: []string{b.names.fresh(n.Name, "all")}}
			list = append(list, all, &onnx.Node{Name: n.Name, OpType: "ConcatFromSequence", Inputs: all.Outputs, Outputs: []string{result},
				Attributes: []*onnx.Attribute{{Name: "axis", Type: onnx.AttrInt, I: axis}, {Name: "new_axis", Type: onnx.AttrInt, I: 1}}})
		}
	}
	return list, nil
}

// attrOf returns entry k of a list of integers, 0 where the node does not have the attribute.
func attrOf(n *onnx.Node, name string, k int) int64 {
	if a := n.Attr(name); a != nil && k < len(a.Ints) {
		return a.Ints[k]
	}
	return 0
}
