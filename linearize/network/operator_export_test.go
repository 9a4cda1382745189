package network

import (
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// Effort returns how many numbers one example takes and how many
// multiplications it costs, about, so that a fuzz target can pass over models
// that are merely large.
func (n *Network) Effort() int {
	total := 0
	for _, s := range n.prog.Slots {
		total += s.Size
	}
	for _, nd := range n.prog.Nodes {
		total += graph.Multiplications(nd.Op)
	}
	return total
}
