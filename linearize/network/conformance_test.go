package network_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

func conform(t *testing.T, net *network.Network, x *mat.Dense) {
	t.Helper()
	gptest.Model(t, gptest.ModelCase{
		Model: net, X: x, Theta: net.Theta(),
		At:  func(theta []float64) (linearize.Model, error) { return net.WithTheta(theta) },
		Tol: 1e-9, // h⁴ = 1e-12 times fifth derivatives of smooth networks
	})
}

// Networks that are smooth, so that differences are derivatives everywhere.
func TestNetworksConform(t *testing.T) {
	for name, layers := range map[string][]network.Layer{
		"mlp":        {network.Dense{Units: 7}, network.Tanh, network.Dense{Units: 5}, network.Sigmoid, network.Dense{Units: 3}},
		"linear":     {network.Dense{Units: 2, NoBias: true}},
		"layer norm": {network.Dense{Units: 6}, network.LayerNorm{}, network.GELU, network.Dense{Units: 2}},
		"residual":   {network.Residual{Layers: []network.Layer{network.Dense{Units: 16}, network.SiLU}}, network.Dense{Units: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			net := testref.Must(network.Sequential(network.Shape{16}, layers...))(t)
			conform(t, net, inputs(6, 16))
		})
	}
	t.Run("convolutions", func(t *testing.T) {
		net := testref.Must(network.Sequential(network.Shape{1, 7, 7},
			network.Conv2D{Filters: 4, Kernel: 3, Stride: 2, Padding: 1}, network.Tanh,
			network.Conv2D{Filters: 4, Kernel: 2, Groups: 2}, network.Softplus, network.AvgPool2D{Size: 3},
			network.Flatten{}, network.Dense{Units: 3}))(t)
		conform(t, net, inputs(6, 49))
	})
}

// A network from an ONNX file.
func TestNetworkFromONNXConforms(t *testing.T) {
	for _, name := range []string{"two-moons", "categorical", "layers/residual-layernorm"} {
		t.Run(name, func(t *testing.T) {
			ref := testref.Open(t, name)
			net := testref.Must(network.ReadONNX(bytes.NewReader(ref.Model(t)), nil))(t)
			d, _, _ := net.Dims()
			conform(t, net, inputs(5, d))
		})
	}
}

// inputs returns n random rows.
func inputs(n, d int) *mat.Dense {
	rng := rand.New(rand.NewPCG(21, 22))
	x := mat.NewDense(n, d, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	return x
}
