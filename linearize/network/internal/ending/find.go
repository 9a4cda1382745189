// Package ending finds the function with which a graph ends.
package ending

import (
	"fmt"
	"math"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// Found is the Head of a graph and where it is.
type Found struct {
	head.Head
	Input string   // what it is applied to
	Each  []string // results that must have one number for each group, and depend on the input
	Last  int      // number of its last node
	Node  int      // number of a Softmax or LogSoftmax node, or −1

	sign int // 1 for the pair [1−p, p], −1 for [p, 1−p], else 0
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

// A finder follows a graph back from its output.
type finder struct {
	graph    *onnx.Graph
	producer map[string]int          // nodes by the names of their results
	inits    map[string]*onnx.Tensor // scalars that are no parameters, by name
	steps    int                     // left, so that it ends even if the nodes are a cycle
}

// Find recognizes the function that ends at an output of a graph; nil for none. Numbers
// that it is written out with are constants or initializers of rank 0, without those
// learnt. Groups is not known yet.
func Find(g *onnx.Graph, output string, learnt map[string]bool) *Found {
	f := &finder{graph: g, producer: map[string]int{}, inits: map[string]*onnx.Tensor{}, steps: 64*len(g.Nodes) + 64}
	for i, n := range g.Nodes {
		for _, name := range n.Outputs {
			f.producer[name] = i
		}
	}
	for _, t := range g.Initializers {
		if len(t.Dims) == 0 && !learnt[t.Name] {
			f.inits[t.Name] = t
		}
	}
	return f.at(output)
}

// at returns the function that ends at a name, perhaps with Clips after it that guard
// its numbers; nil for none.
func (f *finder) at(name string) *Found {
	var clips [][2]float64
	for {
		name = f.through(name)
		n, _ := f.node(name)
		if n == nil || n.OpType != "Clip" {
			break
		}
		lo, hi, ok := f.bounds(n)
		if !ok {
			return nil
		}
		clips, name = append(clips, [2]float64{lo, hi}), n.Inputs[0]
	}
	h := f.function(name)
	for _, b := range clips {
		if h == nil {
			return nil
		}
		text, ok := guard(h.Function, b[0], b[1])
		if !ok {
			return nil
		}
		if text != "" {
			h.Clip = text
		}
	}
	return h
}

// The bounds up to which a Clip is a guard against 0 and 1, or against 0 and overflow,
// and does not change what a function says.
const (
	guardProbability = 1e-3
	guardRate        = 1e6
)

// guard describes a Clip after a function, "" where it does nothing; ok is false where it
// changes the function.
func guard(f head.Function, lo, hi float64) (text string, ok bool) {
	switch f {
	case head.Sigmoid, head.Softmax:
		if lo <= 0 && hi >= 1 {
			return "", true
		}
		ok = lo <= guardProbability && hi >= 1-guardProbability
	case head.LogSoftmax:
		if math.IsInf(lo, -1) && hi >= 0 {
			return "", true
		}
		ok = lo <= math.Log(guardProbability) && hi >= -guardProbability
	default:
		if lo <= 0 && math.IsInf(hi, 1) {
			return "", true
		}
		ok = lo <= guardProbability && hi >= guardRate
	}
	return fmt.Sprintf("Clip to [%.7g, %.7g]", lo, hi), ok
}

// node returns the node that makes a name by one of ONNX's own operators, and its
// number; nil if there is none with an input.
func (f *finder) node(name string) (*onnx.Node, int) {
	i, ok := f.producer[name]
	if f.steps--; !ok || f.steps < 0 {
		return nil, -1
	}
	n := f.graph.Nodes[i]
	if !n.Standard() || len(n.Inputs) == 0 || len(n.Outputs) == 0 || n.Outputs[0] != name || n.Inputs[0] == "" {
		return nil, -1
	}
	return n, i
}

// is returns the node that makes a name, seen through nodes that only move numbers, if
// it has this operator and at least so many inputs.
func (f *finder) is(name, op string, inputs int) (*onnx.Node, int) {
	n, i := f.node(f.through(name))
	if n == nil || n.OpType != op || len(n.Inputs) < inputs {
		return nil, -1
	}
	return n, i
}

// through steps back over nodes that leave the numbers as they are, and over a Mul by
// 1, which PyTorch writes after a Reciprocal.
func (f *finder) through(name string) string {
	for {
		n, _ := f.node(name)
		if n == nil {
			return name
		}
		switch n.OpType {
		case "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout":
			name = n.Inputs[0]
		case "Cast":
			if a := n.Attr("to"); a == nil || !onnx.DataType(a.I).IsFloat() {
				return name
			}
			name = n.Inputs[0]
		case "Mul":
			other, ok := f.times(n, 1)
			if !ok {
				return name
			}
			name = other
		default:
			return name
		}
	}
}

// bounds returns those of a Clip, which are inputs or, in older versions, attributes.
func (f *finder) bounds(n *onnx.Node) (lo, hi float64, ok bool) {
	bound := func(i int, name string, def float64) (float64, bool) {
		if a := n.Attr(name); a != nil {
			return float64(a.F), true
		}
		if i >= len(n.Inputs) || n.Inputs[i] == "" {
			return def, true
		}
		return f.number(n.Inputs[i])
	}
	lo, okLo := bound(1, "min", math.Inf(-1))
	hi, okHi := bound(2, "max", math.Inf(1))
	return lo, hi, okLo && okHi
}

// number returns the one number that a name stands for, whatever its shape; ok is false
// if it is none that is known.
func (f *finder) number(name string) (v float64, ok bool) {
	if t := f.inits[name]; t != nil {
		if !t.Type.IsFloat() || len(t.Floats) != 1 {
			return 0, false
		}
		return t.Floats[0], true
	}
	i, ok := f.producer[name]
	if f.steps--; !ok || f.steps < 0 || !f.graph.Nodes[i].Standard() {
		return 0, false
	}
	n := f.graph.Nodes[i]
	switch n.OpType {
	case "Constant", "ConstantOfShape":
		if a := n.Attr("value_float"); a != nil {
			return float64(a.F), true
		}
		if a := n.Attr("value"); a != nil && a.T != nil && len(a.T.Floats) == 1 {
			return a.T.Floats[0], true
		}
	case "Identity", "Cast", "Unsqueeze", "Squeeze", "Reshape", "Expand":
		if len(n.Inputs) > 0 {
			return f.number(n.Inputs[0])
		}
	}
	return 0, false
}

// equals reports whether a name stands for this one number.
func (f *finder) equals(name string, want float64) bool {
	v, ok := f.number(name)
	return ok && v == want
}

// times returns the other factor of a Mul by this number.
func (f *finder) times(n *onnx.Node, by float64) (other string, ok bool) {
	switch {
	case len(n.Inputs) != 2:
	case f.equals(n.Inputs[1], by):
		return n.Inputs[0], true
	case f.equals(n.Inputs[0], by):
		return n.Inputs[1], true
	}
	return "", false
}

// made returns a head that ends with node i and is applied to input.
func (f *finder) made(function head.Function, i int, input string) *Found {
	return &Found{Head: head.Head{Function: function}, Input: input, Last: i, Node: -1}
}

// function returns the function whose last node makes a name; nil for none.
func (f *finder) function(name string) *Found {
	n, i := f.node(name)
	if n == nil {
		return nil
	}
	switch n.OpType {
	case "Sigmoid":
		return f.made(head.Sigmoid, i, n.Inputs[0])
	case "Softplus":
		return f.made(head.Softplus, i, n.Inputs[0])
	case "Softmax", "LogSoftmax":
		function := head.Softmax
		if n.OpType == "LogSoftmax" {
			function = head.LogSoftmax
		}
		h := f.made(function, i, n.Inputs[0])
		h.Node = i
		return f.shifted(h)
	case "Exp":
		if h := f.at(n.Inputs[0]); h != nil && h.Function == head.LogSoftmax {
			return f.as(h, head.Softmax, i)
		}
		return f.made(head.Exp, i, n.Inputs[0])
	case "Log":
		if h := f.at(n.Inputs[0]); h != nil && h.Function == head.Softmax {
			return f.as(h, head.LogSoftmax, i)
		}
		if e := f.onePlusExp(n.Inputs[0]); e != "" {
			return f.made(head.Softplus, i, e)
		}
	case "Reciprocal":
		return f.logistic(n.Inputs[0], i)
	}
	if len(n.Inputs) != 2 {
		return nil
	}
	switch n.OpType {
	case "Div":
		// Recognize 1/(1+exp(−x)), exp(x)/(1+exp(x)) and exp(x)/Σexp(x).
		if f.equals(n.Inputs[0], 1) {
			return f.logistic(n.Inputs[1], i)
		}
		x, e := f.exp(n.Inputs[0])
		if x == "" {
			return nil
		}
		if y := f.onePlusExp(n.Inputs[1]); y != "" && y == x {
			return f.made(head.Sigmoid, i, x)
		}
		if sum := f.sumOf(n.Inputs[1], e); sum != "" {
			h := f.made(head.Softmax, i, x)
			h.Each = []string{sum}
			return f.shifted(h)
		}
		return nil
	case "Sub":
		// Recognize x − log Σexp(x).
		x := n.Inputs[0]
		sum := ""
		if r, _ := f.is(n.Inputs[1], "ReduceLogSumExp", 1); r != nil && f.through(r.Inputs[0]) == f.through(x) {
			sum = r.Outputs[0]
		}
		if l, _ := f.is(n.Inputs[1], "Log", 1); l != nil {
			if r, _ := f.is(l.Inputs[0], "ReduceSum", 1); r != nil {
				if of, e := f.exp(r.Inputs[0]); of != "" && f.through(of) == f.through(x) {
					sum = f.sumOf(l.Inputs[0], e)
				}
			}
		}
		if sum == "" {
			return nil
		}
		h := f.made(head.LogSoftmax, i, x)
		h.Each = []string{sum}
		return f.shifted(h)
	case "Concat":
		// Recognize [1−p, p] and [p, 1−p] with p by a Sigmoid.
		for k, sign := range []int{-1, 1} {
			h := f.at(n.Inputs[k])
			if h == nil || h.Function != head.Sigmoid || !f.complement(n.Inputs[1-k], n.Inputs[k], h) {
				continue
			}
			h.sign, h.Pair, h.Each = sign, true, nil
			return f.as(h, head.Softmax, i)
		}
		return nil
	}
	return nil
}

// as returns a head as another function, which ends with node i.
func (f *finder) as(h *Found, function head.Function, i int) *Found {
	h.Function, h.Last = function, i
	return h
}

// exp returns what an Exp is applied to, "" if the name is none, and the name of its
// result.
func (f *finder) exp(name string) (of, result string) {
	n, _ := f.is(name, "Exp", 1)
	if n == nil {
		return "", ""
	}
	return n.Inputs[0], n.Outputs[0]
}

// onePlusExp returns x where the name is 1 + exp(x), else "".
func (f *finder) onePlusExp(name string) string {
	n, _ := f.is(name, "Add", 2)
	if n == nil {
		return ""
	}
	for k := range 2 {
		if x, _ := f.exp(n.Inputs[k]); x != "" && f.equals(n.Inputs[1-k], 1) {
			return x
		}
	}
	return ""
}

// negated returns x where the name is −x, else "".
func (f *finder) negated(name string) string {
	if n, _ := f.is(name, "Neg", 1); n != nil {
		return n.Inputs[0]
	}
	if n, _ := f.is(name, "Mul", 2); n != nil {
		if x, ok := f.times(n, -1); ok {
			return x
		}
	}
	return ""
}

// logistic returns the Sigmoid whose denominator 1 + exp(−x) is a name.
func (f *finder) logistic(denominator string, i int) *Found {
	e := f.onePlusExp(denominator)
	if e == "" {
		return nil
	}
	if x := f.negated(e); x != "" {
		return f.made(head.Sigmoid, i, x)
	}
	return nil
}

// sumOf returns the name of a ReduceSum of e that another name stands for, perhaps
// repeated for all outputs; "" for none.
func (f *finder) sumOf(name, e string) string {
	if n, _ := f.is(name, "Expand", 2); n != nil {
		name = n.Inputs[0]
	}
	n, _ := f.is(name, "ReduceSum", 1)
	if n == nil || f.through(n.Inputs[0]) != f.through(e) {
		return ""
	}
	return n.Outputs[0]
}

// shifted steps over the subtraction of the largest output, which a Softmax ignores.
func (f *finder) shifted(h *Found) *Found {
	n, _ := f.is(h.Input, "Sub", 2)
	if n == nil {
		return h
	}
	if m, _ := f.is(n.Inputs[1], "ReduceMax", 1); m != nil && f.through(m.Inputs[0]) == f.through(n.Inputs[0]) {
		h.Input = n.Inputs[0]
		h.Each = append(h.Each, m.Outputs[0])
	}
	return h
}

// complement reports whether a name is 1−p, for p = σ(z) another name and h its head.
func (f *finder) complement(name, p string, h *Found) bool {
	if n, _ := f.node(f.unclipped(name)); n != nil && len(n.Inputs) == 2 {
		one, minus := "", ""
		switch n.OpType {
		case "Sub":
			one, minus = n.Inputs[0], n.Inputs[1]
		case "Add":
			one, minus = n.Inputs[0], f.negated(n.Inputs[1])
			if minus == "" {
				one, minus = n.Inputs[1], f.negated(n.Inputs[0])
			}
		}
		if minus != "" && f.equals(one, 1) {
			return f.unclipped(minus) == f.unclipped(p)
		}
	}
	// σ(−z)
	other := f.at(name)
	if other == nil || other.Function != head.Sigmoid {
		return false
	}
	x := f.negated(other.Input)
	return x != "" && f.through(x) == f.through(h.Input)
}

// unclipped is through that also steps over Clips that guard probabilities.
func (f *finder) unclipped(name string) string {
	for {
		name = f.through(name)
		n, _ := f.node(name)
		if n == nil || n.OpType != "Clip" {
			return name
		}
		lo, hi, ok := f.bounds(n)
		if ok {
			_, ok = guard(head.Sigmoid, lo, hi)
		}
		if !ok {
			return name
		}
		name = n.Inputs[0]
	}
}
