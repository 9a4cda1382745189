package compile

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

// finish checks the output and completes the program. It sets the order of the parameters in θ, the places and the
// size of a chunk.
func (c *compiler) finish(output string) {
	var out *value
	within(func() { out = c.lookup(output) }, "network: output %s", quote(output))
	if out.list != nil {
		panic(refuse("network: output %s is a sequence of tensors; take one of them, or what they are joined to, with {ReadOptions.Output output}", quote(output)))
	}
	if out.integer != 0 {
		panic(refuse("network: output %s holds integers or truth values (%v), which have no derivative; export what they are computed from", quote(output), out.integer))
	}
	if out.isInt {
		panic(refuse("network: output %s is an integer tensor", quote(output)))
	}
	if out.batch < 0 && c.depends(out) { // of the only example: see loose
		out = c.alias(out, slices.Concat([]int{1}, out.shape), 0).onAxis(0, 0)
	}
	if out.batch > 0 && out.before() != 1 && out.leading() == 1 {
		// Put the examples first. The outputs of one stay in their order.
		perm := slices.Delete(upTo(len(out.shape)), out.batch, out.batch+1)
		out, c.head = c.transpose(out, slices.Insert(perm, 0, out.batch)), nil
	}
	p := c.prog
	p.Output, p.OutputName = out.slot, output
	p.C = p.Slots[out.slot].Size
	if !p.Slots[out.slot].NeedsGrad {
		// Refuse an output that depends on no parameter.
		if len(c.quantized.integers) > 0 {
			panic(refuse("network: output %s does not depend on any parameter: weights are stored as integers, %s; name them in {ReadOptions.Learn learn} to make them parameters by their numbers", quote(output), c.integerNames()))
		}
		panic(refuse("network: output %s does not depend on any parameter; check {ReadOptions.Freeze freeze} and the export", quote(output)))
	}
	if p.Slots[out.slot].Static {
		panic(refuse("network: output %s does not depend on the input", quote(output)))
	}
	if m := c.masks[out.slot]; m != nil && !m.may {
		panic(refuse("network: output %s is masked: %w", quote(output), m.from))
	}
	if out.before() != 1 {
		panic(refuse("network: output %s has the batch dimension at axis %d; export it with the batch first", quote(output), out.batch))
	}
	if c.head != nil {
		c.measureHead(out)
	}
	for _, name := range slices.Sorted(maps.Keys(c.freeze)) {
		if c.inits[name] == nil || !c.inits[name].t.Type.IsFloat() {
			panic(refuse("network: cannot freeze %s: no parameter of that name; inspect lists them", quote(name)))
		}
	}
	isParam := func(slot int) bool { return c.bySlot[slot] != nil && c.bySlot[slot].param == slot }
	take := func(bytes, numbers int) { // charges the budgets of compiling and of one example
		c.spend(bytes)
		c.charge(nil, numbers, false)
	}
	within(func() { p.AddRecurrentPlaces(isParam, take) }, "network: the weights of recurrent layers")
	// Lay out θ: the initializers that influence the output, in file order. Other initializers become constants.
	reach := p.Reachable()
	for _, t := range c.graph.Initializers {
		if in := c.inits[t.Name]; in.param >= 0 && p.Slots[in.param].NeedsGrad && reach[in.param] {
			p.Slots[in.param].Param = len(p.Params)
			p.Params = append(p.Params, linearize.Param{Name: t.Name, Shape: rewrite.Shape(t), Offset: p.P})
			p.P += t.Len()
			c.order = append(c.order, in)
		} else if in.param >= 0 && p.Slots[in.param].NeedsGrad {
			p.Slots[in.param].NeedsGrad, p.Slots[in.param].Constant = false, t.Floats
		}
	}
	// Refuse a model if a tensor that was to be learnt is not a parameter.
	for _, name := range slices.Sorted(maps.Keys(c.learn)) {
		if in := c.inits[name]; in.param < 0 || c.prog.Slots[in.param].Param < 0 {
			panic(refuse("network: cannot learn %s: it is a statistic, a shape or a bound, or does not influence the output", quote(name)))
		}
	}
	// Warn of parameters whose stored numbers also entered the program as constants: the constants do not change
	// with θ.
	for _, in := range c.order {
		if in.known {
			c.warns = append(c.warns, linearize.NewWarning("shared-tensor", math.NaN(), math.NaN(), "", "Initializer %s is a parameter, and also a statistic, scale or bound. In the latter place it keeps its value.", quote(in.t.Name)))
		}
	}
	// Warn of weights that are constants because the file stores them as integers.
	if len(c.quantized.integers) > 0 {
		c.warns = append(c.warns, linearize.NewWarning("taken-for-constants", math.NaN(), math.NaN(), "Name what was learnt in ReadOptions.Learn.", "%s: stored as integers with a scale, and taken for constants. The posterior holds them fixed.", c.integerNames()))
	}
	// Complete the list of places. A parameter that is in no place goes into Full.
	covered := make([]bool, len(p.Params))
	for i := range p.Places {
		st := &p.Places[i]
		// Replace slots by numbers of parameters.
		st.Weight, st.Bias = p.ParamOf(st.Weight), p.ParamOf(st.Bias)
		for _, k := range []int{st.Weight, st.Bias} {
			if k >= 0 {
				covered[k] = true
			}
		}
	}
	p.Places = slices.DeleteFunc(p.Places, func(s graph.Place) bool { return s.Weight < 0 && s.Bias < 0 })
	p.ChooseFull()
	for i, sl := range p.Slots {
		if sl.Param >= 0 && !covered[sl.Param] {
			p.Full = append(p.Full, i)
		}
	}
	p.Full = p.FindLookups(p.Full)
	slices.SortStableFunc(p.Places, func(a, b graph.Place) int { return a.Node - b.Node })
	// List the decision for each floating point initializer, and warn of doubtful decisions.
	var doubts [2][]graph.Tensor
	for _, t := range c.graph.Initializers {
		if !t.Type.IsFloat() {
			continue
		}
		in, name := c.inits[t.Name], t.Name
		d, enters := c.decisions[name]
		out := graph.Tensor{Name: name, Shape: rewrite.Shape(t), Parameter: in.param >= 0 && c.prog.Slots[in.param].Param >= 0}
		switch {
		case c.freeze[name]:
			out.Reason = "is frozen, as asked"
		case out.Parameter && c.learn[name]:
			out.Reason = "is to be learnt, as asked"
		case enters && out.Parameter == d.Parameter:
			out.Reason, out.Doubtful = d.Reason, d.Doubtful
		case in.known:
			out.Reason = "is a statistic, scale or bound"
		default:
			out.Reason = "does not influence the output, or only as a shape or bound"
		}
		if out.Parameter && in.uses > 1 {
			out.Reason += fmt.Sprintf(", and tied: %d nodes use it", in.uses)
		}
		c.prog.Tensors = append(c.prog.Tensors, out)
		if out.Doubtful {
			i := int(graph.Step(out.Parameter))
			doubts[i] = append(doubts[i], out)
		}
	}
	c.warns = append(append(c.warns, Doubts(doubts[0])...), Doubts(doubts[1])...)
	// List the results of nodes that can be shown beside the output.
	for _, nd := range c.graph.Nodes {
		for _, name := range nd.Outputs {
			v := c.env[name]
			if v == nil || v.isInt || v.list != nil || v.integer != 0 || v.batch != 0 || v.before() != 1 || c.prog.Slots[v.slot].Static || c.masks[v.slot] != nil {
				continue
			}
			c.prog.Values = append(c.prog.Values, graph.Value{Node: nd.Name, Name: name, Slot: v.slot})
		}
	}
	p.SetChunk()
}

