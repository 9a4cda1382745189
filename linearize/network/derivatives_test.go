package network_test

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// gaussian is noise of variance one.
func gaussian(t testing.TB) *glm.Gaussian {
	t.Helper()
	return testref.Must(glm.NewGaussian(1))(t)
}

// The derivatives at other parameters are those of the network with these parameters,
// also where a batch has many tiles.
func TestDerivatives(t *testing.T) {
	for _, e := range zoo() {
		t.Run(e.name, func(t *testing.T) {
			net := build(t, e)
			_, c, p := net.Dims()
			rng := rand.New(rand.NewPCG(3, 41))
			lik := gaussian(t)
			for b := network.Exact; b <= network.FullAtConvolutions; b++ {
				d := net.NewDerivatives(b)
				for _, rows := range []int{7, 3} {
					theta := net.Theta()
					for i := range theta {
						theta[i] += 0.1 * rng.NormFloat64()
					}
					moved := testref.Must(net.WithTheta(theta))(t)
					x, y := inputsOf(net, rng, rows), gaussianMatrix(rng, rows, c)
					f := testref.Must(moved.Forward(t.Context(), x))(t)
					u, logLik := mat.NewDense(rows, c, nil), 0.0
					for i := range rows {
						logLik += lik.Expand(u.RawRowView(i), nil, nil, y.RawRowView(i), f.RawRowView(i))
					}
					want := make([]float64, p)
					require.NoError(t, moved.VJP(t.Context(), want, x, u))

					grad, h := slices.Repeat([]float64{math.NaN()}, p), slices.Repeat([]float64{math.NaN()}, p)
					got := testref.Must(d.At(t.Context(), grad, h, theta, x, y, lik))(t)
					require.InEpsilon(t, logLik, got, 1e-12)
					require.InDeltaSlice(t, want, grad, 1e-10)
					requireDiagonal(t, "curvature", h, ggn(t, moved, x, nil, b), 1e-9)

					again := make([]float64, p)
					require.NoError(t, testref.Err(d.At(t.Context(), nil, again, theta, x, y, lik)))
					require.Equal(t, h, again)
					require.NoError(t, testref.Err(d.At(t.Context(), again, nil, theta, x, y, lik)))
					require.Equal(t, grad, again)
				}
			}
		})
	}
}

// wide returns a network that is large enough for products on several goroutines.
func wide(t testing.TB, widths ...int) *network.Network {
	t.Helper()
	var layers []network.Layer
	for _, k := range widths[1:] {
		layers = append(layers, network.Dense{Units: k}, network.Tanh)
	}
	return testref.Must(network.Sequential(network.Shape{widths[0]}, layers[:len(layers)-1]...))(t)
}

// The sums have the same bits for any number of processors, in one tile and in many.
func TestDerivativesDoNotDependOnProcessors(t *testing.T) {
	testref.Procs(t, 1)
	net := wide(t, 100, 300, 2, 300, 100)
	_, c, p := net.Dims()
	rng := rand.New(rand.NewPCG(3, 43))
	for _, rows := range []int{20, 700} {
		x, y := gaussianMatrix(rng, rows, 100), gaussianMatrix(rng, rows, c)
		var want [2][]float64
		for _, procs := range []int{1, 4} {
			testref.Procs(t, procs)
			grad, h := make([]float64, p), make([]float64, p)
			_, err := net.NewDerivatives(network.Diagonals).At(t.Context(), grad, h, net.Theta(), x, y, gaussian(t))
			require.NoError(t, err)
			if procs == 1 {
				want = [2][]float64{grad, h}
				continue
			}
			require.Equal(t, want, [2][]float64{grad, h})
		}
	}
}

func TestDerivativesRefuseBadInput(t *testing.T) {
	net := wide(t, 2, 3, 2)
	_, _, p := net.Dims()
	d, lik, x := net.NewDerivatives(network.Diagonals), gaussian(t), mat.NewDense(2, 2, nil)
	h := make([]float64, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(d.At(ctx, nil, h, net.Theta(), x, x, lik)), context.Canceled)
	require.Panics(t, func() { d.At(t.Context(), nil, h[1:], net.Theta(), x, x, lik) })
	require.Panics(t, func() { d.At(t.Context(), nil, h, net.Theta(), x, mat.NewDense(1, 2, nil), lik) })
	require.Panics(t, func() { net.NewDerivatives(-1) })
	x.Set(1, 1, math.Inf(1))
	require.ErrorContains(t, testref.Err(d.At(t.Context(), nil, h, net.Theta(), x, x, lik)), "row 1")
}

