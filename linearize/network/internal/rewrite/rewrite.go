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

// Model returns a model that computes one output of m. The result may share memory
// with m, which does not change.
func Model(m *onnx.Model, o Options) (*onnx.Model, error) {
	out := *m
	if m.Graph == nil {
		return &out, nil
	}
	g := *m.Graph
	out.Graph = &g
	var err error
	if g.Outputs, err = choose(g.Outputs, o.Output); err != nil {
		return nil, err
	}
	return &out, nil
}

// choose returns the output of that name, or the only one for "".
func choose(outputs []*onnx.ValueInfo, name string) ([]*onnx.ValueInfo, error) {
	if name == "" && len(outputs) == 1 {
		return outputs, nil
	}
	for _, v := range outputs {
		if v.Name == name && name != "" {
			return []*onnx.ValueInfo{v}, nil
		}
	}
	switch {
	case len(outputs) == 0:
		return nil, fmt.Errorf("the model has no output; export it again")
	case name == "":
		return nil, fmt.Errorf("the model has %d outputs, %s; choose one with --output NAME (ReadOptions.Output)", len(outputs), names(outputs))
	}
	return nil, fmt.Errorf("the model has no output %s; --output (ReadOptions.Output) takes one of %s", quote(name), names(outputs))
}

// names lists the names of values for an error.
func names(list []*onnx.ValueInfo) string {
	quoted := make([]string, len(list))
	for i, v := range list {
		quoted[i] = quote(v.Name)
	}
	return brief(strings.Join(quoted, ", "), 400)
}

// quote quotes a name from the file and cuts one that would fill the message.
func quote(name string) string { return strconv.Quote(brief(name, 80)) }

// brief cuts a text to at most the given number of bytes.
func brief(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
