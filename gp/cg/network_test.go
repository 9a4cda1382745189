package cg_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/ntk"
)

// The posterior of a network is latent, and refuses inputs of another network.
func TestConformanceOfNetwork(t *testing.T) {
	r := testkit.OpenReference(t, "snelson")
	p, err := cg.Fit(t.Context(), r.Kernel, r.Train, r.Sites(t), nil)
	require.NoError(t, err)
	gptest.Latent(t, gptest.LatentCase{Latent: p, Kernel: r.Kernel, Test: r.Test.Slice(0, 6), Tol: 1e-9})
	gptest.Fit(t, gptest.FitCase{Prior: r.Prior, Theta: r.Net.Theta(), Fit: func(prior ntk.Prior, theta []float64, mean gp.Mean) ([]error, error) {
		p, err := cg.Fit(t.Context(), ntk.New(prior, theta, nil), r.Train, r.Sites(t), &cg.Options{Mean: mean})
		return p.Warnings(), err
	}})
}
