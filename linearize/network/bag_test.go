package network_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// A loopChange breaks the Loop of a bag, so that it is something else.
type loopChange func(g *onnx.Graph, body *onnx.Graph)

// bagLoop is a network whose bags of ids N×4 are a Loop, as PyTorch exports an
// nn.EmbeddingBag.
func bagLoop(kind string, change loopChange) *onnx.Model {
	g := newGraph(13, 4)
	g.model.Graph.Inputs[0].Type = onnx.Int64
	table := g.param(30, 3)
	shape := g.op("Shape", in("x"))
	size := g.op("ReduceProd", in(shape), intA("keepdims", 0))
	width := g.op("Gather", in(g.op("Shape", in("x")), g.int(1)))
	starts := g.op("Range", in(g.int(0), g.cast(size, onnx.Int64), g.cast(width, onnx.Int64)))
	flat := g.op("Reshape", in("x", g.ints(-1)))
	length := g.op("Gather", in(g.op("Shape", in(flat)), g.int(0)))
	all := g.op("Concat", in(starts, g.op("Unsqueeze", in(length, g.ints(0)))), intA("axis", 0))
	ends := g.op("Slice", in(all, g.ints(1), g.ints(1<<62), g.ints(0), g.ints(1)))
	turns := g.op("Gather", in(g.op("Shape", in(ends)), g.int(0)))
	yes := g.op("Constant", nil, tensorA("value", &onnx.Tensor{Type: onnx.Bool, Ints: []int64{1}}))
	zero, axis := g.ints(0), g.ints(0)
	outside := len(g.model.Graph.Nodes)
	element := func(of string) string { return g.op("Unsqueeze", in(g.op("Gather", in(of, "turn")), zero)) }
	part := g.op("Slice", in(flat, element(all), element(ends), axis))
	rows := g.op("Gather", in(table, part))
	var sum string
	if kind == "ReduceSum" {
		sum = g.op(kind, in(rows, zero), intA("keepdims", 0))
	} else {
		sum = g.op(kind, in(rows), intsA("axes", 0), intA("keepdims", 0))
	}
	on := g.op("Identity", in("on"))
	body := &onnx.Graph{Nodes: g.model.Graph.Nodes[outside:], Inputs: []*onnx.ValueInfo{{Name: "turn", Type: onnx.Int64}, {Name: "on", Type: onnx.Bool}},
		Outputs: []*onnx.ValueInfo{{Name: on, Type: onnx.Bool}, {Name: sum, Type: onnx.Double}}}
	g.model.Graph.Nodes = g.model.Graph.Nodes[:outside:outside]
	bags := g.op("Loop", in(turns, yes), &onnx.Attribute{Name: "body", Type: onnx.AttrGraph, G: body})
	m := g.output(g.op("Gemm", in(bags, g.param(3, 2), g.param(2))))
	if change != nil {
		change(m.Graph, body)
	}
	return m
}

// TestBagsAreReductions compares a network of bags with that of the same parameters that
// looks all rows up and reduces them.
func TestBagsAreReductions(t *testing.T) {
	for _, kind := range []string{"ReduceSum", "ReduceMean", "ReduceMax"} {
		got := testref.Must(readModel(bagLoop(kind, nil), nil))(t)
		g := newGraph(13, 4)
		g.model.Graph.Inputs[0].Type = onnx.Int64
		rows := g.op("Gather", in(g.param(30, 3), "x"))
		y := rows
		if kind == "ReduceSum" {
			y = g.op(kind, in(rows, g.ints(1)), intA("keepdims", 0))
		} else {
			y = g.op(kind, in(rows), intsA("axes", 1), intA("keepdims", 0))
		}
		want := testref.Must(readModel(g.output(g.op("Gemm", in(y, g.param(3, 2), g.param(2)))), nil))(t)
		require.Equal(t, want.Theta(), got.Theta())
		x := inputsOf(want, rand.New(rand.NewPCG(1, 2)), 5)
		for _, net := range []*network.Network{got, roundTrip(t, got)} {
			a := testref.Must(net.Linearize(t.Context(), x))(t)
			b := testref.Must(want.Linearize(t.Context(), x))(t)
			requireSame(t, a, b)
		}
	}
}

