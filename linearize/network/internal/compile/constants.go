package compile

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

func set(names ...string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}

// A constants finds the initializers that standardize inputs before the first layer or scale outputs after the last
// layer. A file does not say which tensors were learnt. But the mean or standard deviation of the data was not
// learnt, and a prior centred at zero makes no sense for it.
type constants struct {
	nodes     []*onnx.Node
	order     []int            // numbers of the nodes in the order in which they run
	inits     map[string]bool  // initializers
	consumers map[string][]int // for each name, the nodes that read it
	static    map[string]bool  // results that do not depend on the input
	tensors   map[string]bool  // names in static or inits made from an initializer of rank 1 or more
	large     map[string]bool  // names in tensors made from an initializer with more than D numbers
	input     map[string]bool  // the inputs and what constants make of them by moving, shifting and scaling
}

// findConstants decides which initializers standardize inputs or scale outputs. It takes them for constants, unless
// they are to be learnt, and warns of this. It then decides for every other initializer whether it was learnt.
// order lists the nodes in the order in which they run.
func (c *compiler) findConstants(order []int, output string) {
	for _, name := range slices.Sorted(maps.Keys(c.learn)) {
		switch in := c.inits[name]; {
		case in == nil || !in.t.Type.IsFloat():
			panic(refuse("network: cannot learn %s: no tensor of numbers of that name; inspect lists them", quote(name)))
		case c.freeze[name]:
			panic(refuse("network: %s is to be learnt and to be frozen; choose one", quote(name)))
		}
	}
	s := &constants{nodes: c.graph.Nodes, order: order, inits: map[string]bool{}, consumers: map[string][]int{}, static: map[string]bool{}, tensors: map[string]bool{}, large: map[string]bool{}, input: map[string]bool{}}
	for _, in := range c.prog.Inputs {
		s.input[in.Name] = true
	}
	for name, in := range c.inits {
		s.inits[name], s.tensors[name], s.large[name] = true, len(in.t.Dims) > 0, in.t.Len() > c.prog.D
	}
	// Find the values that do not depend on the input, and the values made from the input by moving, shifting and
	// scaling with constants.
	for _, i := range s.order {
		n := s.nodes[i]
		static, tensor, large, input, other := true, false, false, false, false
		for _, name := range n.Inputs {
			if name == "" {
				continue
			}
			s.consumers[name] = append(s.consumers[name], i)
			static = static && s.constant(name)
			tensor, large = tensor || s.tensors[name], large || s.large[name]
			input = input || s.input[name]
			other = other || !s.input[name] && !s.constant(name)
		}
		prepared := false
		switch {
		case !standard(n) || len(n.Inputs) == 0:
		case Facts(n.OpType).Has(learnt.Passes | learnt.Prepares):
			prepared = s.input[n.Inputs[0]]
		case n.OpType == "Concat":
			prepared = input && !other
		default:
			name, ok := s.operand(n)
			prepared = ok && s.input[name] && !s.spreads(n)
		}
		for _, name := range n.Outputs {
			mark(s.static, name, static)
			mark(s.tensors, name, static && tensor)
			mark(s.large, name, static && large)
			mark(s.input, name, prepared)
		}
	}
	// Find the nodes at which constants shift or scale the input before it reaches a layer.
	found := map[int]bool{}
	reaches := map[string]bool{} // values that a layer reads, directly or after more such nodes
	for _, i := range slices.Backward(s.order) {
		n := s.nodes[i]
		if name, ok := s.layer(n); ok {
			reaches[name] = true
			continue
		}
		if len(n.Outputs) == 0 || !s.input[n.Outputs[0]] || !slices.ContainsFunc(n.Outputs, func(name string) bool { return reaches[name] }) {
			continue
		}
		for _, name := range n.Inputs {
			if s.input[name] {
				reaches[name] = true
			}
		}
		if _, ok := s.operand(n); ok {
			found[i] = true
		}
	}
	before, after := found, s.afterLast(output)
	first, last := s.only(before, output), s.only(after, output)
	c.prog.InputConstants = c.fix(first, false)
	if c.prog.OutputConstants = c.fix(last, true); len(c.prog.OutputConstants) > 0 {
		// Multiply the stored numbers by which these nodes multiply or divide all outputs. The scale is 0 (unknown)
		// if a node has several numbers or computed numbers.
		scale := 1.0
		for i, n := range c.graph.Nodes {
			if !after[i] || n.OpType == "Add" || n.OpType == "Sub" {
				continue
			}
			in := c.inits[n.Inputs[1]]
			if in == nil && n.OpType == "Mul" {
				in = c.inits[n.Inputs[0]]
			}
			if in == nil || in.t.Len() != 1 || len(in.t.Floats) != 1 {
				scale = 0
				break
			}
			if n.OpType == "Div" {
				scale /= in.t.Floats[0]
			} else {
				scale *= in.t.Floats[0]
			}
		}
		c.prog.OutputScale = scale
	}
	// Decide which of the other tensors were learnt. first and last hold the tensors that standardize inputs and
	// scale outputs.
	g := &learnt.Graph{Nodes: c.graph.Nodes, Order: order, Facts: Facts}
	for _, in := range c.prog.Inputs {
		g.Inputs = append(g.Inputs, in.Name)
	}
	for _, t := range c.graph.Initializers {
		if t.Type.IsFloat() && !c.fixed[t.Name] {
			g.Tensors = append(g.Tensors, t)
		}
	}
	c.decisions = g.Decide()
	for _, name := range slices.Concat(c.prog.InputConstants, c.prog.OutputConstants) {
		c.decisions[name] = learnt.Decision{Reason: placed(first[name])}
	}
	for _, t := range g.Tensors {
		name, scalar := t.Name, len(t.Dims) == 0
		d, enters := c.decisions[name]
		switch {
		case c.silent[name]:
			c.decisions[name] = learnt.Decision{Reason: "influences no output: the derivative by it is zero at several random inputs and parameters"}
			c.fixed[name] = !scalar
		case scalar && (first[name] || last[name] && !d.Parameter):
			c.decisions[name] = learnt.Decision{Reason: placed(first[name])}
		case !enters || c.freeze[name] || c.learn[name]:
		case scalar && d.Parameter:
			c.scalars[name] = true
		case !scalar && !d.Parameter:
			c.fixed[name] = true
		}
	}
}

