package sparse_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// withPrior returns the problem with the prior variances times factor.
func (q *problem) withPrior(t *testing.T, factor float64) *problem {
	t.Helper()
	groups := q.Prior.Groups()
	for g := range groups {
		groups[g].Precision /= factor
	}
	prior := testref.Must(ntk.NewLayerwise(q.Train.P, groups, []float64{0.1}))(t)
	c := *q.Problem
	c.Kernel = ntk.New(prior, q.Theta, nil)
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
			m := testref.Must(p.Mode(t.Context(), train, factor, q.Y, q.Likelihood, last))(t)
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
	require.ErrorIs(t, testref.Err(p.Mode(ctx, train, 1, q.Y, q.Likelihood, nil)), context.Canceled)
	require.Panics(t, func() { _, _ = p.Mode(t.Context(), train, 0, q.Y, q.Likelihood, nil) })
	_, err := q.fit(t, q.some(t), &sparse.Options{Approximation: sparse.FITC}).Mode(t.Context(), train, 1, q.Y, q.Likelihood, nil)
	require.ErrorContains(t, err, "FITC")
}
