package weightspace_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/ntk"
)

// The posteriors of a network are latent, and refuse inputs of another network; θ* must be
// that of the training examples.
func TestConformanceOfNetwork(t *testing.T) {
	r := testkit.OpenReference(t, "snelson")
	s := r.Sites(t)
	w, err := weightspace.Fit(t.Context(), r.Train, s, r.Prior, r.Net.Theta(), nil)
	require.NoError(t, err)
	d, err := weightspace.FitStructure(t.Context(), weightspace.Diagonal, r.Train, s, r.Prior, r.Net.Theta(), nil)
	require.NoError(t, err)
	for name, l := range map[string]gp.Latent{"full": w, "diagonal": d} {
		t.Run(name, func(t *testing.T) {
			gptest.Latent(t, gptest.LatentCase{Latent: l, Kernel: r.Kernel, Test: r.Test.Slice(0, 6), Tol: 1e-9, AnyGraph: true})
		})
	}
	gptest.Fit(t, gptest.FitCase{Prior: r.Prior, Theta: r.Net.Theta(), Fit: func(prior ntk.Prior, theta []float64, mean gp.Mean) ([]error, error) {
		w, err := weightspace.Fit(t.Context(), r.Train, s, prior, theta, &weightspace.Options{Mean: mean})
		return w.Warnings(), err
	}})
	theta := r.Net.Theta()
	theta[0]++
	require.Panics(t, func() {
		_, _ = weightspace.FitStructure(t.Context(), weightspace.Diagonal, r.Train, s, r.Prior, theta, nil)
	})
}
