package cg_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// The moments without an example are those of gp.Exact (E17), for any preconditioner,
// from memory and from a stream. Where an example nearly fixes the function by itself,
// the covariance still is, and the mean is off by no more than MeanError says.
func TestLeaveOneOutIsExact(t *testing.T) {
	tiny := testref.Must(glm.NewGaussian(1e-9))(t)
	sharp := newProblem("tiny-noise", 3, 12, 2, tiny, 1)
	for _, q := range append(problems(t), sharp) {
		t.Run(q.Name, func(t *testing.T) {
			rows := dense.Range(q.N)
			fit, _ := q.exactly(t)
			var want, wantCov mat.Dense
			require.NoError(t, fit.LeaveOneOutTo(t.Context(), &want, &wantCov, rows, q.Train))
			for _, rank := range []int{-1, 3, 0} {
				for _, x := range []linearize.Source{q.Train, testkit.InTiles(q.Train, 5)} {
					o := linearMean(rank)
					o.Tolerance = 1e-13
					p := testref.Must(cg.Fit(t.Context(), q.Kernel, x, q.Sites(t), o))(t)
					var mean, cov mat.Dense
					require.NoError(t, p.LeaveOneOutTo(t.Context(), &mean, &cov, rows, q.Train))
					testkit.RequireClose(t, "covariance", &cov, &wantCov, 1e-8)
					scale := math.Max(mat.Max(&want), -mat.Min(&want))
					for i := range q.N * q.C {
						bound := p.MeanError() * math.Sqrt(wantCov.At(i, i%q.C))
						require.InDelta(t, want.At(i/q.C, i%q.C), mean.At(i/q.C, i%q.C), bound+1e-8*scale)
					}
					if q != sharp {
						testkit.RequireClose(t, "mean", &mean, &want, 1e-7)
					}
				}
			}
		})
	}
}

// A posterior at the network's outputs steps from these, with the residual there.
func TestLeaveOneOutOfNetworkMean(t *testing.T) {
	q := problems(t)[5]
	x := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
	p := q.fitPosterior(t, &cg.Options{Tolerance: 1e-13})
	var want, wantCov, mean, cov mat.Dense
	require.NoError(t, x.LeaveOneOutTo(t.Context(), &want, &wantCov, dense.Range(q.N), q.Train))
	require.NoError(t, p.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(q.N), q.Train))
	testkit.RequireClose(t, "mean", &mean, &want, 1e-9)
	testkit.RequireClose(t, "covariance", &cov, &wantCov, 1e-9)
}
