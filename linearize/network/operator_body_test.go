package network_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
)

// newEvaluator returns one for a graph inside another.
func newEvaluator(g *onnx.Graph, outer *evaluator) *evaluator {
	e := &evaluator{graph: g, opset: outer.opset, env: map[string]*tensor{}, running: map[*onnx.Node]bool{}, functions: outer.functions, theta: outer.theta, outer: outer}
	for _, t := range g.Initializers {
		v := constantTensor(t)
		if p, ok := e.theta[t.Name]; ok {
			v.data = p
		}
		e.env[t.Name] = v
	}
	return e
}

// operatorName is the name of a node's operator, with the domain in front if it is not ONNX's own.
func operatorName(n *onnx.Node) string {
	if n.Standard() {
		return n.OpType
	}
	return n.Domain + "." + n.OpType
}

// functionOf returns the function that a node calls, or nil.
func functionOf(list []*onnx.Function, n *onnx.Node) *onnx.Function {
	i := slices.IndexFunc(list, func(f *onnx.Function) bool {
		return f.Name == n.OpType && f.Domain == n.Domain && f.Overload == n.Overload
	})
	if i < 0 {
		return nil
	}
	return list[i]
}

// operator returns what computes a node.
func (e *evaluator) operator(n *onnx.Node) func(e *evaluator) []*tensor {
	if f := functionOf(e.functions, n); f != nil {
		return func(e *evaluator) []*tensor { return evalCall(e, f, n) }
	}
	switch n.OpType {
	case "If":
		return evalIf
	case "Loop":
		return evalLoop
	case "Scan":
		return evalScan
	}
	return evaluators[operatorName(n)]
}

// evalIf runs one branch. It is no member of evaluators, because it comes back to them.
func evalIf(e *evaluator) (out []*tensor) {
	cond := e.in(0)
	check(len(cond.data) == 1, "%d conditions", len(cond.data))
	a := e.node.Attr("else_branch")
	if cond.data[0] != 0 {
		a = e.node.Attr("then_branch")
	}
	check(a != nil && a.G != nil && len(a.G.Outputs) >= len(e.node.Outputs), "no branch")
	inner := newEvaluator(a.G, e)
	for _, v := range a.G.Outputs {
		out = append(out, inner.value(v.Name))
	}
	return out
}

// evalCall runs the body of a function with the values of a call in the place of its
// inputs.
func evalCall(e *evaluator, f *onnx.Function, n *onnx.Node) (out []*tensor) {
	check(len(n.Inputs) <= len(f.Inputs) && len(n.Outputs) <= len(f.Outputs), "a call of %s", f.Name)
	absent := map[string]bool{}
	inner := newEvaluator(new(onnx.Graph), e)
	inner.outer = nil
	for i, name := range f.Inputs {
		if i < len(n.Inputs) && n.Inputs[i] != "" {
			inner.env[name] = e.value(n.Inputs[i])
		} else {
			absent[name] = true
		}
	}
	for _, b := range f.Nodes {
		inner.graph.Nodes = append(inner.graph.Nodes, bound(b, f, n, absent))
	}
	for i := range n.Outputs {
		out = append(out, inner.value(f.Outputs[i]))
	}
	return out
}

// bound is a node of a function with the attributes of a call, without inputs that it
// does not have.
func bound(b *onnx.Node, f *onnx.Function, call *onnx.Node, absent map[string]bool) *onnx.Node {
	own := *b
	own.Inputs = slices.Clone(b.Inputs)
	for i, name := range own.Inputs {
		if absent[name] {
			own.Inputs[i] = ""
		}
	}
	own.Attributes = nil
	for _, a := range b.Attributes {
		c := *a
		if a.Ref != "" {
			given := (&onnx.Node{Attributes: append(slices.Clone(call.Attributes), f.Defaults...)}).Attr(a.Ref)
			if given == nil {
				continue
			}
			c = *given
			c.Name = a.Name
		} else if a.G != nil {
			g := *a.G
			g.Nodes = nil
			for _, inside := range a.G.Nodes {
				g.Nodes = append(g.Nodes, bound(inside, f, call, absent))
			}
			c.G = &g
		}
		own.Attributes = append(own.Attributes, &c)
	}
	return &own
}

// node makes a node for a body.
func node(kind string, inputs, outputs []string, attrs ...*onnx.Attribute) *onnx.Node {
	return &onnx.Node{Name: kind, OpType: kind, Inputs: inputs, Outputs: outputs, Attributes: attrs}
}