// placed returns the reason why a tensor before the first layer, or else after the last layer, is a constant.
func placed(first bool) string {
	if first {
		return "standardizes the inputs before the first layer"
	}
	return "scales the outputs after the last layer"
}

// fix makes the named initializers constants, warns of this, and returns their names in file order. It skips
// initializers that are frozen, to be learnt, or cannot be parameters.
func (c *compiler) fix(names map[string]bool, outputs bool) []string {
	var list []string
	for _, t := range c.graph.Initializers {
		if n := t.Name; names[n] && t.Type.IsFloat() && len(t.Dims) > 0 && !c.freeze[n] && !c.learn[n] && (t.Len() > 1 || !learnt.ScalarName(n)) {
			c.fixed[n] = true
			list = append(list, n)
		}
	}
	if len(list) > 0 {
		what := "standardize the inputs before the first layer"
		if outputs {
			what = "scale the outputs after the last layer"
		}
		c.warns = append(c.warns, linearize.NewWarning("taken-for-constants", math.NaN(), math.NaN(), "Name what was learnt in ReadOptions.Learn.",
			"%s: they %s, and are taken for constants and not for parameters. The posterior holds them fixed.", rewrite.List(list), what))
	}
	return list
}

// Doubts returns a warning that lists stored tensors for which it is uncertain whether they were learnt. All
// tensors were taken for parameters, or all for constants.
func Doubts(tensors []graph.Tensor) []error {
	var list []string
	for i, t := range tensors {
		if i == 4 && len(tensors) > 5 {
			list = append(list, fmt.Sprintf("and %d more", len(tensors)-i))
			break
		}
		list = append(list, fmt.Sprintf("%s (it %s)", quote(t.Name), brief(t.Reason, 200)))
	}
	switch text := strings.Join(list, ", "); {
	case len(tensors) == 0:
		return nil
	case tensors[0].Parameter:
		return []error{linearize.NewWarning("taken-for-parameters", math.NaN(), math.NaN(), "Name what was not learnt in ReadOptions.Freeze.", "Taken for parameters, uncertainly: %s. The posterior lets them vary.", text)}
	default:
		return []error{linearize.NewWarning("taken-for-constants", math.NaN(), math.NaN(), "Name what was learnt in ReadOptions.Learn.", "Taken for constants, uncertainly: %s. The posterior holds them fixed.", text)}
	}
}

// constant reports whether a value does not depend on the input.
func (s *constants) constant(name string) bool { return s.inits[name] || s.static[name] }

