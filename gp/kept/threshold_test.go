package kept_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// each runs do on problems with every likelihood, with the sites at θ*.
func each(t *testing.T, do func(t *testing.T, q *testkit.Problem, s *gp.Sites)) {
	t.Helper()
	for _, q := range append(testkit.Problems(t), testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)) {
		t.Run(q.Name, func(t *testing.T) {
			s := testref.Must(gp.NewSites(q.Targets(), q.Train.F))(t)
			do(t, q, s)
		})
	}
}

// ratios returns v_k/v of each test example with the rows that o keeps and with all, of
// the output where it is largest.
func ratios(t *testing.T, q *testkit.Problem, s *gp.Sites, o *gp.KeepOptions) []float64 {
	t.Helper()
	variances := func(o *gp.KeepOptions) *mat.Dense {
		k := testref.Must(gp.Keep(t.Context(), q.Kernel, q.Train, s, o))(t)
		post := testref.Must(gp.FitKept(t.Context(), q.Kernel, q.Train, s, k, nil))(t)
		var cov mat.Dense
		require.NoError(t, post.PredictTo(t.Context(), nil, &cov, q.Test))
		return &cov
	}
	some, all := variances(o), variances(nil)
	top := make([]float64, q.T)
	for i := range q.T * q.C {
		top[i/q.C] = max(top[i/q.C], some.At(i, i%q.C)/all.At(i, i%q.C))
	}
	return top
}

// The rows above the threshold keep the variances of all test examples within what was
// asked, as posteriors fitted anew say; with one row less they do not.
func TestE16Threshold(t *testing.T) {
	each(t, func(t *testing.T, q *testkit.Problem, s *gp.Sites) {
		for _, within := range []float64{1e-6, 0.01, 0.05, 0.5} {
			found, err := kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test, &kept.ThresholdOptions{Within: within, Share: 1})
			require.NoError(t, err)
			require.Equal(t, q.N, found.Examples)
			top := 1.0
			for _, r := range ratios(t, q, s, found.KeepOptions()) {
				top = max(top, r)
			}
			require.LessOrEqual(t, top, 1+within*(1+1e-9))
			require.InDelta(t, top, found.Ratio, 1e-9)
			rows := testref.Must(gp.Keep(t.Context(), q.Kernel, q.Train, s, found.KeepOptions()))(t)
			require.Equal(t, found.Rows, rows.Len())
			if rows.Len() == 1 {
				continue
			}
			weakest := rows.Strength[0]
			for _, v := range rows.Strength {
				weakest = min(weakest, v)
			}
			top = 1
			for _, r := range ratios(t, q, s, &gp.KeepOptions{Strength: weakest}) {
				top = max(top, r)
			}
			require.Greater(t, top, 1+within*(1-1e-9))
		}
	})
}

// Where a share of the examples may be over, that many are and no more.
func TestThresholdShare(t *testing.T) {
	q := testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)
	s := testref.Must(gp.NewSites(q.Targets(), q.Train.F))(t)
	last := q.N*q.C + 1
	for allowed := range q.T {
		found, err := kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test, &kept.ThresholdOptions{Within: 0.01, Share: 1 - (float64(allowed)+0.5)/float64(q.T)})
		require.NoError(t, err)
		over := 0
		for _, r := range ratios(t, q, s, found.KeepOptions()) {
			if r > 1.01 {
				over++
			}
		}
		require.LessOrEqual(t, over, allowed)
		require.LessOrEqual(t, found.Rows, last)
		last = found.Rows
	}
}

// On a part of the examples the answer is that for these alone, for any number of
// processors, and a small bound on memory or on the rows leaves out the weakest.
func TestThresholdOfSample(t *testing.T) {
	q := testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)
	s := testref.Must(gp.NewSites(q.Targets(), q.Train.F))(t)
	find := func(o kept.ThresholdOptions) *kept.Threshold {
		o.Examples = 25
		return testref.Must(kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test, &o))(t)
	}
	testref.Procs(t, 1)
	one := find(kept.ThresholdOptions{})
	require.Equal(t, 25, one.Examples)
	require.LessOrEqual(t, one.Of, 50) // a softmax of three outputs has two directions
	testref.Procs(t, 5)
	require.Equal(t, one, find(kept.ThresholdOptions{}))
	require.NotEqual(t, one, find(kept.ThresholdOptions{Seed: 1}))
	require.Equal(t, 10, find(kept.ThresholdOptions{Most: 10}).Of)
	require.Equal(t, 20, find(kept.ThresholdOptions{Limits: linearize.Limits{Memory: searchBytes(t, q, 20)}}).Of)
}

// searchBytes is the memory of a search among n rows.
func searchBytes(t *testing.T, q *testkit.Problem, n int) int64 {
	t.Helper()
	each := testref.Must(kept.RowBytes(t.Context(), q.Train.Slice(0, 1)))(t)
	return kept.Bytes(q.N, q.C, len(q.Theta), n) + int64(n)*(each+8*int64(q.T*q.C+500))
}