// BenchmarkDerivatives is a step of an autoencoder of MNIST.
func BenchmarkDerivatives(b *testing.B) {
	net := wide(b, 784, 512, 256, 2, 256, 512, 784)
	_, _, p := net.Dims()
	rng := rand.New(rand.NewPCG(3, 43))
	x, grad, h := gaussianMatrix(rng, 50, 784), make([]float64, p), make([]float64, p)
	d, theta := net.NewDerivatives(network.Diagonals), net.Theta()
	for b.Loop() {
		if _, err := d.At(b.Context(), grad, h, theta, x, x, gaussian(b)); err != nil {
			b.Fatal(err)
		}
	}
}

// A kink is an operator at numbers where it has no derivative, or several, and the
// gradients of the sum of its results that PyTorch takes.
type kink struct {
	Name, Operator string
	Opset          int64
	Attributes     map[string]json.RawMessage
	Shapes         [][]int
	Inputs         [][]float64
	Gradients      [][]float64
}

func (k kink) attributes(t *testing.T) []*onnx.Attribute {
	var list []*onnx.Attribute
	for name, raw := range k.Attributes {
		var ints []int64
		var number float32
		switch {
		case json.Unmarshal(raw, &ints) == nil:
			list = append(list, intsA(name, ints...))
		case name == "fmod":
			list = append(list, intA(name, 1))
		default:
			require.NoError(t, json.Unmarshal(raw, &number))
			list = append(list, floatA(name, number))
		}
	}
	return list
}

// TestSubgradients compares the derivatives at kinks, jumps and ties with those that
// PyTorch takes (testdata/operators/kinks). 1e-15: most are whole numbers or halves.
func TestSubgradients(t *testing.T) {
	data := testref.Must(os.ReadFile(filepath.Join("..", "..", "testdata", "operators", "kinks", "kinks.json")))(t)
	var file struct{ Entries []kink }
	require.NoError(t, json.Unmarshal(data, &file))
	require.NotEmpty(t, file.Entries)
	for _, k := range file.Entries {
		t.Run(k.Name, func(t *testing.T) {
			g := newGraph(k.Opset, k.Shapes[0]...)
			names := in(g.op("Add", in("x", g.of(k.Inputs[0], k.Shapes[0]...))))
			for i := 1; i < len(k.Inputs); i++ {
				names = append(names, g.of(k.Inputs[i], k.Shapes[i]...))
			}
			net, err := load(g.output(g.op(k.Operator, names, k.attributes(t)...)))
			if slices.Contains([]string{"Sign", "Floor", "Ceil", "Round"}, k.Operator) {
				require.Equal(t, make([]float64, len(k.Gradients[0])), k.Gradients[0])
				require.ErrorContains(t, err, "does not depend on any parameter")
				return
			}
			require.NoError(t, err)
			d, c, p := net.Dims()
			got := make([]float64, p)
			require.NoError(t, net.VJP(t.Context(), got, mat.NewDense(1, d, nil), mat.NewDense(1, c, slices.Repeat([]float64{1}, c))))
			var want []float64
			for _, gradient := range k.Gradients {
				if len(want) < p { // an exponent that is a whole number is no parameter
					want = append(want, gradient...)
				}
			}
			require.Len(t, want, p)
			for i := range got {
				require.InDelta(t, want[i], got[i], 1e-15*max(1, want[i]), "entry %d of %v", i, got)
			}
		})
	}
}

// The gradient is Jᵀr at any parameters, and the value the sum of log p.
func TestLogLik(t *testing.T) {
	net, err := network.Seeded(3, network.Shape{4}, network.Dense{Units: 5}, network.Tanh, network.Dense{Units: 3})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	x, y := mat.NewDense(7, 4, nil), mat.NewDense(7, 1, nil)
	for i := range 7 {
		y.Set(i, 0, float64(i%3))
		for j := range 4 {
			x.Set(i, j, rng.NormFloat64())
		}
	}
	l := net.LogLik(glm.Categorical{})
	for range 3 {
		theta := net.Theta()
		for i := range theta {
			theta[i] += rng.NormFloat64()
		}
		got, want := make([]float64, len(theta)), make([]float64, len(theta))
		value := testref.Must(l.GradientTo(t.Context(), got, theta, x, y))(t)
		at := testref.Must(net.WithTheta(theta))(t)
		f := testref.Must(at.Forward(t.Context(), x))(t)
		u, sum := mat.NewDense(7, 3, nil), 0.0
		for i := range 7 {
			sum += glm.Categorical{}.Expand(u.RawRowView(i), nil, nil, y.RawRowView(i), f.RawRowView(i))
		}
		require.NoError(t, at.VJP(t.Context(), want, x, u))
		require.InEpsilon(t, sum, value, 1e-14)
		require.InDeltaSlice(t, want, got, 1e-13)
	}
	require.Panics(t, func() { _, _ = l.GradientTo(t.Context(), nil, net.Theta(), x, y) })
}