// operand returns the only input of a pointwise node that is not constant. ok is false unless exactly one of two
// inputs is constant.
func (s *constants) operand(n *onnx.Node) (name string, ok bool) {
	if !standard(n) || !Facts(n.OpType).Has(learnt.Shifts) || len(n.Inputs) != 2 {
		return "", false
	}
	a, b := n.Inputs[0], n.Inputs[1]
	if s.constant(a) {
		a, b = b, a
	}
	return a, !s.constant(a) && s.constant(b)
}

// spreads reports whether a constant operand of a pointwise node has more numbers than an input. Such a node
// combines each number with several constants, as a layer with weights does, and a mean or deviation of the data
// does not.
func (s *constants) spreads(n *onnx.Node) bool { return s.large[n.Inputs[0]] || s.large[n.Inputs[1]] }

// layer returns the input of a layer with a weight. ok is false if the node is not such a layer.
func (s *constants) layer(n *onnx.Node) (name string, ok bool) {
	if name, ok = s.operand(n); ok {
		return name, s.spreads(n)
	}
	switch facts := Facts(n.OpType); {
	case !standard(n) || len(n.Inputs) < 2:
		return "", false
	case facts.Has(learnt.Normalizes):
		return n.Inputs[0], !s.constant(n.Inputs[0])
	case !facts.Has(learnt.Multiplies):
		return "", false
	case facts.Bias == 0: // any of the operands may be the weights
		rest := slices.DeleteFunc(slices.Clone(n.Inputs), s.constant)
		return strings.Join(rest, ""), len(rest) == 1
	}
	return n.Inputs[0], s.constant(n.Inputs[1]) && !s.constant(n.Inputs[0])
}

// mark adds name to names if belongs is true.
func mark(names map[string]bool, name string, belongs bool) {
	if belongs {
		names[name] = true
	}
}

// afterLast returns the nodes at which constants shift or scale the result of the last layer. It leaves out the Add
// that gives a layer its bias.
func (s *constants) afterLast(output string) map[int]bool {
	producer := map[string]int{}
	for _, i := range s.order {
		for _, name := range s.nodes[i].Outputs {
			producer[name] = i
		}
	}
	var chain []int
	for name := output; ; {
		i, ok := producer[name]
		if !ok {
			return nil
		}
		n := s.nodes[i]
		if other, ok := s.operand(n); ok {
			chain, name = append(chain, i), other
			continue
		}
		if standard(n) && Facts(n.OpType).Has(learnt.Passes) && len(n.Inputs) > 0 && !s.constant(n.Inputs[0]) {
			name = n.Inputs[0]
			continue
		}
		facts := Facts(n.OpType)
		if _, ok := s.layer(n); !ok || !facts.Has(learnt.Multiplies) {
			return nil
		}
		if bias := facts.Bias; bias == 0 || len(n.Inputs) <= bias || n.Inputs[bias] == "" {
			// Cut the chain at the Add that gives the layer a bias: the Add nearest to the layer, unless a tensor
			// of rank 1 or more scales the result before it.
			for k, i := range slices.Backward(chain) {
				n := s.nodes[i]
				if n.OpType == "Add" {
					chain = chain[:k]
					break
				}
				if s.tensors[n.Inputs[0]] || s.tensors[n.Inputs[1]] {
					break
				}
			}
		}
		break
	}
	found := map[int]bool{}
	for _, i := range chain {
		found[i] = true
	}
	return found
}

// only returns the initializers that are read by the found nodes and no others. Nodes between them may not depend
// on the input.
func (s *constants) only(found map[int]bool, output string) map[string]bool {
	leads := map[int]bool{} // nodes whose results are read by found nodes only, directly or not
	all := func(name string) bool {
		list := s.consumers[name]
		for _, i := range list {
			if !found[i] && !leads[i] {
				return false
			}
		}
		return len(list) > 0
	}
	for _, i := range slices.Backward(s.order) {
		if n := s.nodes[i]; len(n.Outputs) > 0 && s.static[n.Outputs[0]] {
			// A tensor that is learnt by its logarithm is not a mean or deviation of the data.
			leads[i] = !Facts(n.OpType).Has(learnt.Positive) && !slices.ContainsFunc(n.Outputs, func(name string) bool { return name == output || len(s.consumers[name]) > 0 && !all(name) })
		}
	}
	names := map[string]bool{}
	for name := range s.inits {
		if name != output && all(name) {
			names[name] = true
		}
	}
	return names
}
