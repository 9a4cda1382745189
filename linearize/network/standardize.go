package network

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
)

// scalingKey is the key of the metadata in which gpexplain train records how it standardized
// inputs: means and standard deviations, one for each input or for each of several runs of inputs
// of equal length, such as channels.
const scalingKey = "funcgp.scaling"

// asInData is the value of scalingKey for a network that takes rows in the units of the data.
const asInData = "0;1"

// Standardized returns the network x ↦ n((x − mean)/sd): it takes rows in the units of the data if n was
// trained on standardized rows. Its parameters, outputs and Jacobian are those of n, to the last bit. mean and
// sd have a number for each of the D inputs, or for each of several runs of inputs of equal length, such as
// channels. If both are nil, the numbers in the metadata of n are used, which gpexplain train records. The
// metadata of the result say that inputs are in the units of the data. WriteONNX writes the result in float64.
//
// A standard deviation that is not positive, a number that is not finite, integers that would be scaled,
// metadata without a record, and a network of GroupOutputs are errors.
func (n *Network) Standardized(mean, sd []float64) (*Network, error) {
	if mean == nil && sd == nil {
		if mean, sd = recorded(n.metadata); mean == nil {
			return nil, errors.New("network: the metadata record no standardization of the inputs; give the means and deviations")
		}
	}
	d := n.prog.D
	switch {
	case len(n.groups) > 0:
		return nil, errors.New("network: inputs are standardized before outputs are grouped")
	case len(mean) != len(sd) || len(mean) == 0 || d%len(mean) != 0:
		return nil, fmt.Errorf("network: %d means and %d deviations, of %d inputs", len(mean), len(sd), d)
	}
	for i := range sd {
		if !(sd[i] > 0) || math.IsInf(sd[i], 0) || math.IsNaN(mean[i]) || math.IsInf(mean[i], 0) {
			return nil, fmt.Errorf("network: input %d has the mean %v and the deviation %v; want a finite number and a positive one", i, mean[i], sd[i])
		}
	}
	model, g := n.withParameters()
	a, standard := onnx.NewAppender(g, "standardized"), map[string]string{}
	for _, in := range n.prog.Inputs {
		size, scaled := Input{Shape: in.Shape}.Len(), false
		m, s := make([]float64, size), make([]float64, size)
		for k := range size {
			at := in.Column(k) * len(mean) / d
			m[k], s[k] = mean[at], sd[at]
			scaled = scaled || m[k] != 0 || s[k] != 1
		}
		if !scaled {
			continue
		}
		if in.Type != "" {
			return nil, fmt.Errorf("network: input %q is of integers, which are not standardized; give it the mean 0 and the deviation 1", in.Name)
		}
		constant := func(v []float64) string {
			t := &onnx.Tensor{Type: onnx.Double, Dims: []int64{1}, Floats: v}
			for _, k := range in.Shape {
				t.Dims = append(t.Dims, int64(k))
			}
			return a.Constant(t)
		}
		standard[in.Name] = a.Add("Div", nil, a.Add("Sub", nil, in.Name, constant(m)), constant(s))
	}
	// Put the new nodes first, and make the other nodes read their results.
	nodes := slices.Clone(a.Graph.Nodes[len(g.Nodes):])
	for _, nd := range g.Nodes {
		c := *nd
		c.Inputs = slices.Clone(nd.Inputs)
		for i, name := range c.Inputs {
			if to, ok := standard[name]; ok {
				c.Inputs[i] = to
			}
		}
		nodes = append(nodes, &c)
	}
	a.Graph.Nodes = nodes
	model.Graph = a.Graph
	o := n.read
	o.Freeze, o.Learn = n.constants(), n.paramNames()
	out, err := compiled(model, nil, o, nodeTensors{})
	if err != nil {
		return nil, err
	}
	if !slices.Equal(out.theta, n.theta) {
		panic("network: standardizing changed the parameters")
	}
	p := n.prog
	out.prog.Tensors, out.prog.InputConstants, out.prog.OutputConstants, out.prog.OutputScale = p.Tensors, p.InputConstants, p.OutputConstants, p.OutputScale
	out.warnings = slices.DeleteFunc(slices.Clone(n.warnings), func(err error) bool { return linearize.WarningOf(err).Code == "inputs-scaled" })
	out.metadata, out.double, out.files = maps.Clone(n.metadata), true, n.files
	out.metadata[scalingKey] = asInData
	out.print = sync.OnceValue(out.fingerprint)
	return out, nil
}

// recorded returns the means and standard deviations that the metadata record. They are nil if there is
// no readable record, or if inputs are in the units of the data.
func recorded(metadata map[string]string) (mean, sd []float64) {
	text := metadata[scalingKey]
	m, s, ok := strings.Cut(text, ";")
	if !ok || text == asInData {
		return nil, nil
	}
	numbers := func(text string) (v []float64) {
		for _, f := range strings.Split(text, ",") {
			x, err := strconv.ParseFloat(f, 64)
			if err != nil {
				return nil
			}
			v = append(v, x)
		}
		return v
	}
	if mean, sd = numbers(m), numbers(s); mean == nil || len(mean) != len(sd) {
		return nil, nil
	}
	return mean, sd
}
