package network

import (
	"github.com/funcgp/funcgp/linearize/network/internal/compile"
)

// An Operator is one of ONNX that ReadONNX reads.
type Operator = compile.Operator

// Operators returns the operators that are read, sorted by group and name.
func Operators() []Operator { return compile.List() }

// An Unread is a kind of operators that ReadONNX does not read.
type Unread = compile.Unread

// UnreadOperators returns the kinds of operators that are not read, with the reason and the cure of each.
func UnreadOperators() []Unread { return compile.UnreadList() }

// The versions of ONNX's operators that are read.
const (
	MinOpset = compile.MinOpset
	MaxOpset = compile.MaxOpset
)
