package network

import (
	"slices"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// Head returns the function with which the file ends, and whether it was removed.
func (n *Network) Head() head.Head { return n.head }

// WithHead returns the network with its head removed or kept. θ* and the metadata are
// those of n; the parameters may differ in tensors that scale the input of the head, since
// constants after the last layer are no parameters. A Softmax over groups of outputs (Groups above
// 1) always stays.
func (n *Network) WithHead(rule head.Rule) (*Network, error) {
	if n.head.Removes(rule) == n.head.Removed {
		m := *n
		m.read.Head = rule
		if rule == head.Keep {
			m.warnings = slices.DeleteFunc(n.Warnings(), func(err error) bool { return linearize.WarningOf(err).Code == "head" })
		}
		return &m, nil
	}
	o := n.read
	o.Head = rule
	return n.readAs(o)
}
