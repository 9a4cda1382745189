package main

import (
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/inference"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// layered is a prior with the parameters of each layer as a group.
type layered struct {
	ntk.Prior
	groups []ntk.Group
}

// Groups implements ntk.Grouped.
func (l layered) Groups() []ntk.Group { return l.groups }

// layers are the layers of the network by name, and the kernels of their parameters under
// the prior of q. They add up to its kernel.
func layers(p *problem.Problem, q *inference.Posterior, batch *linearize.Batch) (names []string, kernels []ntk.Kernel) {
	// The precision of the groups is not used: the variances are those of the prior.
	groups := ntk.ByLayer(ntk.Spans(batch), 1)
	k := ntk.New(layered{q.Prior(), groups}, p.Model.Net.Theta(), nil)
	for g := range groups {
		names = append(names, groups[g].Name)
		kernels = append(kernels, k.GroupKernel(g))
	}
	return names, kernels
}
