package sparse_test

import (
	"testing"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// The posterior of a network is latent, and refuses inputs of another network.
func TestConformanceOfNetwork(t *testing.T) {
	r := testkit.OpenReference(t, "snelson")
	rows := []int{0, 40, 90}
	some := testref.Must(r.Train.Gather(t.Context(), rows))(t)
	z := &sparse.Inducing{Rows: rows, Batch: some}
	p := testref.Must(sparse.Fit(t.Context(), r.Kernel, r.Train, r.Sites(t), z, nil))(t)
	gptest.Latent(t, gptest.LatentCase{Latent: p, Kernel: r.Kernel, Test: r.Test.Slice(0, 6), Tol: 1e-9})
	for _, a := range []sparse.Approximation{sparse.Nystrom, sparse.FITC} {
		gptest.Fit(t, gptest.FitCase{Prior: r.Prior, Theta: r.Net.Theta(), Fit: func(prior ntk.Prior, theta []float64, mean gp.Mean) ([]error, error) {
			p, err := sparse.Fit(t.Context(), ntk.New(prior, theta, nil), r.Train, r.Sites(t), z, &sparse.Options{Approximation: a, Mean: mean})
			return p.Warnings(), err
		}})
	}
	gptest.Fit(t, gptest.FitCase{Prior: r.Prior, Theta: r.Net.Theta(), Fit: func(prior ntk.Prior, theta []float64, mean gp.Mean) ([]error, error) {
		p, err := sparse.FitSubset(t.Context(), ntk.New(prior, theta, nil), r.Train, r.Sites(t).Rows(rows), z, &sparse.Options{Mean: mean})
		return p.Warnings(), err
	}})
}
