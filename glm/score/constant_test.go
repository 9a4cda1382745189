package score

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// A constant scores what its best value scores by a plain search, plus one for each number
// that is taken from the rows, over the rows.
func TestConstantNLL(t *testing.T) {
	const n = 40
	rng := testref.Rand(31)
	column := func(c int, draw func() float64) *mat.Dense {
		y := mat.NewDense(n, c, nil)
		y.Apply(func(_, _ int, _ float64) float64 { return draw() }, y)
		return y
	}
	// at is the mean of −log p of the targets of column j at outputs that are the same for all.
	at := func(lik glm.Likelihood, y *mat.Dense, f ...float64) float64 {
		sum := 0.0
		for i := range n {
			sum -= lik.LogProb(y.RawRowView(i), f) / n
		}
		return sum
	}
	best := func(value func(x float64) float64, lo, hi float64) float64 {
		least := math.Inf(1)
		for range 4 { // the value falls and then rises: look again beside the best of the grid
			const steps = 40
			at, from, step := 0.0, lo, (hi-lo)/steps
			for k := range steps + 1 {
				if x := from + step*float64(k); k == 0 || value(x) < value(at) {
					at = x
				}
			}
			least = min(least, value(at))
			lo, hi = max(lo, at-step), min(hi, at+step)
		}
		return least
	}
	counts := column(1, func() float64 { return float64(rng.IntN(7)) })
	require.InDelta(t, best(func(x float64) float64 { return at(glm.Poisson{}, counts, x) }, -2, 3)+1.0/n, constantNLL(glm.Poisson{}, counts, 1, nil), 1e-5)
	binary := column(1, func() float64 { return float64(rng.IntN(4) / 3) })
	require.InDelta(t, best(func(x float64) float64 { return at(glm.Bernoulli{}, binary, x) }, -4, 4)+1.0/n, constantNLL(glm.Bernoulli{}, binary, 1, nil), 1e-5)
	shares := column(1, rng.Float64)
	require.InDelta(t, min(best(func(x float64) float64 {
		return -(mat.Sum(shares)*math.Log(x) + (n-mat.Sum(shares))*math.Log(1-x)) / n
	}, 0.01, 0.99)+1.0/n, math.Ln2), constantNLL(glm.Bernoulli{}, shares, 1, nil), 1e-5)
	classes := column(1, func() float64 { return float64(rng.IntN(6) / 5 * (1 + rng.IntN(2))) })
	count := make([]float64, 3)
	for i := range n { // some of each
		count[int(classes.At(i, 0))]++
	}
	require.InDelta(t, at(glm.Categorical{}, classes, math.Log(count[0]), math.Log(count[1]), math.Log(count[2]))+2.0/n, constantNLL(glm.Categorical{}, classes, 3, nil), 1e-12)
	require.InDelta(t, math.Log(5), constantNLL(glm.Categorical{}, mat.NewDense(1, 1, []float64{2}), 5, nil), 1e-15, "one row knows no frequencies")
	require.InDelta(t, 1.0/50, constantNLL(glm.Bernoulli{}, mat.NewDense(50, 1, nil), 1, nil), 1e-15, "one class alone")

	numbers := column(2, rng.NormFloat64)
	want := 0.0
	for j := range 2 {
		y := mat.NewDense(n, 1, mat.Col(nil, j, numbers))
		want += best(func(mean float64) float64 {
			return best(func(variance float64) float64 {
				return at(testref.Must(glm.NewGaussian(variance))(t), y, mean)
			}, 0.5, 1.5)
		}, -0.5, 0.5) + 2.0/n
	}
	gaussian := testref.Must(glm.NewGaussian(3))(t)
	require.InDelta(t, want, constantNLL(gaussian, numbers, 2, nil), 1e-4)
	require.True(t, math.IsNaN(constantNLL(gaussian, mat.NewDense(3, 1, []float64{2, 2, 2}), 1, nil)))
}

// Predictions that know less than a constant are said to, before anything else, and others
// are not (E21).
func TestE21WorseThanAConstantIsSaidFirst(t *testing.T) {
	rng := testref.Rand(32)
	const n = 200
	for _, lik := range []glm.Likelihood{glm.Bernoulli{}, glm.Categorical{}, glm.Poisson{}, testref.Must(glm.NewNegativeBinomial(9))(t), testref.Must(glm.NewGaussian(1))(t)} {
		c := 1
		if lik.Name() == "categorical" {
			c = 3
		}
		mean, cov := testref.Moments(rng, n, c, 1, 0.3)
		y, noise := mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil)
		for i := range n {
			y.Set(i, 0, float64(rng.IntN(20)/17)) // mostly 0, of which the means know nothing
			switch {
			case c > 1:
				noise.Set(i, 0, float64(integral.Argmax(mean.RawRowView(i))))
			case lik.Name() == "poisson" || lik.Name() == "negative-binomial:9":
				noise.Set(i, 0, math.Round(math.Exp(mean.At(i, 0))))
			case lik.Name() == "gaussian":
				noise.Set(i, 0, mean.At(i, 0)+0.1*rng.NormFloat64())
			case mean.At(i, 0) > 0:
				noise.Set(i, 0, 1)
			}
		}
		bad := calibrated(t, lik, y, mean, cov)
		w := linearize.FindWarning(bad.Warnings, "worse-than-constant")
		require.Equal(t, []float64{bad.NLL, constantNLL(lik, y, c, nil)}, []float64{w.Value, w.Limit}, lik.Name())
		require.LessOrEqual(t, bad.NLL, bad.Unscaled)
		require.Nil(t, linearize.FindWarning(calibrated(t, lik, noise, mean, cov).Warnings, "worse-than-constant"), lik.Name())
	}
}
