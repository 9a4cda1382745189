package network_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
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
	text := testref.Must(os.ReadFile(filepath.Join(parametersDir, "expected.json")))(t)
	require.NoError(t, json.Unmarshal(text, &list))
	out := map[string][]string{}
	for _, e := range list {
		out[e.Case] = e.Parameters
	}
	return out
}

func readExported(t *testing.T, name string, o *network.ReadOptions) (*network.Network, error) {
	f := testref.Must(os.Open(filepath.Join(parametersDir, name+".onnx")))(t)
	defer f.Close()
	return network.ReadONNX(f, o)
}

// TestExportedParameters compares the parameters of each export with those of PyTorch.
func TestExportedParameters(t *testing.T) {
	cases := exportedParameters(t)
	require.NotEmpty(t, cases)
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			net := testref.Must(readExported(t, name, nil))(t)
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
			net := testref.Must(readExported(t, name, nil))(t)
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
			moved := testref.Must(net.WithTheta(theta))(t)
			for _, n := range []*network.Network{net, moved} {
				var b bytes.Buffer
				require.NoError(t, n.WriteONNX(&b))
				again := testref.Must(network.ReadONNX(&b, nil))(t)
				require.Equal(t, n.Params(), again.Params())
				require.Equal(t, n.Theta(), again.Theta())
				require.Equal(t, n.Fingerprint(), again.Fingerprint())
				d, _, _ := n.Dims()
				x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 5, d)
				requireSameBatch(t, again, x, n, x, 0)
			}
			frozen := testref.Must(readExported(t, name, &network.ReadOptions{Freeze: want[:1]}))(t)
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
	net := testref.Must(readModel(m, nil))(t)
	require.Len(t, net.Params(), 2)
	require.Len(t, net.Warnings(), 1)
	require.ErrorContains(t, linearize.FindWarning(net.Warnings(), "taken-for-constants"), "uncertainly: "+strconv.Quote(filter))
	for _, names := range [][]string{{filter}, {half}, {filter, half}} {
		learnt := testref.Must(readModel(m, &network.ReadOptions{Learn: names}))(t)
		require.Len(t, learnt.Params(), 2+len(names))
		requireDifferences(t, learnt)
		x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 5, 3)
		a := testref.Must(learnt.Forward(t.Context(), x))(t)
		b := testref.Must(net.Forward(t.Context(), x))(t)
		testref.RequireClose(t, a.RawMatrix().Data, b.RawMatrix().Data, 1e-14, "f")
	}
	frozen := testref.Must(readModel(m, &network.ReadOptions{Freeze: []string{filter, half}}))(t)
	require.Equal(t, net.Params(), frozen.Params())
	_, err := readModel(m, &network.ReadOptions{Learn: in(filter), Freeze: in(filter)})
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

// TestSilentTensors checks that a tensor by which all derivatives are zero is a constant,
// and that one whose derivative is zero at θ* alone stays a parameter.
func TestSilentTensors(t *testing.T) {
	layer := func(g *graph, x string) string { return g.op("Gemm", in(x, g.param(3, 2), g.param(2))) }
	type build = func(g *graph) (output string, tensor string)
	for name, c := range map[string]struct {
		build  build
		silent bool
	}{
		"under Floor": {func(g *graph) (string, string) {
			w := g.param(3)
			return layer(g, g.op("Add", in(g.op("Tanh", in(layer3(g))), g.op("Floor", in(w))))), w
		}, true},
		"times zero": {func(g *graph) (string, string) {
			w, zero := g.param(3), g.constantNode([]float64{0, 0, 0}, 3)
			return layer(g, g.op("Add", in(g.op("Tanh", in(layer3(g))), g.op("Mul", in(w, zero))))), w
		}, true},
		"shared shift of a Softmax": {func(g *graph) (string, string) { // zero but for rounding
			w := g.param(1)
			return layer(g, g.op("Softmax", in(g.op("Add", in(g.op("Tanh", in(layer3(g))), w))), intA("axis", 1))), w
		}, false},
		"before a branch times zero": {func(g *graph) (string, string) {
			w, alpha := g.param(3), g.of([]float64{0}, 1)
			branch := g.op("Mul", in(g.op("Tanh", in(g.op("Mul", in(g.op("Tanh", in(layer3(g))), w)))), alpha))
			return layer(g, g.op("Add", in("x", branch))), w
		}, false},
		"behind a dead Relu": {func(g *graph) (string, string) {
			w := g.of([]float64{-3, -3, -3}, 3)
			return layer(g, g.op("Add", in("x", g.op("Relu", in(g.op("Add", in(g.op("Tanh", in(layer3(g))), w))))))), w
		}, false},
		"the only one": {func(g *graph) (string, string) {
			w, zero := g.param(3), g.constantNode([]float64{0, 0, 0}, 3)
			return g.op("Mul", in("x", g.op("Mul", in(w, zero)))), w
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph(17, 3)
			output, tensor := c.build(g)
			m := g.output(output)
			net := testref.Must(readModel(m, nil))(t)
			require.Equal(t, c.silent, !slices.ContainsFunc(net.Params(), func(p linearize.Param) bool { return p.Name == tensor }))
			if c.silent {
				i := slices.IndexFunc(net.Describe().Tensors, func(d network.TensorInfo) bool { return d.Name == tensor })
				require.Contains(t, net.Describe().Tensors[i].Reason, "influence")
				if learnt, err := readModel(m, &network.ReadOptions{Learn: in(tensor)}); err != nil {
					require.ErrorContains(t, err, "does not influence the output") // the graph itself says so
				} else {
					require.Len(t, learnt.Params(), len(net.Params())+1)
				}
			}
		})
	}
}

