// Package ending finds the function with which a graph ends.
package ending

import (
	"fmt"
	"math"
	"slices"
	"strings"

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
			var rest string
			for k, by := range n.Inputs {
				if v, ok := f.number(by); ok && v == 1 && len(n.Inputs) == 2 {
					rest = n.Inputs[1-k]
				}
			}
			if rest == "" {
				return name
			}
			name = rest
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

// A pattern is a value that a graph may compute: a number, an operator of other values, or any value. Where an
// any-value occurs twice, both must be the same one.
type pattern struct {
	op     string // "" for a number or any value
	args   []pattern
	any    bool
	number float64
}

func of(op string, args ...pattern) pattern { return pattern{op: op, args: args} }

var (
	x, one = pattern{any: true}, pattern{number: 1}
	exp    = of("Exp", x)
	minus  = of("Neg", x)

	logistic  = of("Add", one, of("Exp", minus)) // 1 + exp(−x)
	plusExp   = of("Add", one, exp)
	sumOfExp  = of("ReduceSum", exp)
	shift     = of("Sub", x, of("ReduceMax", x))
	fromOne   = []pattern{of("Sub", one, x), of("Add", one, minus)}
	functions = []struct {
		function head.Function
		pattern  pattern
	}{
		{head.Sigmoid, of("Sigmoid", x)},
		{head.Sigmoid, of("Reciprocal", logistic)},
		{head.Sigmoid, of("Div", one, logistic)},
		{head.Sigmoid, of("Div", exp, plusExp)},
		{head.Softplus, of("Softplus", x)},
		{head.Softplus, of("Log", plusExp)},
		{head.Softmax, of("Softmax", x)},
		{head.Softmax, of("Div", exp, sumOfExp)},
		{head.LogSoftmax, of("LogSoftmax", x)},
		{head.LogSoftmax, of("Sub", x, of("ReduceLogSumExp", x))},
		{head.LogSoftmax, of("Sub", x, of("Log", sumOfExp))},
		{head.Exp, exp},
	}
)

// A match says of a value that a pattern fits what any value is, and the results of reductions.
type match struct {
	value string
	each  []string
}

// fits reports whether a name is what a pattern says, seen through nodes that only move numbers.
func (f *finder) fits(p pattern, name string, m *match) bool {
	if p.any {
		if m.value == "" {
			m.value = name
		}
		return f.through(m.value) == f.through(name)
	}
	if p.op == "" {
		v, ok := f.number(name)
		return ok && v == p.number
	}
	n, _ := f.node(f.through(name))
	if n != nil && p.op == "ReduceSum" && n.OpType == "Expand" { // repeated for all outputs
		n, _ = f.node(f.through(n.Inputs[0]))
	}
	if n != nil && p.op == "Neg" && n.OpType == "Mul" {
		p = of("Mul", p.args[0], pattern{number: -1})
	}
	if n == nil || n.OpType != p.op || len(n.Inputs) < len(p.args) {
		return false
	}
	orders := [][]string{n.Inputs}
	if p.op == "Add" || p.op == "Mul" {
		orders = append(orders, []string{n.Inputs[1], n.Inputs[0]})
	}
	for _, inputs := range orders {
		inner, fits := match{m.value, slices.Clone(m.each)}, true
		for k, arg := range p.args {
			fits = fits && f.fits(arg, inputs[k], &inner)
		}
		if !fits {
			continue
		}
		if *m = inner; strings.HasPrefix(p.op, "Reduce") {
			m.each = append(m.each, n.Outputs[0])
		}
		return true
	}
	return false
}

// function returns the function whose last node makes a name; nil for none.
func (f *finder) function(name string) *Found {
	n, i := f.node(name)
	if n == nil {
		return nil
	}
	switch n.OpType {
	case "Exp", "Log":
		from, to := head.LogSoftmax, head.Softmax
		if n.OpType == "Log" {
			from, to = to, from
		}
		if h := f.at(n.Inputs[0]); h != nil && h.Function == from {
			h.Function, h.Last = to, i
			return h
		}
	case "Concat":
		// Recognize [1−p, p] and [p, 1−p] with p by a Sigmoid.
		for k, sign := range []int{-1, 1} {
			if len(n.Inputs) != 2 {
				return nil
			}
			h := f.at(n.Inputs[k])
			if h == nil || h.Function != head.Sigmoid || !f.complement(n.Inputs[1-k], n.Inputs[k], h) {
				continue
			}
			h.sign, h.Pair, h.Each, h.Function, h.Last = sign, true, nil, head.Softmax, i
			return h
		}
	}
	for _, p := range functions {
		var m match
		if p.pattern.op != n.OpType || !f.fits(p.pattern, name, &m) {
			continue
		}
		h := &Found{Head: head.Head{Function: p.function}, Input: m.value, Each: m.each, Last: i, Node: -1}
		if n.OpType == p.function.String() && (p.function == head.Softmax || p.function == head.LogSoftmax) {
			h.Node = i
		}
		// A Softmax ignores that the largest output was subtracted.
		var shifted match
		if (p.function == head.Softmax || p.function == head.LogSoftmax) && f.fits(shift, h.Input, &shifted) {
			h.Input, h.Each = shifted.value, append(h.Each, shifted.each...)
		}
		return h
	}
	return nil
}

// complement reports whether a name is 1−p, for p = σ(z) another name and h its head.
func (f *finder) complement(name, p string, h *Found) bool {
	for _, form := range fromOne {
		var m match
		if f.fits(form, f.unclipped(name), &m) {
			return f.unclipped(m.value) == f.unclipped(p)
		}
	}
	// σ(−z)
	other, m := f.at(name), match{}
	return other != nil && other.Function == head.Sigmoid && f.fits(minus, other.Input, &m) && f.through(m.value) == f.through(h.Input)
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
