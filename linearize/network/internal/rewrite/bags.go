package rewrite

import (
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// bags replaces each Loop by which PyTorch exports an nn.EmbeddingBag of ids N×T, one
// turn an example, by a Gather of all rows and a reduction over the T positions.
func bags(g *onnx.Graph, number map[*onnx.Node]int) *onnx.Graph {
	if !slices.ContainsFunc(g.Nodes, func(n *onnx.Node) bool { return n.OpType == "Loop" }) {
		return g
	}
	p, all := newProducers(g), newNames(g)
	own := *g
	own.Nodes = nil
	for i, n := range g.Nodes {
		b := p.bag(n)
		if b == nil {
			own.Nodes = append(own.Nodes, n)
			continue
		}
		rows := all.fresh(n.Outputs[0], "rows")
		reduce := &onnx.Node{Name: n.Name, OpType: b.reduce.OpType, Inputs: []string{rows}, Outputs: n.Outputs[:1]}
		for _, a := range b.reduce.Attributes {
			if a.Name == "axes" {
				a = &onnx.Attribute{Name: "axes", Type: onnx.AttrInts, Ints: []int64{1}}
			}
			reduce.Attributes = append(reduce.Attributes, a)
		}
		if len(b.reduce.Inputs) > 1 {
			axes := &onnx.Tensor{Name: all.fresh(n.Outputs[0], "axes"), Type: onnx.Int64, Dims: []int64{1}, Ints: []int64{1}}
			own.Initializers = append(slices.Clone(own.Initializers), axes)
			reduce.Inputs = append(reduce.Inputs, axes.Name)
		}
		gather := &onnx.Node{Name: n.Name, OpType: "Gather", Inputs: []string{b.table, b.ids}, Outputs: []string{rows}}
		own.Nodes = append(own.Nodes, gather, reduce)
		at, ok := number[n]
		if !ok {
			at = i
		}
		number[gather], number[reduce] = at, at
	}
	return &own
}

// A bag is an nn.EmbeddingBag with ids N×T.
type bag struct {
	table, ids string
	reduce     *onnx.Node // over the positions, axis 0 of what a turn of the Loop reads
}

// producers holds the nodes of a graph by their results, its constants and its inputs.
type producers struct {
	node   map[string]*onnx.Node
	tensor map[string]*onnx.Tensor
	input  map[string]*onnx.ValueInfo
}

func newProducers(g *onnx.Graph) *producers {
	p := &producers{map[string]*onnx.Node{}, map[string]*onnx.Tensor{}, map[string]*onnx.ValueInfo{}}
	// Add the nodes and tensors of a graph.
	for _, t := range g.Initializers {
		p.tensor[t.Name] = t
	}
	for _, n := range g.Nodes {
		for _, name := range n.Outputs {
			p.node[name] = n
		}
		if a := n.Attr("value"); n.OpType == "Constant" && a != nil && a.T != nil && len(n.Outputs) == 1 {
			p.tensor[n.Outputs[0]] = a.T
		}
	}
	for _, v := range g.Inputs {
		p.input[v.Name] = v
	}
	return p
}

// made returns the node that computes a value, if it is of the kind and has at least the
// given number of inputs, otherwise nil.
func (p *producers) made(name, kind string, inputs int) *onnx.Node {
	n := p.node[name]
	if n == nil || n.OpType != kind || n.Domain != "" && n.Domain != "ai.onnx" || len(n.Inputs) < inputs {
		return nil
	}
	return n
}

// constant reports whether a value is these integers.
func (p *producers) constant(name string, want ...int64) bool {
	t := p.tensor[name]
	return t != nil && slices.Equal(t.Ints, want)
}

// list reports whether an attribute, or from some opset on an input, is these integers.
func (p *producers) list(n *onnx.Node, attribute string, input int, want ...int64) bool {
	if a := n.Attr(attribute); a != nil {
		return slices.Equal(a.Ints, want)
	}
	return input < len(n.Inputs) && p.constant(n.Inputs[input], want...)
}

// first reports whether a Gather is along axis 0.
func first(n *onnx.Node) bool {
	a := n.Attr("axis")
	return a == nil || a.I == 0
}

// bag returns the nn.EmbeddingBag that a node is, or nil.
func (p *producers) bag(n *onnx.Node) *bag {
	a := n.Attr("body")
	if n.OpType != "Loop" || len(n.Inputs) != 2 || len(n.Outputs) != 1 || a == nil || a.G == nil || len(a.G.Inputs) != 2 || len(a.G.Outputs) != 2 {
		return nil
	}
	body, turn := newProducers(a.G), a.G.Inputs[0].Name
	for name, t := range p.tensor {
		if body.tensor[name] == nil {
			body.tensor[name] = t
		}
	}
	reduce := body.node[a.G.Outputs[1].Name]
	if reduce == nil || !slices.Contains([]string{"ReduceSum", "ReduceMean", "ReduceMax"}, reduce.OpType) || len(reduce.Inputs) == 0 || !body.list(reduce, "axes", 1, 0) {
		return nil
	}
	if keep := reduce.Attr("keepdims"); keep == nil || keep.I != 0 {
		return nil
	}
	// The rows that a turn reads: those of ids[starts[turn]:ends[turn]].
	read := body.made(reduce.Inputs[0], "Gather", 2)
	if read == nil || !first(read) {
		return nil
	}
	part := body.made(read.Inputs[1], "Slice", 4)
	if part == nil || !body.constant(part.Inputs[3], 0) || len(part.Inputs) > 4 && !body.constant(part.Inputs[4], 1) {
		return nil
	}
	starts, ends := body.element(part.Inputs[1], turn), body.element(part.Inputs[2], turn)
	flat := p.made(part.Inputs[0], "Reshape", 2)
	if starts == "" || ends == "" || flat == nil || !p.constant(flat.Inputs[1], -1) {
		return nil
	}
	b := &bag{table: read.Inputs[0], ids: flat.Inputs[0], reduce: reduce}
	if !p.consecutive(starts, ends, b.ids, part.Inputs[0]) || !p.dimension(n.Inputs[0], 0, ends) || !p.constant(n.Inputs[1], 1) {
		return nil
	}
	return b
}

// element returns the name of the vector of which a value is the element at the turn, as
// a vector of one, or "".
func (p *producers) element(name, turn string) string {
	if n := p.made(name, "Unsqueeze", 1); n != nil && p.list(n, "axes", 1, 0) {
		if at := p.made(n.Inputs[0], "Gather", 2); at != nil && first(at) && at.Inputs[1] == turn {
			return at.Inputs[0]
		}
	}
	return ""
}

// dimension reports whether a value is a dimension of another.
func (p *producers) dimension(name string, axis int64, of string) bool {
	n := p.made(name, "Gather", 2)
	if n == nil || !p.constant(n.Inputs[1], axis) {
		return false
	}
	shape := p.made(n.Inputs[0], "Shape", 1)
	return shape != nil && shape.Inputs[0] == of
}

// consecutive reports whether the starts and ends are those of the rows of the matrix
// ids in the vector flat: the ends are the starts but the first, and the length.
func (p *producers) consecutive(starts, ends, ids, flat string) bool {
	cut := p.made(ends, "Slice", 3)
	if cut == nil || cut.Inputs[0] != starts || !p.constant(cut.Inputs[1], 1) {
		return false
	}
	// The Slice goes to the end of axis 0, by one.
	end := p.tensor[cut.Inputs[2]]
	if end == nil || len(end.Ints) != 1 || end.Ints[0] < 1<<31-1 ||
		len(cut.Inputs) > 3 && !p.constant(cut.Inputs[3], 0) || len(cut.Inputs) > 4 && !p.constant(cut.Inputs[4], 1) {
		return false
	}
	all := p.made(starts, "Concat", 2)
	if all == nil || len(all.Inputs) != 2 {
		return false
	}
	last := p.made(all.Inputs[1], "Unsqueeze", 1)
	if last == nil || !p.dimension(last.Inputs[0], 0, flat) {
		return false
	}
	if t := p.tensor[all.Inputs[0]]; t != nil {
		in := p.input[ids]
		if in == nil || len(in.Dims) != 2 || in.Dims[0].Value != int64(len(t.Ints)) {
			return false
		}
		for i, at := range t.Ints {
			if at != int64(i)*in.Dims[1].Value {
				return false
			}
		}
		return true
	}
	r := p.made(all.Inputs[0], "Range", 3)
	if r == nil || !p.constant(r.Inputs[0], 0) {
		return false
	}
	// The starts go up to the number of ids, by the width of a row.
	size, width := p.uncast(r.Inputs[1]), p.uncast(r.Inputs[2])
	of := p.made(size, "Size", 1)
	if product := p.made(size, "ReduceProd", 1); product != nil {
		of = p.made(product.Inputs[0], "Shape", 1)
	}
	return of != nil && of.Inputs[0] == ids && p.dimension(width, 1, ids)
}

// uncast steps back over a Cast.
func (p *producers) uncast(name string) string {
	if n := p.made(name, "Cast", 1); n != nil {
		return n.Inputs[0]
	}
	return name
}
