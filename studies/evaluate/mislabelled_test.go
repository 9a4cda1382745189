package evaluate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/studies/evaluate"
)

// A flipped label is another class, the others stay, and a seed says which.
func TestFlipLabels(t *testing.T) {
	const n, classes, count = 200, 4, 50
	labels := func() *mat.Dense {
		y := mat.NewDense(n, 1, nil)
		for i := range n {
			y.Set(i, 0, float64(i%classes))
		}
		return y
	}
	y, again, other := labels(), labels(), labels()
	truth, wrong := evaluate.FlipLabels(y, classes, count, 3)
	_, same := evaluate.FlipLabels(again, classes, count, 3)
	_, third := evaluate.FlipLabels(other, classes, count, 4)
	require.True(t, mat.Equal(y, again))
	require.Equal(t, wrong, same)
	require.NotEqual(t, wrong, third)
	flipped, to := 0, [classes]int{}
	for i := range n {
		require.Equal(t, i%classes, truth[i])
		require.Equal(t, wrong[i], int(y.At(i, 0)) != truth[i])
		if wrong[i] {
			flipped++
			to[int(y.At(i, 0))]++
		}
	}
	require.Equal(t, count, flipped)
	for _, k := range to {
		require.Greater(t, k, 0, "every class is put in the place of another")
	}
	require.Panics(t, func() { evaluate.FlipLabels(labels(), classes, n+1, 0) })
	require.Panics(t, func() { evaluate.FlipLabels(labels(), 1, 1, 0) })
}

// Suspicions by hand: a row's own score, and its negative sum of the others'.
func TestSuspicions(t *testing.T) {
	scores := mat.NewDense(3, 3, []float64{1, 5, 5, 2, 9, -3, 4, 0, 2})
	require.Equal(t, []float64{1, 9, 2}, evaluate.OwnScores(scores))
	require.Equal(t, []float64{-10, 1, -4}, evaluate.OtherScores(scores))
}

// What inspecting a share finds and AUROC, against counting all pairs.
func TestDetect(t *testing.T) {
	wrong := []bool{false, true, false, false, true, false, true, false, false, false}
	d := evaluate.Detect([]float64{3, 9, 3, 1, 3, 0, 8, 8, -1, 2}, wrong, .1, .2, .3, .5, 1)
	// In order: 1 wrong, 6 wrong, 7, 0, 2, 4 wrong, ...
	require.Equal(t, []float64{1. / 3, 2. / 3, 2. / 3, 2. / 3, 1}, d.Found)
	// Of 21 pairs a wrong label is before a right one in 7 + 6½ + 5: row 4 ties with rows 0 and 2.
	require.InDelta(t, (7+6.5+5)/21, d.AUROC, 1e-15)

	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		n := 5 + rng.IntN(30)
		s, wrong := make([]float64, n), make([]bool, n)
		for i := range s {
			s[i], wrong[i] = float64(rng.IntN(8)), rng.IntN(3) == 0
		}
		wrong[0], wrong[1] = true, false
		pairs, before := 0.0, 0.0
		for i := range s {
			for j := range s {
				if wrong[i] && !wrong[j] {
					pairs++
					switch {
					case s[i] > s[j]:
						before++
					case s[i] == s[j]:
						before += .5
					}
				}
			}
		}
		d := evaluate.Detect(s, wrong, 1)
		require.InDelta(t, before/pairs, d.AUROC, 1e-12)
		require.Equal(t, []float64{1}, d.Found)
	}
	require.Equal(t, evaluate.Detection{AUROC: .5, Found: []float64{0, 1}}, evaluate.Detect([]float64{1, math.NaN(), 2, 3}, []bool{false, true, false, true}, .1, 1))
	require.Panics(t, func() { evaluate.Detect([]float64{1}, wrong) })
}
