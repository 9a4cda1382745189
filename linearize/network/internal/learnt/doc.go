// Package learnt decides which of the tensors stored in an ONNX graph were learnt.
// A file does not say it: parameters, tables of positions, masks and statistics all
// are initializers. The decision looks at where a tensor enters, at its numbers and,
// where these leave it open, at its name.
package learnt

import (
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
)

// A Graph is what the decision looks at.
type Graph struct {
	Nodes   []*onnx.Node
	Order   []int          // numbers of the nodes that influence the output, in the order in which they run
	Inputs  []string       // of the network
	Tensors []*onnx.Tensor // the floating point initializers
	Facts   func(op string) Facts
}

// A Decision says of one tensor whether it is a parameter.
type Decision struct {
	Parameter bool
	Reason    string // a clause without a subject: "is the weight of …"
	Doubtful  bool   // the evidence is thin or contradictory, and a warning should name the tensor
	Layer     bool   // it is the weight, bias or scale of a layer
}

// Decide returns the decision for each tensor of the graph that enters the computation,
// by name. Tensors that standardize inputs or scale outputs are not looked for.
func (g *Graph) Decide() map[string]Decision {
	u := &uses{graph: g, producer: map[string]*onnx.Node{}, consumers: map[string][]entry{}, static: map[string]bool{}, entries: map[string][]entry{}, input: map[string]bool{}}
	dynamic := map[string]bool{}
	for _, name := range g.Inputs {
		dynamic[name], u.input[name] = true, true
	}
	for _, i := range g.Order {
		n := g.Nodes[i]
		depends := false
		for k, name := range n.Inputs {
			depends = depends || dynamic[name]
			u.consumers[name] = append(u.consumers[name], entry{n, k})
		}
		// The shape of the input is known without its numbers.
		depends = depends && n.OpType != "Shape" && n.OpType != "Size"
		for _, name := range n.Outputs {
			u.producer[name] = n
			if !depends {
				u.static[name] = true
				continue
			}
			dynamic[name] = true
			if g.Facts(n.OpType).Has(Moves) && u.input[n.Inputs[0]] {
				u.input[name] = true
			}
		}
	}
	for _, i := range slices.Backward(g.Order) {
		for _, name := range g.Nodes[i].Outputs {
			if u.static[name] {
				u.collect(name)
			}
		}
	}
	for _, t := range g.Tensors {
		u.collect(t.Name)
	}
	out := map[string]Decision{}
	for _, t := range g.Tensors {
		// The product of the dimensions must be the number of elements.
		size := 1
		for _, d := range t.Dims {
			if d <= 0 || d > int64(t.Len()) || size*int(d) > t.Len() {
				size = 0
				break
			}
			size *= int(d)
		}
		if list := u.entries[t.Name]; len(list) > 0 && size > 0 && t.Len() == size {
			out[t.Name] = u.decide(t, list)
		}
	}
	// Take variances for constants, and the scale and bias beside them: PyTorch exports a normalization
	// as one operator, and what is written out has four buffers, which a file may store as fewer
	// tensors where they are equal.
	for _, t := range u.graph.Tensors {
		d, ok := out[t.Name]
		if !ok || d.Layer || len(t.Dims) == 0 {
			continue
		}
		// The square root of a variance is taken, perhaps with a small number added, before it meets the input.
		if !slices.ContainsFunc(u.firsts(t.Name, 0), func(e entry) bool {
			if len(e.node.Outputs) == 0 || !u.static[e.node.Outputs[0]] {
				return false
			}
			if e.node.OpType == "Add" && len(u.consumers[e.node.Outputs[0]]) > 0 {
				e = u.consumers[e.node.Outputs[0]][0]
			}
			return e.node.OpType == "Sqrt"
		}) {
			continue
		}
		if d.Parameter {
			out[t.Name] = Decision{Reason: "goes under a square root, as variances do", Doubtful: true}
		}
		path := t.Name[:strings.LastIndex(t.Name, ".")+1]
		for _, of := range []string{path + "weight", path + "bias"} {
			if scale, ok := out[of]; ok && scale.Parameter && !scale.Layer && path != "" {
				out[of] = Decision{Reason: "scales or shifts beside a stored variance in a normalization written out, as frozen ones do", Doubtful: true}
			}
		}
	}
	return out
}

