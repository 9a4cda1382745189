package counterfactual_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

func classOf(f []float64) int {
	if len(f) == 1 {
		f = []float64{0, f[0]}
	}
	k := 0
	for c, v := range f {
		if v > f[k] {
			k = c
		}
	}
	return k
}

// refitted is the class of a test row by a refit without some examples.
func refitted(t *testing.T, q *testkit.Problem, at int, rows []int) int {
	var f mat.Dense
	require.NoError(t, refit(t, q, without(q, rows...)).PredictTo(t.Context(), &f, nil, q.Test.Slice(at, at+1)))
	return classOf(f.RawRowView(0))
}

// prefix is the number of examples that flip a row where they are left out in the order of
// what the removal of each alone does to its margin, all found by refits; 0 for more than most.
func prefix(t *testing.T, q *testkit.Problem, at, most int) int {
	x := q.Test.Slice(at, at+1)
	mean := func(rows ...int) []float64 {
		var f mat.Dense
		require.NoError(t, refit(t, q, without(q, rows...)).PredictTo(t.Context(), &f, nil, x))
		return f.RawRowView(0)
	}
	before := mean()
	k := classOf(before)
	margin := func(f []float64) float64 {
		if len(f) == 1 {
			return float64(2*k-1) * f[0]
		}
		rest := slices.Delete(slices.Clone(f), k, k+1)
		return f[k] - slices.Max(rest)
	}
	order, drop := dense.Range(q.N), make([]float64, q.N)
	for i := range q.N {
		drop[i] = margin(mean(i))
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(drop[a], drop[b]) })
	for n := 1; n <= most; n++ {
		if margin(mean(order[:n]...)) < 0 {
			return n
		}
	}
	return 0
}

// Without the examples that SmallestFlip names the class is another, by a refit, with any
// one of them put back it is not, and they are no more than those that the order of single
// removals takes.
func TestSmallestFlip(t *testing.T) {
	flipped, together := 0, 0
	for _, q := range []*testkit.Problem{
		testkit.NewProblem("bernoulli", 3, 30, 1, glm.Bernoulli{}, 1),
		testkit.NewProblem("categorical", 6, 30, 3, glm.Categorical{}, 1),
	} {
		m := model(t, q)
		for at := range q.T {
			want := prefix(t, q, at, 10)
			got, err := m.SmallestFlip(t.Context(), q.Test.Slice(at, at+1), &counterfactual.FlipOptions{Most: 10})
			if err != nil {
				testref.As[*counterfactual.NoFlipError](t, err)
				require.Zero(t, want, "row %d of %s can be flipped", at, q.Name)
				continue
			}
			flipped++
			if len(got.Rows) > 1 {
				together++
			}
			require.True(t, got.Confirmed)
			require.Equal(t, refitted(t, q, at, nil), got.From)
			require.Equal(t, refitted(t, q, at, got.Rows), got.To)
			require.NotEqual(t, got.From, got.To)
			require.Equal(t, classOf(got.After), got.To)
			if want > 0 {
				require.LessOrEqual(t, len(got.Rows), want)
			}
			for i := range got.Rows {
				if len(got.Rows) > 1 {
					require.Equal(t, got.From, refitted(t, q, at, slices.Delete(slices.Clone(got.Rows), i, i+1)), "example %d is not needed", got.Rows[i])
				}
			}
		}
	}
	require.GreaterOrEqual(t, flipped, 8)
	require.GreaterOrEqual(t, together, 3, "most are no single examples")
}

// A tie is no other class, whichever side of it rounding is on.
func TestNoFlipAtATie(t *testing.T) {
	q := testkit.NewProblem("bernoulli", 3, 30, 1, glm.Bernoulli{}, 1)
	m, x := model(t, q), q.Test.Slice(0, 1)
	f := make([]float64, q.N)
	for i := range f {
		p := testref.Must(m.Fit(t.Context(), q.Targets().Without(i), nil))(t)
		var mean mat.Dense
		require.NoError(t, p.PredictTo(t.Context(), &mean, nil, x))
		f[i] = mean.At(0, 0)
	}
	for beyond, flips := range map[float64]bool{0: false, 1e-13: false, 1e-6: true} {
		got, err := m.SmallestFlip(t.Context(), x, &counterfactual.FlipOptions{Most: 1, Shift: []float64{-slices.Min(f) - beyond}})
		if none := (*counterfactual.NoFlipError)(nil); !flips {
			require.ErrorAs(t, err, &none, "%v beyond the tie", beyond)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []int{slices.Index(f, slices.Min(f))}, got.Rows)
	}
}

// Where the bound is too small, the error says how far the margin went down.
func TestNoFlip(t *testing.T) {
	q := testkit.NewProblem("bernoulli", 3, 30, 1, glm.Bernoulli{}, 1)
	m := model(t, q)
	tight := 0
	for at := range q.T {
		_, err := m.SmallestFlip(t.Context(), q.Test.Slice(at, at+1), &counterfactual.FlipOptions{Most: 1, Tries: 3})
		if err == nil {
			continue
		}
		tight++
		none := testref.As[*counterfactual.NoFlipError](t, err)
		require.Equal(t, 1, none.Left)
		require.LessOrEqual(t, none.Tried, 3)
		require.True(t, 0 < none.After && none.After < none.Before, "%v", none)
	}
	require.Positive(t, tight)
	testkit.Stops(t, "SmallestFlip", 5, func(ctx context.Context) error {
		_, err := m.SmallestFlip(ctx, q.Test.Slice(0, 1), &counterfactual.FlipOptions{Most: 2, NoRefit: true})
		if none := (*counterfactual.NoFlipError)(nil); err != nil && !errors.As(err, &none) {
			return err
		}
		return nil
	})
}

