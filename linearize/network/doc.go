// Package network reads, builds, trains and writes neural networks, and
// linearizes them at their parameters θ*.
//
//	net, err := network.ReadONNX(file, nil)
//	if err != nil {
//		return err
//	}
//	batch, err := net.Linearize(ctx, x) // x is N×D
//
// A Network is immutable and holds its parameters θ* as one vector. Package
// internal/compile translates the ONNX graph into a program of operations, and
// internal/graph runs it: one forward pass gives the outputs, C backward passes
// the Jacobian.
package network
