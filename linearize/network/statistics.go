package network

import (
	"slices"
)

// RunningStatistics are the moments of its input that a BatchNormalization recorded in training.
type RunningStatistics struct {
	Tensor         string    // name of the input; WithCode accepts it if the tensor depends on parameters
	Mean, Variance []float64 // of each channel, the second dimension of the tensor
}

// RunningStatistics returns the running statistics of all batch normalizations, in the order of the graph.
func (n *Network) RunningStatistics() []RunningStatistics {
	var list []RunningStatistics
	for _, nd := range n.graph.Nodes {
		if nd.OpType != "BatchNormalization" || len(nd.Inputs) < 5 {
			continue
		}
		s := RunningStatistics{Tensor: nd.Inputs[0]}
		for _, t := range n.graph.Initializers {
			switch t.Name {
			case nd.Inputs[3]:
				s.Mean = slices.Clone(t.Floats)
			case nd.Inputs[4]:
				s.Variance = slices.Clone(t.Floats)
			}
		}
		if len(s.Mean) > 0 && len(s.Mean) == len(s.Variance) {
			list = append(list, s)
		}
	}
	return list
}