// ref is an attribute of a function's node that is one of the call.
func ref(name, of string, kind onnx.AttrType) *onnx.Attribute {
	return &onnx.Attribute{Name: name, Ref: of, Type: kind}
}

// branch is an attribute with a graph of one node, whose results are the outputs, or of
// none, and then the outputs are the names.
func branch(name string, n *onnx.Node, outputs ...string) *onnx.Attribute {
	g := &onnx.Graph{Name: name}
	if n != nil {
		own := *n
		own.Outputs = outputs
		g.Nodes = []*onnx.Node{&own}
	}
	for _, out := range outputs {
		g.Outputs = append(g.Outputs, &onnx.ValueInfo{Name: out, Type: onnx.Double})
	}
	return &onnx.Attribute{Name: name, Type: onnx.AttrGraph, G: g}
}

// truth adds a truth value of rank 0.
func (g *graph) truth(v bool) string {
	t := &onnx.Tensor{Name: g.name("b"), Type: onnx.Bool, Ints: []int64{0}}
	if v {
		t.Ints[0] = 1
	}
	return g.initializer(t, nil)
}

// define adds functions to the model.
func (g *graph) define(list ...*onnx.Function) {
	for _, f := range list {
		f.Domain, f.OpsetImport = "acme", []onnx.Opset{{Version: g.model.OpsetImport[0].Version}}
		g.model.Functions = append(g.model.Functions, f)
	}
	g.model.OpsetImport = append(g.model.OpsetImport, onnx.Opset{Domain: "acme", Version: 1})
}

// call adds a node that calls a function.
func (g *graph) call(name string, inputs []string, attrs ...*onnx.Attribute) string {
	y := g.op(name, inputs, attrs...)
	g.model.Graph.Nodes[len(g.model.Graph.Nodes)-1].Domain = "acme"
	return y
}

// layerFunction is tanh(α x·w + β b), with 1 as the default of α and b optional.
func layerFunction() *onnx.Function {
	return &onnx.Function{Name: "Layer", Inputs: in("x", "w", "b"), Outputs: in("y"), Attributes: in("beta"), Defaults: []*onnx.Attribute{floatA("scale", 0.5)},
		Nodes: []*onnx.Node{
			node("Gemm", in("x", "w", "b"), in("h"), ref("alpha", "scale", onnx.AttrFloat), ref("beta", "beta", onnx.AttrFloat)),
			node("Tanh", in("h"), in("y"))}}
}

