package counterfactual_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

// Of a refit that has converged the distance is rounding. Of one that was stopped early it
// times √κ(x,x) bounds how far any prediction is from the mode (E19).
func TestDistance(t *testing.T) {
	open := 0
	eachProblem(t, func(t *testing.T, q *testkit.Problem, m *counterfactual.Model) {
		d := testref.Must(m.Distance(t.Context()))(t)
		require.Less(t, d, 1e-5)
		if q.Name == "heteroscedastic" {
			return // not concave
		}
		mode := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Y, q.Likelihood, nil))(t)
		early := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Y, q.Likelihood, &gp.Options{MaxIter: 1}))(t)
		stopped, err := counterfactual.New(t.Context(), early, q.Kernel, q.Y, q.Likelihood, nil)
		require.NoError(t, err)
		if d, err = stopped.Distance(t.Context()); d > 1e-3 {
			open++
		}
		require.NoError(t, err)
		var want, got, prior mat.Dense
		require.NoError(t, mode.PredictTo(t.Context(), &want, nil, q.Test))
		require.NoError(t, early.PredictTo(t.Context(), &got, nil, q.Test))
		n, c := want.Dims()
		prior.ReuseAs(n*c, c)
		q.Kernel.DiagTo(&prior, q.Test)
		for i := range n {
			for k := range c {
				require.LessOrEqual(t, math.Abs(want.At(i, k)-got.At(i, k)), math.Sqrt(prior.At(i*c+k, k))*d+1e-6)
			}
		}
	})
	require.Positive(t, open, "no refit was stopped before its mode")
}
