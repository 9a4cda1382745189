package network

import "github.com/funcgp/funcgp/linearize/network/internal/compile"

// An Operator is one of ONNX that ReadONNX reads.
type Operator = compile.Operator

// Operators returns the operators that are read, sorted by group and name.
func Operators() []Operator { return compile.List() }

// The versions of ONNX's operators that are read.
const (
	MinOpset = compile.MinOpset
	MaxOpset = compile.MaxOpset
)

// An UnsupportedError names all operators of a model that are not read, with their nodes.
type UnsupportedError = compile.UnsupportedError

// An UnsupportedOperator is one of them.
type UnsupportedOperator = compile.UnsupportedOperator
