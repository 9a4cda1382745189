package inference

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/funcgp/funcgp/glm"
)

// The interval of a count against the distribution function of a Poisson with a known
// rate, and against draws where the rate is uncertain.
func TestCountInterval(t *testing.T) {
	interval := func(m, v float64) []float64 {
		o := &Predictions{Likelihood: glm.Poisson{}, Mean: mat.NewDense(1, 1, []float64{m}), Scaled: mat.NewDense(1, 1, []float64{v}), Response: mat.NewDense(1, 1, nil)}
		return o.CountInterval(0)
	}
	for _, rate := range []float64{0.01, 0.7, 3, 12.5, 400} {
		d := distuv.Poisson{Lambda: rate}
		got := interval(math.Log(rate), 0)
		for k, p := range []float64{0.025, 0.975} {
			require.GreaterOrEqual(t, d.CDF(got[k]), p, rate)
			if got[k] > 0 {
				require.Less(t, d.CDF(got[k]-1), p, rate)
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	got := interval(2, 0.3)
	below, above := 0.0, 0.0
	const draws = 200_000
	for range draws {
		y := distuv.Poisson{Lambda: math.Exp(2 + math.Sqrt(0.3)*rng.NormFloat64()), Src: rng}.Rand()
		if y < got[0] {
			below++
		}
		if y > got[1] {
			above++
		}
	}
	require.Less(t, below/draws, 0.026)
	require.Less(t, above/draws, 0.026)
	require.Greater(t, (below+above)/draws, 0.02, "not wider than it has to be")
	require.Nil(t, (&Predictions{Likelihood: glm.Bernoulli{}}).CountInterval(0))
}
