package kept_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/testkit"
)

// The posterior of a network is latent, and refuses inputs of another network.
func TestConformanceOfNetwork(t *testing.T) {
	r := testkit.OpenReference(t, "snelson")
	p, err := kept.Fit(t.Context(), r.Train, r.Sites(t), r.Prior, r.Net.Theta(), nil)
	require.NoError(t, err)
	gptest.Latent(t, gptest.LatentCase{Latent: p, Kernel: r.Kernel, Test: r.Test.Slice(0, 6), Tol: 1e-9})
	other := *r.Test
	other.Model.Graph[0]++
	require.Panics(t, func() { _ = p.PredictTo(t.Context(), new(mat.Dense), nil, &other) }, "another graph")
}

// θ* must be that of the training examples.
func TestRefusesOtherParameters(t *testing.T) {
	r := testkit.OpenReference(t, "snelson")
	theta := r.Net.Theta()
	theta[0]++
	require.Panics(t, func() { _, _ = kept.Fit(t.Context(), r.Train, r.Sites(t), r.Prior, theta, nil) })
	require.Panics(t, func() { _, _ = kept.Refit(t.Context(), r.Train, r.Y, r.Likelihood, r.Prior, theta, nil) })
}
