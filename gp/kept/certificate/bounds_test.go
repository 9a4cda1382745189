package certificate

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
)

// spectra are eigenvalues with one far above the others, with many alike, and falling as
// those of dropped rows do.
func spectra() [][]float64 {
	alone, alike, falling := make([]float64, 200), make([]float64, 200), make([]float64, 200)
	for i := range alone {
		alone[i], alike[i], falling[i] = 0.01, 1-1e-4*float64(i), 1/float64(1+i)
	}
	alone[3] = 2
	return [][]float64{alone, alike, falling}
}

func multiply(values []float64) func(ctx context.Context, dst, v []float64) error {
	return func(_ context.Context, dst, v []float64) error {
		floats.MulTo(dst, values, v)
		return nil
	}
}

// The bound of the norm from few Lanczos steps fails no more often than it says, and the
// lower end never; the bounds of zᵀ log(I+M) z hold at every step.
func TestNormBound(t *testing.T) {
	const seeds, failure = 400, 0.2
	for _, values := range spectra() {
		for _, steps := range []int{1, 3, 8} {
			failed := 0
			for seed := range uint64(seeds) {
				y := newKrylov(len(values), multiply(values), seed, 0)
				require.NoError(t, y.run(t.Context(), steps, func() bool { return false }))
				least, most := y.norm(failure)
				require.LessOrEqual(t, least, floats.Max(values))
				if most < floats.Max(values) {
					failed++
				}
				want := 0.0
				for i, v := range values {
					want += y.square * y.v[0][i] * y.v[0][i] * math.Log1p(v)
				}
				lower, upper := y.logs()
				require.LessOrEqual(t, lower, want*(1+1e-9))
				require.GreaterOrEqual(t, upper, want*(1-1e-9))
			}
			require.LessOrEqual(t, float64(failed), seeds*failure+3*math.Sqrt(seeds*failure*(1-failure)))
		}
	}
}

// With as many steps as there are different eigenvalues the bound is the norm.
func TestNormOfFewEigenvalues(t *testing.T) {
	y := newKrylov(200, multiply(spectra()[0]), 1, 0)
	require.NoError(t, y.run(t.Context(), 100, func() bool { return false }))
	require.True(t, y.exhausted)
	require.LessOrEqual(t, len(y.diag), 3)
	least, most := y.norm(1e-12)
	require.InDelta(t, 2, least, 1e-5)
	require.InDelta(t, 2, most, 1e-5)
}

// The bounds of a trace from normal random vectors fail no more often than they say.
func TestTraceBounds(t *testing.T) {
	const seeds, failure = 400, 0.2
	for _, values := range spectra() {
		var failed [2]int
		for seed := range uint64(seeds) {
			rng := rand.New(rand.NewPCG(seed, 5))
			mean := 0.0
			for range vectors {
				for _, v := range values {
					z := rng.NormFloat64()
					mean += v * z * z / vectors
				}
			}
			least, most := traceBounds(mean, mean, floats.Max(values), floats.Norm(values, 2), failure)
			wide, wider := traceBounds(mean, mean, floats.Max(values), math.Inf(1), failure)
			require.LessOrEqual(t, wide, least)
			require.GreaterOrEqual(t, wider, most)
			if least > floats.Sum(values) {
				failed[0]++
			}
			if most < floats.Sum(values) {
				failed[1]++
			}
		}
		for _, n := range failed {
			require.LessOrEqual(t, float64(n), seeds*failure+3*math.Sqrt(seeds*failure*(1-failure)))
		}
	}
}
