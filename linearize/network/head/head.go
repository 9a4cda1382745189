// Package head holds what a network may end with: a function of the outputs that the likelihoods of
// package glm apply by themselves, and that is part of the outputs or removed.
package head

import (
	"fmt"
	"math"

	"github.com/funcgp/funcgp/linearize"
)

// A Function is that of a Head. The likelihoods of package glm apply some of them to the outputs:
// Bernoulli a Sigmoid, Categorical a Softmax, which gives the same probabilities after a LogSoftmax,
// and Poisson Exp. None applies Softplus.
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

// The rules. A Softmax of groups of outputs is never removed, as no likelihood applies it.
const (
	Auto   Rule = iota // a Sigmoid, Softmax or LogSoftmax is removed, any other stays
	Keep               // it is part of the outputs
	Remove             // the outputs are what it is applied to
)

// A Head is the function that the last nodes of a file apply to the outputs, by one operator or
// written out: a Sigmoid also as 1/(1+exp(−x)), a Softmax as exp(x)/Σexp(x), with or without
// the largest x subtracted, or as [1−p, p] or [p, 1−p] with p by a Sigmoid. Between it and
// the end there may be nodes that only move numbers (Reshape, Flatten, Squeeze,
// Unsqueeze, Cast, Identity), and a Clip to [0, 1] or to bounds that guard a logarithm,
// such as [1e−7, 1−1e−7], which goes with it.
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
