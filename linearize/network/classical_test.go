package network_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// classical appends a node of ai.onnx.ml with so many results.
func (g *graph) classical(kind string, n int, inputs []string, attrs ...*onnx.Attribute) []string {
	y := g.many(kind, n, inputs, attrs...)
	g.model.Graph.Nodes[len(g.model.Graph.Nodes)-1].Domain = "ai.onnx.ml"
	return y
}

// float32Graph is a graph of x N×3 in float32, with the set of operators of ai.onnx.ml.
func float32Graph() *graph {
	g := newGraph(13, 3)
	g.model.Graph.Inputs[0].Type = onnx.Float
	g.model.OpsetImport = append(g.model.OpsetImport, onnx.Opset{Domain: "ai.onnx.ml", Version: 1})
	return g
}

// labelled ends a graph as skl2onnx ends a classifier: the label of the largest probability, and dictionaries.
func (g *graph) labelled(probabilities string, classes *onnx.Attribute) *onnx.Model {
	names := &onnx.Tensor{Name: "classes", Type: onnx.String, Strings: [][]byte{[]byte("no"), []byte("yes"), []byte("maybe")}}
	if classes.Ints != nil {
		names = &onnx.Tensor{Name: "classes", Type: onnx.Int64, Ints: classes.Ints}
	}
	list := g.initializer(names, []int{names.Len()})
	at := g.op("ArgMax", in(probabilities), intA("axis", 1))
	label := g.op("Reshape", in(g.classical("ArrayFeatureExtractor", 1, in(list, at))[0], g.ints(-1)))
	zip := g.classical("ZipMap", 1, in(probabilities), classes)[0]
	g.model.Graph.Outputs = []*onnx.ValueInfo{{Name: label, Type: names.Type}, {Name: zip}}
	return g.model
}