// TestOtherLoopsRefused changes each part of a bag's Loop that is looked at: the result
// is none, and is refused because it works along the batch.
func TestOtherLoopsRefused(t *testing.T) {
	node := func(g *onnx.Graph, kind string) *onnx.Node {
		for _, n := range g.Nodes {
			if n.OpType == kind {
				return n
			}
		}
		panic("no " + kind)
	}
	ints := func(g *onnx.Graph, v int64) string {
		name := g.Initializers[len(g.Initializers)-1].Name + "i"
		g.Initializers = append(g.Initializers, &onnx.Tensor{Name: name, Type: onnx.Int64, Dims: []int64{1}, Ints: []int64{v}})
		return name
	}
	for name, change := range map[string]loopChange{
		"other axis of ids": func(g, body *onnx.Graph) { node(body, "Slice").Inputs[3] = ints(g, 1) },
		"reduced axis":      func(g, body *onnx.Graph) { node(body, "ReduceMean").Attributes[0].Ints = []int64{1} },
		"kept axis":         func(_, body *onnx.Graph) { node(body, "ReduceMean").Attributes[1].I = 1 },
		"swapped bounds": func(_, body *onnx.Graph) {
			s := node(body, "Slice")
			s.Inputs[1], s.Inputs[2] = s.Inputs[2], s.Inputs[1]
		},
		"later start":         func(g, _ *onnx.Graph) { node(g, "Slice").Inputs[1] = ints(g, 2) },
		"range from one":      func(g, _ *onnx.Graph) { node(g, "Range").Inputs[0] = ints(g, 1) },
		"range by one":        func(g, _ *onnx.Graph) { node(g, "Range").Inputs[2] = ints(g, 1) },
		"fewer turns":         func(g, _ *onnx.Graph) { node(g, "Loop").Inputs[0] = ints(g, 1) },
		"off from the start":  func(g, _ *onnx.Graph) { node(g, "Constant").Attributes[0].T.Ints[0] = 0 },
		"other flat ids":      func(g, _ *onnx.Graph) { node(g, "Reshape").Inputs[1] = ints(g, 4) },
		"another turn":        func(_, body *onnx.Graph) { body.Inputs[0].Name = "other" },
		"sums of logarithms":  func(_, body *onnx.Graph) { node(body, "ReduceMean").OpType = "ReduceLogSum" },
		"columns of a table":  func(_, body *onnx.Graph) { n := body.Nodes[5]; n.Attributes = append(n.Attributes, intA("axis", 1)) },
		"without a body":      func(g, _ *onnx.Graph) { node(g, "Loop").Attributes = nil },
		"ids by other starts": func(g, body *onnx.Graph) { body.Nodes[0].Inputs[0] = node(g, "Range").Outputs[0] },
	} {
		_, err := readModel(bagLoop("ReduceMean", change), nil)
		require.ErrorContains(t, err, mixes, name)
		requireOneLine(t, err)
	}
}

// TestTransposedCopies checks that a tensor which the exporter made by transposing another
// is the same parameter, and that one of another name or with another number is not.
func TestTransposedCopies(t *testing.T) {
	build := func(name string, change float64) *onnx.Model {
		g := newGraph(13, 4)
		g.model.Graph.Inputs[0].Type = onnx.Int64
		table := g.param(7, 3)
		data := make([]float64, 21)
		for i, v := range g.model.Graph.Initializers[0].Floats {
			data[i%3*7+i/3] = v
		}
		data[20] += change
		g.initializer(&onnx.Tensor{Name: name, Type: onnx.Double, Floats: data}, []int{3, 7})
		h := g.op("ReduceMean", in(g.op("Gather", in(table, "x"))), intsA("axes", 1), intA("keepdims", 0))
		return g.output(g.op("MatMul", in(h, name)))
	}
	for _, c := range []struct {
		name   string
		change float64
		p      int
	}{{"onnx::MatMul_9", 0, 21}, {"onnx::MatMul_9", 1e-9, 42}, {"head", 0, 42}} {
		net := testref.Must(readModel(build(c.name, c.change), nil))(t)
		_, _, p := net.Dims()
		require.Equal(t, c.p, p)
		requireDifferences(t, net)
		require.Equal(t, net.Theta(), roundTrip(t, net).Theta())
		if c.p == 21 {
			require.ErrorContains(t, net.Warnings()[0], `Tensor "onnx::MatMul_9" repeats "w1"`)
			require.Equal(t, "Full", net.Describe().Params[0].Block)
		}
	}
}
