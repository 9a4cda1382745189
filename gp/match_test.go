package gp_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
)

// concave are the problems whose likelihood is concave.
func concave(t *testing.T) []*problem {
	var list []*problem
	for _, q := range problems(t) {
		if _, ok := q.lik.(gp.Scored); !ok {
			list = append(list, q)
		}
	}
	return list
}

// refitAt is the refit of q under prior precisions times factor, computed anew.
func (q *problem) refitAt(t *testing.T, factor float64) *gp.Exact {
	t.Helper()
	e, err := gp.Refit(t.Context(), q.scaledPrior(1/factor), q.train, q.y, q.lik, nil)
	require.NoError(t, err, q.name)
	return e
}

func (q *problem) kernelAt(factor float64) (ntk.Kernel, error) { return q.scaledPrior(1 / factor), nil }

// best is the most that the log likelihood of the targets of q can be.
func (q *problem) best() float64 {
	sum := 0.0
	for i := range q.n {
		switch lik := q.lik.(type) {
		case *glm.Gaussian:
			sum += lik.LogProb(q.y.RawRowView(i), q.y.RawRowView(i))
		case glm.Poisson:
			sum += lik.LogProb(q.y.RawRowView(i), []float64{math.Log(math.Max(q.y.At(i, 0), 1e-300))})
		}
	}
	return sum
}

// TestE21Slope compares dℓ(f̂)/d log δ = −αᵀC(X,X)α with differences of refits: the search that is
// given another slope than that of its refits does not take as few of them.
func TestE21Slope(t *testing.T) {
	for _, q := range concave(t) {
		const h = 1e-3
		up, down := q.refitAt(t, math.Exp(h)).Sites().LogLik, q.refitAt(t, math.Exp(-h)).Sites().LogLik
		slope := testref.Must(q.refitAt(t, 1).MatchSlope(t.Context()))(t)
		require.InDelta(t, (up-down)/(2*h), slope, 1e-4*(1+math.Abs(slope)), q.name)
	}
}

// TestE21Match finds the precision at which the refit has the log likelihood of a network whose
// outputs are those of a refit at another precision, from near and far, and compares it with
// bisection on refits that are computed anew.
func TestE21Match(t *testing.T) {
	for _, q := range concave(t) {
		for _, root := range []float64{-3, -0.4, 0.07, 2.5} {
			target := q.refitAt(t, math.Exp(root)).Sites().LogLik
			lo, hi := root-1, root+1
			for range 40 {
				mid := (lo + hi) / 2
				if q.refitAt(t, math.Exp(mid)).Sites().LogLik > target {
					lo = mid
				} else {
					hi = mid
				}
			}
			require.InDelta(t, root, lo, 1e-6, q.name)

			e := q.refitAt(t, 1)
			prior := q.logLik(e.PriorMean())
			factor := 1.0
			at := func(ctx context.Context, x float64) (gp.MatchTrial, error) {
				next := math.Exp(x)
				k, err := q.kernelAt(next)
				if err != nil {
					return gp.MatchTrial{}, err
				}
				if e, err = e.Rescale(ctx, k, factor/next, q.y, q.lik); err != nil {
					return gp.MatchTrial{}, err
				}
				factor = next
				slope, err := e.MatchSlope(ctx)
				return gp.MatchTrial{LogLik: e.Sites().LogLik, Slope: slope, Arrived: true}, err
			}
			m := testref.Must(gp.FindMatch(t.Context(), target, prior, &gp.MatchOptions{Best: q.best()}, at, nil))(t)
			require.InDelta(t, root, math.Log(m.Root), 1e-5, "%s: the last step is quadratic in the one before", q.name)
			if math.Abs(root) < gp.MatchKeeps {
				require.Equal(t, gp.MatchKept, m.End, q.name)
				require.Equal(t, 1.0, m.Factor)
			} else {
				require.Equal(t, gp.MatchFound, m.End, q.name)
				require.InDelta(t, root, math.Log(m.Factor), 1.1e-3, q.name)
			}
			require.Equal(t, m.Factor, factor, "the last refit is the result")
			require.LessOrEqual(t, m.Refits, 10, q.name)
		}
	}
}

// logLik is the log likelihood of the targets at stacked function values.
func (q *problem) logLik(f []float64) float64 {
	sum := 0.0
	for i := range q.n {
		sum += q.lik.Expand(nil, nil, nil, q.y.RawRowView(i), f[i*q.c:(i+1)*q.c])
	}
	return sum
}

// TestE21ExactMatch checks that Exact.Match ends with the refit at the precision that it reports, and
// that the log likelihood there is the network's.
func TestE21ExactMatch(t *testing.T) {
	for _, q := range concave(t) {
		e, m, err := q.refitAt(t, 1).Match(t.Context(), q.kernelAt, q.y, q.lik, &gp.MatchOptions{Best: q.best()})
		require.NoError(t, err, q.name)
		require.Equal(t, q.logLik(dense.Flat(q.train.F)), m.Network)
		want := q.refitAt(t, m.Factor)
		require.InDelta(t, want.Sites().LogLik, m.LogLik, 1e-7*(1+math.Abs(m.LogLik)), q.name)
		requireClose(t, q.name, column(e.Sites().F), column(want.Sites().F), 1e-8)
		switch prior := q.logLik(e.PriorMean()); {
		case m.Network <= prior:
			require.Equal(t, gp.MatchNone, m.End, q.name)
			require.Equal(t, 1.0, m.Factor)
		case m.End == gp.MatchFound:
			require.InDelta(t, m.Network, m.LogLik, 2e-3*math.Abs(m.Network-q.best())+1e-9, q.name)
		}
	}
}

// TestE21MatchOfInterpolation checks that a network which fits its training examples better than any
// refit of certain leverages gets the smallest precision at which these are certain.
func TestE21MatchOfInterpolation(t *testing.T) {
	q := newProblem("gaussian", 1, 1, testref.Must(glm.NewGaussian(0.2))(t), 1)
	q.train.F.Copy(q.y) // the network interpolates
	q.fill()
	e, m, err := q.refitAt(t, 1).Match(t.Context(), q.kernelAt, q.y, q.lik, &gp.MatchOptions{Best: q.best()})
	require.NoError(t, err)
	require.Equal(t, gp.MatchBelow, m.End)
	require.Less(t, m.Factor, 1.0)
	require.Greater(t, m.Factor, 1e-12)
	require.True(t, e.Refitted())
}

// TestMatchStops checks that a cancelled context ends the search, and that the posterior must be a refit.
func TestMatchStops(t *testing.T) {
	q := problems(t)[2]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := q.refitAt(t, 1).Match(ctx, q.kernelAt, q.y, q.lik, nil)
	require.ErrorIs(t, err, context.Canceled)
}
