package gp_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// some are the training examples at these rows.
func (q *problem) some(t *testing.T, rows ...int) *linearize.Batch {
	t.Helper()
	b := testref.Must(q.train.Gather(t.Context(), rows))(t)
	return b
}

var toys = []string{"snelson", "two-moons", "categorical", "categorical-diagonal-prior", "poisson", "gaussian-two-outputs"}

// The moments at the refit are those of PyTorch (E17). For a Gaussian likelihood
// they are those of the refits without each example.
func TestLeaveOneOutReferences(t *testing.T) {
	for _, name := range toys {
		t.Run(name, func(t *testing.T) {
			r := openReference(t, name)
			want := testref.Open(t, "selection/"+name)
			e := testref.Must(gp.Refit(t.Context(), r.Kernel, r.Train, r.Y, r.Likelihood, nil))(t)
			var mean, cov mat.Dense
			require.NoError(t, e.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(r.Train.Len()), r.Train))
			testref.RequireClose(t, flat(&mean), want.Floats("loo_first_order_mean"), 1e-8, "mean")
			testref.RequireClose(t, flat(&cov), want.Floats("loo_first_order_cov"), 1e-8, "covariance")
			if _, gaussian := r.Likelihood.(*glm.Gaussian); gaussian {
				testref.RequireClose(t, flat(&mean), want.Floats("loo_mean"), 1e-8, "mean of the refits")
				testref.RequireClose(t, flat(&cov), want.Floats("loo_cov"), 1e-8, "covariance of the refits")
			}
		})
	}
}

// The moments are one Newton step from those of a refit without the example: exact for
// a Gaussian, and for the other likelihoods much nearer to the refit than the posterior
// that has seen the example.
func TestLeaveOneOutIsOneNewtonStep(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		if q.n > 100 {
			t.Skip("as many refits as examples")
		}
		e := q.refit(t, nil)
		var mean, cov, seen mat.Dense
		require.NoError(t, e.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(q.n), q.train))
		require.NoError(t, e.PredictTo(t.Context(), &seen, nil, q.train))
		_, gaussian := q.lik.(*glm.Gaussian)
		near, far := 0.0, 0.0
		for i := range q.n {
			again := q.without(i).refit(t, nil)
			var m, v mat.Dense
			require.NoError(t, again.PredictTo(t.Context(), &m, &v, q.train.Slice(i, i+1)))
			if gaussian {
				requireClose(t, "mean", mean.Slice(i, i+1, 0, q.c), &m, 1e-9)
				requireClose(t, "covariance", cov.Slice(i*q.c, (i+1)*q.c, 0, q.c), &v, 1e-9)
			}
			for j := range q.c {
				near += math.Abs(mean.At(i, j) - m.At(0, j))
				far += math.Abs(seen.At(i, j) - m.At(0, j))
			}
		}
		t.Logf("distance from the refits: %.3g, without the step %.3g", near, far)
		require.Less(t, near, far/2)
	})
}

// The posterior at the mean of the network starts from there and from the residual
// there, also where θ* is no mode.
func TestLeaveOneOutOfNetworkMean(t *testing.T) {
	q := problems(t)[5]
	e := q.fit(t, nil)
	rows := []int{2, 7}
	var mean, cov mat.Dense
	require.NoError(t, e.LeaveOneOutTo(t.Context(), &mean, &cov, rows, q.some(t, rows...)))
	for at, i := range rows {
		var want mat.VecDense
		want.MulVec(cov.Slice(at*q.c, (at+1)*q.c, 0, q.c), e.Sites().Residual.RowView(i))
		want.SubVec(q.train.F.RowView(i), &want)
		requireClose(t, "mean", mean.RowView(at), &want, 1e-13)
	}
}
