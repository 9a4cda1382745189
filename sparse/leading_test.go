package sparse_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
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
				requireNumber(t, "(E8)", got.EvidenceLinearGaussian().Value, want.Projected.EvidenceLinearGaussian().Value, 1e-11)
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
	subset, err := sparse.FitSubset(t.Context(), q.Kernel, q.Train, rowsOf(q.Sites(t), 2), first(q.inducing(t, 0, 1), 2), nil)
	require.NoError(t, err)
	require.ErrorContains(t, testref.Err(subset.Leading(t.Context(), 1)), "subset")
}

// TestPrepared compares predictions from prepared features with PredictTo,
// under other prior precisions and numbers of inducing examples.
func TestPrepared(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		for _, o := range []sparse.Options{{}, {Mean: gp.LinearGaussian}} {
			p := q.fit(t, q.some(t), &o)
			prepared := testref.Must(p.Prepare(t.Context(), q.Test))(t)
			require.Equal(t, q.T, prepared.Len())
			at := testref.Must(p.At(t.Context(), 0.3))(t)
			fewer := testref.Must(at.Leading(t.Context(), 3))(t)
			for _, p := range []*sparse.Projected{p.Projected, at, fewer} {
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
	_, err := q.fit(t, q.some(t), &sparse.Options{Limits: linearize.Limits{Memory: 1 << 20}}).Prepare(t.Context(), q.Test)
	require.NoError(t, err)
}

// withPrior returns the problem with the prior variances times factor.
func (q *problem) withPrior(t *testing.T, factor float64) *problem {
	t.Helper()
	groups := q.Prior.Groups()
	for g := range groups {
		groups[g].Precision /= factor
	}
	prior := testref.Must(ntk.NewLayerwise(q.Train.P, groups, []float64{0.1}))(t)
	c := *q.Problem
	c.Kernel = ntk.New(prior, q.Theta)
	return &problem{&c}
}

// A mode from features in memory is that of Refit under the scaled prior: outputs,
// evidence, predictions and leave-one-out.
func TestMode(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		p := q.fit(t, q.some(t), nil)
		train := testref.Must(p.Prepare(t.Context(), q.Train))(t)
		test := testref.Must(p.Prepare(t.Context(), q.Test))(t)
		var last *sparse.Mode
		for _, factor := range []float64{1, 0.1, 2.5} {
			m := testref.Must(p.Mode(t.Context(), train, factor, q.Targets(), last))(t)
			s := q.withPrior(t, factor)
			want := s.refit(t, s.some(t), nil)
			requireClose(t, "f", m.F(), want.Sites().F, 1e-8)
			require.InDelta(t, want.EvidenceRefit().Value, m.Evidence().Value, 1e-8*math.Max(1, math.Abs(want.EvidenceRefit().Value)))
			compare := func(name string, get func(mean, cov *mat.Dense) error, is func(mean, cov *mat.Dense) error) {
				var mean, cov, wantMean, wantCov mat.Dense
				require.NoError(t, get(&mean, &cov))
				require.NoError(t, is(&wantMean, &wantCov))
				requireClose(t, name+" mean", &mean, &wantMean, 1e-7)
				requireClose(t, name+" covariance", &cov, &wantCov, 1e-7)
			}
			compare("test", func(mean, cov *mat.Dense) error { return m.PredictPreparedTo(t.Context(), mean, cov, test) },
				func(mean, cov *mat.Dense) error { return want.PredictTo(t.Context(), mean, cov, q.Test) })
			rows := []int{1, 2, 9}
			x := testref.Must(q.Train.Gather(t.Context(), rows))(t)
			compare("leave-one-out", func(mean, cov *mat.Dense) error { return m.LeaveOneOutTo(t.Context(), mean, cov, rows) },
				func(mean, cov *mat.Dense) error { return want.LeaveOneOutTo(t.Context(), mean, cov, rows, x) })
			last = m
		}
	})
}

func TestModeStops(t *testing.T) {
	q := newProblem("categorical", 6, 20, 3, glm.Categorical{}, 1)
	p := q.fit(t, q.some(t), nil)
	train := testref.Must(p.Prepare(t.Context(), q.Train))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(p.Mode(ctx, train, 1, q.Targets(), nil)), context.Canceled)
	require.Panics(t, func() { _, _ = p.Mode(t.Context(), train, 0, q.Targets(), nil) })
}
