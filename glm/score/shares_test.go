package score

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/testref"
)

// TestE23SharesOfClasses compares scores and calibrations of rows with shares of the classes in quarters with those of four
// rows each with labels as often: the NLL is the cross entropy.
func TestE23SharesOfClasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	const n, c = 30, 3
	mean, cov, shares := mat.NewDense(n, c, nil), mat.NewDense(n*c, c, nil), mat.NewDense(n, c, nil)
	var again []int
	var labels, quarter []float64
	for i := range n {
		for j := range c {
			mean.Set(i, j, rng.NormFloat64())
			cov.Set(i*c+j, j, .2+2*rng.Float64())
		}
		mean.Set(i, c-1, mean.At(i, c-1)+1.5)
		for range 4 {
			k := min(rng.IntN(c), rng.IntN(c))
			again, labels, quarter = append(again, i), append(labels, float64(k)), append(quarter, .25)
			shares.Set(i, k, shares.At(i, k)+.25)
		}
	}
	y, mean4, cov4 := mat.NewDense(4*n, 1, labels), takeRows(mean, again, 1), takeRows(cov, again, c)
	want := testref.Must(Calibrate(t.Context(), glm.Categorical{}, y, mean4, cov4, &CalibrateOptions{Weights: quarter}))(t)
	got := testref.Must(Calibrate(t.Context(), glm.CategoricalShares{}, shares, mean, cov, nil))(t)
	require.InEpsilonSlice(t, []float64{want.Scale, want.Temperature, want.NLL, want.Unscaled}, []float64{got.Scale, got.Temperature, got.NLL, got.Unscaled}, 1e-6)

	a := testref.Must(WeightedScoreOf(t.Context(), nil, glm.Categorical{}, y, mean4, cov4, quarter))(t)
	b := testref.Must(ScoreOf(nil, glm.CategoricalShares{}, shares, mean, cov))(t)
	require.InEpsilonSlice(t, []float64{a.NLL, a.Accuracy, a.Brier}, []float64{b.NLL, b.Accuracy, b.Brier}, 1e-12)
	sum := 0.
	for i, v := range b.LogDensity {
		sum -= v / n
		own := 0.
		for k := range 4 {
			own += a.LogDensity[4*i+k] / 4
		}
		require.InEpsilon(t, own, v, 1e-12)
	}
	require.InEpsilon(t, b.NLL, sum, 1e-12)
	require.InEpsilon(t, standardErrorOf(b.LogDensity), b.StdErr, 1e-12)

	plain := &Calibration{Scale: 1, Temperature: 1}
	shifted := testref.Must(plain.WithShift(t.Context(), nil, glm.CategoricalShares{}, shares, mean, mean, cov, nil))(t)
	require.Less(t, shifted.Shift[c-1], -.5)
}

func standardErrorOf(v []float64) float64 {
	return (&scoredRows{kept: make([]int, len(v))}).standardError(v)
}
