package network_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// requireStandardized compares the network of raw rows with that of the rows that a table is scaled to, bit for bit.
func requireStandardized(t *testing.T, net, raw *network.Network, mean, sd []float64) {
	t.Helper()
	d, _, _ := net.Dims()
	x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 5, d)
	scaled := mat.DenseCopyOf(x)
	(&dataset.Scaling{Mean: mean, Scale: sd}).Apply(scaled)
	want := testref.Must(net.Linearize(t.Context(), scaled))(t)
	got := testref.Must(raw.Linearize(t.Context(), x))(t)
	require.Equal(t, want.F.RawMatrix().Data, got.F.RawMatrix().Data)
	var jw, jg mat.Dense
	want.JacobianTo(&jw)
	got.JacobianTo(&jg)
	require.Equal(t, jw.RawMatrix().Data, jg.RawMatrix().Data)
	require.Equal(t, net.Theta(), raw.Theta())
	require.Equal(t, net.Params(), raw.Params())
	require.Equal(t, net.Inputs(), raw.Inputs())
	require.Equal(t, []any{net.Head().Function, net.Head().Removed}, []any{raw.Head().Function, raw.Head().Removed})
	require.NotEqual(t, net.Fingerprint().Graph, raw.Fingerprint().Graph)
}

// Standardized takes raw rows, for inputs of any shape, before constants and heads of the network's own, and
// written and read back.
func TestStandardized(t *testing.T) {
	gemm := func(g *graph) string { return g.op("Gemm", in("x", g.param(3, 2), g.param(2))) }
	for name, c := range map[string]struct {
		mean, sd []float64
		build    func(g *graph) string
	}{
		"each":    {[]float64{10, -2, .3}, []float64{3, .1, 7}, gemm},
		"all":     {[]float64{.1307}, []float64{.3081}, gemm},
		"by name": {[]float64{1, 0, 0}, []float64{1, 1, 1}, gemm},
		"a head":  {[]float64{1, 2, 3}, []float64{3, 2, 1}, func(g *graph) string { return g.op("Softmax", in(gemm(g))) }},
		"constants": {[]float64{1, 2, 3}, []float64{3, 2, 1}, func(g *graph) string {
			return g.op("MatMul", in(g.op("Div", in(g.op("Sub", in("x", g.of([]float64{1, 2, 3}, 3))), g.of([]float64{4, 5, 6}, 3))), g.param(3, 1)))
		}},
		"two readers": {[]float64{1, 2, 3}, []float64{3, 2, 1}, func(g *graph) string {
			return g.op("Add", in(gemm(g), g.op("MatMul", in("x", g.param(3, 2)))))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph(17, 3)
			net := testref.Must(readModel(g.output(c.build(g)), nil))(t)
			raw := testref.Must(net.Standardized(c.mean, c.sd))(t)
			requireStandardized(t, net, raw, c.mean, c.sd)
			require.Equal(t, net.Warnings(), raw.Warnings())
			require.Equal(t, net.Describe().InputConstants, raw.Describe().InputConstants)
			var buf bytes.Buffer
			require.NoError(t, raw.WriteONNX(&buf))
			back := testref.Must(network.ReadONNX(&buf, nil))(t)
			requireStandardized(t, net, back.WithMetadata(net.Metadata()), c.mean, c.sd)
			theta := net.Theta()
			theta[0]++
			moved := testref.Must(net.WithTheta(theta))(t)
			movedRaw := testref.Must(raw.WithTheta(theta))(t)
			requireStandardized(t, moved, movedRaw, c.mean, c.sd)
		})
	}
}

// A file that records how its inputs were standardized warns, and Standardized takes rows as they are by it.
func TestStandardizedAsRecorded(t *testing.T) {
	net, err := network.Sequential(network.Shape{3}, network.Dense{Units: 4}, network.Tanh, network.Dense{Units: 2})
	require.NoError(t, err)
	scaling := &dataset.Scaling{Mean: []float64{10, -2, .3}, Scale: []float64{3, .1, 7}}
	read := func(kv map[string]string) *network.Network {
		var buf bytes.Buffer
		require.NoError(t, net.WithMetadata(kv).WriteONNX(&buf))
		return testref.Must(network.ReadONNX(&buf, nil))(t)
	}
	of := read(map[string]string{"funcgp.scaling": scaling.String(), "a": "b"})
	require.NotNil(t, linearize.FindWarning(of.Warnings(), "inputs-scaled"))
	raw := testref.Must(of.Standardized(nil, nil))(t)
	requireStandardized(t, of, raw, scaling.Mean, scaling.Scale)
	require.Empty(t, raw.Warnings())
	require.Equal(t, map[string]string{"funcgp.scaling": "0;1", "a": "b"}, raw.Metadata())
	for _, text := range []string{"", "0;1", "a;b", "1,2;3", "1"} {
		silent := read(map[string]string{"funcgp.scaling": text})
		require.Empty(t, silent.Warnings(), text)
		require.ErrorContains(t, testref.Err(silent.Standardized(nil, nil)), "record no standardization", text)
	}
}

