package network

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/head"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// Bottleneck returns the name of the smallest tensor through which the outputs depend on
// the input, other than the outputs; of equal ones the first, and "" if there is none. In an
// autoencoder it is the code.
func (n *Network) Bottleneck() string {
	slot := -1
	for _, s := range n.prog.Segments() { // from the output down
		if s.Lower < 0 || n.value(s.Lower) == "" || slot >= 0 && n.prog.Slots[s.Lower].Size > n.prog.Slots[slot].Size {
			continue
		}
		if _, all := n.after(s.Lower); all {
			slot = s.Lower
		}
	}
	if slot < 0 {
		return ""
	}
	return n.value(slot)
}

// value returns the name of the first tensor in a slot, "" for none.
func (n *Network) value(slot int) string {
	if i := slices.IndexFunc(n.prog.Values, func(v graph.Value) bool { return v.Slot == slot }); i >= 0 {
		return n.prog.Values[i].Name
	}
	return ""
}

// slotOf returns the slot of a tensor, which is given by its own name or by that of the node that
// computes it.
func (n *Network) slotOf(tensor string) (int, error) {
	var names []string
	for _, v := range n.prog.Values {
		if v.Name == tensor || v.Node == tensor && tensor != "" {
			return v.Slot, nil
		}
		names = append(names, v.Name)
	}
	const most = 12
	if len(names) > most {
		names = append(names[:most], "…")
	}
	return 0, fmt.Errorf("network: no node or tensor between input and output is named %s; there are %s", quote(tensor), strings.Join(names, ", "))
}

// WithCode returns the network whose outputs are the size elements of a tensor between input and
// output, followed by the C outputs of n. The tensor is given by its own name or by that of the
// node that computes it. The parameters are those of n, and WriteONNX writes n.
func (n *Network) WithCode(tensor string) (m *Network, size int, err error) {
	slot, err := n.slotOf(tensor)
	if err != nil {
		return nil, 0, err
	}
	if !n.prog.Slots[slot].NeedsGrad {
		return nil, 0, fmt.Errorf("network: the tensor %s depends on no parameter; name one after the first layer", quote(tensor))
	}
	size = n.prog.Slots[slot].Size
	both := make([]int32, size+n.prog.C)
	for i := range both {
		both[i] = int32(i)
	}
	m = n.ending(&graph.Index{Source: both}, len(both), slot, n.prog.Output)
	m.code = tensor
	return m, size, nil
}

// A Tail is the part of a network after one of its tensors, such as the decoder of an
// autoencoder. It is immutable and safe for concurrent use.
type Tail struct {
	prog  *graph.Program
	theta []float64 // of the network
}

// After returns the part of the network after a tensor, which is named as for WithCode.
// It is an error if the outputs also depend on the input by a path that avoids the tensor.
func (n *Network) After(tensor string) (*Tail, error) {
	slot, err := n.slotOf(tensor)
	if err != nil {
		return nil, err
	}
	nodes, all := n.after(slot)
	if !all {
		return nil, fmt.Errorf("network: the outputs depend on the input past the tensor %s too; name one that everything goes through", quote(tensor))
	}
	p := *n.prog
	p.Input, p.D, p.Nodes, p.Places = slot, p.Slots[slot].Size, nodes, nil
	p.SetChunk()
	return &Tail{prog: &p, theta: n.theta}, nil
}

// after returns the nodes after a slot, and whether the outputs depend on the input
// through the slot alone.
func (n *Network) after(slot int) (nodes []graph.Node, all bool) {
	below := map[int]bool{slot: true}
	for _, nd := range n.prog.Nodes {
		if n.prog.Slots[nd.Out].Static {
			nodes = append(nodes, nd)
			continue
		}
		reads := false
		own := true
		for _, in := range nd.In {
			if in >= 0 && !n.prog.Slots[in].Static {
				reads = reads || below[in]
				own = own && below[in]
			}
		}
		if reads && own && nd.Out != slot {
			below[nd.Out] = true
			nodes = append(nodes, nd)
		}
	}
	return nodes, below[n.prog.Output]
}

// Dims returns the elements of the tensor and the outputs C.
func (t *Tail) Dims() (l, c int) { return t.prog.D, t.prog.C }

