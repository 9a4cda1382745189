package network

import (
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/emit"
)

// A Traced network is the part of a graph of ONNX operators that computes its outputs and its Jacobian.
type Traced = emit.Traced

// A TracedPart is the part of the Jacobian that belongs to some parameters.
type TracedPart = emit.Part

// An UnsupportedTraceError names operators whose gradient cannot be written as a graph of ONNX operators.
type UnsupportedTraceError = emit.UnsupportedError

// Trace writes the network's outputs and Jacobian at the rows x, T×D in float64, as operators of ONNX. The error is
// an *UnsupportedTraceError.
func (n *Network) Trace(b *onnx.Builder, x string) (*Traced, error) {
	return emit.Trace(b, n.prog, n.static, x)
}
