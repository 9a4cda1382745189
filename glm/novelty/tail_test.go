package novelty

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The surprise of draws from the distribution that was fitted is that of a share: 1 on
// average, and above −log p for a share p of them. It grows with the distance.
func TestSurprise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	draw := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = 3 + 2*rng.ExpFloat64()
		}
		return v
	}
	sorted := draw(2000)
	slices.Sort(sorted)
	f := newTail(sorted)
	const n = 20000
	sum, beyond := 0.0, map[float64]float64{.5: 0, .1: 0, .01: 0, .001: 0}
	for _, v := range draw(n) {
		s := f.surprise(v)
		sum += s
		for p := range beyond {
			if s > -math.Log(p) {
				beyond[p]++
			}
		}
	}
	// The fit has an error of 5 % in the mean excess.
	require.InDelta(t, 1, sum/n, .05)
	for p, count := range beyond {
		require.InEpsilon(t, p, count/n, .5)
	}
	last := -1.0
	for v := 2.9; v < 60; v += .01 {
		s := f.surprise(v)
		require.False(t, math.IsInf(s, 0))
		require.GreaterOrEqual(t, s, last)
		last = s
	}
	require.Zero(t, f.surprise(0))
	require.Greater(t, f.surprise(1e6), f.surprise(1e5))
}

// Distances that are all equal, as those of repeated rows, leave a finite order.
func TestSurpriseOfEqualDistances(t *testing.T) {
	for _, v := range []float64{0, 2} {
		for _, n := range []int{1, 3, 50} {
			f := newTail(slices.Repeat([]float64{v}, n))
			a, b, c := f.surprise(v), f.surprise(v+1), f.surprise(v+2)
			require.True(t, a < b && b < c && !math.IsInf(c, 1), "%v %v %v", a, b, c)
		}
	}
}