// Short memory bounds the rows above the threshold. The answer says the ratio that these give and
// about how many rows what was asked takes; with more memory a search goes on from there and ends
// where one with enough memory does. A posterior keeps as many of the rows above a threshold as fit,
// the strongest, and its ratio is measured.
func TestE16ShortMemory(t *testing.T) {
	kept.SetFirstMost(t, 40)
	q := testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)
	s := testref.Must(gp.NewSites(q.Targets(), q.Train.F))(t)
	find := func(o kept.ThresholdOptions) *kept.Threshold {
		o.Within, o.Share = .05, 1
		return testref.Must(kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test, &o))(t)
	}
	enough := find(kept.ThresholdOptions{})
	require.LessOrEqual(t, enough.Ratio, 1.05)
	require.Equal(t, enough.Rows, enough.Wanted)
	const fit = 30
	require.Greater(t, enough.Rows, fit)
	short := find(kept.ThresholdOptions{Limits: linearize.Limits{Memory: searchBytes(t, q, fit)}})
	rows := testref.Must(gp.Keep(t.Context(), q.Kernel, q.Train, s, short.KeepOptions()))(t)
	require.Equal(t, []int{fit, fit, fit}, []int{short.Rows, short.Of, rows.Len()})
	require.GreaterOrEqual(t, short.Wanted, enough.Rows)
	require.LessOrEqual(t, short.Wanted, 2*q.N)
	top := 1.0
	for _, r := range ratios(t, q, s, short.KeepOptions()) {
		top = max(top, r)
	}
	require.Greater(t, top, 1.05)
	require.GreaterOrEqual(t, short.Ratio, top-1e-9)
	require.Equal(t, short, find(kept.ThresholdOptions{Before: short, Limits: linearize.Limits{Memory: searchBytes(t, q, fit)}}))
	more := find(kept.ThresholdOptions{Before: short})
	require.Greater(t, more.Of, fit)
	require.LessOrEqual(t, more.Ratio, 1.05)
	require.InDelta(t, enough.Rows, more.Rows, 5)

	o := &kept.Options{Strength: enough.Strength, Limits: linearize.Limits{Memory: searchBytes(t, q, fit) - 8*fit*int64(q.T*q.C+500)}}
	all, err := kept.Fit(t.Context(), q.Train, s, q.Prior, q.Theta, &kept.Options{Strength: enough.Strength})
	require.NoError(t, err)
	some := testref.Must(kept.Fit(t.Context(), q.Train, s, q.Prior, q.Theta, o))(t)
	require.NotNil(t, linearize.FindWarning(some.Warnings(), "kept-short"))
	warning := some.Short()
	require.Equal(t, kept.Short{Kept: some.Kept().Len(), Above: all.Kept().Len(), Needed: warning.Needed, Available: o.Memory}, *warning)
	require.Greater(t, warning.Needed, warning.Available)
	require.Equal(t, fit, some.Kept().Len())
	require.True(t, slices.IsSorted(some.Kept().Examples))
	require.Equal(t, slices.Sorted(slices.Values(all.Kept().Strength))[all.Kept().Len()-some.Kept().Len():], slices.Sorted(slices.Values(some.Kept().Strength)))
	ratio := testref.Must(some.RatioAt(t.Context(), q.Test, &kept.ThresholdOptions{Share: 1}))(t)
	top = 1
	for _, r := range ratios(t, q, s, &gp.KeepOptions{Strength: slices.Min(some.Kept().Strength) * (1 - 1e-12)}) {
		top = max(top, r)
	}
	require.GreaterOrEqual(t, ratio, top-1e-9)

	_, err = kept.Fit(t.Context(), q.Train, s, q.Prior, q.Theta, &kept.Options{Limits: linearize.Limits{Memory: kept.Bytes(q.N, q.C, len(q.Theta), 0) + 8}})
	refused := testref.As[*gp.MemoryError](t, err)
	_, err = kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test, &kept.ThresholdOptions{Limits: linearize.Limits{Memory: 8}})
	require.ErrorAs(t, err, &refused)
}

// Few rows stand for all where what the others change leaves room for a threshold, and the
// variances are then near enough to those of all; otherwise more rows do.
func TestE16WeakerRows(t *testing.T) {
	kept.SetFirstMost(t, 40)
	q := testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)
	s := testref.Must(gp.NewSites(q.Targets(), q.Train.F))(t)
	all := testref.Must(gp.Keep(t.Context(), q.Kernel, q.Train, s, nil))(t)
	require.Greater(t, all.Len(), 80)
	looked := map[int]bool{}
	for _, within := range []float64{100, 10, 3, 1, .3, .1, 1e-9} {
		found, err := kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test, &kept.ThresholdOptions{Within: within, Share: 1})
		require.NoError(t, err)
		looked[found.Of] = true
		require.LessOrEqual(t, found.Ratio, 1+within)
		for _, r := range ratios(t, q, s, found.KeepOptions()) {
			require.LessOrEqual(t, r, found.Ratio+1e-9, "the estimate is never too small where all rows are looked at")
		}
	}
	require.True(t, looked[40], looked)
	require.True(t, looked[all.Len()], looked)
	require.Greater(t, len(looked), 2)
}

