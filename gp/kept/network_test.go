package kept_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// The posterior of a network is latent, and refuses inputs of another network.
func TestConformanceOfNetwork(t *testing.T) {
	r := testkit.OpenReference(t, "snelson")
	p, err := kept.Fit(t.Context(), r.Train, r.Sites(t), r.Prior, r.Net.Theta(), nil)
	require.NoError(t, err)
	gptest.Latent(t, gptest.LatentCase{Latent: p, Kernel: r.Kernel, Test: r.Test.Slice(0, 6), Tol: 1e-9})
	for name, src := range map[string]linearize.Source{"memory": r.Train, "stream": testkit.InTiles(r.Train, 20)} {
		t.Run(name, func(t *testing.T) {
			gptest.Fit(t, gptest.FitCase{Prior: r.Prior, Theta: r.Net.Theta(), Fit: func(prior ntk.Prior, theta []float64, mean gp.Mean) ([]error, error) {
				p, err := kept.Fit(t.Context(), src, r.Sites(t), prior, theta, &kept.Options{Mean: mean})
				return p.Warnings(), err
			}})
		})
	}
}
