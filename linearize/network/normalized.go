package network

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/compile"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

// Normalized returns the names of the parameters of layers whose result is read by a normalization
// only, in the order of θ. In training the scale of such a layer has no influence, so that with a
// prior on it there is no mode [gprior].
func (n *Network) Normalized() []string {
	readers := map[string][]string{} // operators that read a result as their first input, "" otherwise
	for _, nd := range n.graph.Nodes {
		for i, name := range nd.Inputs {
			kind := nd.OpType
			if i > 0 {
				kind = ""
			}
			readers[name] = append(readers[name], kind)
		}
	}
	readers[n.prog.OutputName] = append(readers[n.prog.OutputName], "")
	found := map[string]bool{}
	for _, nd := range n.graph.Nodes {
		facts := compile.Facts(nd.OpType)
		if !facts.Has(learnt.Multiplies) || facts.Has(learnt.Recurs) || len(nd.Outputs) == 0 {
			continue
		}
		read := readers[nd.Outputs[0]]
		if len(read) == 0 || slices.ContainsFunc(read, func(kind string) bool { return !compile.Facts(kind).Has(learnt.Normalizes) }) {
			continue
		}
		for _, name := range nd.Inputs {
			found[name] = true
		}
	}
	var names []string
	for _, p := range n.prog.Params {
		if found[p.Name] {
			names = append(names, p.Name)
		}
	}
	return names
}
