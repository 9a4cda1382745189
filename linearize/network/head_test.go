package network_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// headExports are the networks of testdata/heads with PyTorch's numbers: f before the function
// at the end, y after it.
func headExports(t *testing.T) (x *mat.Dense, all map[string]struct{ F, Y [][]float64 }) {
	t.Helper()
	var e struct {
		X        [][]float64                           `json:"x"`
		Variants map[string]struct{ F, Y [][]float64 } `json:"variants"`
	}
	text := testref.Must(os.ReadFile(filepath.Join("..", "..", "testdata", "heads", "expected.json")))(t)
	require.NoError(t, json.Unmarshal(text, &e))
	return fromRows(e.X), e.Variants
}

func fromRows(rows [][]float64) *mat.Dense {
	m := mat.NewDense(len(rows), len(rows[0]), nil)
	for i, r := range rows {
		m.SetRow(i, r)
	}
	return m
}

func headModel(t *testing.T, name string, rule head.Rule) (*network.Network, error) {
	t.Helper()
	data := testref.Must(os.ReadFile(filepath.Join("..", "..", "testdata", "heads", name+".onnx")))(t)
	return network.ReadONNX(bytes.NewReader(data), &network.ReadOptions{Head: rule})
}

// withoutHead is what f of the case is where the head is removed: less its mean where a
// softmax may have been shifted, ∓z/2 for a pair, divided by the temperature.
func withoutHead(name string, f [][]float64) *mat.Dense {
	m := fromRows(f)
	switch {
	case strings.HasPrefix(name, "pair"):
		sign := 1.0
		if name == "pair-swapped" {
			sign = -1
		}
		out := mat.NewDense(len(f), 2, nil)
		for i := range f {
			out.SetRow(i, []float64{-sign * f[i][0] / 2, sign * f[i][0] / 2})
		}
		return out
	case name == "sigmoid-temperature":
		m.Scale(1/.7, m)
	case name == "softmax-min":
		m.Scale(-1, m)
	}
	return m
}

// TestHeadKeptAndRemoved reads every network both ways: with its head it computes y, and
// without f. What is kept, removed and kept again is the same network.
func TestHeadKeptAndRemoved(t *testing.T) {
	x, all := headExports(t)
	for name, v := range all {
		kept, err := headModel(t, name, head.Keep)
		if strings.HasSuffix(name, "-examples") {
			require.ErrorContains(t, err, "would mix examples", name)
			continue
		}
		require.NoError(t, err, name)
		require.Empty(t, kept.Warnings(), name)
		tol := 1e-12
		if name == "sigmoid-cast" { // PyTorch rounds to single precision on the way
			tol = 1e-6
		}
		same := func(net *network.Network, want *mat.Dense) {
			f, err := net.Forward(t.Context(), x)
			require.NoError(t, err, name)
			testref.RequireClose(t, f.RawMatrix().Data, want.RawMatrix().Data, tol, name)
		}
		same(kept, fromRows(v.Y))
		removed, err := kept.WithHead(head.Remove)
		require.NoError(t, err, name)
		found := kept.Head()
		if found.Function == head.None || found.Groups > 1 {
			require.False(t, removed.Head().Removed, name)
			same(removed, fromRows(v.Y))
			continue
		}
		require.True(t, removed.Head().Removed, name)
		same(removed, withoutHead(name, v.F))
		require.Equal(t, kept.Theta(), removed.Theta(), name)
		require.NotEqual(t, kept.Fingerprint().Graph, removed.Fingerprint().Graph, name)
		require.Equal(t, kept.Fingerprint().Parameters, removed.Fingerprint().Parameters, name)
		again, err := removed.WithHead(head.Keep)
		require.NoError(t, err, name)
		require.Equal(t, kept.Fingerprint(), again.Fingerprint(), name)
		same(again, fromRows(v.Y))

		byDefault, err := headModel(t, name, head.Auto)
		require.NoError(t, err, name)
		classes := found.Function != head.Exp && found.Function != head.Softplus
		require.Equal(t, classes, byDefault.Head().Removed, name)
		require.Len(t, byDefault.Warnings(), 1, name)
		require.ErrorContains(t, linearize.FindWarning(byDefault.Warnings(), "head"), byDefault.Head().String())
	}
}