// TestClassicalOperators compares networks in the layout of skl2onnx with f by hand.
func TestClassicalOperators(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := gaussianMatrix(rng, 4, 3)
	for i := range x.RawMatrix().Data {
		x.RawMatrix().Data[i] = float64(float32(x.RawMatrix().Data[i]))
	}
	w, b := []float32{.5, -1, 2, 1, .25, -.5, -2, 1, .75}, []float32{.25, -.5, 1}
	scores := func(row []float64) []float64 {
		z := make([]float64, 3)
		for k := range z {
			z[k] = float64(b[k])
			for j, v := range row {
				z[k] += float64(w[3*k+j]) * v
			}
		}
		return z
	}
	sigmoid := func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
	softmax := func(z []float64) []float64 {
		sum, p := 0.0, make([]float64, len(z))
		for _, v := range z {
			sum += math.Exp(v)
		}
		for k, v := range z {
			p[k] = math.Exp(v) / sum
		}
		return p
	}
	three := textsA("classlabels_strings", "no", "yes", "maybe")
	for _, c := range []struct {
		name       string
		model      *onnx.Model
		want       func(row []float64) []float64
		parameters int
		function   head.Function
		metadata   map[string]string
	}{
		{"Scaler", func() *onnx.Model {
			g := float32Graph()
			s := g.classical("Scaler", 1, in("x"), floatsA("offset", 1, 2, 3), floatsA("scale", 1, .5, .25))[0]
			return g.output(g.op("MatMul", in(s, g.single3())))
		}(), func(row []float64) []float64 {
			return []float64{(row[0] - 1) + 2*(row[1]-2)*.5 + 3*(row[2]-3)*.25}
		}, 3, head.None, nil},
		{"Scaler of one number", func() *onnx.Model {
			g := float32Graph()
			s := g.classical("Scaler", 1, in("x"), floatsA("offset", 1), floatsA("scale", .5))[0]
			return g.output(g.op("MatMul", in(s, g.single3())))
		}(), func(row []float64) []float64 {
			return []float64{(row[0]-1)*.5 + 2*(row[1]-1)*.5 + 3*(row[2]-1)*.5}
		}, 3, head.None, nil},
		{"Normalizer", func() *onnx.Model {
			g := float32Graph()
			s := g.classical("Normalizer", 1, in("x"), textA("norm", "L2"))[0]
			return g.output(g.op("MatMul", in(s, g.single3())))
		}(), func(row []float64) []float64 {
			norm := math.Sqrt(row[0]*row[0] + row[1]*row[1] + row[2]*row[2])
			return []float64{(row[0] + 2*row[1] + 3*row[2]) / norm}
		}, 3, head.None, nil},
		{"LinearRegressor", func() *onnx.Model {
			g := float32Graph()
			return g.output(g.classical("LinearRegressor", 1, in("x"), floatsA("coefficients", w...), floatsA("intercepts", b...), intA("targets", 3))[0])
		}(), scores, 12, head.None, nil},
		{"softmax", func() *onnx.Model {
			g := float32Graph()
			y := g.classical("LinearClassifier", 2, in("x"), floatsA("coefficients", w...), floatsA("intercepts", b...), three, textA("post_transform", "SOFTMAX"))
			p := g.classical("Normalizer", 1, in(y[1]), textA("norm", "L1"))[0]
			zip := g.classical("ZipMap", 1, in(p), three)[0]
			g.model.Graph.Outputs = []*onnx.ValueInfo{{Name: y[0], Type: onnx.String}, {Name: zip}}
			return g.model
		}(), func(row []float64) []float64 { return softmax(scores(row)) }, 12, head.Softmax, map[string]string{"class_names": `["no","yes","maybe"]`}},
		{"one against the rest", func() *onnx.Model {
			g := float32Graph()
			y := g.classical("LinearClassifier", 2, in("x"), floatsA("coefficients", w...), floatsA("intercepts", b...), three, textA("post_transform", "LOGISTIC"))
			return g.labelled(g.classical("Normalizer", 1, in(y[1]), textA("norm", "L1"))[0], three)
		}(), func(row []float64) []float64 {
			p, sum := scores(row), 0.0
			for k := range p {
				p[k] = sigmoid(p[k])
				sum += p[k]
			}
			for k := range p {
				p[k] /= sum
			}
			return p
		}, 12, head.None, map[string]string{"class_names": `["no","yes","maybe"]`}},
		{"two classes", func() *onnx.Model {
			g := float32Graph()
			y := g.classical("LinearClassifier", 2, in("x"), floatsA("coefficients", -.5, 1, -2, .5, -1, 2), floatsA("intercepts", -.25, .25), intsA("classlabels_ints", 3, 7), textA("post_transform", "LOGISTIC"))
			return g.labelled(g.classical("Normalizer", 1, in(y[1]), textA("norm", "L1"))[0], intsA("classlabels_int64s", 3, 7))
		}(), func(row []float64) []float64 {
			p := sigmoid(scores(row)[0])
			return []float64{1 - p, p}
		}, 4, head.Softmax, map[string]string{"funcgp.classes": "3,7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			net := testref.Must(readModel(c.model, &network.ReadOptions{Head: head.Keep}))(t)
			_, _, p := net.Dims()
			require.Equal(t, c.parameters, p)
			require.Equal(t, c.function, net.Head().Function)
			for key, value := range c.metadata {
				require.Equal(t, value, net.Metadata()[key])
			}
			f := testref.Must(net.Forward(t.Context(), x))(t)
			for i := range 4 {
				testref.RequireClose(t, f.RawRowView(i), c.want(x.RawRowView(i)), 1e-14, "f")
			}
			requireRowwise(t, net, x)
			requireDifferences(t, net)
			auto := testref.Must(readModel(c.model, nil))(t)
			require.Equal(t, auto.Fingerprint(), roundTrip(t, auto).Fingerprint())
			// The harness reads no dictionaries of onnxruntime: compare what comes before a ZipMap.
			m, g := *c.model, *c.model.Graph
			m.Graph, g.Outputs = &g, []*onnx.ValueInfo{{Name: g.Outputs[0].Name, Type: onnx.Float}}
			if last := g.Nodes[len(g.Nodes)-1]; last.OpType == "ZipMap" {
				g.Nodes, g.Outputs[0].Name = g.Nodes[:len(g.Nodes)-1], last.Inputs[0]
			}
			file := testref.Must(m.Encode())(t)
			if out := testkit.OnnxruntimeFeeds(t, file, testkit.Feed{Name: "x", Type: "float32", Data: testkit.Flat(x), Dims: []int{4, 3}}); out != nil {
				testref.RequireClose(t, f.RawMatrix().Data, out[m.Graph.Outputs[0].Name], 1e-6, "onnxruntime")
			}
		})
	}
}

