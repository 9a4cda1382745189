// Package head recognizes the function at the end of an ONNX graph that a likelihood may
// apply by itself: a Sigmoid, Softmax, LogSoftmax, Exp or Softplus, as one operator or
// written out in several.
package head

import (
	"fmt"
	"math"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
)

// A Function is a function that likelihoods apply to outputs.
type Function int

// The functions that are recognized at the end of a network.
const (
	None Function = iota
	Sigmoid
	Softmax
	LogSoftmax
	Exp
	Softplus
)

var names = [...]string{"", "Sigmoid", "Softmax", "LogSoftmax", "Exp", "Softplus"}

// String returns the name of ONNX's operator, "" for none.
func (f Function) String() string { return names[f] }

// A Rule says what becomes of a network's head.
type Rule int

// The rules. A Softmax of groups of outputs is never removed, as no likelihood applies
// it.
const (
	// Auto removes a Sigmoid, Softmax or LogSoftmax, which the likelihoods of
	// classes apply, and keeps any other.
	Auto Rule = iota
	// Keep keeps it as part of f.
	Keep
	// Remove removes it: f is what it is applied to.
	Remove
)

// A Head is the function that the last nodes of a model apply to its outputs, by one
// operator or written out in several.
type Head struct {
	Function Function
	Nodes    string // its node, or the last of several, as messages name it
	Clip     string // the Clip after it that guards probabilities or rates against 0, "" for none
	// Groups is the number of groups of outputs that a Softmax or LogSoftmax normalizes,
	// each by itself: 1 where it is over all outputs of an example.
	Groups  int
	Pair    bool // a Softmax made of a Sigmoid's p and 1−p: f is then ∓z/2, with z what the Sigmoid is applied to
	Removed bool // the network's outputs are what the head is applied to
}

// String names the function and the nodes.
func (h Head) String() string {
	if h.Function == None {
		return "none"
	}
	s := h.Function.String()
	if h.Pair {
		s += " of two classes by a Sigmoid"
	}
	if h.Groups > 1 {
		s += fmt.Sprintf(" of %d groups of outputs", h.Groups)
	}
	if h.Clip != "" {
		s += " with a " + h.Clip
	}
	return s + " (" + h.Nodes + ")"
}

// Warning says what became of the head of a network that was read without saying what is to
// become of it, or that it was removed.
func (h Head) Warning() error {
	if h.Removed {
		return linearize.NewWarning("head", math.NaN(), math.NaN(), "", "The final %v was removed. Outputs are its inputs, and the likelihood applies it.", h)
	}
	return linearize.NewWarning("head", math.NaN(), math.NaN(), "", "The final %v stays part of the outputs. The posterior is of what it gives.", h)
}

// Found is the Head of a graph and where it is.
type Found struct {
	Head
	Input string   // what it is applied to
	Each  []string // results that must have one number for each group, and depend on the input
	Last  int      // number of its last node
	Node  int      // number of a Softmax or LogSoftmax node, or −1

	sign int // 1 for the pair [1−p, p], −1 for [p, 1−p], else 0
}

// Removes reports whether a rule removes the head.
func (h *Head) Removes(r Rule) bool {
	switch {
	case h.Groups > 1 || r == Keep || h.Function == None:
		return false
	case r == Remove:
		return true
	}
	return h.Function == Sigmoid || h.Function == Softmax || h.Function == LogSoftmax
}

// Without returns the graph and its output where the head is removed. For a pair it
// appends the nodes that make ∓z/2 of z.
func (h *Found) Without(g *onnx.Graph) (*onnx.Graph, string) {
	if h.sign == 0 {
		return g, h.Input
	}
	a := onnx.NewAppender(g, "head")
	half := .5 * float64(h.sign)
	z := a.Add("Reshape", nil, h.Input, a.Constant(&onnx.Tensor{Type: onnx.Int64, Dims: []int64{2}, Ints: []int64{-1, 1}}))
	f := a.Add("Mul", nil, z, a.Constant(&onnx.Tensor{Type: onnx.Double, Dims: []int64{2}, Floats: []float64{-half, half}}))
	return a.Graph, f
}
