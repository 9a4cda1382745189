package network_test

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// gaussian is noise of variance one.
func gaussian(t testing.TB) *glm.Gaussian {
	t.Helper()
	g := testref.Must(glm.NewGaussian(1))(t)
	return g
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
	net := testref.Must(network.Sequential(network.Shape{widths[0]}, layers[:len(layers)-1]...))(t)
	return net
}

// The sums have the same bits for any number of processors, in one tile and in many.
func TestDerivativesDoNotDependOnProcessors(t *testing.T) {
	old := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(old)
	net := wide(t, 100, 300, 2, 300, 100)
	_, c, p := net.Dims()
	rng := rand.New(rand.NewPCG(3, 43))
	for _, rows := range []int{20, 700} {
		x, y := gaussianMatrix(rng, rows, 100), gaussianMatrix(rng, rows, c)
		var want [2][]float64
		for _, procs := range []int{1, 4} {
			runtime.GOMAXPROCS(procs)
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
