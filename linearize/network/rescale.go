package network

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// Rescaled returns the network whose outputs are scale_c f_c(x) + shift_c. It has the parameters and the
// metadata of n. If n was trained on standardized targets, then with their standard deviations and means
// the result is the network in the units of the data: J is scaled with f, so that covariances, sums and
// densities are in these units. It panics unless scale and shift have length C. A scale that is not
// positive, a number that is not finite and a network of GroupOutputs are errors. WriteONNX writes the
// result in float64.
func (n *Network) Rescaled(scale, shift []float64) (*Network, error) {
	if len(scale) != n.prog.C || len(shift) != n.prog.C {
		panic("network: scale or shift has wrong length")
	}
	if len(n.groups) > 0 {
		return nil, fmt.Errorf("network: grouped outputs are logits of classes and have no unit; rescale before grouping")
	}
	for c := range scale {
		if !(scale[c] > 0) || math.IsInf(scale[c], 0) || math.IsNaN(shift[c]) || math.IsInf(shift[c], 0) {
			return nil, fmt.Errorf("network: output %d is to be scaled by %v and shifted by %v; want a positive number and a finite one", c, scale[c], shift[c])
		}
	}
	// Append the nodes that scale and shift the outputs, as N×C.
	a := onnx.NewAppender(n.graph, "rescaled")
	vector := func(t *onnx.Tensor, length int) string {
		t.Dims = []int64{int64(length)}
		return a.Constant(t)
	}
	toRows := &onnx.Tensor{Type: onnx.Int64, Ints: []int64{-1, int64(n.prog.C)}}
	f := a.Add("Reshape", nil, n.prog.OutputName, vector(toRows, 2))
	f = a.Add("Mul", nil, f, vector(&onnx.Tensor{Type: onnx.Double, Floats: slices.Clone(scale)}, n.prog.C))
	f = a.Add("Add", nil, f, vector(&onnx.Tensor{Type: onnx.Double, Floats: slices.Clone(shift)}, n.prog.C))
	model, g := *n.model, a.Graph
	model.Graph = g
	out := *g.Outputs[0]
	batch := onnx.Dim{Param: "n"}
	if len(out.Dims) > 0 {
		batch = out.Dims[0]
	}
	dims := []onnx.Dim{batch, {Value: int64(n.prog.C), HasValue: true}}
	g.Outputs = []*onnx.ValueInfo{{Name: f, Type: out.Type, HasShape: true, Dims: dims}}
	m, err := compiled(&model, nil, n.sameParameters(head.Keep), nodeTensors{})
	if err != nil {
		return nil, err
	}
	if len(m.theta) != len(n.theta) {
		panic("network: rescaling changed the parameters")
	}
	m.prog.Tensors = n.prog.Tensors
	m.theta, m.warnings, m.metadata, m.double, m.files = slices.Clone(n.theta), n.warnings, n.metadata, true, n.files
	m.static = m.prog.EvalStatic(m.theta)
	m.print = sync.OnceValue(m.fingerprint)
	return m, nil
}

// sameParameters returns the options with which a model is read with the parameters and inputs of n.
func (n *Network) sameParameters(rule head.Rule) ReadOptions {
	return ReadOptions{Freeze: n.constants(), Learn: n.paramNames(), Head: rule, columns: n.read.columns, width: n.read.width}
}

// paramNames returns the names of the parameters.
func (n *Network) paramNames() []string {
	var names []string
	for _, p := range n.prog.Params {
		names = append(names, p.Name)
	}
	return names
}

// constants returns the names of the floating point initializers that are not parameters.
func (n *Network) constants() []string {
	var names []string
	for _, t := range n.model.Graph.Initializers {
		if t.Type.IsFloat() && !n.isParam(t) {
			names = append(names, t.Name)
		}
	}
	return names
}
