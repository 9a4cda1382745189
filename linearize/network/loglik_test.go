package network_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

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