func TestThresholdRefusals(t *testing.T) {
	q := testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)
	s := testref.Must(gp.NewSites(q.Targets(), q.Train.F))(t)
	for _, o := range []kept.ThresholdOptions{{Within: -1}, {Share: 2}, {Examples: -1}, {Most: -1}} {
		require.Panics(t, func() { _, _ = kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test, &o) })
	}
	require.Panics(t, func() { _, _ = kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test.Slice(0, 0), nil) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(kept.FindThreshold(ctx, q.Kernel, q.Train, s, q.Test, nil)), context.Canceled)
	none := &gp.Sites{F: s.F, Residual: s.Residual, Lambda: mat.NewDense(q.N*q.C, q.C, nil), Root: mat.NewDense(q.N*q.C, q.C, nil)}
	_, err := kept.FindThreshold(t.Context(), q.Kernel, q.Train, none, q.Test, nil)
	require.ErrorIs(t, err, gp.ErrNoExamples)
}

// Representatives of the weaker rows bring the variances nearer to those of all rows than the strongest
// rows alone do, and the ratio says how near, whichever is larger. Sums over all examples close, and with a
// checkpoint's threshold the search finds the same rows again.
func TestE16Represented(t *testing.T) {
	kept.SetFirstMost(t, 60)
	kept.SetMostAlone(t, 0, 500, 300)
	q := testkit.NewProblem("many", 11, 400, 3, glm.Categorical{}, 3)
	s := testref.Must(gp.NewSites(q.Targets(), q.Train.F))(t)
	exact := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, s, nil))(t)
	var want mat.Dense
	require.NoError(t, exact.PredictTo(t.Context(), nil, &want, q.Test))
	off := func(got *mat.Dense) (most float64) {
		for i := range q.T * q.C {
			r := got.At(i, i%q.C) / want.At(i, i%q.C)
			most = max(most, r, 1/r)
		}
		return most
	}
	sum := 0.0
	const seeds = 4
	for seed := range uint64(seeds) {
		o := &kept.ThresholdOptions{Within: 1, Share: 1, Seed: seed}
		found, err := kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test, o)
		require.NoError(t, err)
		require.Positive(t, found.Representatives)
		require.LessOrEqual(t, found.Ratio, 2.0)
		require.Less(t, found.Of, q.N*(q.C-1))
		before := *found
		p := testref.Must(kept.Fit(t.Context(), q.Train, s, q.Prior, q.Theta, &kept.Options{Found: found, Mean: gp.LinearGaussian}))(t)
		require.Panics(t, func() {
			_, _ = kept.Fit(t.Context(), q.Train, s, q.Prior, q.Theta, &kept.Options{Found: found})
		})
		require.Positive(t, p.Kept().Representatives)
		require.Equal(t, gp.None, p.EvidenceAtTheta(1).Bound)
		requireClosed(t, q, p)
		requireStep(t, q, p)
		var got, alone mat.Dense
		require.NoError(t, p.PredictTo(t.Context(), nil, &got, q.Test))
		strong := testref.Must(gp.Keep(t.Context(), q.Kernel, q.Train, s, &gp.KeepOptions{Most: found.Rows}))(t)
		require.Equal(t, strong.Examples, p.Kept().Examples[:p.Kept().Own()])
		require.NoError(t, testref.Must(gp.FitKept(t.Context(), q.Kernel, q.Train, s, strong, nil))(t).PredictTo(t.Context(), nil, &alone, q.Test))
		require.Less(t, off(&got), off(&alone))
		sum += off(&got) / found.Ratio / seeds
		o.Before = &before
		again := testref.Must(kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test, o))(t)
		other := testref.Must(kept.Fit(t.Context(), q.Train, s, q.Prior, q.Theta, &kept.Options{Found: again}))(t)
		require.Equal(t, p.Kept(), other.Kept())
	}
	find := func(procs int) kept.Threshold {
		testref.Procs(t, procs)
		return *testref.Must(kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test, &kept.ThresholdOptions{Within: 1, Share: 1}))(t)
	}
	one, five := find(1), find(5)
	require.Equal(t, math.Float64bits(one.Ratio), math.Float64bits(five.Ratio))
	const little = 8
	_, err := kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test, &kept.ThresholdOptions{Limits: linearize.Limits{Memory: little}, Before: &kept.Threshold{Rows: 60, Representatives: 60, Ratio: 1}})
	require.EqualValues(t, little, testref.As[*gp.MemoryError](t, err).Available)
	require.LessOrEqual(t, sum, 1.0, "the ratio is no smaller than the truth on average")
}
