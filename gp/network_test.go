package gp_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/ntk"
)

// The posteriors of a network are latent, and refuse inputs of another network.
func TestConformanceOfNetwork(t *testing.T) {
	r := openReference(t, "snelson")
	s := r.Sites(t)
	e, err := gp.Fit(t.Context(), r.Kernel, r.Train, s, nil)
	require.NoError(t, err)
	k, err := gp.Keep(t.Context(), r.Kernel, r.Train, s, nil)
	require.NoError(t, err)
	thin, err := gp.FitKept(t.Context(), r.Kernel, r.Train, s, k, nil)
	require.NoError(t, err)
	for name, l := range map[string]gp.Latent{"exact": e, "thinned": thin} {
		t.Run(name, func(t *testing.T) {
			gptest.Latent(t, gptest.LatentCase{Latent: l, Kernel: r.Kernel, Test: r.Test.Slice(0, 6), Tol: 1e-9})
		})
	}
	other := *r.Test
	other.Model.Graph[0]++
	require.Panics(t, func() { _ = e.PredictTo(t.Context(), new(mat.Dense), nil, &other) }, "another graph")
}

// A kernel of other parameters than those at which the examples are linearized is refused.
func TestFitRefusesOtherParameters(t *testing.T) {
	r := openReference(t, "snelson")
	theta := r.Net.Theta()
	theta[0]++
	other := ntk.New(r.Prior, theta, nil)
	require.NotEmpty(t, other.Mismatch(r.Train))
	require.Empty(t, r.Kernel.Mismatch(r.Train))
	require.PanicsWithValue(t, "ntk: the examples are not linearized at θ* of the kernel: the parameters of the network are others; give New the parameters of the network", func() {
		_, _ = gp.Fit(t.Context(), other, r.Train, r.Sites(t), nil)
	})
}