// Columns of a table are standardized where each input reads them; integers are not.
func TestStandardizedColumns(t *testing.T) {
	g := newGraph(17, 3)
	net := testref.Must(readModel(g.output(g.op("MatMul", in("x", g.param(3, 1)))), nil))(t)
	table := testref.Must(net.WithColumns(5, map[string][]int{"x": {4, 0, 2}}))(t)
	mean, sd := []float64{1, 2, 3, 4, 5}, []float64{5, 4, 3, 2, 1}
	raw := testref.Must(table.Standardized(mean, sd))(t)
	requireStandardized(t, table, raw, mean, sd)

	g = newGraph(17, 3)
	g.model.Graph.Inputs[0].Type = onnx.Int64
	net = testref.Must(readModel(g.output(g.op("Flatten", in(g.op("Gather", in(g.param(5, 2), "x"))))), nil))(t)
	_, err := net.Standardized([]float64{1, 2, 3}, []float64{1, 1, 1})
	require.ErrorContains(t, err, "of integers")
	requireOneLine(t, err)
}

func TestStandardizedRefuses(t *testing.T) {
	net := testref.Must(network.Sequential(network.Shape{3}, network.Dense{Units: 1}))(t)
	for _, bad := range [][2]float64{{0, 0}, {0, -1}, {0, math.NaN()}, {0, math.Inf(1)}, {math.NaN(), 1}, {math.Inf(-1), 1}} {
		_, err := net.Standardized(bad[:1], bad[1:])
		require.ErrorContains(t, err, "input 0 has the mean")
		requireOneLine(t, err)
	}
	for _, n := range [][2]int{{2, 2}, {3, 2}, {3, 0}, {0, 3}} {
		_, err := net.Standardized(make([]float64, n[0]), make([]float64, n[1]))
		require.ErrorContains(t, err, "of 3 inputs")
	}
}

// TestNormalized checks weights of products on either side of which only a normalization
// reads the result.
func TestNormalized(t *testing.T) {
	for name, layer := range map[string]func(g *graph, w string) string{
		"MatMul": func(g *graph, w string) string { return g.op("MatMul", in("x", w)) },
		"Einsum": func(g *graph, w string) string { return g.op("Einsum", in("x", w), textA("equation", "bi,ij->bj")) },
		"left":   func(g *graph, w string) string { return g.op("Einsum", in(w, "x"), textA("equation", "ij,bi->bj")) },
		"no product": func(g *graph, w string) string {
			return g.op("ReduceSum", in(g.op("Mul", in(g.op("Unsqueeze", in("x", g.ints(2))), w)), g.ints(1)), intA("keepdims", 0))
		},
	} {
		g := newGraph(17, 3)
		w := g.param(3, 4)
		net, err := readModel(g.output(g.op("LayerNormalization", in(layer(g, w), g.param(4), g.param(4)))), nil)
		require.NoError(t, err, name)
		if name == "no product" {
			require.Empty(t, net.Normalized(), name)
		} else {
			require.Equal(t, in(w), net.Normalized(), name)
		}
	}
}

