package network

import (
	"fmt"
	"maps"
	"runtime"
	"slices"

	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/compile"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// trainingProgram returns the program for training on minibatches, in which Dropout and
// BatchNormalization nodes act as in training.
func (n *Network) trainingProgram() (*graph.Program, error) {
	if !slices.Contains(n.prog.Operators, "Dropout") && !slices.Contains(n.prog.Operators, "BatchNormalization") {
		return n.prog, nil
	}
	if len(n.groups) > 0 {
		return nil, fmt.Errorf("network: a network with Dropout or BatchNormalization is trained before its outputs are grouped")
	}
	r, err := compile.Compile(n.model, compile.Options{Freeze: n.constants(), Learn: n.paramNames(), Head: n.read.Head, Columns: n.read.columns, Width: n.read.width, Training: true})
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(r.Program.Params, n.prog.Params, func(a, b linearize.Param) bool {
		return a.Name == b.Name && a.Offset == b.Offset && slices.Equal(a.Shape, b.Shape)
	}) {
		return nil, fmt.Errorf("network: its parameters in training are others than in use; set train.Options.Evaluation")
	}
	return r.Program, nil
}

// MinibatchBytes estimates the bytes that training takes for the activations of a minibatch and
// their gradients. Chunks of the minibatch run one after another, unless a BatchNormalization needs
// all of them at once.
func (n *Network) MinibatchBytes(batch int) int64 {
	size, chunk := 0, n.prog.Chunk*runtime.GOMAXPROCS(0)
	for _, s := range n.prog.Slots {
		if !s.Static {
			size += s.Size
		}
	}
	if slices.Contains(n.prog.Operators, "BatchNormalization") {
		chunk = batch
	}
	return memory.Mul(2*8*int64(size), int64(min(batch, chunk)))
}

// withConstants returns the network with other numbers in stored tensors that are not
// parameters.
func (n *Network) withConstants(numbers map[string][]float64) (*Network, error) {
	model, g := n.withParameters()
	for i, t := range g.Initializers {
		if v, ok := numbers[t.Name]; ok {
			c := *t
			c.Floats = v
			g.Initializers[i] = &c
		}
	}
	m, err := compiled(model, nil, n.sameParameters(n.read.Head), nodeTensors{})
	if err != nil {
		return nil, err
	}
	m.prog.Tensors, m.read, m.inNodes = n.prog.Tensors, n.read, n.inNodes
	m.warnings, m.metadata, m.double, m.files = n.warnings, maps.Clone(n.metadata), n.double, n.files
	return m, nil
}

// WithStateOf returns the network with parameters and running statistics of batch normalizations
// copied from the tensors of the same names in another network. It is an error if the other network
// lacks one of them or has it in another shape.
func (n *Network) WithStateOf(other *Network) (*Network, error) {
	_, g := other.withParameters()
	tensors := map[string]*onnx.Tensor{}
	for _, t := range g.Initializers {
		tensors[t.Name] = t
	}
	find := func(name string, length int) ([]float64, error) {
		if t := tensors[name]; t != nil && len(t.Floats) == length {
			return t.Floats, nil
		}
		return nil, fmt.Errorf("network: the other network has no tensor %s of %d numbers; both need the same layers", quote(name), length)
	}
	prog, err := n.trainingProgram()
	if err != nil {
		return nil, err
	}
	numbers := map[string][]float64{}
	for _, norm := range prog.Norms {
		for i, name := range []string{norm.Mean, norm.Variance} {
			if numbers[name], err = find(name, len(norm.Start[i])); err != nil {
				return nil, err
			}
		}
	}
	theta := n.Theta()
	for _, p := range n.prog.Params {
		v, err := find(p.Name, p.Len())
		if err != nil {
			return nil, err
		}
		copy(theta[p.Offset:], v)
	}
	m := n
	if len(numbers) > 0 {
		if m, err = n.withConstants(numbers); err != nil {
			return nil, err
		}
	}
	return m.WithTheta(theta)
}
