package score

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
)

// A network whose logits are twice too large, f = 2t, and refits f̂ = b·f + e with e independent of the truth: the
// temperature of the refit is attenuated, and the temperature for the network is nearer to its best one (E24).
func TestE24RefitsAttenuateTheTemperature(t *testing.T) {
	const n = 4000
	for seed, c := range []struct{ slope, noise float64 }{{1, .3}, {1, 1}, {1, 2}, {.6, 1}, {1.4, 1.5}} {
		rng := rand.New(rand.NewPCG(uint64(seed), 24))
		y, f, fit := mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil)
		ff, fd, dd, rest := 0., 0., 0., 0.
		for i := range n {
			truth := 2 * rng.NormFloat64()
			a := 2 * truth
			b := c.slope*a + c.noise*4*rng.NormFloat64()
			if rng.Float64() < 1/(1+math.Exp(-truth)) {
				y.Set(i, 0, 1)
			}
			f.Set(i, 0, a)
			fit.Set(i, 0, b)
			ff, fd, dd, rest = ff+a*a, fd+a*b, dd+b*b, rest+(a-b)*(a-b)
		}
		none := mat.NewDense(n, 1, nil) // the covariance
		refit, err := Calibrate(t.Context(), glm.Bernoulli{}, y, fit, none, nil)
		require.NoError(t, err)
		network := refit.ForNetwork(glm.Bernoulli{}, dd/fd, math.Sqrt(rest/ff))
		nll := func(temperature float64) float64 {
			s, err := ScoreOf(nil, glm.Bernoulli{}, y, scaledMatrix(f, temperature), nil)
			require.NoError(t, err)
			return s.NLL
		}
		best := nll(.5)
		require.Less(t, nll(network.Temperature)-best, .5*(nll(refit.Temperature)-best), "%+v: τ of the refit %v, of the network %v", c, refit.Temperature, network.Temperature)
		require.LessOrEqual(t, network.Scale, refit.Scale)
	}
}

func TestE24KeepsTheCalibrationOfTheNetworkItself(t *testing.T) {
	c := &Calibration{Scale: .3, Temperature: .5, NoiseScale: 1}
	same := c.ForNetwork(glm.Categorical{}, 1, 0)
	require.InDelta(t, c.Temperature, same.Temperature, 1e-15)
	require.InDelta(t, c.Scale, same.Scale, 1e-15)
	require.Same(t, c, c.ForNetwork(glm.Poisson{}, 2, 1), "no temperature")
	require.Same(t, c, c.ForNetwork(glm.Bernoulli{}, 2, math.NaN()), "outputs that are all 0")
	require.Same(t, c, c.ForNetwork(glm.Bernoulli{}, 2, math.Inf(1)), "outputs that are all 0, and a refit that is not")

	// By hand: ρ = 1, so that s and the power are halved, and φ = 4 would sharpen.
	far := c.ForNetwork(glm.Bernoulli{}, 4, 1)
	require.InDelta(t, math.Sqrt(math.Sqrt(.5)), far.Temperature, 1e-15)
	require.InDelta(t, .15, far.Scale, 1e-15)
	opposed := c.ForNetwork(glm.Bernoulli{}, -4, 1)
	require.Equal(t, far.Temperature, opposed.Temperature)
}
