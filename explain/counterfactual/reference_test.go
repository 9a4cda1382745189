package counterfactual_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// everyRefit refits without each example of the references, and not without each tenth.
var everyRefit = flag.Bool("every-refit", false, "compare with a refit without each example of the references")

// asProblem is a reference as a problem, and its posterior.
func asProblem(t testing.TB, name string) (*testkit.Problem, *counterfactual.Model) {
	r := testkit.OpenReference(t, name)
	q := &testkit.Problem{Name: name, Train: r.Train, Test: r.Test, Y: r.Y, Likelihood: r.Likelihood, Kernel: r.Kernel, N: r.Train.Len(), T: r.Test.Len(), C: r.Train.Outputs()}
	post := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
	m := testref.Must(counterfactual.New(t.Context(), post, q.Kernel, q.Targets(), linearize.Limits{}))(t)
	return q, m
}

// requireNear compares f of test rows and their covariances without some examples with what a refit says, and
// with the bound on the distance from the mode, which needs no refit (E19).
func requireNear(t testing.TB, q *testkit.Problem, got *counterfactual.Posterior, want *gp.Exact, tol float64) {
	t.Helper()
	var mean mat.Dense
	require.NoError(t, got.PredictTo(t.Context(), &mean, nil, q.Test))
	require.Empty(t, got.Warnings())
	scale := math.Max(mat.Max(&mean), -mat.Min(&mean))
	var prior mat.Dense
	prior.ReuseAs(q.T*q.C, q.C)
	q.Kernel.DiagTo(&prior, q.Test)
	require.LessOrEqual(t, math.Sqrt(mat.Max(&prior))*got.Distance(), tol*scale, "√κ(x,x) √((α−r)ᵀK(α−r))")
	if want == nil {
		return
	}
	var refit mat.Dense
	require.NoError(t, want.PredictTo(t.Context(), &refit, nil, q.Test))
	testkit.RequireClose(t, "f", &mean, &refit, tol)
	var cov, wanted mat.Dense
	require.NoError(t, got.PredictTo(t.Context(), nil, &cov, q.Test))
	require.NoError(t, want.PredictTo(t.Context(), nil, &wanted, q.Test))
	testkit.RequireClose(t, "covariance", &cov, &wanted, 1e-8)
}

// Without any single example, without groups of up to 100, with the other label of one, and
// with a test row as one more example, f is that of a refit (E9).
func TestReferencesWithOtherData(t *testing.T) {
	testref.Long(t, "takes long under the race detector; shorter tests run the same code")
	for _, name := range []string{"two-moons", "categorical", "poisson", "gaussian-two-outputs", "snelson"} {
		t.Run(name, func(t *testing.T) {
			q, m := asProblem(t, name)
			rng := rand.New(rand.NewPCG(2, 1))
			for i := range q.N {
				ch := without(q, i)
				got := testref.Must(m.Fit(t.Context(), ch.y, ch.add))(t)
				var want *gp.Exact
				if *everyRefit || i%10 == 0 {
					want = refit(t, q, ch)
				}
				requireNear(t, q, got, want, 1e-6)
				if i%10 > 0 {
					continue
				}
				for _, ch := range []change{without(q).relabel(q, i), without(q).with(q.Test.Slice(0, 1), dense.Slice(q.Y, i, i+1))} {
					got := testref.Must(m.Fit(t.Context(), ch.y, ch.add))(t)
					requireNear(t, q, got, refit(t, q, ch), 1e-6)
				}
			}
			for _, size := range []int{10, min(100, q.N-10)} {
				ch := without(q, rng.Perm(q.N)[:size]...)
				got := testref.Must(m.Fit(t.Context(), ch.y, ch.add))(t)
				requireNear(t, q, got, refit(t, q, ch), 1e-5)
			}
		})
	}
}

// The same of the thesis's network for 3,000 digits: 50 random rows, two of them and a group
// of 100 by a refit. It takes minutes.
func TestThesisCNNWithoutExamples(t *testing.T) {
	if !*everyRefit {
		t.Skip("takes minutes; run with -every-refit")
	}
	q, m := asProblem(t, "thesis-cnn")
	rng := rand.New(rand.NewPCG(3, 1))
	for k, i := range rng.Perm(q.N)[:50] {
		ch := without(q, i)
		got := testref.Must(m.Fit(t.Context(), ch.y, ch.add))(t)
		var want *gp.Exact
		if k < 2 {
			want = refit(t, q, ch)
		}
		requireNear(t, q, got, want, 1e-6)
	}
	ch := without(q, rng.Perm(q.N)[:100]...)
	got := testref.Must(m.Fit(t.Context(), ch.y, ch.add))(t)
	requireNear(t, q, got, refit(t, q, ch), 1e-5)
}
