package network_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// severalInputs is a graph with the inputs "x" N×3, "picture" N×2×2×2, "age" N, and
// "unused".
func severalInputs() *graph {
	g := newGraph(13, 3)
	add := func(name string, dims ...int64) {
		v := &onnx.ValueInfo{Name: name, Type: onnx.Double, HasShape: true, Dims: []onnx.Dim{{Param: "n"}}}
		for _, d := range dims {
			v.Dims = append(v.Dims, onnx.Dim{Value: d, HasValue: true})
		}
		g.model.Graph.Inputs = append(g.model.Graph.Inputs, v)
	}
	add("unused", 5)
	add("picture", 2, 2, 2)
	add("age")
	a := g.op("Gemm", in("x", g.param(3, 4)))
	b := g.op("Flatten", in(g.op("Conv", in("picture", g.param(2, 2, 1, 1), g.param(2)))))
	b = g.op("MatMul", in(g.op("Tanh", in(b)), g.param(8, 4)))
	h := g.op("Tanh", in(g.op("Add", in(a, b))))
	age := g.op("Unsqueeze", in("age", g.ints(1)))
	g.output(g.op("Gemm", in(g.op("Concat", in(h, age), intA("axis", 1)), g.param(5, 2), g.param(2))))
	return g
}

// TestSeveralInputs compares f and J with those of the same network over one input,
// which Slice cuts into the three.
func TestSeveralInputs(t *testing.T) {
	several := testref.Must(readModel(severalInputs().model, nil))(t)
	require.Equal(t, []network.Input{{Name: "x", Shape: network.Shape{3}}, {Name: "picture", Shape: network.Shape{2, 2, 2}, Offset: 3}, {Name: "age", Shape: network.Shape{}, Offset: 11}}, several.Inputs())
	require.Equal(t, network.Shape{12}, several.InputShape())
	require.ErrorContains(t, several.Warnings()[0], `Input "unused" does not influence the output`)

	g := severalInputs()
	one := g.model.Graph.Inputs[0]
	one.Name, one.Dims[1].Value = "all", 12
	g.model.Graph.Inputs = g.model.Graph.Inputs[:1]
	cut := func(name string, lo, hi int64, shape ...int64) {
		y := g.op("Slice", in("all", g.ints(lo), g.ints(hi), g.ints(1)))
		nd := &onnx.Node{OpType: "Reshape", Inputs: in(y, g.ints(append([]int64{-1}, shape...)...)), Outputs: in(name)}
		g.model.Graph.Nodes = append(g.model.Graph.Nodes, nd)
	}
	cut("x", 0, 3, 3)
	cut("picture", 3, 11, 2, 2, 2)
	cut("age", 11, 12)
	flat := testref.Must(readModel(g.model, nil))(t)

	x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 5, 12)
	want := testref.Must(flat.Linearize(t.Context(), x))(t)
	got := testref.Must(several.Linearize(t.Context(), x))(t)
	require.True(t, mat.Equal(want.F, got.F))
	var wantJ, gotJ mat.Dense
	want.JacobianTo(&wantJ)
	got.JacobianTo(&gotJ)
	testref.RequireClose(t, gotJ.RawMatrix().Data, wantJ.RawMatrix().Data, 1e-15, "J")
	requireRowwise(t, several, x)
	requireDifferences(t, several)
	require.Equal(t, several.Inputs(), roundTrip(t, several).Inputs())
}

// TestSeveralInputsRefused checks declarations that do not fit together.
func TestSeveralInputsRefused(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(g *onnx.Graph)
	}{
		{"a batch of 2 examples and another for 3", func(g *onnx.Graph) {
			g.Inputs[0].Dims[0], g.Inputs[2].Dims[0] = onnx.Dim{HasValue: true, Value: 3}, onnx.Dim{HasValue: true, Value: 2}
		}},
		{`input "age" has no dimension of examples (if its only one is that, ReadOptions.Bind age=n); give what is open with ReadOptions.Bind age=VALUE`, func(g *onnx.Graph) { g.Inputs[3].Dims[0] = onnx.Dim{HasValue: true, Value: 1} }},
		{`none of the model's 4 inputs`, func(g *onnx.Graph) { g.Outputs[0].Name = g.Initializers[0].Name }},
	} {
		m := severalInputs().model
		c.change(m.Graph)
		_, err := readModel(m, nil)
		require.ErrorContains(t, err, c.want)
		requireOneLine(t, err)
	}
}

