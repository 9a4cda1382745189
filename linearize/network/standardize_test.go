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
		back := testref.Must(network.ReadONNX(&buf, nil))(t)
		return back
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
