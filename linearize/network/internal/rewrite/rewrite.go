// Package rewrite changes an ONNX model, before it is compiled, into one that
// computes the same with fewer kinds of things.
package rewrite

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
)

// Options say what of a model is wanted.
type Options struct {
	Output string // name of the output; "" is the only one
}

// A Rewritten is a model that was changed.
type Rewritten struct {
	Model *onnx.Model // shares memory with the file's, which does not change
	// Number is the place of each node in the file: that of the node in whose place it is.
	Number map[*onnx.Node]int
}

// Model returns a model that computes one output of m, without functions of its own. Its
// tensors must be whole.
func Model(m *onnx.Model, o Options) (*Rewritten, error) {
	out := &Rewritten{Model: new(*m), Number: map[*onnx.Node]int{}}
	if m.Graph == nil {
		return out, nil
	}
	var err error
	if out.Model.Graph, out.Model.OpsetImport, err = inline(m, out.Number); err != nil {
		return nil, err
	}
	out.Model.Functions = nil
	out.Model.Graph = bags(out.Model.Graph, out.Number)
	// Keep the output of that name, or the only one.
	outputs := m.Graph.Outputs
	if o.Output == "" && len(outputs) == 1 {
		return out, nil
	}
	names := make([]string, len(outputs))
	for i, v := range outputs {
		if names[i] = v.Name; v.Name == o.Output && o.Output != "" {
			out.Model.Graph.Outputs = []*onnx.ValueInfo{v}
			return out, nil
		}
	}
	switch {
	case len(outputs) == 0:
		return nil, fmt.Errorf("the model has no output; export it again")
	case o.Output == "":
		return nil, fmt.Errorf("the model has %d outputs, %s; choose one with --output NAME (ReadOptions.Output)", len(outputs), List(names))
	}
	return nil, fmt.Errorf("the model has no output %s; --output (ReadOptions.Output) takes one of %s",
		Quote(o.Output), List(names))
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
