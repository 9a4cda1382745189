package learnt

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/funcgp/funcgp/internal/onnx"
)

// A role is how a tensor enters a node.
type role int

const (
	pointwiseRole role = iota // number by number with another tensor
	layerRole                 // as the weight, bias or scale of a layer, or as a table of embeddings
	besideRole                // next to other values along an axis
	setting                   // as a shape, bound or statistic
)

// An entry is a place where a tensor, perhaps after operations on stored tensors alone,
// meets values that depend on the input.
type entry struct {
	node  *onnx.Node
	index int // of the input of node
}

// maxEntries bounds the places that are listed for one tensor.
const maxEntries = 8

// uses holds the places where stored tensors enter.
type uses struct {
	graph     *Graph
	producer  map[string]*onnx.Node
	consumers map[string][]entry
	static    map[string]bool    // values that do not depend on the numbers of the input
	entries   map[string][]entry // by value
	input     map[string]bool    // the input itself, moved and cast
}

// collect lists the entries of a value whose consumers' results have theirs.
func (u *uses) collect(name string) {
	var found [maxEntries]entry
	list := found[:0]
	add := func(e entry) {
		if len(list) < maxEntries && !slices.Contains(list, e) {
			list = append(list, e)
		}
	}
	for _, e := range u.consumers[name] {
		switch {
		case len(e.node.Outputs) == 0:
			continue
		case !u.static[e.node.Outputs[0]] || u.role(e) == setting:
			add(e)
			continue
		}
		for _, out := range e.node.Outputs {
			for _, further := range u.entries[out] {
				add(further)
			}
		}
	}
	u.entries[name] = slices.Clone(list)
}

// Facts say how an operator treats its inputs.
type Facts struct {
	Roles Roles
	Bias  int // of one that Multiplies, the input that is a bias, or 0
}

// Has reports whether the operator has one of these roles.
func (f Facts) Has(r Roles) bool { return f.Roles&r != 0 }

// Roles are a set of the following.
type Roles int

const (
	Multiplies Roles = 1 << iota // by a weight, in any of its inputs or, with a bias, in those between the first and the bias
	Recurs                       // it is not linear in its weights either
	Normalizes                   // inputs 1 and 2 are its scale and bias, further ones statistics
	Moves                        // the numbers of its first input, without a change
	Passes                       // the same, where the input is on its way to a first layer
	Prepares                     // the input before a first layer, as no activation does
	Shifts                       // or scales its only input that is not stored
	Compares                     // or combines truth values
	Sets                         // its inputs after the first are shapes, bounds, places or statistics
	Positive                     // it makes a scale of any number that is learnt
)

// is reports whether the operator of a node has one of these roles.
func (u *uses) is(n *onnx.Node, r Roles) bool { return u.graph.Facts(n.OpType).Has(r) }

// role returns how a tensor enters.
func (u *uses) role(e entry) role {
	op, facts := e.node.OpType, u.graph.Facts(e.node.OpType)
	switch {
	case facts.Has(Compares) || op == "Where" && e.index == 0 || op == "Shape":
		return setting
	case facts.Has(Normalizes) && e.index > 2:
		return setting
	case facts.Has(Multiplies | Normalizes):
		return layerRole
	case e.index == 0 && (op == "Gather" || op == "GatherND" || op == "GatherElements"):
		return layerRole
	case e.index > 0 && facts.Has(Sets) && (op != "OneHot" || e.index == 1):
		return setting
	case op == "Concat" || op == "ScatterND" || op == "ScatterElements":
		return besideRole
	case e.node.Domain != "" && e.node.Domain != "ai.onnx" && e.index > 0:
		return layerRole
	}
	return pointwiseRole
}

// describe says where a tensor enters, as a noun clause.
func (u *uses) describe(e entry) string {
	at := " " + quoted(e.node)
	switch op, facts := e.node.OpType, u.graph.Facts(e.node.OpType); {
	case u.role(e) == setting:
		return "a shape, bound or statistic of" + at
	case facts.Has(Normalizes) && e.index == 1:
		return "the scale of" + at
	case facts.Has(Normalizes):
		return "the bias of" + at
	case u.role(e) == layerRole && (op == "Gather" || op == "GatherND" || op == "GatherElements"):
		return "the table from which" + at + " takes rows"
	case facts.Bias > 0 && e.index == facts.Bias:
		return "the bias of" + at
	case u.role(e) == layerRole:
		return "the weight of" + at
	case u.role(e) == besideRole:
		return "put beside values that depend on the input by" + at
	case u.shifts(e):
		return "added to the result of " + quoted(u.producer[e.node.Inputs[1-e.index]]) + " by" + at
	}
	return "combined with values that depend on the input by" + at
}

// shifts reports whether a tensor is added to the result of a product, as a bias is.
func (u *uses) shifts(e entry) bool {
	if e.node.OpType != "Add" || len(e.node.Inputs) != 2 {
		return false
	}
	p := u.producer[e.node.Inputs[1-e.index]]
	return p != nil && u.is(p, Multiplies)
}

// quoted names a node with its operator.
func quoted(n *onnx.Node) string {
	name := n.Name
	if len(name) > 80 {
		name = name[:80] + "…"
	}
	if name == "" && len(n.Outputs) > 0 {
		return fmt.Sprintf("%s (node of %s)", n.OpType, strconv.Quote(n.Outputs[0]))
	}
	return fmt.Sprintf("%s %s", n.OpType, strconv.Quote(name))
}

// waves reports whether all that is multiplied by a tensor enters sines and cosines, perhaps
// scaled before.
func (u *uses) waves(list []entry) bool {
	for _, e := range list {
		name := e.node.Outputs[0]
		for range maxEntries {
			next := u.consumers[name]
			if len(next) == 1 && (next[0].node.OpType == "Mul" || next[0].node.OpType == "Concat" || u.is(next[0].node, Moves)) && len(next[0].node.Outputs) > 0 {
				name = next[0].node.Outputs[0]
			}
		}
		next := u.consumers[name]
		if len(next) == 0 || slices.ContainsFunc(next, func(e entry) bool { return e.node.OpType != "Sin" && e.node.OpType != "Cos" }) {
			return false
		}
	}
	return len(list) > 0
}
