package minimize

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

func one(f func(x float64) float64) Func {
	return Each(func(_ context.Context, x float64) (float64, error) { return f(x), nil })
}

// On random sums of bumps the search finds what two hundred thousand points find,
// where the grid resolves the bumps.
func TestSearchAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		var a, c, w [4]float64
		for k := range a {
			a[k], c[k], w[k] = rng.NormFloat64(), 8*rng.Float64()-4, 0.8+2*rng.Float64()
		}
		slope := 0.3 * rng.NormFloat64()
		f := func(x float64) float64 {
			v := slope * x
			for k := range a {
				v += a[k] * math.Exp(-(x-c[k])*(x-c[k])/(2*w[k]*w[k]))
			}
			return v
		}
		best, at := math.Inf(1), 0.0
		for i := range 200001 {
			x := -5 + 10*float64(i)/200000
			if v := f(x); v < best {
				best, at = v, x
			}
		}
		r := testref.Must(Search(t.Context(), Grid(-5, 5, 26), 1e-4, one(f)))(t)
		require.InDelta(t, best, r.Value, 1e-7)
		switch at {
		case -5:
			require.Equal(t, Lower, r.Edge)
		case 5:
			require.Equal(t, Upper, r.Edge)
		default:
			require.Equal(t, Inside, r.Edge)
			require.InDelta(t, at, r.X, 3e-4)
		}
		require.Less(t, len(r.Trials), 26+40)
		require.Equal(t, f(r.X), r.Value)
	}
}

// A minimum between the last two points of the grid is no edge, however close to
// the end it lies.
func TestMinimumBesideAnEdge(t *testing.T) {
	for _, at := range []float64{-0.95, -0.6, 0.6, 0.95} {
		r, err := Search(t.Context(), []float64{-1, 0, 1}, 1e-5, one(func(x float64) float64 { return math.Cosh(x - at) }))
		require.NoError(t, err)
		require.Equal(t, Inside, r.Edge)
		require.InDelta(t, at, r.X, 2e-5)
	}
	for _, slope := range []float64{-1, 1} {
		r, err := Search(t.Context(), []float64{-1, 0, 1}, 1e-5, one(func(x float64) float64 { return slope * x }))
		require.NoError(t, err)
		require.Equal(t, -slope, r.X)
		require.Equal(t, slope < 0, r.Edge == Upper)
		require.Equal(t, slope > 0, r.Edge == Lower)
	}
}

// Equal values are resolved towards zero, and rounding counts as equal.
func TestTies(t *testing.T) {
	grid := Grid(-3, 3, 7)
	r, err := Search(t.Context(), grid, 1e-3, one(func(float64) float64 { return 2 }))
	require.NoError(t, err)
	require.Equal(t, Result{X: 0, Value: 2, Flat: true, Trials: r.Trials}, *r)
	require.Len(t, r.Trials, 7)
	r = testref.Must(Search(t.Context(), grid, 1e-3, one(func(x float64) float64 { return 2 - 1e-14*x })))(t)
	require.True(t, r.Flat)
	require.Zero(t, r.X)
	r, err = Search(t.Context(), grid, 1e-3, one(func(x float64) float64 { return -math.Abs(math.Abs(x)-3) * math.Abs(x) }))
	require.NoError(t, err)
	require.InDelta(t, -1.5, r.X, 2e-3)
}

// Where the objective is NaN or infinite there is no minimum; beside such points it
// is found.
func TestValuesThatAreNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		r := testref.Must(Search(t.Context(), Grid(-2, 2, 9), 1e-4, one(func(x float64) float64 {
			if x > 0.4 || x < -1 {
				return bad
			}
			return (x - 0.3) * (x - 0.3)
		})))(t)
		require.InDelta(t, 0.3, r.X, 2e-4)
		// The minimum lies at the jump to the bad values.
		r = testref.Must(Search(t.Context(), Grid(-2, 2, 9), 1e-4, one(func(x float64) float64 {
			if x > 0.4 {
				return bad
			}
			return -x
		})))(t)
		require.InDelta(t, 0.4, r.X, 2e-4)
		_, err := Search(t.Context(), Grid(-2, 2, 9), 1e-4, one(func(float64) float64 { return bad }))
		none := testref.As[*NoMinimumError](t, err)
		require.Equal(t, NoMinimumError{-2, 2}, *none)
	}
}

// Errors of the objective and of the context end the search.
func TestErrors(t *testing.T) {
	boom := errors.New("boom")
	calls := 0
	_, err := Search(t.Context(), Grid(-1, 1, 5), 1e-6, Each(func(_ context.Context, x float64) (float64, error) {
		if calls++; calls == 7 {
			return 0, boom
		}
		return x * x * (2 + x), nil
	}))
	require.ErrorIs(t, err, boom)
	ctx, cancel := context.WithCancel(t.Context())
	calls = 0
	_, err = Search(ctx, Grid(-1, 1, 5), 1e-6, Each(func(_ context.Context, x float64) (float64, error) {
		if calls++; calls == 3 {
			cancel()
		}
		return x * x, nil
	}))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, calls)
	require.PanicsWithValue(t, "minimize: a grid needs two points or more, from a smaller to a larger number", func() { Grid(1, 1, 5) })
}