// A network keeps its parameters, metadata and precision when its head is removed, and can
// be rescaled and written afterwards.
func TestWithHead(t *testing.T) {
	x, all := headExports(t)
	for _, name := range []string{"pair", "softmax", "exp"} {
		net := testref.Must(headModel(t, name, head.Keep))(t)
		theta := net.Theta()
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range theta {
			theta[i] += .1 * rng.NormFloat64()
		}
		net = testref.Must(net.WithTheta(theta))(t)
		net = net.WithMetadata(map[string]string{"a": "b"})
		removed := testref.Must(net.WithHead(head.Remove))(t)
		require.Equal(t, theta, removed.Theta())
		require.Equal(t, map[string]string{"a": "b"}, removed.Metadata())
		f := testref.Must(removed.Forward(t.Context(), x))(t)
		require.NotEqual(t, all[name].F[0][0], f.At(0, 0))

		_, c, _ := removed.Dims()
		scale, shift := make([]float64, c), make([]float64, c)
		for j := range c {
			scale[j], shift[j] = 2+float64(j), 1-float64(j)
		}
		scaled := testref.Must(removed.Rescaled(scale, shift))(t)
		got := testref.Must(scaled.Forward(t.Context(), x))(t)
		want := mat.DenseCopyOf(f)
		want.Apply(func(_, j int, v float64) float64 { return scale[j]*v + shift[j] }, want)
		testref.RequireClose(t, got.RawMatrix().Data, want.RawMatrix().Data, 1e-14, name)

		var b bytes.Buffer
		require.NoError(t, removed.WriteONNX(&b))
		back := testref.Must(network.ReadONNX(&b, &network.ReadOptions{Head: head.Remove}))(t)
		require.Equal(t, removed.Fingerprint(), back.Fingerprint())
	}
}

