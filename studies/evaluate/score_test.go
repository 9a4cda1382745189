package evaluate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/studies/evaluate"
)

// rank is the number of smaller numbers, half of the equal ones, and a half.
func rank(v []float64, i int) float64 {
	r := 0.5
	for _, w := range v {
		if w < v[i] {
			r++
		} else if w == v[i] {
			r += 0.5
		}
	}
	return r
}

// Spearman's correlation with ties is that of ranks counted one by one.
func TestSpearman(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		n := 2 + rng.IntN(20)
		a, b, ra, rb := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range a {
			a[i], b[i] = float64(rng.IntN(6)), float64(rng.IntN(6))
		}
		for i := range a {
			ra[i], rb[i] = rank(a, i), rank(b, i)
		}
		got := make([]float64, n)
		evaluate.RanksTo(got, a)
		require.Equal(t, ra, got)
		want := stat.Correlation(ra, rb, nil)
		if math.IsNaN(want) {
			require.True(t, math.IsNaN(evaluate.Spearman(a, b)))
			continue
		}
		require.InDelta(t, want, evaluate.Spearman(a, b), 1e-12)
	}
	require.InDelta(t, 1, evaluate.Spearman([]float64{1, 2, 5, 9}, []float64{0, 1, 100, 101}), 1e-15)
	require.True(t, math.IsNaN(evaluate.Spearman([]float64{1, 1, 1}, []float64{1, 2, 3})))
}

// Predictions are sums of the scores of the rows of each subset. Scores that are the
// outcomes' own coefficients have a datamodeling score of 1, and their negatives of −1.
func TestDatamodel(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	scores := mat.NewDense(5, 30, nil)
	scores.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, scores)
	subsets := evaluate.Subsets(30, 15, 40, 9)
	var got mat.Dense
	evaluate.PredictionsTo(&got, scores, subsets)
	for s, list := range subsets {
		require.Len(t, list, 15)
		for r := range 5 {
			sum := 0.0
			for _, i := range list {
				sum += scores.At(r, i)
			}
			require.InDelta(t, sum, got.At(s, r), 1e-12)
		}
	}
	score := evaluate.Datamodel(&got, &got, 0)
	require.InDeltaSlice(t, []float64{1, 1, 1, 0}, []float64{score.Mean, score.Low, score.High, score.Subsets}, 1e-12)
	var minus mat.Dense
	minus.Scale(-1, &got)
	require.InDelta(t, -1, evaluate.Datamodel(&got, &minus, 0).Mean, 1e-12)

	noise := mat.NewDense(40, 5, nil)
	noise.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, noise)
	noise.SetCol(2, make([]float64, 40)) // no correlation
	score = evaluate.Datamodel(&got, noise, 0)
	require.Equal(t, 4, score.Rows)
	mean := 0.0
	for j, v := range evaluate.Correlations(&got, noise) {
		if j != 2 {
			mean += v / 4
		}
	}
	require.InDelta(t, mean, score.Mean, 1e-12)
	require.Less(t, score.Low, score.Mean)
	require.Less(t, score.Mean, score.High)
}

// Subsets are the same for a seed, however many are drawn.
func TestSubsets(t *testing.T) {
	require.Equal(t, evaluate.Subsets(20, 7, 3, 5), evaluate.Subsets(20, 7, 9, 5)[:3])
	require.NotEqual(t, evaluate.Subsets(20, 7, 1, 5), evaluate.Subsets(20, 7, 1, 6))
	require.Panics(t, func() { evaluate.Subsets(3, 4, 1, 0) })
}

// The interval of the bootstrap is near mean ± 1.96 standard errors for many normal
// numbers, and the jackknife over subsets near the spread between sets of subsets.
func TestErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	v := make([]float64, 400)
	for i := range v {
		v[i] = 1 + rng.NormFloat64()
	}
	low, high := evaluate.Bootstrap(v, 4000, 0.95, 7)
	mean, sd := stat.MeanStdDev(v, nil)
	require.InDelta(t, mean-1.96*sd/20, low, 0.01)
	require.InDelta(t, mean+1.96*sd/20, high, 0.01)
	again, _ := evaluate.Bootstrap(v, 4000, 0.95, 7)
	require.Equal(t, low, again)

	var means, errors []float64
	for range 200 {
		a, b := mat.NewDense(60, 1, nil), mat.NewDense(60, 1, nil)
		for i := range 60 {
			x := rng.NormFloat64()
			a.Set(i, 0, x)
			b.Set(i, 0, x+rng.NormFloat64())
		}
		s := evaluate.Datamodel(a, b, 0)
		means, errors = append(means, s.Mean), append(errors, s.Subsets)
	}
	require.InEpsilon(t, stat.StdDev(means, nil), stat.Mean(errors, nil), 0.2)
}

// Two runs that are a signal and independent noise of equal size correlate by a half, and
// the signal itself with the mean of k runs by √(k/(k+1)).
func TestCeiling(t *testing.T) {
	for k := 1; k < 6; k++ {
		require.InDelta(t, math.Sqrt(float64(k)/float64(k+1)), evaluate.Ceiling(0.5, k), 1e-12)
	}
	require.True(t, math.IsNaN(evaluate.Ceiling(-0.1, 1)))
}

// TestApart checks the value and the gradient of the target.
func TestApart(t *testing.T) {
	require.Equal(t, 2.5, evaluate.Apart{}.Value([]float64{0}, []float64{2.5}))
	y, f, w := []float64{2}, []float64{1, 4, -3}, make([]float64, 3)
	require.InDelta(t, -3-(1+4)/2.0, evaluate.Apart{}.Value(y, f), 1e-15)
	evaluate.Apart{}.GradientTo(w, y, f)
	require.Equal(t, []float64{-0.5, -0.5, 1}, w)
}
