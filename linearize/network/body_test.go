package network_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
)

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
	require.ErrorContains(t, err, "more than 256 nodes If decide on one another")
	requireOneLine(t, err)
}

// TestFunctionsAreWritten checks that the file that is written has no functions or
// branches left, and gives the same network.
func TestFunctionsAreWritten(t *testing.T) {
	for _, c := range bodyCases() {
		net := mustLoad(t, c.model())
		back := roundTrip(t, net)
		require.Equal(t, net.Fingerprint(), back.Fingerprint(), c.name)
		for _, o := range back.Describe().Operators {
			require.NotContains(t, []string{"If", "Layer", "Twice", "Maybe"}, o.Name)
		}
	}
}
