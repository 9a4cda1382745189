package mixed

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// A small ‖B‖ is refined to the answers of float64, some large ones are sent back, and a factor is that of the matrix.
func TestCompare(t *testing.T) {
	refined, sent := 0, 0
	for seed := range uint64(12) {
		q := random(seed)
		r := compare(q)
		if r.norm < 1e4 {
			refined++
			require.Empty(t, r.fallback, q.name)
			require.Less(t, max(r.dual, r.variance), 1e-10, q.name)
		}
		if r.fallback != "" {
			sent++
			require.Greater(t, r.norm, 1e6, q.name)
		}
	}
	require.Positive(t, refined)
	require.Positive(t, sent)
}

func TestFactor32(t *testing.T) {
	b := mat.NewSymDense(3, []float64{4, 2, -1, 2, 5, 0, -1, 0, 3})
	l, ok := factor32(b)
	require.True(t, ok)
	var whole mat.Cholesky
	require.True(t, whole.Factorize(b))
	var want mat.TriDense
	whole.LTo(&want)
	for i, row := range l {
		for j, v := range row {
			require.InDelta(t, want.At(i, j), float64(v), 1e-6)
		}
	}
	x, _, ok := refine(b, l, []float64{1, 2, 3})
	require.True(t, ok)
	var back mat.VecDense
	back.MulVec(b, mat.NewVecDense(3, x))
	require.InDeltaSlice(t, []float64{1, 2, 3}, back.RawVector().Data, 1e-14)
	b.SetSym(1, 1, -1)
	_, ok = factor32(b)
	require.False(t, ok)
}
