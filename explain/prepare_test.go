package explain

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

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
