package counterfactual_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

func classes() *testkit.Problem {
	return testkit.NewProblem("categorical", 6, 20, 3, glm.Categorical{}, 1)
}

// Changes that make no sense are errors that name the example.
func TestChangesThatCannotBe(t *testing.T) {
	q := classes()
	m := model(t, q)
	label := func(row int, y float64) counterfactual.Label {
		return counterfactual.Label{Row: row, Y: []float64{y}}
	}
	for _, test := range []struct {
		ch   counterfactual.Change
		want string
	}{
		{counterfactual.Without(20), "counterfactual: training example 20 of 0 to 19 does not exist"},
		{counterfactual.Without(-1), "counterfactual: training example -1 of 0 to 19 does not exist"},
		{counterfactual.Without(3, 5, 3), "counterfactual: training example 3 of 0 to 19 is removed twice"},
		{counterfactual.Change{Remove: []int{4}, Relabel: []counterfactual.Label{label(4, 1)}}, "counterfactual: training example 4 of 0 to 19 is both removed and relabelled"},
		{counterfactual.Change{Relabel: []counterfactual.Label{label(4, 3)}}, "another target of training example 4: "},
		{counterfactual.Without(dense.Range(20)...), "counterfactual: without all 20 examples: gp: there are no training examples"},
		{counterfactual.Change{Add: q.Test, AddY: mat.NewDense(1, 1, nil)}, "targets of added examples: gp: 1 rows of targets for "},
	} {
		require.ErrorContains(t, testref.Err(m.Fit(t.Context(), test.ch)), test.want)
		require.ErrorContains(t, testref.Err(m.Refit(t.Context(), test.ch, nil)), test.want)
	}
}

// Only a posterior at the mode has counterfactuals, and only with its own targets.
func TestPosteriorsThatAreRefused(t *testing.T) {
	q := classes()
	atTheta := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
	_, err := counterfactual.New(t.Context(), atTheta, q.Kernel, q.Y, q.Likelihood, nil)
	require.ErrorIs(t, err, counterfactual.ErrNotRefitted)

	post := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Y, q.Likelihood, nil))(t)
	other := mat.DenseCopyOf(q.Y)
	other.SetRow(2, otherLabel(q, 2))
	_, err = counterfactual.New(t.Context(), post, q.Kernel, other, q.Likelihood, nil)
	targets := testref.As[*gp.TargetsError](t, err)
	require.Equal(t, 2, targets.Row)
}

// A refit that stopped before its mode has a distance from it, and no counterfactuals.
func TestRefitsThatDidNotArriveAreRefused(t *testing.T) {
	q := classes()
	early := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Y, q.Likelihood, &gp.Options{MaxIter: 1}))(t)
	m := testref.Must(counterfactual.New(t.Context(), early, q.Kernel, q.Y, q.Likelihood, nil))(t)
	one := q.Test.Slice(0, 1)
	for what, answer := range map[string]func() error{
		"Fit":          func() error { _, err := m.Fit(t.Context(), counterfactual.Without(1)); return err },
		"At":           func() error { _, err := m.At(t.Context(), one); return err },
		"SmallestFlip": func() error { _, err := m.SmallestFlip(t.Context(), one, nil); return err },
	} {
		var astray *counterfactual.NotArrivedError
		require.ErrorAs(t, answer(), &astray, what)
		require.Greater(t, astray.Move, 1e-3, what)
	}
	d := testref.Must(m.Distance(t.Context()))(t)
	require.Greater(t, d, 1e-3)
}

// Without every example that there was, only added ones decide.
func TestReplaceAllExamples(t *testing.T) {
	q := classes()
	ch := counterfactual.Without(dense.Range(q.N)...)
	ch.Add, ch.AddY = q.Test, mat.NewDense(q.T, 1, nil)
	requireReplaced(t, q, model(t, q), ch)
}

func requireReplaced(t *testing.T, q *testkit.Problem, m *counterfactual.Model, ch counterfactual.Change) {
	got := testref.Must(m.Fit(t.Context(), ch))(t)
	want := testref.Must(gp.Refit(t.Context(), q.Kernel, ch.Add, ch.AddY, q.Likelihood, nil))(t)
	requireMoments(t, moments(t, got, q.Test), moments(t, want, q.Test), 1e-8)
	again := testref.Must(m.Refit(t.Context(), ch, nil))(t)
	requireMoments(t, moments(t, again, q.Test), moments(t, want, q.Test), 1e-12)
}

// Answers are the same to the last bit for any number of workers.
func TestWorkers(t *testing.T) {
	q := classes()
	var first *moment
	for _, workers := range []int{1, 3} {
		post, err := gp.Refit(t.Context(), q.Kernel, q.Train, q.Y, q.Likelihood, &gp.Options{Workers: workers})
		require.NoError(t, err)
		m := testref.Must(counterfactual.New(t.Context(), post, q.Kernel, q.Y, q.Likelihood, nil))(t)
		got := testref.Must(m.Fit(t.Context(), counterfactual.Without(2, 11)))(t)
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
	post := testref.Must(m.Fit(t.Context(), counterfactual.Without(1)))(t)
	testkit.Stops(t, "Fit", 4, func(ctx context.Context) error { _, err := m.Fit(ctx, counterfactual.Without(1)); return err })
	testkit.Stops(t, "PredictTo", 2, func(ctx context.Context) error {
		var mean, cov mat.Dense
		return post.PredictTo(ctx, &mean, &cov, q.Test)
	})
	testkit.Stops(t, "At", 1, func(ctx context.Context) error { _, err := m.At(ctx, q.Test); return err })
}