// bodyCases are graphs with functions of their own and with branches.
func bodyCases() []operatorCase {
	var all []operatorCase
	add := func(name string, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: 17, dims: []int{3}, build: build})
	}
	add("Function with attributes and defaults", func(g *graph) string {
		g.define(layerFunction())
		x := g.call("Layer", in(g.input(), g.param(3, 4), g.param(4)), floatA("beta", 2))
		return g.call("Layer", in(x, g.param(4, 2), g.param(2)), floatA("scale", 0.25))
	})
	add("Function without its optional input", func(g *graph) string {
		g.define(layerFunction())
		x := g.call("Layer", in(g.input(), g.param(3, 4), ""), floatA("beta", 2))
		return g.call("Layer", in(x, g.param(4, 2)))
	})
	add("Function that calls another, with names of the graph", func(g *graph) string {
		layer := node("Layer", in("y1", "w2", "y3"), in("y2"), ref("scale", "gain", onnx.AttrFloat))
		again := node("Layer", in("y2", "w2"), in("x"))
		layer.Domain, again.Domain = "acme", "acme"
		g.define(&onnx.Function{Name: "Twice", Inputs: in("y1", "w2", "y3"), Outputs: in("z"), Attributes: in("gain"), Nodes: []*onnx.Node{layer, again, node("Add", in("x", "y2"), in("z"))}}, layerFunction())
		x := g.call("Twice", in(g.input(), g.param(3, 3), g.param(3)), floatA("gain", 0.75))
		return g.call("Twice", in(x, g.param(3, 3)))
	})
	add("Function whose outputs are its input and one result twice", func(g *graph) string {
		g.define(&onnx.Function{Name: "Pass", Inputs: in("a"), Outputs: in("a", "s", "s"), Nodes: []*onnx.Node{node("Sin", in("a"), in("s"))}})
		many := g.many("Pass", 3, in(g.input()))
		g.model.Graph.Nodes[len(g.model.Graph.Nodes)-1].Domain = "acme"
		return g.op("Concat", in(many[2], many[0], many[1], g.call("Pass", in(many[1]))), intA("axis", 1))
	})
	add("Function of the name of an operator", func(g *graph) string {
		g.define(&onnx.Function{Name: "Relu", Inputs: in("a"), Outputs: in("b"), Nodes: []*onnx.Node{node("Tanh", in("a"), in("b"))}})
		return g.op("Relu", in(g.call("Relu", in(g.input()))))
	})
	columns := func(g *graph, x string, is int64) string {
		return g.op("Equal", in(g.op("Gather", in(g.op("Shape", in(x)), g.int(1))), g.int(is)))
	}
	add("If on a shape takes a layer with outer weights", func(g *graph) string {
		x := g.input()
		return g.op("If", in(columns(g, x, 3)), branch("then_branch", node("Gemm", in(x, g.param(3, 2), g.param(2)), nil), "t"), branch("else_branch", node("Neg", in(x), nil), "t"))
	})
	add("If takes the other branch, with a weight inside", func(g *graph) string {
		x := g.input()
		other := branch("else_branch", node("MatMul", in(x, "w"), nil), "t")
		other.G.Initializers = []*onnx.Tensor{{Name: "w", Type: onnx.Double, Dims: []int64{3, 2}, Floats: []float64{1, -2, .5, .25, 3, -1}}}
		return g.op("If", in(columns(g, x, 4)), branch("then_branch", nil, x), other)
	})
	add("If whose branch passes a value on", func(g *graph) string {
		x := g.input()
		return g.op("Tanh", in(g.op("If", in(g.truth(true)), branch("then_branch", nil, x), branch("else_branch", node("Neg", in(x), nil), "t"))))
	})
	add("If inside an If that decides on the next", func(g *graph) string {
		x := g.input()
		inner := node("If", in(g.truth(false)), nil, branch("then_branch", nil, x), branch("else_branch", node("Gemm", in(x, g.param(3, 4)), nil), "t"))
		y := g.op("If", in(columns(g, x, 3)), branch("then_branch", inner, "u"), branch("else_branch", nil, x))
		return g.op("If", in(columns(g, y, 4)), branch("then_branch", node("Tanh", in(y), nil), "t"), branch("else_branch", node("Unread", in(y), nil), "t"))
	})
	add("If with two results", func(g *graph) string {
		x := g.input()
		two := branch("then_branch", node("Split", in(x, g.ints(1, 2)), nil, intA("axis", 1)), "a", "b")
		y := g.many("If", 2, in(g.truth(true)), two, branch("else_branch", nil, x, x))
		return g.op("Concat", in(y[1], g.op("Exp", in(y[0]))), intA("axis", 1))
	})
	add("If inside a function, with its attributes", func(g *graph) string {
		leaky := node("LeakyRelu", in("h"), nil, ref("alpha", "slope", onnx.AttrFloat))
		g.define(&onnx.Function{Name: "Maybe", Inputs: in("a", "c", "w"), Outputs: in("b"), Attributes: in("slope"), Nodes: []*onnx.Node{
			node("MatMul", in("a", "w"), in("h")),
			node("If", in("c"), in("b"), branch("then_branch", leaky, "t"), branch("else_branch", node("Sigmoid", in("h"), nil), "t"))}})
		x := g.call("Maybe", in(g.input(), g.truth(true), g.param(3, 3)), floatA("slope", 0.25))
		return g.op("Sum", in(x, g.call("Maybe", in(x, g.truth(false), g.param(3, 3)))))
	})
	return all
}

