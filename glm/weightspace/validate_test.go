package weightspace_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
)

// The table finds a posterior that is off by a little more than the tolerance,
// in whichever quantity it is.
func TestValidateFindsADifference(t *testing.T) {
	q := spaceProblems(t)[8]
	p := len(q.theta)
	mean, variance := make([]float64, p), make([]float64, p)
	q.prior.MeanTo(mean)
	q.prior.VarianceTo(variance)
	failing := func(w *weightspace.Posterior) (names []string) {
		c := testref.Must(weightspace.Validate(t.Context(), q.exact(t, gp.LinearGaussian), w, q.test, 1e-8))(t)
		for _, r := range c.Rows {
			require.Equal(t, r.OK, r.Difference <= r.Tolerance)
			require.Equal(t, 1e-8, r.Tolerance)
			if !r.OK {
				names = append(names, r.Quantity)
			}
		}
		require.Equal(t, len(names) == 0, c.OK())
		return names
	}
	fit := func(prior ntk.Prior, s *gp.Sites) *weightspace.Posterior {
		return testref.Must(weightspace.Fit(t.Context(), q.train, s, prior, q.theta, linearGaussian))(t)
	}
	require.Empty(t, failing(fit(q.prior, q.sites(t))))

	variance[4] *= 1.001
	require.Contains(t, failing(fit(rawPrior{mean, variance}, q.sites(t))), "covariance")
	variance[4] /= 1.001
	mean[4] += 1e-3
	require.Contains(t, failing(fit(rawPrior{mean, variance}, q.sites(t))), "mean")
	mean[4] -= 1e-3
	s := q.sites(t)
	s.LogLik += 1e-3
	require.Equal(t, []string{"log evidence at θ* (E7)", "log evidence, linear-Gaussian (E8)"}, failing(fit(rawPrior{mean, variance}, s)))
	s.LogLik = math.NaN()
	require.Equal(t, []string{"log evidence at θ* (E7)", "log evidence, linear-Gaussian (E8)"}, failing(fit(rawPrior{mean, variance}, s)))
}

// The difference of an array is relative to its largest entry over all tiles,
// and the values shown are those of the entry that differs most.
func TestValidateRelativeToTheLargest(t *testing.T) {
	q := newSpaceProblem(t, "tiles", 31, 20, 1, glm.Bernoulli{}, 1)
	x := gptest.Another(rand.New(rand.NewPCG(2, 9)), q.train, 700)
	w, e := q.fit(t, linearGaussian), q.exact(t, gp.Network)
	c := testref.Must(weightspace.Validate(t.Context(), e, w, x, 0))(t)
	require.False(t, c.OK())
	row := c.Rows[0]
	require.Equal(t, "mean", row.Quantity)
	require.Equal(t, weightspace.DefaultTolerance, row.Tolerance)
	f := make([]float64, 700)
	d := make([]float64, len(q.theta))
	for i := range d {
		d[i] = w.Mean()[i] - q.theta[i]
	}
	x.MulVecTo(f, d)
	largest, at := 0.0, 0
	for i := range f {
		largest = math.Max(largest, math.Abs(x.F.At(i, 0)))
		if math.Abs(f[i]) > math.Abs(f[at]) {
			at = i
		}
	}
	require.InDelta(t, math.Abs(f[at])/largest, row.Difference, 1e-12)
	require.Equal(t, x.F.At(at, 0), row.FunctionSpace)
	require.InDelta(t, x.F.At(at, 0)+f[at], row.WeightSpace, 1e-12)
}

func TestValidateRefuses(t *testing.T) {
	q := spaceProblems(t)[0]
	require.PanicsWithValue(t, "weightspace: one posterior is refitted and the other is not", func() {
		weightspace.Validate(t.Context(), q.exact(t, gp.LinearGaussian), q.refit(t), q.test, 0)
	})
	require.PanicsWithValue(t, "weightspace: Validate wants posteriors with gp.LinearGaussian means", func() {
		weightspace.Validate(t.Context(), q.exact(t, gp.LinearGaussian), q.fit(t, nil), q.test, 0)
	})
	require.PanicsWithValue(t, "weightspace: negative tolerance", func() {
		weightspace.Validate(t.Context(), q.exactRefit(t), q.refit(t), q.test, -1)
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(weightspace.Validate(ctx, q.exactRefit(t), q.refit(t), q.test, 0)), context.Canceled)
	q.test.F.Set(3, 0, math.NaN())
	_, err := weightspace.Validate(t.Context(), q.exactRefit(t), q.refit(t), q.test, 0)
	testref.As[*gp.NotFiniteError](t, err)
}
