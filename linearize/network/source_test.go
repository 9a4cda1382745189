package network_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// convNet has blocks of every kind: Conv, Outer and Full.
func convNet(t *testing.T) (*network.Network, *mat.Dense) {
	t.Helper()
	net, err := network.Sequential(network.Shape{1, 9, 9},
		network.Conv2D{Filters: 3, Kernel: 3}, network.Tanh, network.MaxPool2D{Size: 2}, network.Flatten{},
		network.Dense{Units: 5}, network.LayerNorm{}, network.Tanh, network.Dense{Units: 2})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	x := mat.NewDense(11, 81, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	return net, x
}

var collect = testkit.Collect

func rowsOf(x *mat.Dense) func(lo, hi int) (*mat.Dense, error) {
	return func(lo, hi int) (*mat.Dense, error) {
		_, d := x.Dims()
		return x.Slice(lo, hi, 0, d).(*mat.Dense), nil
	}
}

// whole is a copy of a batch's inputs, outputs and Jacobian.
func whole(b *linearize.Batch) []*mat.Dense {
	var j mat.Dense
	b.JacobianTo(&j)
	all := []*mat.Dense{mat.DenseCopyOf(b.F), &j}
	if b.X != nil {
		all = append(all, mat.DenseCopyOf(b.X))
	}
	return all
}
