package weightspace_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/sparse"
)

// All refits by Fisher scoring end at the mode of gp.Refit, with the same predictions and
// evidence: by conjugate gradients, through inducing examples, from their features in
// memory, and over the parameters.
func TestHeteroscedasticRefitsAgree(t *testing.T) {
	q := testkit.Heteroscedastic()
	ctx := t.Context()
	exact := testref.Must(gp.Refit(ctx, q.Kernel, q.Train, q.Y, q.Likelihood, nil))(t)
	require.Empty(t, exact.Warnings())
	var mean, cov mat.Dense
	require.NoError(t, exact.PredictTo(ctx, &mean, &cov, q.Test))
	agrees := func(name string, l gp.Latent) {
		t.Helper()
		var m, v mat.Dense
		require.NoError(t, l.PredictTo(ctx, &m, &v, q.Test))
		testkit.RequireClose(t, name+": mean", &m, &mean, 1e-7)
		testkit.RequireClose(t, name+": covariance", &v, &cov, 1e-7)
	}
	byGradients := testref.Must(cg.Refit(ctx, q.Kernel, q.Train, q.Y, q.Likelihood, nil))(t)
	agrees("conjugate gradients", byGradients)
	all := &sparse.Inducing{Rows: dense.Range(q.N), Batch: q.Train}
	inducing := testref.Must(sparse.Refit(ctx, q.Kernel, q.Train, q.Y, q.Likelihood, all, nil))(t)
	agrees("inducing examples", inducing)
	require.InDelta(t, exact.EvidenceRefit().Value, inducing.EvidenceRefit().Value, 1e-7)
	weights := testref.Must(weightspace.Refit(ctx, q.Train, q.Y, q.Likelihood, q.Prior, q.Theta, nil))(t)
	agrees("weight space", weights)
	require.InDelta(t, exact.EvidenceRefit().Value, weights.EvidenceRefit().Value, 1e-7)
}
