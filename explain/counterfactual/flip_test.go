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
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
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
	require.NoError(t, refit(t, q, counterfactual.Without(rows...)).PredictTo(t.Context(), &f, nil, q.Test.Slice(at, at+1)))
	return classOf(f.RawRowView(0))
}

// prefix is the number of examples that flip a row where they are left out in the order of
// what the removal of each alone does to its margin, all found by refits; 0 for more than most.
func prefix(t *testing.T, q *testkit.Problem, at, most int) int {
	x := q.Test.Slice(at, at+1)
	mean := func(rows ...int) []float64 {
		var f mat.Dense
		require.NoError(t, refit(t, q, counterfactual.Without(rows...)).PredictTo(t.Context(), &f, nil, x))
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
		p, err := m.Fit(t.Context(), counterfactual.Without(i))
		require.NoError(t, err)
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
