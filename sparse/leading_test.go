package sparse_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/sparse"
)

// first returns the first m inducing examples.
func first(z *sparse.Inducing, m int) *sparse.Inducing {
	return &sparse.Inducing{Rows: z.Rows[:m], Batch: z.Batch.Slice(0, m)}
}

// TestLeading compares posteriors through the first inducing examples with
// those of a pass of their own.
func TestLeading(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		z := q.some(t)
		for _, mean := range []gp.Mean{gp.Network, gp.LinearGaussian} {
			all := q.fit(t, z, &sparse.Options{Mean: mean})
			for _, m := range []int{1, 3, z.Len()} {
				got := testref.Must(all.Leading(t.Context(), m))(t)
				want := q.fit(t, first(z, m), &sparse.Options{Mean: mean})
				require.Equal(t, m, got.Inducing().Len())
				requireSamePosterior(t, q, got, want.Projected, 1e-11)
				requireNumber(t, "trace error", got.TraceError(), want.TraceError(), 1e-11)
				requireNumber(t, "(E8)", got.EvidenceLinearGaussian().Value, want.EvidenceLinearGaussian().Value, 1e-11)
				requireNumber(t, "lower bound", got.EvidenceLowerBound().Value, want.EvidenceLowerBound().Value, 1e-11)
				requireNumber(t, "(E7)", got.EvidenceAtTheta(3).Value, want.EvidenceAtTheta(3).Value, 1e-11)
			}
		}
	})
}

func requireSamePosterior(t *testing.T, q *problem, got, want *sparse.Projected, tol float64) {
	t.Helper()
	var mean, cov, mean2, cov2 mat.Dense
	require.NoError(t, got.PredictTo(t.Context(), &mean, &cov, q.Test))
	require.NoError(t, want.PredictTo(t.Context(), &mean2, &cov2, q.Test))
	requireClose(t, "mean", &mean, &mean2, tol)
	requireClose(t, "covariance", &cov, &cov2, tol)
}

// TestLeadingErrors asks for what is not there.
func TestLeadingErrors(t *testing.T) {
	q := problems(t)[0]
	p := q.fit(t, q.some(t), nil)
	for _, m := range []int{0, -1, q.some(t).Len() + 1} {
		require.ErrorAs(t, testref.Err(p.Leading(t.Context(), m)), new(*sparse.CountError))
	}
	fitc := q.fit(t, q.some(t), &sparse.Options{Approximation: sparse.FITC})
	require.ErrorContains(t, testref.Err(fitc.Leading(t.Context(), 2)), "FITC")
	subset, err := sparse.FitSubset(t.Context(), q.Kernel, q.Train, rowsOf(q.Sites(t), 2), first(q.inducing(t, 0, 1), 2), nil)
	require.NoError(t, err)
	require.ErrorContains(t, testref.Err(subset.Leading(t.Context(), 1)), "subset")
}

// TestPrepared compares predictions from prepared features with PredictTo,
// under other prior precisions and numbers of inducing examples.
func TestPrepared(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		for _, o := range []sparse.Options{{}, {Mean: gp.LinearGaussian}, {Approximation: sparse.FITC}} {
			p := q.fit(t, q.some(t), &o)
			prepared := testref.Must(p.Prepare(t.Context(), q.Test))(t)
			require.Equal(t, q.T, prepared.Len())
			ask := []*sparse.Projected{p.Projected}
			if o.Approximation == sparse.Nystrom {
				at := testref.Must(p.At(t.Context(), 0.3))(t)
				fewer := testref.Must(at.Leading(t.Context(), 3))(t)
				ask = append(ask, at, fewer)
			}
			for _, p := range ask {
				var mean, cov, mean2, cov2 mat.Dense
				require.NoError(t, p.PredictPreparedTo(t.Context(), &mean, &cov, prepared))
				require.NoError(t, p.PredictTo(t.Context(), &mean2, &cov2, q.Test))
				requireClose(t, "mean", &mean, &mean2, 1e-11)
				requireClose(t, "covariance", &cov, &cov2, 1e-11)
			}
		}
	})
}

// TestPreparedForOthers panics rather than mixing two posteriors' features.
func TestPreparedForOthers(t *testing.T) {
	q := problems(t)[0]
	p, other := q.fit(t, q.some(t), nil), q.fit(t, q.inducing(t, 1, 2, 3), nil)
	prepared := testref.Must(p.Prepare(t.Context(), q.Test))(t)
	require.Panics(t, func() { _ = other.PredictPreparedTo(t.Context(), new(mat.Dense), nil, prepared) })
	_, err := q.fit(t, q.some(t), &sparse.Options{MaxMemory: 1 << 20}).Prepare(t.Context(), q.Test)
	require.NoError(t, err)
}