// single3 is the parameter (1, 2, 3)ᵀ.
func (g *graph) single3() string { return g.float32s([]float64{1, 2, 3}, 3, 1) }

// TestLabels checks that of labels the numbers are taken of which they are the largest one's, with a warning, and that
// what a label could be computed on with is refused.
func TestLabels(t *testing.T) {
	build := func(tail func(g *graph, at string) string, axis int64) *onnx.Model {
		g := newGraph(17, 3)
		z := g.op("Gemm", in(g.op("Tanh", in(g.op("Gemm", in("x", g.param(3, 4))))), g.param(4, 2)))
		m := g.output(tail(g, g.op("ArgMax", in(z), intA("axis", axis))))
		m.Graph.Outputs[0].Type = onnx.Int64
		return m
	}
	for name, tail := range map[string]func(g *graph, at string) string{
		"ArgMax":  func(_ *graph, at string) string { return at },
		"Cast":    func(g *graph, at string) string { return g.cast(g.op("Squeeze", in(at, g.ints(1))), onnx.Int32) },
		"labels":  func(g *graph, at string) string { return g.op("Gather", in(g.ints(5, 9), at)) },
		"encoder": func(g *graph, at string) string { return g.classical("LabelEncoder", 1, in(at))[0] },
	} {
		net, err := readModel(build(tail, 1), nil)
		require.NoError(t, err, name)
		_, c, _ := net.Dims()
		require.Equal(t, 2, c, name)
		require.ErrorContains(t, net.Warnings()[0], "holds labels, which have no derivative")
		requireDifferences(t, net)
	}
	_, err := readModel(build(func(_ *graph, at string) string { return at }, 0), nil)
	require.Error(t, err, "an ArgMax along the examples")
	_, err = readModel(build(func(g *graph, at string) string {
		return g.op("MatMul", in(g.cast(g.classical("LabelEncoder", 1, in(at))[0], onnx.Double), g.param(1, 2)))
	}, 1), nil)
	require.ErrorContains(t, err, "ai.onnx.ml.LabelEncoder")
}

// TestUnreadOperators checks that each refusal has a reason and a cure, and that no operator that is read is listed.
func TestUnreadOperators(t *testing.T) {
	for _, u := range network.UnreadOperators() {
		require.NotEmpty(t, u.Reason)
		require.NotEmpty(t, u.Cure)
		for _, o := range network.Operators() {
			require.NotContains(t, strings.Fields(u.Operators), o.Name)
		}
	}
	for _, c := range []struct{ domain, operator, want string }{
		{"", "QLinearConv", "as it was before quantization"},
		{"com.microsoft.nchwc", "Conv", "optimization level basic"},
		{"com.microsoft", "BiasSoftmax", "optimization level basic"},
		{"", "RandomUniformLike", "evaluation mode"},
		{"", "IsNaN", "in the data"},
		{"", "SequenceMap", "tracing"},
		{"ai.onnx.ml", "TreeEnsembleRegressor", "no network"},
		{"acme", "Act", "of the domain acme"},
		{"", "Det", "ReadOptions.Output NAME"},
	} {
		g := newGraph(17, 3)
		h := g.op(c.operator, in(g.op("Gemm", in("x", g.param(3, 4)))))
		g.model.Graph.Nodes[len(g.model.Graph.Nodes)-1].Domain = c.domain
		_, err := readModel(g.output(g.op("Gemm", in(h, g.param(4, 2)))), nil)
		require.ErrorContains(t, err, c.want)
		requireOneLine(t, err)
	}
}