// theta returns θ as the file stores it, P numbers.
func (c *compiler) theta() []float64 {
	theta := make([]float64, 0, c.prog.P)
	for _, in := range c.order {
		theta = append(theta, in.t.Floats...)
	}
	return theta
}

// measureHead names the nodes of the head for messages and counts the groups of outputs that the head normalizes.
// It forgets the head if the shapes show that it is not a head.
func (c *compiler) measureHead(out *value) {
	h := c.head
	if h.Nodes = c.label(h.Last); c.graph.Nodes[h.Last].OpType == h.Function.String() {
		h.Nodes = fmt.Sprintf("node %d %s", c.numberOf(h.Last), quote(c.graph.Nodes[h.Last].Name))
	} else {
		h.Nodes = "written out up to " + h.Nodes
	}
	size := graph.Product(out.shape)
	if h.Groups = 1; h.Node >= 0 {
		c.node = c.graph.Nodes[h.Node]
		shape := c.env[c.node.Outputs[0]].shape
		var ax int
		if attempt(func() { ax = c.softmaxAxis(len(shape)) }) != nil {
			c.head = nil
			return
		}
		length := shape[ax]
		if c.opset < 13 { // older versions normalize over all axes from axis on
			length = graph.Product(shape[ax:])
		}
		h.Groups = size / length
	}
	for i, name := range h.Each {
		v := c.env[name]
		if n := graph.Product(v.shape); i == 0 && h.Node < 0 {
			h.Groups = n
		} else if n != h.Groups {
			c.head = nil
			return
		}
		if v.batch < 0 {
			c.head = nil
			return
		}
	}
	var in *value
	if attempt(func() { in = c.lookup(h.Input) }) != nil || in.isInt {
		c.head = nil
		return
	}
	if want := graph.Product(in.shape); h.Pair && (want != 1 || size != 2) || !h.Pair && want != size {
		c.head = nil
	}
}
