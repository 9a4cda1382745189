package network_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

const parametersDir = "../../testdata/parameters"

// exportedParameters are the exports of testdata/parameters with the names of the tensors
// that PyTorch counts as parameters and that influence the output.
func exportedParameters(t *testing.T) map[string][]string {
	var list []struct {
		Case       string
		Parameters []string
	}
	text, err := os.ReadFile(filepath.Join(parametersDir, "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &list))
	out := map[string][]string{}
	for _, e := range list {
		out[e.Case] = e.Parameters
	}
	return out
}

func readExported(t *testing.T, name string, o *network.ReadOptions) (*network.Network, error) {
	f, err := os.Open(filepath.Join(parametersDir, name+".onnx"))
	require.NoError(t, err)
	defer f.Close()
	return network.ReadONNX(f, o)
}

// TestExportedParameters compares the parameters of each export with those of PyTorch.
func TestExportedParameters(t *testing.T) {
	cases := exportedParameters(t)
	require.NotEmpty(t, cases)
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			net, err := readExported(t, name, nil)
			require.NoError(t, err)
			var got []string
			for _, p := range net.Params() {
				got = append(got, p.Name)
			}
			slices.Sort(got)
			require.Equal(t, want, got, "%v", net.Describe().Tensors)
		})
	}
}

// TestWeightsInConstantNodes checks that weights in Constant nodes are named in a warning,
// that a network with other parameters is written so that it is read as the same, and that
// freeze and learn have the last word.
func TestWeightsInConstantNodes(t *testing.T) {
	for _, name := range []string{"constant-nodes", "batch-norm-in-nodes", "half-in-nodes", "layer-scale-in-nodes", "scales-in-nodes", "sinusoidal-in-nodes"} {
		t.Run(name, func(t *testing.T) {
			net, err := readExported(t, name, nil)
			require.NoError(t, err)
			want := exportedParameters(t)[name]
			said := ""
			for _, w := range net.Warnings() {
				said += w.Error() + "\n"
			}
			require.Contains(t, said, "weights in Constant nodes")
			require.Contains(t, said, net.Params()[0].Name)
			for _, d := range net.Describe().Tensors {
				require.True(t, d.Node, d.Name)
				require.Equal(t, slices.Contains(want, d.Name), d.Parameter, d.Name)
			}
			theta := net.Theta()
			for i := range theta {
				theta[i] += 0.125 * float64(i%7)
			}
			moved, err := net.WithTheta(theta)
			require.NoError(t, err)
			for _, n := range []*network.Network{net, moved} {
				var b bytes.Buffer
				require.NoError(t, n.WriteONNX(&b))
				again, err := network.ReadONNX(&b, nil)
				require.NoError(t, err)
				require.Equal(t, n.Params(), again.Params())
				require.Equal(t, n.Theta(), again.Theta())
				require.Equal(t, n.Fingerprint(), again.Fingerprint())
				d, _, _ := n.Dims()
				x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 5, d)
				requireSameBatch(t, again, x, n, x, 0)
			}
			frozen, err := readExported(t, name, &network.ReadOptions{Freeze: want[:1]})
			require.NoError(t, err)
			require.Len(t, frozen.Params(), len(want)-1)
		})
	}
}

// TestLearnLiterals checks that a literal can be learnt and frozen where the file has its
// weights in initializers, and that one that multiplies like a weight is named.
func TestLearnLiterals(t *testing.T) {
	g := newGraph(13, 3)
	filter := g.constantNode([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3)
	half := g.constantNode([]float64{0.5})
	h := g.op("Mul", in(g.op("MatMul", in("x", filter)), half))
	m := g.output(g.op("Gemm", in(g.op("Tanh", in(h)), g.param(3, 2), g.param(2))))
	net, err := readModel(m, nil)
	require.NoError(t, err)
	require.Len(t, net.Params(), 2)
	require.Len(t, net.Warnings(), 1)
	doubt, ok := errors.AsType[*network.DoubtWarning](net.Warnings()[0])
	require.True(t, ok)
	require.Equal(t, in(filter), doubt.Names)
	require.ErrorContains(t, doubt, "--learn")
	for _, names := range [][]string{{filter}, {half}, {filter, half}} {
		learnt, err := readModel(m, &network.ReadOptions{Learn: names})
		require.NoError(t, err)
		require.Len(t, learnt.Params(), 2+len(names))
		requireDifferences(t, learnt)
		x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 5, 3)
		a, err := learnt.Forward(t.Context(), x)
		require.NoError(t, err)
		b, err := net.Forward(t.Context(), x)
		require.NoError(t, err)
		testref.RequireClose(t, a.RawMatrix().Data, b.RawMatrix().Data, 1e-14, "f")
	}
	frozen, err := readModel(m, &network.ReadOptions{Freeze: []string{filter, half}})
	require.NoError(t, err)
	require.Equal(t, net.Params(), frozen.Params())
	_, err = readModel(m, &network.ReadOptions{Learn: in(filter), Freeze: in(filter)})
	require.ErrorContains(t, err, "choose one")
}

// constantNode adds a Constant node of float64 numbers.
func (g *graph) constantNode(data []float64, shape ...int) string {
	t := &onnx.Tensor{Type: onnx.Double, Floats: data}
	for _, d := range shape {
		t.Dims = append(t.Dims, int64(d))
	}
	return g.op("Constant", nil, &onnx.Attribute{Name: "value", Type: onnx.AttrTensor, T: t})
}
