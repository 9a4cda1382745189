package network

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
)

var _ linearize.Fingerprinted = (*Network)(nil)

// Fingerprint identifies the network by its graph and θ*. The graph counts its
// nodes, constants, inputs and outputs, and which tensors are parameters, so
// that other frozen tensors make another graph. The type in which a file stores
// numbers, documentation and metadata do not count. It is zero for a graph
// that cannot be written as ONNX.
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
	// A hash takes every write.
	_, _ = fmt.Fprintf(h, "inputs %v, parameters %+v\n", n.prog.InShape, n.prog.Params)
	_, _ = h.Write(encoded)
	return linearize.ModelFingerprint{Graph: linearize.Sum(h.Sum(nil)), Parameters: linearize.SumOf(n.theta)}
}

func (n *Network) isParam(t *onnx.Tensor) bool {
	return slices.ContainsFunc(n.prog.Params, func(p linearize.Param) bool { return p.Name == t.Name })
}
