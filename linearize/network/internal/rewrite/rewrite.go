// Package rewrite changes an ONNX model, before it is compiled, into one that
// computes the same with fewer kinds of things.
package rewrite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/option"
)

// Options say what of a model is wanted.
type Options struct {
	Output string            // name of a tensor; "" is the only output
	Bind   map[string]string // sizes of open dimensions and values of inputs: see bind
	Tie    []string          // names and patterns of tensors that are one although an Identity node hands them on: see equals
}

// A Rewritten is a model that was changed.
type Rewritten struct {
	Model *onnx.Model // shares memory with the file's, which does not change
	// Number is the place of each node in the file: that of the node in whose place it is.
	Number map[*onnx.Node]int
	Taken  *Taken  // nil where f is the output
	Equal  []Equal // tensors that the exporter stored with others
	left   int     // nodes that branches and turns of loops may still have
	loops  map[*onnx.Node]*loop
}

// Model returns a model that computes one tensor of m, without functions of its own. Its
// tensors must be whole.
func Model(m *onnx.Model, o Options) (*Rewritten, error) {
	out := &Rewritten{Model: new(*m), Number: map[*onnx.Node]int{}, left: mostNodes, loops: map[*onnx.Node]*loop{}}
	if m.Graph == nil {
		return out, nil
	}
	var err error
	if out.Model.Graph, out.Model.OpsetImport, err = inline(m, out.Number); err != nil {
		return nil, err
	}
	out.Model.Functions = nil
	if out.Equal, err = equals(out.Model, m.Graph, o.Tie, out.Number); err != nil {
		return nil, err
	}
	out.Model.Graph = bags(out.Model.Graph, out.Number)
	plain(out.Model, out.Number)
	if err := bind(out.Model, o.Bind, out.Number); err != nil {
		return nil, err
	}
	return out, out.choose(o.Output)
}

// choose keeps the tensor of that name as the output; "" is the only one.
func (m *Rewritten) choose(output string) error {
	g := m.Model.Graph
	names := make([]string, len(g.Outputs))
	for i, v := range g.Outputs {
		names[i] = v.Name
	}
	// Of several outputs the only one that holds no labels, and of labels the numbers of which they are the largest.
	if output == "" && len(names) > 1 {
		var numbers []string
		for _, v := range g.Outputs {
			if v.Type != onnx.String && !v.Type.IsInt() && numbersOf(g, v.Name) == "" {
				numbers = append(numbers, v.Name)
			}
		}
		if len(numbers) == 1 {
			output = numbers[0]
		}
	}
	label := output
	if len(names) == 1 && output == "" {
		label = names[0]
	}
	if from := numbersOf(g, label); from != "" {
		m.Taken, output = &Taken{label, from}, from
		if slices.ContainsFunc(g.Inputs, func(in *onnx.ValueInfo) bool { return in.Name == from }) {
			m.Taken, output = nil, label
		}
	}
	switch {
	case len(names) == 0:
		return fmt.Errorf("the model has no output; export it again")
	case output == "" && len(names) == 1:
		return nil
	case output == "":
		return option.Errorf("the model has %d outputs, %s; choose one, or another tensor of the graph, with {ReadOptions.Output output} NAME", len(names), List(names))
	}
	for _, v := range slices.Concat(g.Outputs, g.ValueInfos) {
		if v.Name == output {
			g.Outputs = []*onnx.ValueInfo{v}
			return nil
		}
	}
	if !slices.Contains(results(g.Nodes), output) {
		return option.Errorf("the model has no tensor %s; {ReadOptions.Output output} takes an output, %s, or the result of a node outside of the graphs of If, Loop and Scan",
			Quote(output), List(names))
	}
	// The file does not say the type. It is that of the weights.
	v := &onnx.ValueInfo{Name: output, Type: onnx.Float}
	if slices.ContainsFunc(g.Initializers, func(t *onnx.Tensor) bool { return t.Type == onnx.Double }) {
		v.Type = onnx.Double
	}
	g.Outputs = []*onnx.ValueInfo{v}
	return nil
}

// Quote quotes a name from the file and cuts one that would fill the message.
func Quote(name string) string { return strconv.Quote(Brief(name, 80)) }

// Brief cuts a text to at most the given number of bytes.
func Brief(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// List lists names for an error.
func List(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = Quote(name)
	}
	return Brief(strings.Join(quoted, ", "), 400)
}

// Shape returns the dimensions of a tensor.
func Shape(t *onnx.Tensor) []int {
	shape := make([]int, len(t.Dims))
	for i, d := range t.Dims {
		shape[i] = int(d)
	}
	return shape
}