func layer3(g *graph) string { return g.op("Gemm", in("x", g.param(3, 3), g.param(3))) }

// TestDecisionsOverridden checks of every tensor of the exports that it can be frozen, if it
// is a parameter, and learnt, if it is a constant that has a derivative; that all else stays
// as it was; and that what is written is read as the same network.
func TestDecisionsOverridden(t *testing.T) {
	learnt := 0
	for name := range exportedParameters(t) {
		net := testref.Must(readExported(t, name, nil))(t)
		var names []string
		for _, d := range net.Describe().Tensors {
			names = append(names, d.Name)
			require.NotEmpty(t, d.Reason, d.Name)
			o := &network.ReadOptions{Learn: in(d.Name)}
			if d.Parameter {
				o = &network.ReadOptions{Freeze: in(d.Name)}
			}
			other, err := readExported(t, name, o)
			if err != nil && !d.Parameter { // of a shape, or infinite
				require.Regexp(t, "cannot learn|Inf", err.Error())
				continue
			}
			require.NoError(t, err, "%s %s", name, d.Name)
			for _, e := range other.Describe().Tensors {
				i := slices.IndexFunc(net.Describe().Tensors, func(d network.TensorInfo) bool { return d.Name == e.Name })
				require.Equal(t, net.Describe().Tensors[i].Parameter != (e.Name == d.Name), e.Parameter, "%s: %s where %s changes", name, e.Name, d.Name)
			}
			if !d.Parameter {
				learnt++
			}
		}
		for _, p := range net.Params() {
			require.Contains(t, names, p.Name)
		}
		var b bytes.Buffer
		require.NoError(t, net.WriteONNX(&b))
		again := testref.Must(network.ReadONNX(&b, nil))(t)
		require.Equal(t, net.Params(), again.Params(), name)
		require.Equal(t, net.Theta(), again.Theta(), name)
		require.Equal(t, net.Fingerprint(), again.Fingerprint(), name)
	}
	require.Greater(t, learnt, 40)
}

// TestDoubts checks that what is uncertain is named with what decides otherwise, once.
func TestDoubts(t *testing.T) {
	for name, want := range map[string]string{
		"learnt-named-pe": "taken-for-parameters", "sinusoidal-2d": "taken-for-constants", "logit-scale": "taken-for-constants", "sinusoidal": "", "class-token": "", "spectral-norm": "",
		"rezero": "", "mask-infinite": "", "layer-scale": "", "coordconv": "", "window": "", "rms-norm": "",
	} {
		net := testref.Must(readExported(t, name, nil))(t)
		if want == "" {
			require.Empty(t, net.Warnings(), name)
			continue
		}
		require.Len(t, net.Warnings(), 1, name)
		doubt := linearize.FindWarning(net.Warnings(), want)
		require.NotNil(t, doubt, name)
		require.NotContains(t, doubt.Error(), "\n")
		for _, d := range net.Describe().Tensors {
			require.Equal(t, d.Doubtful, strings.Contains(doubt.Text, strconv.Quote(d.Name)), d.Name)
		}
	}
}

// TestCopies checks that a weight which the exporter stored twice, transposed or in another
// shape, is one parameter: f and J are those of the export without constant folding.
func TestCopies(t *testing.T) {
	for name, weight := range map[string]string{"tied-tokens": "weight", "spectral-conv": "0.weight_orig"} {
		folded := testref.Must(readExported(t, name, nil))(t)
		plain := testref.Must(readExported(t, name+"-unfolded", nil))(t)
		require.Equal(t, plain.Params(), folded.Params())
		repeats := slices.DeleteFunc(folded.Describe().Tensors, func(d network.TensorInfo) bool { return !strings.Contains(d.Reason, "repeats") })
		require.Len(t, repeats, 1)
		require.Contains(t, repeats[0].Reason, weight)
		theta := folded.Theta()
		for i := range theta {
			theta[i] += 0.125 * float64(i%5)
		}
		a := testref.Must(folded.WithTheta(theta))(t)
		b := testref.Must(plain.WithTheta(theta))(t)
		d, _, _ := plain.Dims()
		x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 5, d)
		requireSameBatch(t, a, x, b, x, 1e-13)
		apart := testref.Must(readExported(t, name, &network.ReadOptions{Learn: in(repeats[0].Name)}))(t)
		require.Len(t, apart.Params(), len(folded.Params())+1)
	}
}
