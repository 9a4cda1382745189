package explain

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
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
		for _, terms := range []gp.Terms{gp.Posterior, gp.Raw} {
			e, err := New(d, d, &Options{Terms: terms, Targets: targets, Groups: groups, Curve: true, All: true, Tile: 1 + rng.IntN(n)})
			require.NoError(t, err)
			rows := testref.Must(e.Explain(t.Context(), testkit.RandomBatch(rng, 2, c, p)))(t)
			for _, row := range rows {
				for _, x := range row {
					v := x.All.Value
					if terms == gp.Raw {
						v = x.All.Raw
					}
					size := 0.0
					for _, v := range v {
						size += math.Abs(v)
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
