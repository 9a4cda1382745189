package score

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/testref"
)

// TestE23WeightsOfScores compares scores and calibrations of rows with the weights 0 to 3 with those of rows that are left
// out or repeated.
func TestE23WeightsOfScores(t *testing.T) {
	gaussian := testref.Must(glm.NewGaussian(.4))(t)
	for _, c := range []struct {
		lik  glm.Likelihood
		c    int
		y    func(rng *rand.Rand, f []float64, dst []float64)
		link predictive.Link
	}{
		{glm.Bernoulli{}, 1, func(rng *rand.Rand, f, y []float64) { y[0] = float64(rng.IntN(2)) }, nil},
		{glm.Categorical{}, 2, func(rng *rand.Rand, f, y []float64) { y[0] = float64(min(rng.IntN(2), rng.IntN(2))) }, nil},
		{glm.Categorical{}, 3, func(rng *rand.Rand, f, y []float64) { y[0] = float64(min(rng.IntN(3), rng.IntN(3))) }, predictive.Probit{}},
		{gaussian, 2, func(rng *rand.Rand, f, y []float64) { y[0], y[1] = f[0]+rng.NormFloat64(), f[1]+.3*rng.NormFloat64() }, nil},
		{glm.Poisson{}, 1, func(rng *rand.Rand, f, y []float64) { y[0] = float64(rng.IntN(4)) }, nil},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.lik.Name(), c.c), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			const n = 40
			mean, cov, y := mat.NewDense(n, c.c, nil), mat.NewDense(n*c.c, c.c, nil), mat.NewDense(n, c.lik.Targets(c.c), nil)
			weights, again := make([]float64, n), []int(nil)
			for i := range n {
				for j := range c.c {
					mean.Set(i, j, rng.NormFloat64())
					cov.Set(i*c.c+j, j, .2+2*rng.Float64())
				}
				c.y(rng, mean.RawRowView(i), y.RawRowView(i))
				weights[i] = float64(rng.IntN(4))
				again = append(again, slices.Repeat([]int{i}, int(weights[i]))...)
			}
			y2, mean2, cov2 := takeRows(y, again, 1), takeRows(mean, again, 1), takeRows(cov, again, c.c)
			want := testref.Must(Calibrate(t.Context(), c.lik, y2, mean2, cov2, &CalibrateOptions{Link: c.link}))(t)
			got := testref.Must(Calibrate(t.Context(), c.lik, y, mean, cov, &CalibrateOptions{Link: c.link, Weights: weights}))(t)
			require.InEpsilonSlice(t, []float64{want.Scale, want.Temperature, want.NoiseScale, want.NLL, want.StdErr, want.Unscaled},
				[]float64{got.Scale, got.Temperature, got.NoiseScale, got.NLL, got.StdErr, got.Unscaled}, 1e-6)
			require.Zero(t, got.LeftOut)
			require.Equal(t, len(want.Warnings), len(got.Warnings))

			a := testref.Must(ScoreOf(c.link, c.lik, y2, mean2, cov2))(t)
			b := testref.Must(WeightedScoreOf(t.Context(), c.link, c.lik, y, mean, cov, weights))(t)
			for k, v := range []float64{a.NLL, a.StdErr, a.Accuracy, a.ECE, a.Brier, a.RMSE} {
				w := []float64{b.NLL, b.StdErr, b.Accuracy, b.ECE, b.Brier, b.RMSE}[k]
				require.True(t, v == w || v != v && w != w || v/w > 1-1e-12 && v/w < 1+1e-12, "%d: %v and %v", k, v, w)
			}
			if _, classes := c.lik.(glm.Logistic); classes {
				shifted := mat.DenseCopyOf(mean) // towards the last class
				for i := range n {
					shifted.Set(i, c.c-1, shifted.At(i, c.c-1)+2)
				}
				shifted2 := takeRows(shifted, again, 1)
				plain := &Calibration{Scale: 1, Temperature: 1}
				want := testref.Must(plain.WithShift(t.Context(), c.link, c.lik, y2, shifted2, shifted2, cov2, nil))(t)
				got := testref.Must(plain.WithShift(t.Context(), c.link, c.lik, y, shifted, shifted, cov, weights))(t)
				require.NotNil(t, want.Shift)
				require.InEpsilonSlice(t, want.Shift, got.Shift, 1e-6)
			}
			if lik, ok := c.lik.(*glm.Gaussian); ok {
				require.InEpsilon(t, testref.Must(NoiseFactor(lik, y2, mean2, cov2, nil))(t), testref.Must(NoiseFactor(lik, y, mean, cov, weights))(t), 1e-12)
			}
		})
	}
}
