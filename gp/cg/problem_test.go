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

// Shared helpers under short names.
var (
	column        = testkit.Column
	vec           = testkit.Vec
	flat          = testkit.Flat
	crossOf       = testkit.CrossOf
	written       = testkit.Written
	contributions = testkit.Contributions
	requireClose  = testkit.RequireClose
	requireNumber = testkit.RequireNumber
)

// A problem is a random problem with posteriors by conjugate gradients.
type problem struct{ *testkit.Problem }

func problems(t *testing.T) []*problem {
	t.Helper()
	var all []*problem
	for _, q := range testkit.Problems(t) {
		all = append(all, &problem{q})
	}
	return all
}

func newProblem(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64) *problem {
	return &problem{testkit.NewProblem(name, seed, n, c, lik, scale)}
}

func newProblemOf(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64, width int) *problem {
	return &problem{testkit.NewProblemOf(name, seed, n, c, lik, scale, width)}
}

// each runs f for every problem.
func each(t *testing.T, f func(t *testing.T, q *problem)) {
	for _, q := range problems(t) {
		t.Run(q.Name, func(t *testing.T) { f(t, q) })
	}
}

// A reference is a trained network with its data.
type reference struct{ *testkit.Reference }

func openReference(t testing.TB, name string) *reference {
	t.Helper()
	return &reference{testkit.OpenReference(t, name)}
}

// The posterior of a network is latent, and refuses inputs of another network.
func TestConformanceOfNetwork(t *testing.T) {
	r := testkit.OpenReference(t, "snelson")
	p, err := cg.Fit(t.Context(), r.Kernel, r.Train, r.Sites(t), nil)
	require.NoError(t, err)
	gptest.Latent(t, gptest.LatentCase{Latent: p, Kernel: r.Kernel, Test: r.Test.Slice(0, 6), Tol: 1e-9})
	gptest.Fit(t, gptest.FitCase{Prior: r.Prior, Theta: r.Net.Theta(), Fit: func(prior ntk.Prior, theta []float64, mean gp.Mean) ([]error, error) {
		p, err := cg.Fit(t.Context(), ntk.New(prior, theta), r.Train, r.Sites(t), &cg.Options{Mean: mean})
		return p.Warnings(), err
	}})
}