// TestConditionsOfTheInput checks nodes If whose condition depends on the input: an example has the outputs and
// derivatives of the branch that it takes, also where the other one has no numbers. Both branches read both inputs.
func TestConditionsOfTheInput(t *testing.T) {
	g := newGraph(13, 3)
	other := *g.model.Graph.Inputs[0]
	other.Name = "z"
	g.model.Graph.Inputs = append(g.model.Graph.Inputs, &other)
	h := g.op("MatMul", in(g.input(), g.param(3, 4)))
	s := g.op("MatMul", in(h, g.param(4, 1)))
	then := branch("then_branch", node("MatMul", in("z", g.param(3, 2)), nil), "t")
	otherwise := branch("else_branch", node("Mul", in("r", "zw"), nil), "t")
	otherwise.G.Nodes = append([]*onnx.Node{node("Neg", in(s), in("n")), node("Sqrt", in("n"), in("r")), node("MatMul", in("z", g.param(3, 2)), in("zw"))}, otherwise.G.Nodes...)
	m := g.output(g.op("If", in(g.op("Greater", in(s, g.scalar(0)))), then, otherwise))
	net := mustLoad(t, m)
	require.Len(t, net.Inputs(), 2)
	x, taken := mat.NewDense(12, 6, nil), map[bool]bool{}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 12 {
		for k := range 3 { // the evaluator has one input
			v := rng.NormFloat64()
			x.Set(i, k, v)
			x.Set(i, 3+k, v)
		}
	}
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	for i := range 12 {
		e, want, err := run(m, &tensor{shape: []int{1, 3}, data: x.RawRowView(i)[:3]}, nil)
		require.NoError(t, err)
		testref.RequireClose(t, b.F.RawRowView(i), want.data, 1e-12, "f")
		taken[e.value(s).data[0] > 0] = true
	}
	require.Len(t, taken, 2)
	requireDifferences(t, net)
	requireBatch(t, b, rand.New(rand.NewPCG(5, 6)))
	require.Equal(t, net.Theta(), roundTrip(t, net).Theta())
}

// TestBatchOfOne checks reductions over the batch in files with a batch of one, where each row is a batch of its own.
func TestBatchOfOne(t *testing.T) {
	whole := func(g *graph, kind, x string) string { return g.op(kind, in(x), intA("keepdims", 0)) }
	for _, c := range []struct {
		name  string
		dims  []int
		build func(g *graph, x string) string
	}{
		{"If on the least", []int{3}, func(g *graph, x string) string {
			is := g.op("Greater", in(whole(g, "ReduceMin", x), g.scalar(-0.5)))
			return g.op("If", in(is), branch("then_branch", node("Tanh", in(x), nil), "t"), branch("else_branch", node("Exp", in(x), nil), "t"))
		}},
		{"Where above the mean", []int{2, 3}, func(g *graph, x string) string {
			return g.op("Where", in(g.op("Greater", in(x, whole(g, "ReduceMean", x))), g.op("Mul", in(x, g.param(3))), g.op("Sin", in(x))))
		}},
		{"normalized by all", []int{2, 3}, func(g *graph, x string) string {
			c := g.op("Sub", in(x, whole(g, "ReduceMean", x)))
			return g.op("MatMul", in(g.op("Div", in(c, g.op("ReduceL2", in(c)))), g.param(3, 2)))
		}},
		{"Clip below the largest", []int{2, 3}, func(g *graph, x string) string {
			lo := g.op("Sub", in(whole(g, "ReduceMax", x), g.scalar(1)))
			return g.op("Clip", in(x, lo, g.of([]float64{math.Inf(1)})))
		}},
		{"over the first axis", []int{3}, func(g *graph, x string) string {
			mean := g.op("ReduceMean", in(x), intsA("axes", 0), intA("keepdims", 0))
			return g.op("Add", in(x, g.op("Exp", in(mean))))
		}},
		{"over rows of one", []int{2, 3}, func(g *graph, x string) string {
			rows := g.op("Reshape", in(x, g.ints(-1, 3)))
			return g.op("MatMul", in(g.op("ReduceMax", in(rows), intsA("axes", 0)), g.param(3, 2)))
		}},
		{"a scalar as the output", []int{3}, func(g *graph, x string) string { return whole(g, "ReduceSumSquare", x) }},
		{"a scalar into a layer", []int{3}, func(g *graph, x string) string {
			s := g.op("Unsqueeze", in(whole(g, "ReduceSum", x), g.ints(0, 1)))
			return g.op("MatMul", in(s, g.param(1, 4)))
		}},
		{"without its first axis for a while", []int{3}, func(g *graph, x string) string {
			y := g.op("Tanh", in(g.op("Squeeze", in(x, g.ints(0)))))
			return g.op("MatMul", in(g.op("Unsqueeze", in(y, g.ints(0))), g.param(3, 2)))
		}},
		{"written at a place", []int{3}, func(g *graph, x string) string {
			s := g.op("Reshape", in(whole(g, "ReduceSum", x), g.ints(1)))
			return g.op("ScatterND", in(x, g.table([]int{1, 2}, 0, 1), s))
		}},
		{"one number of the example beside others", []int{3}, func(g *graph, x string) string {
			mean := g.op("ReduceMean", in(x), intsA("axes", 1), intA("keepdims", 0))
			return g.op("Mul", in(g.op("Sub", in(x, mean)), g.op("Cos", in(mean))))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGraph(13, c.dims...)
			m := g.output(c.build(g, g.input()))
			g.fixed(1)
			net := mustLoad(t, m)
			rng := rand.New(rand.NewPCG(3, 4))
			x := gaussianMatrix(rng, 8, size(c.dims))
			b := testref.Must(net.Linearize(t.Context(), x))(t)
			for i := range 8 {
				want := testref.Must(evaluate(m, &tensor{shape: append([]int{1}, c.dims...), data: x.RawRowView(i)}, nil))(t)
				testref.RequireClose(t, b.F.RawRowView(i), want.data, 1e-12, "f")
			}
			requireDifferences(t, net)
			requireBatch(t, b, rng)
			require.Equal(t, net.Theta(), roundTrip(t, net).Theta())
		})
	}
}

