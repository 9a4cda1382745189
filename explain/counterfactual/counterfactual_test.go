package counterfactual_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// problems have every likelihood.
func problems(t *testing.T) []*testkit.Problem {
	return append(testkit.Problems(t), testkit.Heteroscedastic())
}

// eachProblem runs a test for every likelihood.
func eachProblem(t *testing.T, do func(t *testing.T, q *testkit.Problem, m *counterfactual.Model)) {
	for _, q := range problems(t) {
		t.Run(q.Name, func(t *testing.T) { do(t, q, model(t, q)) })
	}
}

func model(t *testing.T, q *testkit.Problem) *counterfactual.Model {
	t.Helper()
	post := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
	return testref.Must(counterfactual.New(t.Context(), post, q.Kernel, q.Targets(), linearize.Limits{}))(t)
}

// A moment is what a posterior predicts of test rows.
type moment struct{ mean, cov, joint mat.Dense }

func moments(t *testing.T, p gp.Latent, x *linearize.Batch) *moment {
	t.Helper()
	var m moment
	require.NoError(t, p.PredictTo(t.Context(), &m.mean, &m.cov, x))
	require.NoError(t, p.JointTo(t.Context(), nil, &m.joint, x))
	return &m
}

// A change is other training data: the targets of all examples, of which some have weight 0, and of added ones.
type change struct {
	y   *gp.Targets
	add *linearize.Batch
}

func without(q *testkit.Problem, rows ...int) change {
	return change{y: q.Targets().Without(rows...)}
}

// relabel gives examples other targets that the likelihood admits.
func (ch change) relabel(q *testkit.Problem, rows ...int) change {
	y := *ch.y
	y.Y = mat.DenseCopyOf(y.Y)
	for _, i := range rows {
		y.Y.SetRow(i, otherLabel(q, i))
	}
	return change{&y, ch.add}
}

// with adds examples with these targets.
func (ch change) with(x *linearize.Batch, y *mat.Dense) change {
	to := &gp.Targets{Y: dense.Stack([]*mat.Dense{ch.y.Y, y}), Likelihood: ch.y.Likelihood, Weights: slices.Clone(ch.y.Weights)}
	for range x.Len() {
		to.Weights = append(to.Weights, 1)
	}
	return change{to, x}
}

// refit is the posterior of the changed data by gp.Refit.
func refit(t testing.TB, q *testkit.Problem, ch change) *gp.Exact {
	t.Helper()
	x := q.Train
	if ch.add != nil {
		x = linearize.Concat(x, ch.add)
	}
	var rows []int
	for i := range x.Len() {
		if ch.y.Weight(i) > 0 {
			rows = append(rows, i)
		}
	}
	x = testref.Must(linearize.Gather(t.Context(), x, rows))(t)
	return testref.Must(gp.Refit(t.Context(), q.Kernel, x, ch.y.Rows(rows), nil))(t)
}

// requireRefit compares the answer to a change with a refit.
func requireRefit(t *testing.T, q *testkit.Problem, m *counterfactual.Model, ch change, rel float64) {
	t.Helper()
	got := testref.Must(m.Fit(t.Context(), ch.y, ch.add))(t)
	require.Empty(t, got.Warnings())
	requireMoments(t, moments(t, got, q.Test), moments(t, refit(t, q, ch), q.Test), rel)
}

func requireMoments(t *testing.T, got, want *moment, rel float64) {
	t.Helper()
	testkit.RequireClose(t, "mean", &got.mean, &want.mean, rel)
	testkit.RequireClose(t, "covariance", &got.cov, &want.cov, rel)
	testkit.RequireClose(t, "joint covariance", &got.joint, &want.joint, rel)
}

// tolerance is that of the mean and the covariance after a Fit. Fisher scoring ends where
// gp.Refit's does, but for what its slower steps leave.
func tolerance(q *testkit.Problem) float64 {
	if _, ok := q.Likelihood.(gp.Scored); ok {
		return 1e-6
	}
	return 1e-8
}

// otherLabel returns other targets that the likelihood admits.
func otherLabel(q *testkit.Problem, i int) []float64 {
	y := slices.Clone(q.Y.RawRowView(i))
	for j := range y {
		switch q.Likelihood.(type) {
		case glm.Categorical:
			y[j] = float64((int(y[j]) + 1) % q.C)
		case glm.Bernoulli:
			y[j] = 1 - y[j]
		default:
			y[j]++
		}
	}
	return y
}

