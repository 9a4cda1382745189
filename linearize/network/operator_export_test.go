package network

import (
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// Effort returns about how many numbers and multiplications one example takes, so
// that fuzz targets can skip large models.
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
