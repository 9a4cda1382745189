package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// moons.csv are the training examples of testdata/reference/two-moons. The
// network, 2-12-1 with tanh, was trained on them by train.MAP with
// precision 0.3 and 500 epochs: its parameters are a mode of the posterior.
func TestModelIsTrainedOnTheTable(t *testing.T) {
	net, err := network.ReadONNX(bytes.NewReader(model), nil)
	require.NoError(t, err)
	lines := bytes.Fields(table)[1:]
	x, y := mat.NewDense(len(lines), 2, nil), mat.NewDense(len(lines), 1, nil)
	for i, line := range lines {
		var a, b, class float64
		_, err := fmt.Sscanf(string(line), "%g,%g,%g", &a, &b, &class)
		require.NoError(t, err)
		x.SetRow(i, []float64{a, b})
		y.Set(i, 0, class)
	}
	train, err := net.Linearize(t.Context(), x)
	require.NoError(t, err)
	sites, err := gp.NewSites(y, train.F, glm.Bernoulli{})
	require.NoError(t, err)
	prior, err := ntk.NewIsotropic(0.3, nil)
	require.NoError(t, err)
	require.Less(t, gp.GradientNorm(train, sites, prior, net.Theta()), 1e-5)
}