// What is nearly such a function is none: nothing is removed from it.
func TestHeadNearMisses(t *testing.T) {
	type build = func(g *graph, z string) string
	logistic := func(one float64, of func(g *graph, z string) string) build {
		return func(g *graph, z string) string {
			return g.op("Add", in(g.scalar(one), g.op("Exp", in(of(g, z)))))
		}
	}
	plus := func(g *graph, z string) string { return z }
	minus := func(g *graph, z string) string { return g.op("Neg", in(z)) }
	sigmoid := func(g *graph, z string) string { return g.op("Sigmoid", in(z)) }
	exp := func(g *graph, z string) string { return g.op("Exp", in(z)) }
	pair := func(a, b build) build {
		return func(g *graph, z string) string { return g.op("Concat", in(a(g, z), b(g, z)), intA("axis", 1)) }
	}
	less := func(from float64, of build) build {
		return func(g *graph, z string) string { return g.op("Sub", in(g.scalar(from), of(g, z))) }
	}
	sum := func(g *graph, e string) string { return g.op("ReduceSum", in(e, g.ints(1))) }
	for name, build := range map[string]build{
		"1/(2+exp(-x))": func(g *graph, z string) string { return g.op("Reciprocal", in(logistic(2, minus)(g, z))) },
		"1/(1+exp(x))":  func(g *graph, z string) string { return g.op("Reciprocal", in(logistic(1, plus)(g, z))) },
		"2/(1+exp(-x))": func(g *graph, z string) string { return g.op("Div", in(g.scalar(2), logistic(1, minus)(g, z))) },
		"learnt 1":      func(g *graph, z string) string { return g.op("Mul", in(sigmoid(g, z), g.of([]float64{1}, 1))) },
		"clip to [.2, .8]": func(g *graph, z string) string {
			return g.op("Clip", in(sigmoid(g, z), g.scalar(.2), g.scalar(.8)))
		},
		"exp(x)/Σexp(−x)": func(g *graph, z string) string {
			return g.op("Div", in(exp(g, z), sum(g, exp(g, minus(g, z)))))
		},
		"exp(x)/mean": func(g *graph, z string) string {
			e := exp(g, z)
			return g.op("Div", in(e, g.op("ReduceMean", in(e), intsA("axes", 1))))
		},
		"[1−q, p]": pair(less(1, func(g *graph, z string) string { return sigmoid(g, g.op("Add", in(z, g.scalar(.5)))) }), sigmoid),
		"[2−p, p]": pair(less(2, sigmoid), sigmoid),
		"[p, p]":   pair(sigmoid, sigmoid),
		"transposed": func(g *graph, z string) string {
			return g.op("Flatten", in(g.op("Transpose", in(g.op("Unsqueeze", in(sigmoid(g, z), g.ints(1)))), intsA("perm", 0, 2, 1))))
		},
		"x − max":     func(g *graph, z string) string { return g.op("Sub", in(z, g.op("ReduceMax", in(z), intsA("axes", 1)))) },
		"HardSigmoid": func(g *graph, z string) string { return g.op("HardSigmoid", in(z)) },
		"softmax and a sum": func(g *graph, z string) string {
			return g.op("Add", in(g.op("Softmax", in(z), intA("axis", 1)), z))
		},
		"repeated": func(g *graph, z string) string {
			e := exp(g, z)
			s := g.op("Expand", in(g.op("Unsqueeze", in(sum(g, e), g.ints(1))), g.ints(1, 2, 1)))
			return g.op("Flatten", in(g.op("Div", in(g.op("Unsqueeze", in(e, g.ints(1))), s))))
		},
		"[1−p, p] of three": func(g *graph, z string) string {
			p := sigmoid(g, z)
			return g.op("Concat", in(g.op("Sub", in(g.scalar(1), p)), p), intA("axis", 1))
		},
	} {
		g := newGraph(13, 4)
		m := g.output(build(g, g.op("MatMul", in("x", g.param(4, 3)))))
		for _, rule := range []head.Rule{head.Auto, head.Remove} {
			net, err := readModel(m, &network.ReadOptions{Head: rule})
			require.NoError(t, err, name)
			require.Equal(t, head.Head{}, net.Head(), name)
			x := gaussianMatrix(rand.New(rand.NewPCG(3, 4)), 5, 4)
			f := testref.Must(net.Forward(t.Context(), x))(t)
			want := testref.Must(evaluate(m, &tensor{shape: []int{5, 4}, data: x.RawMatrix().Data}, nil))(t)
			testref.RequireClose(t, f.RawMatrix().Data, want.data, 1e-13, name)
		}
	}
}

// Without saying anything the library removes the heads of classifiers, as it always did,
// and tells so.
func TestHeadWarningText(t *testing.T) {
	net := testref.Must(network.Sequential(network.Shape{2}, network.Dense{Units: 1}, network.Sigmoid))(t)
	require.Len(t, net.Warnings(), 1)
	require.Regexp(t, `^The final Sigmoid \(node 1 "[^"]*"\) was removed\. Outputs are its inputs, and the likelihood applies it\.$`, net.Warnings()[0].Error())
	kept := testref.Must(net.WithHead(head.Keep))(t)
	require.Empty(t, kept.Warnings())
	f := testref.Must(kept.Forward(t.Context(), mat.NewDense(1, 2, []float64{1, 2})))(t)
	z := testref.Must(net.Forward(t.Context(), mat.NewDense(1, 2, []float64{1, 2})))(t)
	require.InDelta(t, 1/(1+math.Exp(-z.At(0, 0))), f.At(0, 0), 1e-15)
}
