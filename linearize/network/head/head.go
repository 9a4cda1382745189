// Package head describes the function with which a network may end, such as a Softmax. The
// likelihoods of package glm apply such functions themselves, so that it can be removed or kept as
// part of the outputs.
package head

import (
	"fmt"
	"math"

	"github.com/funcgp/funcgp/linearize"
)

// A Function is the function of a Head. The likelihoods of package glm apply some of these functions
// to the outputs: Bernoulli applies Sigmoid, Categorical applies Softmax, which gives the same
// probabilities after a LogSoftmax, and Poisson applies Exp. No likelihood applies Softplus.
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

// A Rule says whether a network's head is removed.
type Rule int

// The rules. A Softmax of groups of outputs is never removed, as no likelihood applies it.
const (
	Auto   Rule = iota // a Sigmoid, Softmax or LogSoftmax is removed, any other function stays
	Keep               // the head is part of the outputs
	Remove             // the outputs are the input of the head
)

// A Head is the function that the last nodes of a file apply to the outputs, by one operator or
// written out. A Sigmoid may be written as 1/(1+exp(−x)), and a Softmax as exp(x)/Σexp(x), with or
// without the largest x subtracted, or as [1−p, p] or [p, 1−p] with p from a Sigmoid. Nodes that
// only move numbers may follow it (Reshape, Flatten, Squeeze, Unsqueeze, Cast, Identity), and so
// may a Clip to [0, 1] or to bounds that guard a logarithm, such as [1e−7, 1−1e−7]; the Clip is
// removed with the head.
type Head struct {
	Function Function
	Nodes    string // name for messages of its node, or of the last of several
	Clip     string // the Clip after it that guards probabilities or rates against 0; "" for none
	// Groups is the number of groups of outputs that a Softmax or LogSoftmax normalizes,
	// each by itself: 1 if it is over all outputs of an example.
	Groups  int
	Pair    bool // a Softmax made of p and 1−p with a Sigmoid p = σ(z); removed, it leaves f = ∓z/2
	Removed bool // whether it was removed, so that the network's outputs are its input
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

// Warning returns a warning that says whether the head was removed or stays.
func (h Head) Warning() error {
	if h.Removed {
		return linearize.NewWarning("head", math.NaN(), math.NaN(), "", "The final %v was removed. Outputs are its inputs, and the likelihood applies it.", h)
	}
	return linearize.NewWarning("head", math.NaN(), math.NaN(), "", "The final %v stays part of the outputs. The posterior is of what it gives.", h)
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
