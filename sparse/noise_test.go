package sparse_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// A widened prior has its variances multiplied by a factor.
type widened struct {
	ntk.Prior
	factor float64
}

func (w widened) VarianceTo(dst []float64) {
	w.Prior.VarianceTo(dst)
	for i := range dst {
		dst[i] *= w.factor
	}
}

// TestE21ScaleNoise checks that a posterior whose noise and prior variances are scaled is the one that a
// pass over the data gives under them, for Nyström and FITC.
func TestE21ScaleNoise(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		lik, ok := q.Likelihood.(*glm.Gaussian)
		if !ok {
			continue
		}
		for _, how := range []sparse.Approximation{sparse.Nystrom, sparse.FITC} {
			const factor = 3.7
			wide := testref.Must(lik.ScaleNoise(factor))(t)
			k := ntk.New(widened{q.Prior, factor}, q.Theta, nil)
			rows := []int{9, 2, 17, 5, 0}
			batch := testref.Must(q.Train.Gather(t.Context(), rows))(t)
			z, o := &sparse.Inducing{Rows: rows, Batch: batch}, &sparse.Options{Approximation: how, Mean: gp.LinearGaussian}
			s := testref.Must(gp.NewSites(q.Y, q.Train.F, wide))(t)
			want := testref.Must(sparse.Fit(t.Context(), k, q.Train, s, z, o))(t)
			before := testref.Must(sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), z, o))(t)
			got := testref.Must(before.ScaleNoise(t.Context(), k, factor, s))(t)

			var mean, cov, wantMean, wantCov mat.Dense
			require.NoError(t, got.PredictTo(t.Context(), &mean, &cov, q.Test))
			require.NoError(t, want.PredictTo(t.Context(), &wantMean, &wantCov, q.Test))
			testkit.RequireClose(t, "mean", &mean, &wantMean, 1e-10)
			testkit.RequireClose(t, "covariance", &cov, &wantCov, 1e-10)
			testkit.RequireClose(t, "α", testkit.Vec(got.Alpha()), testkit.Vec(want.Alpha()), 1e-9)
			testkit.RequireClose(t, "b", testkit.Vec(got.PseudoTargets()), testkit.Vec(want.PseudoTargets()), 1e-9)
			testkit.RequireNumber(t, "evidence", got.EvidenceLinearGaussian().Value, want.EvidenceLinearGaussian().Value, 1e-10)
			testkit.RequireNumber(t, "trace error", got.TraceError(), want.TraceError(), 1e-10)
			all := make([]int, q.N)
			for i := range all {
				all[i] = i
			}
			mean, cov, wantMean, wantCov = mat.Dense{}, mat.Dense{}, mat.Dense{}, mat.Dense{}
			require.NoError(t, got.LeaveOneOutTo(t.Context(), &mean, &cov, all, q.Train))
			require.NoError(t, want.LeaveOneOutTo(t.Context(), &wantMean, &wantCov, all, q.Train))
			testkit.RequireClose(t, "leave-one-out mean", &mean, &wantMean, 1e-8)
			testkit.RequireClose(t, "leave-one-out covariance", &cov, &wantCov, 1e-8)
		}
	}
}
