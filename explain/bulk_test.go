package explain

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// Subtotals and curve against sums over Explanation.All, for both kinds of terms,
// several outputs and a contrast.
func TestSubtotalsAndCurve(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n, c, p := 5+rng.IntN(300), 1+rng.IntN(3), 12
		d := testkit.NewDual(rng, n, c, p)
		groups := make([]int, n)
		for i := range groups {
			groups[i] = rng.IntN(4)
		}
		groups[0] = 4 // so that there are five groups
		targets := []Target{Single(c - 1)}
		if c > 1 {
			targets = append(targets, Contrast(0, 1))
		}
		for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
			e, err := New(d, d, &Options{Terms: terms, Targets: targets, Groups: groups, Curve: true, All: true, tile: 1 + rng.IntN(n)})
			require.NoError(t, err)
			batch := testkit.RandomBatch(rng, 2, c, p)
			rows, all := testref.Must(e.Explain(t.Context(), batch))(t), testref.Must(e.AllTerms(t.Context(), batch))(t)
			for i, row := range rows {
				for _, x := range row {
					v := x.All.Value
					if terms == gp.RawTerms {
						v = x.All.Raw
					}
					size := 0.0
					for _, v := range v {
						size += math.Abs(v)
					}
					own := x.Target.Of(mat.Col(nil, 0, all.Slice(i*c, (i+1)*c, 0, 1)))
					require.InDelta(t, v[0], own, 1e-12*size)
					if !x.Target.IsContrast() {
						require.Equal(t, v, all.RawRowView(i*c+x.Target.Plus))
					}
					requireSubtotals(t, x.Subtotals, groups, v, 1e-12*size)
					requireCurve(t, x.Curve, v, 1e-12*size)
				}
			}
		}
	}
}

func requireSubtotals(t *testing.T, got []Subtotal, groups []int, v []float64, tolerance float64) {
	t.Helper()
	require.Len(t, got, 5)
	for g, s := range got {
		count, up, down := 0, 0.0, 0.0
		for i, v := range v {
			if groups[i] == g {
				count, up, down = count+1, up+max(0, v), down+min(0, v)
			}
		}
		require.Equal(t, count, s.Examples)
		require.InDelta(t, up, s.Positive, tolerance)
		require.InDelta(t, down, s.Negative, tolerance)
		require.InDelta(t, up+down, s.Sum(), tolerance)
	}
}

func requireCurve(t *testing.T, got []CurvePoint, v []float64, tolerance float64) {
	t.Helper()
	v = slices.Clone(v)
	slices.SortStableFunc(v, func(a, b float64) int { return cmp.Compare(math.Abs(b), math.Abs(a)) })
	require.Equal(t, CurvePoint{}, got[0])
	require.Equal(t, len(v), got[len(got)-1].Terms)
	for i, p := range got[1:] {
		require.Greater(t, p.Terms, got[i].Terms)
		sum, size := 0.0, 0.0
		for _, v := range v[:p.Terms] {
			sum, size = sum+v, size+math.Abs(v)
		}
		require.InDelta(t, sum, p.Sum, tolerance)
		require.InDelta(t, size, p.Abs, tolerance)
	}
}

// Without the options there is neither, and an example has a group in all of the
// data or none.
func TestNoSubtotals(t *testing.T) {
	d := testkit.NewDual(rand.New(rand.NewPCG(1, 1)), 6, 1, 3)
	e := testref.Must(New(d, d, nil))(t)
	rows := testref.Must(e.Explain(t.Context(), testkit.RandomBatch(rand.New(rand.NewPCG(2, 1)), 1, 1, 3)))(t)
	require.Nil(t, rows[0][0].Subtotals)
	require.Nil(t, rows[0][0].Curve)
	require.Panics(t, func() { _, _ = New(d, d, &Options{Groups: []int{1}}) })
	require.Panics(t, func() { _, _ = New(d, d, &Options{Groups: []int{0, 0, 0, -1, 0, 0}}) })
}

func TestImportances(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	d := testkit.NewDual(rng, 20, 3, 10)
	clear(d.DualVector[6:9]) // examples 2 and 5 tie at zero
	clear(d.DualVector[15:18])
	list := Importances(d)
	require.Len(t, list, 20)
	var norms []float64
	for i := range 20 {
		norms = append(norms, floats.Norm(d.DualVector[3*i:3*i+3], 2))
	}
	for k, i := range sortedBy(norms, func(v float64) float64 { return v }) {
		require.Equal(t, i, list[k].Index)
		testkit.RequireNear(t, norms[i], list[k].Norm, 1e-15, "norm")
		require.Equal(t, d.DualVector[3*i:3*i+3], list[k].Alpha)
	}
	require.Equal(t, []int{2, 5}, []int{list[18].Index, list[19].Index})
}

// A prepared explainer explains other targets as one made for them does, whether the
// covariance of the rows is given or not, by many goroutines at a time.
func TestExplainTargets(t *testing.T) {
	explainers(t, Options{Top: 5, Sides: true, Similar: 3}, func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch) {
		require.NoError(t, e.Prepare(t.Context()))
		cov := mat.NewDense(x.Len()*e.c, e.c, nil)
		require.NoError(t, d.PredictTo(t.Context(), nil, cov, x))
		lists := [][]Target{{Single(0)}, {Single(e.c - 1), Single(0)}}
		if e.c > 1 {
			lists = append(lists, []Target{Contrast(1, 0)})
		}
		var all sync.WaitGroup
		got := make([][][]Explanation, 8)
		for k := range got {
			all.Go(func() {
				given := cov
				if k%2 == 0 {
					given = nil
				}
				var err error
				if got[k], err = e.ExplainTargets(t.Context(), x, given, lists[k%len(lists)]); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for k := range got {
			other := testref.Must(New(d, d, &Options{Top: 5, Sides: true, Similar: 3, Targets: lists[k%len(lists)]}))(t)
			want := testref.Must(other.Explain(t.Context(), x))(t)
			requireSame(t, want, got[k])
		}
		_, err := e.ExplainTargets(t.Context(), x, nil, []Target{Single(e.c)})
		require.ErrorContains(t, err, "there is no output")
		require.PanicsWithValue(t, "explain: covariance of another size than the rows", func() {
			_, _ = e.ExplainTargets(t.Context(), x, mat.NewDense(1, e.c, nil), []Target{Single(0)})
		})
	})
}

// An explainer that is not prepared explains for many goroutines at a time what it explains
// for one. The race detector watches.
func TestExplainConcurrently(t *testing.T) {
	o := Options{Top: 2, Sides: true, ErrorBars: true}
	explainers(t, o, func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch) {
		one := testref.Must(New(d, d, &o))(t)
		var all sync.WaitGroup
		got := make([][][]Explanation, 2*x.Len())
		for k := range got {
			all.Go(func() {
				i := k % x.Len()
				var err error
				if got[k], err = e.Explain(t.Context(), x.Slice(i, i+1)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for k := range got {
			i := k % x.Len()
			want := testref.Must(one.Explain(t.Context(), x.Slice(i, i+1)))(t)
			requireSame(t, want, got[k])
		}
	})
}

// A goroutine that waits for another's part of the cache stops when its context is cancelled.
func TestCacheStops(t *testing.T) {
	c := newCache()
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, c.locked(t.Context(), func() error {
		cancel()
		require.ErrorIs(t, c.locked(ctx, func() error { return nil }), context.Canceled)
		return nil
	}))
}
