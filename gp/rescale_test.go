package gp_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
)

// scaledPrior returns the kernel of q with its prior variances times factor.
func (q *problem) scaledPrior(factor float64) denseKernel {
	k := q.kernel
	k.variance = make([]float64, len(q.variance))
	for i, v := range q.variance {
		k.variance[i] = factor * v
	}
	return k
}

// A posterior that was rescaled, once and again, is the one computed anew.
func TestRescale(t *testing.T) {
	for _, q := range problems(t) {
		for _, refit := range []bool{false, true} {
			at := func(factor float64) *gp.Exact {
				k := q.scaledPrior(factor)
				if refit {
					e, err := gp.Refit(t.Context(), k, q.train, q.y, q.lik, nil)
					require.NoError(t, err, q.name)
					return e
				}
				s, err := gp.NewSites(q.y, q.train.F, q.lik)
				require.NoError(t, err, q.name)
				e, err := gp.Fit(t.Context(), k, q.train, s, nil)
				require.NoError(t, err, q.name)
				return e
			}
			e, last := at(1), 1.0
			for _, factor := range []float64{3, 0.04, 0.7} {
				var err error
				e, err = e.Rescale(t.Context(), q.scaledPrior(factor), factor/last, q.y, q.lik)
				require.NoError(t, err, q.name)
				want := at(factor)
				require.Equal(t, refit, e.Refitted())
				// A refit settles to 1e-12 of f̂, which K⁻¹ multiplies in α.
				requireClose(t, q.name+": f", column(e.Sites().F), column(want.Sites().F), 1e-9)
				requireNumber(t, q.name+": evidence", e.EvidenceLinearGaussian().Value, want.EvidenceLinearGaussian().Value, 1e-9)
				var mean, cov, wantMean, wantCov mat.Dense
				require.NoError(t, e.PredictTo(t.Context(), &mean, &cov, q.test))
				require.NoError(t, want.PredictTo(t.Context(), &wantMean, &wantCov, q.test))
				requireClose(t, q.name+": mean", &mean, &wantMean, 1e-8)
				requireClose(t, q.name+": covariance", &cov, &wantCov, 1e-8)
				last = factor
			}
		}
	}
}

func TestRescaleStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	q := problems(t)[5]
	e := q.refit(t, nil)
	cancel()
	require.ErrorIs(t, testref.Err(e.Rescale(ctx, q.scaledPrior(2), 2, q.y, q.lik)), context.Canceled)
	require.Panics(t, func() { _, _ = q.refit(t, nil).Rescale(t.Context(), q.kernel, 0, q.y, q.lik) })
}

// An exact posterior that is moved to other sites is that fitted there, to the last bit,
// and its mean at the training examples is the one it predicts.
func TestRecondition(t *testing.T) {
	for _, q := range problems(t) {
		t.Run(q.name, func(t *testing.T) {
			at := testref.Must(gp.NewSites(q.y, q.train.F, q.lik))(t)
			moved := mat.DenseCopyOf(q.train.F)
			moved.Scale(0.7, moved)
			other := testref.Must(gp.NewSites(q.y, moved, q.lik))(t)
			o := &gp.Options{Mean: gp.LinearGaussian}
			want := testref.Must(gp.Fit(t.Context(), q.kernel, q.train, other, o))(t)
			first := testref.Must(gp.Fit(t.Context(), q.kernel, q.train, at, nil))(t)
			got := testref.Must(first.Recondition(t.Context(), other))(t)
			require.Equal(t, want.Alpha(), got.Alpha())
			require.Equal(t, want.EvidenceLinearGaussian(), got.EvidenceLinearGaussian())
			var mean, wantMean mat.Dense
			require.NoError(t, got.PredictTo(t.Context(), &mean, nil, q.test))
			require.NoError(t, want.PredictTo(t.Context(), &wantMean, nil, q.test))
			require.Equal(t, wantMean.RawMatrix().Data, mean.RawMatrix().Data)
			var train mat.Dense
			require.NoError(t, got.PredictTo(t.Context(), &train, nil, q.train))
			require.InDeltaSlice(t, train.RawMatrix().Data, got.TrainingMean(), 1e-9*(1+mat.Norm(&train, math.Inf(1))))
			require.Panics(t, func() { _, _ = got.Recondition(t.Context(), other.Rows([]int{0})) })
		})
	}
}
