package network

import (
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network/internal/compile"
)

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

// An Unread is a kind of operators that ReadONNX does not read.
type Unread struct {
	Operators string // names with spaces between them; a domain with .* is all the others of it
	Reason    string // why, a clause about one of them
	Cure      string // what to do about it

	cure option.Text
}

// Message is the cure with its options.
func (u Unread) Message() option.Text { return u.cure }

// UnreadOperators returns the kinds of operators that are not read.
func UnreadOperators() []Unread {
	var list []Unread
	for _, u := range compile.UnreadList() {
		list = append(list, Unread{u.Operators, u.Reason.String(), u.Cure.String(), u.Cure})
	}
	return list
}

// The versions of ONNX's operators that are read.
const (
	MinOpset = compile.MinOpset
	MaxOpset = compile.MaxOpset
)