// Forward returns the outputs, N×C, at the rows of z, N×L, with the parameters theta of
// the whole network; nil means those that it has.
func (t *Tail) Forward(ctx context.Context, theta []float64, z *mat.Dense) (*mat.Dense, error) {
	if theta == nil {
		theta = t.theta
	}
	rows, cols := z.Dims()
	if cols != t.prog.D || len(theta) != t.prog.P {
		panic("network: a tensor or theta has wrong length")
	}
	if i := dense.NotFinite(contiguousRows(z, 0, rows)); i >= 0 {
		return nil, fmt.Errorf("network: row %d of the code holds a number that is not finite", i/cols)
	}
	return (&Network{prog: t.prog, static: t.prog.EvalStatic(theta)}).forward(ctx, z)
}

// Join returns the network that gives the outputs of one network to another, such as
// those of an encoder to its decoder, and the name of the tensor between them. θ holds the
// parameters of the first and then those of the second. Each must have been read with its
// head kept (head.Keep).
func Join(first, second *Network) (n *Network, tensor string, err error) {
	_, c, _ := first.Dims()
	d, _, _ := second.Dims()
	switch {
	case len(second.prog.Inputs) != 1:
		return nil, "", fmt.Errorf("network: the second network has %d inputs; it must have one", len(second.prog.Inputs))
	case c != d:
		return nil, "", fmt.Errorf("network: the first network has %d outputs, the second takes %d inputs of shape %v; both must have the same code", c, d, []int(second.InputShape()))
	case first.head.Removed || second.head.Removed || len(first.groups)+len(second.groups) > 0:
		return nil, "", fmt.Errorf("network: the networks must be joined with their heads; read them with head.Keep")
	}
	a, g := first.withParameters()
	b, h := second.withParameters()
	if !slices.EqualFunc(a.OpsetImport, b.OpsetImport, func(x, y onnx.Opset) bool { return x.Domain == y.Domain && x.Version == y.Version }) {
		return nil, "", fmt.Errorf("network: the two networks have other opsets; export both with the same")
	}
	tensor = g.Outputs[0].Name
	if !exact(g.Initializers) || !exact(h.Initializers) || first.double || second.double {
		toDouble(g)
		toDouble(h)
	}
	// Copy the second graph with a prefix before all names, and with the name to in place of its input.
	input := second.prog.Inputs[0].Name
	name := func(s string) string {
		switch s {
		case "":
			return ""
		case input:
			return tensor
		}
		return secondPrefix + s
	}
	out := *h
	out.Nodes, out.Initializers, out.Outputs = nil, nil, nil
	for _, nd := range h.Nodes {
		c := *nd
		c.Inputs, c.Outputs = slices.Clone(nd.Inputs), slices.Clone(nd.Outputs)
		for i := range c.Inputs {
			c.Inputs[i] = name(c.Inputs[i])
		}
		for i := range c.Outputs {
			c.Outputs[i] = name(c.Outputs[i])
		}
		out.Nodes = append(out.Nodes, &c)
	}
	for _, t := range h.Initializers {
		c := *t
		c.Name = name(t.Name)
		out.Initializers = append(out.Initializers, &c)
	}
	for _, v := range h.Outputs {
		c := *v
		c.Name = name(v.Name)
		out.Outputs = append(out.Outputs, &c)
	}
	h = &out
	g.Nodes = append(slices.Clone(g.Nodes), h.Nodes...)
	g.Initializers = append(slices.Clone(g.Initializers), h.Initializers...)
	g.Outputs, g.ValueInfos = h.Outputs, nil
	n, err = newNetwork(a, &ReadOptions{Head: head.Keep, Freeze: append(first.constants(), prefixed(second.constants())...), Learn: append(first.paramNames(), prefixed(second.paramNames())...)})
	if err != nil {
		return nil, "", fmt.Errorf("network: the joined networks: %w", err)
	}
	return n, tensor, nil
}

// secondPrefix begins the names of a second network that was joined to a first.
const secondPrefix = "decoder/"

func prefixed(names []string) []string {
	out := slices.Clone(names)
	for i := range out {
		out[i] = secondPrefix + out[i]
	}
	return out
}
