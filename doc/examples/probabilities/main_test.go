package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// moons.csv are the training examples of testdata/reference/two-moons. The
// network, 2-12-1 with tanh, was trained on them by train.MAP with
// precision 0.3 and 500 epochs: its parameters are a mode of the posterior.
func TestModelIsTrainedOnTheTable(t *testing.T) {
	net := testref.Must(network.ReadONNX(bytes.NewReader(model), nil))(t)
	lines := bytes.Fields(table)[1:]
	x, y := mat.NewDense(len(lines), 2, nil), mat.NewDense(len(lines), 1, nil)
	for i, line := range lines {
		var a, b, class float64
		require.NoError(t, testref.Err(fmt.Sscanf(string(line), "%g,%g,%g", &a, &b, &class)))
		x.SetRow(i, []float64{a, b})
		y.Set(i, 0, class)
	}
	train := testref.Must(net.Linearize(t.Context(), x))(t)
	sites := testref.Must(gp.NewSites(gp.NewTargets(y, glm.Bernoulli{}), train.F))(t)
	prior := testref.Must(ntk.NewIsotropic(0.3, nil))(t)
	require.Less(t, gp.GradientNorm(train, sites, prior, net.Theta()), 1e-5)
}