// Fit without one example is the refit without it, for each of them (E9).
func TestFitWithoutEachExample(t *testing.T) {
	eachProblem(t, func(t *testing.T, q *testkit.Problem, m *counterfactual.Model) {
		step := 1
		if testing.Short() {
			step = 7 // each is the same code
		}
		for i := 0; i < q.N; i += step {
			requireRefit(t, q, m, without(q, i), tolerance(q))
		}
	})
}

// Fit without a group is the refit without it, for up to all but two examples.
func TestFitWithoutGroups(t *testing.T) {
	eachProblem(t, func(t *testing.T, q *testkit.Problem, m *counterfactual.Model) {
		rng := rand.New(rand.NewPCG(5, 1))
		for _, size := range []int{2, q.N / 4, q.N / 2, q.N - 2} {
			requireRefit(t, q, m, without(q, rng.Perm(q.N)[:size]...), tolerance(q))
		}
	})
}

// Fit with other labels, with more examples and with everything at once is the refit with
// them.
func TestFitFlipsAndAdditions(t *testing.T) {
	eachProblem(t, func(t *testing.T, q *testkit.Problem, m *counterfactual.Model) {
		rng := rand.New(rand.NewPCG(6, 1))
		add := q.Test.Slice(0, 3)
		y := testkit.Targets(rng, q.Likelihood, add.F)
		for _, ch := range []change{
			without(q),
			without(q).relabel(q, 1),
			without(q).relabel(q, 1, q.N-1),
			without(q).with(add, y),
			without(q, 7, 0, 3).relabel(q, 1, q.N-1).with(add, y),
		} {
			requireRefit(t, q, m, ch, tolerance(q))
		}
	})
}

// Half of an example counts as half, and twice an example as two of it (E23).
func TestFitWithWeights(t *testing.T) {
	eachProblem(t, func(t *testing.T, q *testkit.Problem, m *counterfactual.Model) {
		rng := rand.New(rand.NewPCG(9, 1))
		ch := without(q, 4)
		for i := range ch.y.Weights {
			if i != 4 {
				ch.y.Weights[i] = []float64{.5, 1, 2}[rng.IntN(3)]
			}
		}
		requireRefit(t, q, m, ch, tolerance(q))
	})
}

// From a posterior that some examples have no part in, or another than 1, Fit goes to that of any other weights.
func TestFitFromWeights(t *testing.T) {
	for _, q := range problems(t) {
		t.Run(q.Name, func(t *testing.T) {
			y := q.Targets().Without(2, 5)
			y.Weights[3], y.Weights[q.N-1] = .5, 2
			post := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, y, nil))(t)
			m := testref.Must(counterfactual.New(t.Context(), post, q.Kernel, y, linearize.Limits{}))(t)
			for _, ch := range []change{{y: y}, without(q), without(q, 5, 6), {y: y.Without(6)}} {
				requireRefit(t, q, m, ch, tolerance(q))
			}
		})
	}
}

// Of a refit that has converged the distance is rounding. Of one that was stopped early it
// times √κ(x,x) bounds how far any prediction is from the mode (E19).
func TestDistance(t *testing.T) {
	open := 0
	eachProblem(t, func(t *testing.T, q *testkit.Problem, m *counterfactual.Model) {
		d := m.Distance()
		require.Less(t, d, 1e-5)
		if q.Name == "heteroscedastic" {
			return // not concave
		}
		mode := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
		early := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), &gp.Options{MaxIter: 1}))(t)
		stopped, err := counterfactual.New(t.Context(), early, q.Kernel, q.Targets(), linearize.Limits{})
		require.NoError(t, err)
		if d = stopped.Distance(); d > 1e-3 {
			open++
		}
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

var _ counterfactual.Base = (*kept.Posterior)(nil)

// With the covariance of kept rows alone the mode of the changed data is that of all rows
// (E16), as a refit finds it. The data come tile by tile.
func TestKeptRows(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		t.Run(q.Name, func(t *testing.T) {
			for _, strength := range []float64{0, .3} {
				data := testkit.InTiles(q.Train, 7)
				post, err := kept.Refit(t.Context(), data, q.Targets(), q.Prior, q.Theta, &kept.Options{Strength: strength})
				require.NoError(t, err)
				m := testref.Must(counterfactual.New(t.Context(), post, q.Kernel, q.Targets(), linearize.Limits{}))(t)
				for _, ch := range []change{
					without(q, 3),
					without(q, 0, 5, 6, 7, 11),
					without(q, 2).relabel(q, 1).with(q.Test.Slice(0, 1), dense.Slice(q.Y, 4, 5)),
				} {
					requireRefit(t, q, m, ch, 1e-7)
				}
			}
		})
	}
}