// TestHostileFunctions checks that functions that cannot be inlined are refused in one
// line, before they take much memory.
func TestHostileFunctions(t *testing.T) {
	function := func(name string, nodes ...*onnx.Node) *onnx.Function {
		for _, n := range nodes {
			if n.OpType[0] == 'F' {
				n.Domain = "acme"
			}
		}
		return &onnx.Function{Name: name, Inputs: in("a"), Outputs: in("b"), Nodes: nodes}
	}
	numbers := make([]float64, 1<<16)
	constant := func() *onnx.Node {
		return node("Constant", nil, in("k"), tensorA("value", &onnx.Tensor{Type: onnx.Double, Dims: []int64{1 << 16}, Floats: numbers}))
	}
	chain := func(n, calls int) (list []*onnx.Function) {
		for i := range n {
			f := function(fmt.Sprintf("F%d", i))
			for k := range calls {
				next := node(fmt.Sprintf("F%d", i+1), in("a"), in(fmt.Sprintf("b%d", k)))
				if next.Domain = "acme"; i == n-1 {
					next = node("Neg", in("a"), next.Outputs)
				}
				f.Nodes = append(f.Nodes, next)
			}
			f.Outputs = in("b0")
			list = append(list, f)
		}
		return list
	}
	for _, c := range []struct {
		name, want string
		functions  []*onnx.Function
		change     func(m *onnx.Model)
	}{
		{name: "recursion", want: `function "F1", node 0 "F0": function "F0" calls itself`,
			functions: []*onnx.Function{function("F0", node("F1", in("a"), in("b"))), function("F1", node("F0", in("a"), in("b")))}},
		{name: "recursion in a branch", want: `function "F0" calls itself`,
			functions: []*onnx.Function{function("F0", node("If", in("a"), in("b"), func() *onnx.Attribute {
				n := node("F0", in("a"), nil)
				n.Domain = "acme"
				return branch("then_branch", n, "t")
			}()))}},
		{name: "depth", want: "more than 100 functions inside one another", functions: chain(200, 1)},
		{name: "a billion nodes", want: "more than 100000 nodes", functions: chain(30, 2)},
		{name: "a billion numbers", want: "4194304 numbers", functions: []*onnx.Function{
			function("F0", node("F1", in("a"), in("b1")), node("F1", in("a"), in("b2")), node("F1", in("a"), in("b3")), node("F1", in("a"), in("b"))),
			function("F1", node("F2", in("a"), in("b1")), node("F2", in("a"), in("b2")), node("F2", in("a"), in("b3")), node("F2", in("a"), in("b"))),
			function("F2", node("F3", in("a"), in("b1")), node("F3", in("a"), in("b2")), node("F3", in("a"), in("b3")), node("F3", in("a"), in("b"))),
			function("F3", node("F4", in("a"), in("b1")), node("F4", in("a"), in("b"))),
			function("F4", constant(), node("Neg", in("a"), in("b")))}},
		{name: "twice", want: `function "F0" is defined twice`, functions: []*onnx.Function{function("F0", node("Neg", in("a"), in("b"))), function("F0", node("Neg", in("a"), in("b")))}},
		{name: "unknown value", want: `function "F0", node 0 "Neg": it reads "x", which is no input of the function and no result of its nodes`, functions: []*onnx.Function{function("F0", node("Neg", in("x"), in("b")))}},
		{name: "no output", want: `it reads "b", which is no input`, functions: []*onnx.Function{function("F0", node("Neg", in("a"), in("c")))}},
		{name: "too many inputs", want: `it gives 2 inputs to function "F0", which takes 1`, functions: []*onnx.Function{function("F0", node("Neg", in("a"), in("b")))},
			change: func(m *onnx.Model) {
				n := m.Graph.Nodes[1]
				n.Inputs = append(n.Inputs, n.Inputs[0])
			}},
		{name: "too many outputs", want: `it takes 2 outputs of function "F0", which has 1`, functions: []*onnx.Function{function("F0", node("Neg", in("a"), in("b")))},
			change: func(m *onnx.Model) { m.Graph.Nodes[1].Outputs = append(m.Graph.Nodes[1].Outputs, "more") }},
		{name: "another opset", want: `function "F0" is written for opset 13, and the model for 17; export all of it with one opset`,
			functions: []*onnx.Function{function("F0", node("Neg", in("a"), in("b")))}, change: func(m *onnx.Model) { m.Functions[0].OpsetImport[0].Version = 13 }},
		{name: "reference outside", want: `node 1 "node4": its attribute "alpha" refers to one of a function, but it is in none`,
			functions: []*onnx.Function{function("F1", node("Neg", in("a"), in("b")))},
			change: func(m *onnx.Model) {
				n := m.Graph.Nodes[1]
				n.Domain, n.OpType, n.Attributes = "", "Elu", []*onnx.Attribute{ref("alpha", "a", onnx.AttrFloat)}
			}},
		{name: "operator that is not read", want: `node 1 "node4/Unread" (Unread)`, functions: []*onnx.Function{function("F0", node("Unread", in("a"), in("b")))}},
		{name: "not that function", want: "acme.F0", functions: []*onnx.Function{function("F1", node("Neg", in("a"), in("b")))}},
		{name: "two inputs of a name", want: `function "F0" has two inputs "a"`, functions: []*onnx.Function{{Name: "F0", Inputs: in("a", "a"), Outputs: in("b")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGraph(17, 3)
			g.define(c.functions...)
			m := g.output(g.call("F0", in(g.input())))
			if c.change != nil {
				c.change(m)
			}
			data, err := m.Encode()
			require.NoError(t, err)
			used := allocated(func() { _, err = readModel(m, nil) })
			require.ErrorContains(t, err, c.want)
			requireOneLine(t, err)
			require.Less(t, used, uint64(hostileBytes+400*len(data)))
		})
	}
}

// TestManyBranches checks that nodes If of which each decides on the next are read, as
// far as their number is bounded.
func TestManyBranches(t *testing.T) {
	model := func(n int) *onnx.Model {
		g := newGraph(17, 3)
		x := g.input()
		for range n {
			is := g.op("Equal", in(g.op("Gather", in(g.op("Shape", in(x)), g.int(1))), g.int(3)))
			x = g.op("If", in(is), branch("then_branch", node("Neg", in(x), nil), "t"), branch("else_branch", nil, x))
		}
		return g.output(x)
	}
	_, err := load(model(40))
	require.NoError(t, err)
	_, err = load(model(300))
	require.ErrorContains(t, err, "more than 256 nodes If or turns of a loop decide on one another")
	requireOneLine(t, err)
}

// TestFunctionsAreWritten checks that the file that is written has no functions, branches or
// loops left and no name of two nodes, which onnxruntime refuses, and gives the same network.
func TestFunctionsAreWritten(t *testing.T) {
	for _, c := range slices.Concat(bodyCases(), loopCases()) {
		net := mustLoad(t, c.model())
		var file bytes.Buffer
		require.NoError(t, net.WriteONNX(&file))
		seen := map[string]bool{}
		for _, n := range testref.Must(onnx.Decode(file.Bytes()))(t).Graph.Nodes {
			require.False(t, n.Name != "" && seen[n.Name], n.Name)
			seen[n.Name] = true
		}
		back := roundTrip(t, net)
		require.Equal(t, net.Fingerprint(), back.Fingerprint(), c.name)
		for _, o := range back.Describe().Operators {
			require.NotContains(t, []string{"If", "Loop", "Scan", "Layer", "Twice", "Maybe"}, o.Name)
		}
	}
}
