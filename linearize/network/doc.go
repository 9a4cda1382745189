// Package network reads, builds, trains and writes neural networks, and
// linearizes them at their parameters θ*.
//
//	net, err := network.ReadONNX(file, nil)
//	if err != nil {
//		return err
//	}
//	batch, err := net.Linearize(ctx, x) // x is N×D
//
// A Network is immutable and knows its flat parameter vector θ*. Its outputs
// and Jacobians come from one forward and C backward passes over a program of
// operations (internal/graph) into which the ONNX graph is translated
// (internal/compile).
package network