func classes() *testkit.Problem {
	return testkit.NewProblem("categorical", 6, 20, 3, glm.Categorical{}, 1)
}

// Changes that make no sense are errors.
func TestChangesThatCannotBe(t *testing.T) {
	q := classes()
	m := model(t, q)
	wrong := without(q).relabel(q, 4)
	wrong.y.Y.Set(4, 0, 3)
	negative := without(q)
	negative.y.Weights[3] = -1
	for _, test := range []struct {
		ch   change
		want string
	}{
		{change{y: q.Targets().Slice(0, 19)}, "counterfactual: gp: 19 rows of targets for 20 examples"},
		{change{y: q.Targets(), add: q.Test}, "counterfactual: gp: 20 rows of targets for "},
		{wrong, "counterfactual: gp: target of example 4: "},
		{negative, "counterfactual: gp: the weight of example 3 is -1"},
		{without(q, dense.Range(20)...), "counterfactual: without all 20 examples: gp: there are no training examples"},
	} {
		require.ErrorContains(t, testref.Err(m.Fit(t.Context(), test.ch.y, test.ch.add)), test.want)
		require.ErrorContains(t, testref.Err(m.Refit(t.Context(), test.ch.y, test.ch.add, nil)), test.want)
	}
}

// Only a posterior at the mode has counterfactuals, and only with its own targets.
func TestPosteriorsThatAreRefused(t *testing.T) {
	q := classes()
	atTheta := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
	_, err := counterfactual.New(t.Context(), atTheta, q.Kernel, q.Targets(), linearize.Limits{})
	require.ErrorIs(t, err, counterfactual.ErrNotRefitted)

	post := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
	other := mat.DenseCopyOf(q.Y)
	other.SetRow(2, otherLabel(q, 2))
	_, err = counterfactual.New(t.Context(), post, q.Kernel, gp.NewTargets(other, q.Likelihood), linearize.Limits{})
	targets := testref.As[*gp.TargetsError](t, err)
	require.Equal(t, 2, targets.Row)
}

// A refit that stopped before its mode has a distance from it, and no counterfactuals.
func TestRefitsThatDidNotArriveAreRefused(t *testing.T) {
	q := classes()
	early := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), &gp.Options{MaxIter: 1}))(t)
	m := testref.Must(counterfactual.New(t.Context(), early, q.Kernel, q.Targets(), linearize.Limits{}))(t)
	one := q.Test.Slice(0, 1)
	for what, answer := range map[string]func() error{
		"Fit":          func() error { _, err := m.Fit(t.Context(), q.Targets().Without(1), nil); return err },
		"SmallestFlip": func() error { _, err := m.SmallestFlip(t.Context(), one, nil); return err },
	} {
		var astray *counterfactual.NotArrivedError
		require.ErrorAs(t, answer(), &astray, what)
		require.Greater(t, astray.Move, 1e-3, what)
	}
	d := m.Distance()
	require.Greater(t, d, 1e-3)
}

// Without every example that there was, only added ones decide.
func TestReplaceAllExamples(t *testing.T) {
	q := classes()
	requireReplaced(t, q, model(t, q), without(q, dense.Range(q.N)...).with(q.Test, mat.NewDense(q.T, 1, nil)))
}

func requireReplaced(t *testing.T, q *testkit.Problem, m *counterfactual.Model, ch change) {
	got := testref.Must(m.Fit(t.Context(), ch.y, ch.add))(t)
	want := testref.Must(gp.Refit(t.Context(), q.Kernel, ch.add, gp.NewTargets(mat.NewDense(q.T, 1, nil), q.Likelihood), nil))(t)
	requireMoments(t, moments(t, got, q.Test), moments(t, want, q.Test), 1e-8)
	again := testref.Must(m.Refit(t.Context(), ch.y, ch.add, nil))(t)
	requireMoments(t, moments(t, again, q.Test), moments(t, want, q.Test), 1e-12)
}

// Answers are the same to the last bit for any number of processors.
func TestProcessors(t *testing.T) {
	q := classes()
	var first *moment
	for _, procs := range []int{1, 3} {
		testref.Procs(t, procs)
		post, err := gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil)
		require.NoError(t, err)
		m := testref.Must(counterfactual.New(t.Context(), post, q.Kernel, q.Targets(), linearize.Limits{}))(t)
		got := testref.Must(m.Fit(t.Context(), q.Targets().Without(2, 11), nil))(t)
		now := moments(t, got, q.Test)
		if first == nil {
			first = now
		}
		require.True(t, mat.Equal(&first.mean, &now.mean) && mat.Equal(&first.joint, &now.joint))
	}
}

// A cancelled context ends every call soon.
func TestCancel(t *testing.T) {
	q := classes()
	m := model(t, q)
	post := testref.Must(m.Fit(t.Context(), q.Targets().Without(1), nil))(t)
	testkit.Stops(t, "Fit", 4, func(ctx context.Context) error { _, err := m.Fit(ctx, q.Targets().Without(1), nil); return err })
	testkit.Stops(t, "PredictTo", 2, func(ctx context.Context) error {
		var mean, cov mat.Dense
		return post.PredictTo(ctx, &mean, &cov, q.Test)
	})
}
