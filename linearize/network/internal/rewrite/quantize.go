package rewrite

import (
	"fmt"
	"maps"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// Dequantized returns the model with the tensors named in learn that are stored as
// integers stored as numbers, (q − z)·s, where only nodes DequantizeLinear read them.
func (m *Rewritten) Dequantized(learn []string) (*Rewritten, error) {
	g := m.Model.Graph
	if g == nil {
		return m, nil
	}
	inits := map[string]*onnx.Tensor{}
	for _, t := range g.Initializers {
		inits[t.Name] = t
	}
	names := slices.DeleteFunc(slices.Clone(learn), func(name string) bool { return inits[name] == nil || !inits[name].Type.IsInt() })
	if len(names) == 0 {
		return m, nil
	}
	out := &Rewritten{Model: new(*m.Model), Number: maps.Clone(m.Number), Taken: m.Taken}
	out.Model.Graph = new(*g)
	out.Model.Graph.Initializers, out.Model.Graph.Nodes = slices.Clone(g.Initializers), slices.Clone(g.Nodes)
	for _, name := range names {
		var numbers *onnx.Tensor
		for i, n := range out.Model.Graph.Nodes {
			if !slices.Contains(n.Inputs, name) {
				continue
			}
			if !n.Standard() || n.OpType != "DequantizeLinear" || slices.Index(n.Inputs, name) != 0 || numbers != nil {
				return nil, fmt.Errorf("cannot learn %s: it is stored as integers, and not only one DequantizeLinear reads it", Quote(name))
			}
			var err error
			if numbers, err = dequantized(n, inits); err != nil {
				return nil, fmt.Errorf("cannot learn %s: %w", Quote(name), err)
			}
			same := &onnx.Node{Name: n.Name, OpType: "Identity", Inputs: []string{name}, Outputs: n.Outputs}
			out.Model.Graph.Nodes[i], out.Number[same] = same, m.Number[n]
		}
		if numbers == nil {
			return nil, fmt.Errorf("cannot learn %s: it is stored as integers, and no DequantizeLinear reads it", Quote(name))
		}
		out.Model.Graph.Initializers[slices.Index(g.Initializers, inits[name])] = numbers
	}
	return out, nil
}

// dequantized returns what a node DequantizeLinear makes of stored integers.
func dequantized(n *onnx.Node, inits map[string]*onnx.Tensor) (*onnx.Tensor, error) {
	stored := make([]*onnx.Tensor, 3)
	for i, name := range n.Inputs[:min(len(n.Inputs), 3)] {
		if stored[i] = inits[name]; stored[i] == nil && name != "" {
			return nil, fmt.Errorf("its scale or zero point %s is not stored in the file", Quote(name))
		}
	}
	q, scale, zero := stored[0], stored[1], stored[2]
	if scale == nil || !scale.Type.IsFloat() || scale.Len() == 0 {
		return nil, fmt.Errorf("it has no scale")
	}
	if a := n.Attr("block_size"); a != nil && a.I != 0 {
		return nil, fmt.Errorf("it has a scale for each block of numbers")
	}
	inner := q.Len()
	if channels := scale.Len(); channels > 1 {
		axis := int64(1)
		if a := n.Attr("axis"); a != nil {
			axis = a.I
		}
		if axis < 0 {
			axis += int64(len(q.Dims))
		}
		if axis < 0 || axis >= int64(len(q.Dims)) || q.Dims[axis] != int64(channels) {
			return nil, fmt.Errorf("it has %d scales for a shape %v", channels, q.Dims)
		}
		inner = 1
		for _, d := range q.Dims[axis+1:] {
			inner *= int(d)
		}
	}
	if zero != nil && (!zero.Type.IsInt() || zero.Len() != scale.Len()) || q.Len() != len(q.Ints) || inner == 0 {
		return nil, fmt.Errorf("its zero points do not fit its scales")
	}
	out := &onnx.Tensor{Name: q.Name, Dims: q.Dims, Type: scale.Type, Floats: make([]float64, len(q.Ints))}
	for i, k := range q.Ints {
		ch := i / inner % scale.Len()
		if zero != nil {
			k -= zero.Ints[ch]
		}
		out.Floats[i] = float64(k) * scale.Floats[ch]
	}
	return out, nil
}
