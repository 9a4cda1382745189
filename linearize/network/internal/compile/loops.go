package compile

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

// loopOpset is the first version whose graphs of turns are written out: the nodes in their place are of it.
const loopOpset = 11

func init() {
	const known = "is written out; the number of turns must be known without running the network, or be that of a dimension other than the batch"
	register("Control flow", map[string]operator{
		"Loop": {translate: (*compiler).loop, inputs: anyNumber, integers: ownType, note: known},
		"Scan": {translate: (*compiler).scan, inputs: anyNumber, integers: ownType, note: known},
	})
}

// unroll records how many turns of a Loop or Scan are to be written out.
func (c *compiler) unroll(next rewrite.Condition) {
	if c.opset < loopOpset {
		panic(refuse("loops are read of opset %d and later; export the model with it", loopOpset))
	}
	next.Result = rewrite.FirstResult(c.node)
	c.undecided.conditions = append(c.undecided.conditions, next)
	c.undecided.add(c.node)
}

// loop records how many turns a node Loop takes: all, where the condition stays what it is; otherwise one, after which
// the next condition is known.
func (c *compiler) loop() {
	body, _, _, err := rewrite.LoopBody(c.node)
	if err != nil {
		panic(refusal{err})
	}
	turns := int64(math.MaxInt64)
	if c.has(0) {
		a := c.turns(0, "number of turns")
		turns = max(0, int64(a.k))
	}
	if c.has(1) && c.turns(1, "condition").k == 0 || turns == 0 {
		c.unroll(rewrite.Condition{Last: true})
		return
	}
	// Follow the condition after a turn back to where the body has it from.
	from := body.Outputs[0].Name
	producer := map[string]*onnx.Node{}
	for _, n := range body.Nodes {
		for _, name := range n.Outputs {
			producer[name] = n
		}
	}
	for range body.Nodes {
		if n := producer[from]; n != nil && (n.OpType == "Identity" || n.OpType == "Cast") && len(n.Inputs) == 1 {
			from = n.Inputs[0]
		}
	}
	goesOn := from == body.Inputs[1].Name
	inside := slices.ContainsFunc(body.Inputs, func(v *onnx.ValueInfo) bool { return v.Name == from }) ||
		slices.ContainsFunc(body.Initializers, func(t *onnx.Tensor) bool { return t.Name == from })
	if !inside && producer[from] == nil && (c.env[from] != nil || c.inits[from] != nil) {
		v := c.lookup(from)
		goesOn = v.isInt && len(v.ints) == 1 && v.ints[0].constant() && v.ints[0].k != 0
	}
	const most = 1 << 30
	switch {
	case !goesOn:
		c.unroll(rewrite.Condition{Turns: 1, Last: turns == 1, Left: turns - 1})
	case turns > most:
		panic(refuse("its condition never ends it, and it has no number of turns; %s", invalid))
	default:
		c.unroll(rewrite.Condition{Turns: int(turns), Last: true})
	}
}

// turns returns input i of a Loop, an integer or truth value that must be known.
func (c *compiler) turns(i int, what string) affine {
	v := c.input(i)
	switch {
	case graph.Product(v.shape) != 1:
		panic(refuse("its %s is of shape %v, not one number; %s", what, v.shape, invalid))
	case c.depends(v):
		panic(refuse("its %s depends on the input, so that each example would take its own; export it with as many turns for all, and torch.where for those that are not needed", what))
	case !v.isInt:
		panic(refuse("its %s is no integer; %s", what, invalid))
	case !v.ints[0].constant():
		panic(refuse("its %s depends on the batch size or the number of an example, which would mix examples; export the model so that it works on the whole batch", what))
	}
	return v.ints[0]
}

// scan records that a node Scan takes as many turns as its inputs have elements.
func (c *compiler) scan() {
	_, passed, elements, err := rewrite.LoopBody(c.node)
	if err != nil {
		panic(refusal{err})
	}
	turns := -1
	axes := c.attrInts("scan_input_axes")
	if axes != nil && len(axes) != elements {
		panic(refuse("it has %d scan_input_axes for %d inputs; %s", len(axes), elements, invalid))
	}
	for i := range elements {
		v, ax := c.input(passed+i), 0
		if axes != nil {
			ax = axes[i]
		}
		switch ax = axis(ax, len(v.shape)); {
		case v.isBatch(ax):
			panic(refuse("it goes along the batch dimension, which would mix examples; export the model so that it works on the whole batch"))
		case turns >= 0 && turns != v.shape[ax]:
			panic(refuse("its inputs have %d and %d elements; %s", turns, v.shape[ax], invalid))
		}
		turns = v.shape[ax]
	}
	c.unroll(rewrite.Condition{Turns: turns, Last: true})
}