// TestRescaled checks that outputs are scaled and shifted and J is scaled, for
// outputs of several shapes, constants of the network's own, and removed heads;
// and that nothing else changes.
func TestRescaled(t *testing.T) {
	for name, c := range map[string]struct {
		outputs int
		opset   int64
		build   func(g *graph) string
		fixed   int // batch size in the file, 0 for any
	}{
		"one": {1, 17, func(g *graph) string { return g.op("Gemm", in("x", g.param(3, 1), g.param(1))) }, 0},
		"two": {2, 13, func(g *graph) string {
			return g.op("Gemm", in(g.op("Tanh", in(g.op("MatMul", in("x", g.param(3, 4))))), g.param(4, 2), g.param(2)))
		}, 0},
		"no bias":  {2, 7, func(g *graph) string { return g.op("MatMul", in("x", g.param(3, 2))) }, 0},
		"a vector": {1, 17, func(g *graph) string { return g.op("Squeeze", in(g.op("MatMul", in("x", g.param(3, 1))), g.ints(1))) }, 0},
		"an image": {6, 17, func(g *graph) string {
			return g.op("Reshape", in(g.op("MatMul", in("x", g.param(3, 6))), g.ints(-1, 1, 2, 3)))
		}, 0},
		"fixed batch": {2, 17, func(g *graph) string { return g.op("Gemm", in("x", g.param(3, 2), g.param(2))) }, 4},
		"a head":      {2, 17, func(g *graph) string { return g.op("Softmax", in(g.op("Gemm", in("x", g.param(3, 2), g.param(2))))) }, 0},
		"constants": {1, 17, func(g *graph) string {
			z := g.op("Div", in(g.op("Sub", in("x", g.of(mean, 3))), g.of(sd, 3)))
			return g.op("Mul", in(g.op("MatMul", in(z, g.param(3, 1))), g.of([]float64{7}, 1)))
		}, 0},
		"names taken": {1, 17, func(g *graph) string {
			y := g.op("MatMul", in("x", g.param(3, 1)))
			g.model.Graph.Nodes[0].Outputs[0] = "rescaled_0_Mul"
			_ = y
			return "rescaled_0_Mul"
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph(c.opset, 3)
			if c.fixed > 0 {
				g.fixed(c.fixed)
			}
			net := testref.Must(readModel(g.output(c.build(g)), nil))(t)
			net = net.WithMetadata(map[string]string{"a": "b"})
			rng := rand.New(rand.NewPCG(5, 6))
			scale, shift := make([]float64, c.outputs), make([]float64, c.outputs)
			for i := range scale {
				scale[i], shift[i] = math.Exp(3*rng.NormFloat64()), 100*rng.NormFloat64()
			}
			scaled := testref.Must(net.Rescaled(scale, shift))(t)
			require.Equal(t, net.Theta(), scaled.Theta())
			require.Equal(t, net.Params(), scaled.Params())
			require.Equal(t, net.Warnings(), scaled.Warnings())
			require.Equal(t, net.Metadata(), scaled.Metadata())
			require.NotEqual(t, net.Fingerprint().Graph, scaled.Fingerprint().Graph)
			requireAffine(t, net, scaled, scale, shift, gaussianMatrix(rng, 4, 3))

			// Twice is once by the product.
			twice := testref.Must(scaled.Rescaled(scale, shift))(t)
			requireAffine(t, scaled, twice, scale, shift, gaussianMatrix(rng, 4, 3))
			theta := net.Theta()
			theta[0]++
			moved := testref.Must(net.WithTheta(theta))(t)
			movedScaled := testref.Must(scaled.WithTheta(theta))(t)
			requireAffine(t, moved, movedScaled, scale, shift, gaussianMatrix(rng, 4, 3))
		})
	}
}

func requireAffine(t *testing.T, net, scaled *network.Network, scale, shift []float64, x *mat.Dense) {
	t.Helper()
	a := testref.Must(net.Linearize(t.Context(), x))(t)
	b := testref.Must(scaled.Linearize(t.Context(), x))(t)
	var f, j, js mat.Dense
	f.Apply(func(_, c int, v float64) float64 { return scale[c]*v + shift[c] }, a.F)
	require.Equal(t, f.RawMatrix().Data, b.F.RawMatrix().Data)
	a.JacobianTo(&j)
	j.Apply(func(i, _ int, v float64) float64 { return scale[i%len(scale)] * v }, &j)
	b.JacobianTo(&js)
	testref.RequireClose(t, js.RawMatrix().Data, j.RawMatrix().Data, 1e-14, "J") // rounding of products in another order
}

// TestRescaledWritten checks that a rescaled network of float32 weights is
// written with its scaling, all of it in one type.
func TestRescaledWritten(t *testing.T) {
	g := newGraph(17, 3)
	g.model.Graph.Inputs[0].Type = onnx.Float
	h := g.op("Tanh", in(g.op("Gemm", in("x", g.float32s([]float64{1, 2, 3, 4, 5, 6}, 3, 2), g.float32s([]float64{0.5, -0.5}, 2)))))
	net := testref.Must(readModel(g.output(g.op("MatMul", in(h, g.float32s([]float64{1, -1, 2, 1}, 2, 2)))), nil))(t)
	scaled := testref.Must(net.Rescaled([]float64{10, 20}, []float64{1, 2}))(t)
	var buf bytes.Buffer
	require.NoError(t, scaled.WriteONNX(&buf))
	m := testref.Must(onnx.Read(bytes.NewReader(buf.Bytes())))(t)
	for _, i := range m.Graph.Initializers {
		require.Equal(t, onnx.Double, i.Type, i.Name)
	}
	require.Equal(t, onnx.Double, m.Graph.Inputs[0].Type)
	back := testref.Must(network.ReadONNX(&buf, nil))(t)
	require.Equal(t, net.Theta(), back.Theta())
	requireAffine(t, net, back, []float64{10, 20}, []float64{1, 2}, gaussianMatrix(rand.New(rand.NewPCG(1, 1)), 3, 3))
}

func TestRescaledRefuses(t *testing.T) {
	net := testref.Must(network.Sequential(network.Shape{3}, network.Dense{Units: 1}))(t)
	for _, bad := range [][2]float64{{0, 0}, {-1, 0}, {math.NaN(), 0}, {math.Inf(1), 0}, {1, math.NaN()}, {1, math.Inf(-1)}} {
		_, err := net.Rescaled(bad[:1], bad[1:])
		require.ErrorContains(t, err, "output 0 is to be scaled by")
		requireOneLine(t, err)
	}
	require.Panics(t, func() { _, _ = net.Rescaled([]float64{1, 1}, []float64{0, 0}) })
}