// TestSeveralOutputs checks that a network is read with the output that is asked for,
// and written with it alone.
func TestSeveralOutputs(t *testing.T) {
	g := newGraph(13, 3)
	h := g.op("Tanh", in(g.op("Gemm", in("x", g.param(3, 4)))))
	m := g.output(g.op("Gemm", in(h, g.param(4, 2))))
	mean := m.Graph.Outputs[0].Name
	m.Graph.Outputs = append(m.Graph.Outputs, &onnx.ValueInfo{Name: g.op("Gemm", in(h, g.param(4, 3))), Type: onnx.Double})
	second := m.Graph.Outputs[1].Name

	_, err := readModel(m, nil)
	require.ErrorContains(t, err, `the model has 2 outputs, "y8", "y11"; choose one, or another tensor of the graph, with ReadOptions.Output NAME`)
	_, err = readModel(m, &network.ReadOptions{Output: "y999"})
	require.ErrorContains(t, err, `the model has no tensor "y999"; ReadOptions.Output takes an output, "y8", "y11", or the result of a node`)

	x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 4, 3)
	for k, name := range []string{mean, second} {
		net := testref.Must(readModel(m, &network.ReadOptions{Output: name}))(t)
		alone := *m
		graph := *m.Graph
		graph.Outputs, alone.Graph = m.Graph.Outputs[k:k+1], &graph
		want := testref.Must(readModel(&alone, nil))(t)
		got := testref.Must(net.Forward(t.Context(), x))(t)
		f := testref.Must(want.Forward(t.Context(), x))(t)
		require.True(t, mat.Equal(f, got))
		require.Equal(t, want.Fingerprint(), net.Fingerprint())
		require.Equal(t, want.Fingerprint(), roundTrip(t, net).Fingerprint())
	}
}

// TestWithColumns compares f and J at rows of a table, whose columns are the inputs in any
// order, with those of the network at the inputs one after another.
func TestWithColumns(t *testing.T) {
	net := testref.Must(readModel(severalInputs().model, nil))(t)
	rng := rand.New(rand.NewPCG(3, 4))
	const width = 15
	columns := map[string][]int{"x": {4, 0, 4}, "picture": {14, 2, 3, 1, 5, 6, 7, 8}, "age": {9}}
	table := gaussianMatrix(rng, 5, width)
	x := mat.NewDense(5, 12, nil)
	for i := range 5 {
		for k, from := range []int{4, 0, 4, 14, 2, 3, 1, 5, 6, 7, 8, 9} {
			x.Set(i, k, table.At(i, from))
		}
	}
	placed := testref.Must(net.WithColumns(width, columns))(t)
	d, _, _ := placed.Dims()
	require.Equal(t, width, d)
	require.Equal(t, []int{4, 0, 4}, placed.Inputs()[0].Columns)
	require.NotEqual(t, net.Fingerprint(), placed.Fingerprint())
	require.Equal(t, net.Theta(), placed.Theta())
	want := testref.Must(net.Linearize(t.Context(), x))(t)
	got := testref.Must(placed.Linearize(t.Context(), table))(t)
	requireSame(t, got, want)
	scaled := testref.Must(placed.Rescaled([]float64{2, 3}, []float64{0, 0}))(t)
	f := testref.Must(scaled.Forward(t.Context(), table))(t)
	testref.RequireClose(t, mat.Col(nil, 1, f), mat.Col(nil, 1, scaledBy(want.F, 3)), 1e-15, "rescaled")

	for _, c := range []struct {
		want    string
		columns map[string][]int
	}{
		{`input "x" of 3 numbers has no columns`, nil},
		{`input "x" takes 3 numbers (shape [3]), and is given 2 columns`, map[string][]int{"x": {0, 1}}},
		{`column 15 of input "x" is not among the 15 of a row`, map[string][]int{"x": {0, 1, 15}}},
		{`no input "unused" influences the output; the inputs are "x", "picture", "age"`, map[string][]int{"x": columns["x"], "picture": columns["picture"], "age": {1}, "unused": {1}}},
	} {
		_, err := net.WithColumns(width, c.columns)
		require.ErrorContains(t, err, c.want)
		requireOneLine(t, err)
	}
}

func scaledBy(m *mat.Dense, factor float64) *mat.Dense {
	var out mat.Dense
	out.Scale(factor, m)
	return &out
}