// decide weighs use, numbers and name, in this order.
func (u *uses) decide(t *onnx.Tensor, list []entry) Decision {
	kind := nameKind(t.Name)
	if len(t.Dims) == 0 {
		// Decide for a tensor of rank 0: exporters store literals so, and PyTorch a parameter that is one
		// number.
		use, firsts := u.describe(list[0]), u.firsts(t.Name, 0)
		for _, e := range list {
			if r := u.role(e); r != pointwiseRole {
				return Decision{Reason: "is a single number of rank 0, " + use}
			}
		}
		other := func(e entry) bool { return !u.is(e.node, Positive) }
		if kind == otherName && len(firsts) > 0 && !slices.ContainsFunc(firsts, other) {
			return Decision{Parameter: true, Reason: "is the argument of a positive function, as learnt scales are, and a part of what is " + use}
		}
		switch kind {
		case learntName, learntScalarName:
			return Decision{Parameter: true, Reason: "is " + use + ", a single number with a name that is usual for a parameter"}
		case generatedName:
			return Decision{Reason: "is a single number of rank 0 without a name of its own"}
		case otherName:
			return Decision{Reason: "is a single number of rank 0 whose name does not say that it was learnt", Doubtful: true}
		}
		return Decision{Reason: "is a single number of rank 0 with a name that is usual for a constant"}
	}
	use, firsts := u.describe(list[0]), u.firsts(t.Name, 0)
	direct := func(e entry) bool { return slices.Contains(list, e) }
	layer := slices.ContainsFunc(firsts, func(e entry) bool { return u.role(e) == layerRole && direct(e) })
	if !slices.ContainsFunc(firsts, direct) {
		use = "a part of what is " + use
	}
	if reason := u.mask(t, list); reason != "" {
		return Decision{Reason: reason}
	}
	if u.singular(t) {
		return Decision{Reason: "is a vector of length one by which the scale of a weight is computed (spectral normalization)", Doubtful: kind != spectralName && kind != bufferName}
	}
	if kind == generatedName && u.onlyDivides(firsts) {
		return Decision{Reason: "only gives the norm of a stored weight, as constant folding leaves it", Doubtful: true}
	}
	if kind == frequencyName && u.waves(list) {
		return Decision{Reason: "gives the arguments of sines and cosines, and has a name that is usual for a constant", Doubtful: true}
	}
	if layer { // directly, and not by way of a computed weight
		d := Decision{Parameter: true, Reason: "is " + use, Layer: true}
		if kind == certainName || kind == bufferName {
			d.Doubtful, d.Reason = true, d.Reason+", though its name is usual for a constant"
		}
		return d
	}
	// A tensor may be put beside the input itself, before any layer.
	isInput := func(name string) bool { return u.input[name] }
	beside := !slices.ContainsFunc(list, func(e entry) bool {
		return e.node.OpType != "Concat" || !slices.ContainsFunc(e.node.Inputs, isInput)
	})
	switch formula, tested := regular(t); {
	case formula:
		return Decision{Reason: "holds numbers that follow a formula (sine and cosine of positions, a grid, frequencies)", Doubtful: kind == learntName}
	case kind == certainName:
		return Decision{Reason: "has a name that is usual for a constant only"}
	case kind == encodingName && tested:
		return Decision{Parameter: true, Reason: "is " + use + ", and its numbers are no sines and cosines, as its name may suggest", Doubtful: true}
	case kind == bufferName || kind == encodingName:
		return Decision{Reason: "has a name that is usual for a constant", Doubtful: true}
	case kind == statisticName:
		return Decision{Parameter: true, Reason: "is " + use + ", though its name is usual for a constant", Doubtful: true}
	case beside:
		return Decision{Parameter: true, Reason: "is " + use + ", as coordinates and learnt tokens are", Doubtful: kind != learntName}
	}
	return Decision{Parameter: true, Reason: "is " + use, Layer: slices.ContainsFunc(list, func(e entry) bool { return u.role(e) == layerRole || u.shifts(e) })}
}
