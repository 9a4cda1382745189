package network

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/head"
)

var _ linearize.Fingerprinted = (*Network)(nil)

// Fingerprint identifies the network by its graph and θ*. The graph includes the nodes, constants, inputs and
// outputs. It also includes which tensors are parameters, so that it changes with the frozen tensors, and
// whether the head was removed. It does not include the type in which the file stores numbers, documentation
// or metadata. The fingerprint is zero if the graph cannot be written as ONNX.
func (n *Network) Fingerprint() linearize.ModelFingerprint { return n.print() }

func (n *Network) fingerprint() linearize.ModelFingerprint {
	g := *n.model.Graph
	g.Name, g.DocString, g.ValueInfos, g.Unknown = "", "", nil, nil
	g.Initializers = slices.DeleteFunc(slices.Clone(g.Initializers), n.isParam)
	toDouble(&g) // copies tensors and nodes
	for _, t := range g.Initializers {
		t.Unknown = nil
	}
	for _, nd := range g.Nodes {
		nd.DocString, nd.Unknown = "", nil
	}
	encoded, err := (&onnx.Model{OpsetImport: n.model.OpsetImport, Graph: &g}).Encode()
	if err != nil {
		return linearize.ModelFingerprint{}
	}
	h := sha256.New()
	// A hash never returns an error.
	_, _ = fmt.Fprintf(h, "inputs %v, parameters %+v\n", n.InputShape(), n.prog.Params)
	for _, in := range n.prog.Inputs {
		if in.Columns != nil {
			_, _ = fmt.Fprintf(h, "input %s is columns %v of %d\n", in.Name, in.Columns, n.prog.D)
		}
	}
	if n.head.Function != head.None {
		_, _ = fmt.Fprintf(h, "head %v, removed %v\n", n.head.Function, n.head.Removed)
	}
	_, _ = h.Write(encoded)
	if n.code != "" {
		_, _ = fmt.Fprintf(h, "code %s\n", n.code)
	}
	if len(n.groups) > 0 {
		_, _ = fmt.Fprintf(h, "grouped outputs %v\n", n.groups)
	}
	return linearize.ModelFingerprint{Graph: linearize.Sum(h.Sum(nil)), Parameters: linearize.SumOf(n.theta)}
}

// isParam reports whether an initializer is a parameter.
func (n *Network) isParam(t *onnx.Tensor) bool {
	return slices.ContainsFunc(n.prog.Params, func(p linearize.Param) bool { return p.Name == t.Name })
}
