package network

import (
	"slices"
	"strings"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/compile"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// A Description lists the operators and parameters of a network.
type Description struct {
	Producer  string          // program that wrote the file, and its version
	Opset     int64           // version of ONNX's operators
	Operators []OperatorCount // of the nodes that influence the output, sorted by name
	Params    []ParamInfo     // in the order of θ
	Fixed     []string        // floating point initializers that are not parameters
	Tensors   []TensorInfo    // all stored floating point tensors, and why each is a parameter or not

	// The entries of Fixed that standardize inputs before the first layer, and those that scale
	// outputs after the last one.
	InputConstants, OutputConstants []string
	OutputScale                     float64 // factor by which OutputConstants scale all outputs; 0 if unknown or none
}

// A TensorInfo says whether a stored tensor was taken for a parameter, and why. A file does not say
// what was learnt, so the decision depends on where a tensor is used, on its numbers and on its
// name. ReadOptions.Freeze and ReadOptions.Learn override it.
type TensorInfo = graph.Tensor

// An OperatorCount is how often an operator occurs.
type OperatorCount struct {
	Name  string
	Count int
}

// A ParamInfo is a parameter and the kind of Block that holds its Jacobian.
type ParamInfo struct {
	linearize.Param
	Block string // "Outer", "Conv", "Embedding" or "Full"
	Layer int    // number of its layer, from 1 in the order in which the layers run
}

// Describe lists the operators, parameters and tensors of the network, without running it.
func (n *Network) Describe() Description {
	p := n.prog
	d := Description{Producer: strings.TrimSpace(n.model.ProducerName + " " + n.model.ProducerVersion), Opset: compile.StandardOpset(n.model),
		InputConstants: slices.Clone(p.InputConstants), OutputConstants: slices.Clone(p.OutputConstants), OutputScale: p.OutputScale}
	// Count the operators that influence the output.
	count := map[string]int{}
	for _, name := range p.Operators {
		count[name]++
	}
	for name, k := range count {
		d.Operators = append(d.Operators, OperatorCount{name, k})
	}
	slices.SortFunc(d.Operators, func(a, b OperatorCount) int { return strings.Compare(a.Name, b.Name) })
	kinds := map[int]string{} // of Block, by the offset of a parameter
	for k := range p.Places {
		st := &p.Places[k]
		for _, s := range p.SpanList(st) {
			kinds[s.Offset] = st.Kind()
		}
	}
	for _, slot := range p.Full {
		kinds[p.Params[p.Slots[slot].Param].Offset] = "Full"
	}
	layers := n.layerNumbers()
	for i, prm := range n.Params() {
		d.Params = append(d.Params, ParamInfo{Param: prm, Block: kinds[prm.Offset], Layer: layers[i]})
	}
	d.Fixed = n.constants()
	for _, t := range p.Tensors {
		t.Shape = slices.Clone(t.Shape)
		d.Tensors = append(d.Tensors, t)
	}
	return d
}
