package network

import "github.com/funcgp/funcgp/linearize/network/internal/compile"

// An Operator is one of ONNX that ReadONNX reads.
type Operator struct {
	Name  string // with the domain in front where it is not ONNX's own: "com.microsoft.Gelu"
	Group string // of the list of operators
	Note  string // what of it is not read, or read in a special way; "" for nothing
}

// Operators returns the operators that are read, sorted by group and name.
func Operators() []Operator {
	var list []Operator
	for _, o := range compile.List() {
		list = append(list, Operator(o))
	}
	return list
}

// The versions of ONNX's operators that are read.
const (
	MinOpset = compile.MinOpset
	MaxOpset = compile.MaxOpset
)
