package score

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
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

// The answers of a network are judged by its own outputs, moved without the row as far as the refit explains them
// (E24), whatever was said of the refit.
func TestE24JudgesTheAnswersOfTheNetwork(t *testing.T) {
	rng := testref.Rand(241)
	judged := 0
	for trial := range 40 {
		n, classes := 5+rng.IntN(30), 1+trial%3
		lik, link := glm.Likelihood(glm.Bernoulli{}), predictive.Link(predictive.Exact{})
		if classes > 1 {
			lik, link = glm.Categorical{}, predictive.DefaultLink(glm.Categorical{}, classes)
		}
		f, cov := testref.Moments(rng, n, classes, 2, 1)
		without, y, mean := mat.NewDense(n, classes, nil), mat.NewDense(n, 1, nil), mat.NewDense(n, classes, nil)
		remainder := 2 * rng.Float64()
		counts := make([]float64, max(2, classes))
		for i := range n {
			k := rng.IntN(len(counts))
			y.Set(i, 0, float64(k))
			counts[k]++
			for j := range classes {
				without.Set(i, j, f.At(i, j)+2*rng.NormFloat64())
				mean.Set(i, j, f.At(i, j)+(without.At(i, j)-f.At(i, j))/(1+remainder*remainder))
			}
		}
		said := linearize.NewWarning("worse-than-constant", 1, 0, "", "of the refit")
		other := linearize.NewWarning("scale-flat", 1, 0, "", "of the search")
		c := &Calibration{Scale: rng.Float64(), Temperature: .05 + .6*rng.Float64(), NoiseScale: 1, Warnings: []error{said, other}}
		if trial%2 == 0 {
			c.Warnings = []error{other}
		}
		got := testref.Must(c.JudgeNetwork(t.Context(), link, lik, y, f, without, cov, nil, remainder))(t)

		_, m, v, err := c.Apply(lik, mean, cov)
		require.NoError(t, err)
		nll := testref.Must(ScoreOf(link, lik, y, m, v))(t).NLL
		entropy := float64(len(counts)-1) / float64(n)
		for _, k := range counts {
			if k > 0 {
				entropy -= k / float64(n) * math.Log(k/float64(n))
			}
		}
		entropy = min(entropy, math.Log(float64(len(counts))))
		require.Same(t, other, got.Warnings[len(got.Warnings)-1])
		if nll > entropy {
			judged++
			require.Len(t, got.Warnings, 2)
			w := linearize.WarningOf(got.Warnings[0])
			require.Equal(t, "worse-than-constant", w.Code)
			require.InDelta(t, nll, w.Value, 1e-9)
			require.InDelta(t, entropy, w.Limit, 1e-12)
		} else {
			require.Len(t, got.Warnings, 1)
		}
		require.Equal(t, []float64{c.Scale, c.Temperature}, []float64{got.Scale, got.Temperature})
	}
	require.Greater(t, judged, 5)
	require.Less(t, judged, 35)
}
