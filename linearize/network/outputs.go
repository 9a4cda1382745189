package network

import (
	"fmt"
	"slices"
	"sync"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// GroupOutputs returns the network of a coarser classification. Its outputs are the logits keep, in
// this order, followed, if there are other logits, by the logarithm of the sum of their
// exponentials. A softmax gives the kept classes the probabilities that they had among the C
// classes, and the last class the total probability of the others. J is the Jacobian of these
// outputs, and takes one backward pass for each.
//
// A posterior of the grouped network sees training examples of other classes as one
// class. Coarser labels carry less information: with the same training rows, the covariance of the
// kept outputs is never smaller than with all C classes.
//
// The parameters are those of n, and WriteONNX writes n. An output that does not exist
// or is named twice is an error, and so is a list without any.
func (n *Network) GroupOutputs(keep []int) (*Network, error) {
	c := n.prog.C
	if len(keep) == 0 {
		return nil, fmt.Errorf("network: no output to keep; name at least one of the %d", c)
	}
	// Each kept output is a group of its own, and the other outputs are the last group.
	target := slices.Repeat([]int32{int32(len(keep))}, c)
	for i, k := range keep {
		switch {
		case k < 0 || k >= c:
			return nil, fmt.Errorf("network: there is no output %d; the network has 0 to %d", k, c-1)
		case int(target[k]) < len(keep):
			return nil, fmt.Errorf("network: output %d is named twice", k)
		}
		target[k] = int32(i)
	}
	m := n.ending(&graph.LogSumExp{Target: target}, len(keep)+min(c-len(keep), 1), n.prog.Output)
	m.groups = append(slices.Clone(n.groups), slices.Clone(keep))
	return m, nil
}

// ending returns the network with one more node, whose result is the outputs.
func (n *Network) ending(op graph.Op, size int, in ...int) *Network {
	m, p := *n, *n.prog
	p.C, p.Output = size, len(p.Slots)
	p.Nodes = append(slices.Clone(p.Nodes), graph.Node{Op: op, In: in, Out: p.Output})
	p.Slots = append(slices.Clone(p.Slots), graph.Slot{Size: p.C, NeedsGrad: true, Param: -1})
	p.Places = slices.Clone(p.Places)
	p.ChooseFull()
	p.SetChunk()
	m.prog, m.static = &p, append(slices.Clone(n.static), nil)
	m.print = sync.OnceValue(m.fingerprint)
	return &m
}
