package network

import (
	"github.com/funcgp/funcgp/linearize/network/internal/compile"
)

// An Operator is an operator of ONNX that ReadONNX reads.
type Operator = compile.Operator

// Operators returns the operators that are read, sorted by group and name.
func Operators() []Operator { return compile.List() }

// An Unread is a group of operators that ReadONNX does not read.
type Unread = compile.Unread

// UnreadOperators returns the groups of operators that are not read, each with the reason and the remedy.
func UnreadOperators() []Unread { return compile.UnreadList() }

// The versions of ONNX's operators that are read.
const (
	MinOpset = compile.MinOpset
	MaxOpset = compile.MaxOpset
)
