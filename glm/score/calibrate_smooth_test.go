package score

import (
	"fmt"
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

// drawnRows are n rows of classes with targets drawn from softmax of a part of the mean, so
// that the means are as overconfident as 1/part, and covariances of random width.
func drawnRows(rng *rand.Rand, n, c int, part, width float64) (lik glm.Likelihood, y, mean, cov *mat.Dense) {
	mean, cov = testref.Moments(rng, n, c, 3, width)
	lik, y = glm.Bernoulli{}, mat.NewDense(n, 1, nil)
	if c > 1 {
		lik = glm.Categorical{}
	}
	for i := range n {
		p := make([]float64, c)
		for j := range p {
			p[j] = part * mean.At(i, j)
		}
		lik.MeanTo(p, p)
		if c == 1 {
			p = []float64{1 - p[0], p[0]}
		}
		u := rng.Float64()
		for k := 0; k < len(p)-1 && u > p[k]; k++ {
			u -= p[k]
			y.Set(i, 0, float64(k+1))
		}
	}
	return lik, y, mean, cov
}

// drawnProblem draws rows with a likelihood and a link of every kind of surface.
func drawnProblem(t *testing.T, rng *rand.Rand, trial int) (lik glm.Likelihood, y, mean, cov *mat.Dense, link predictive.Link) {
	c := []int{1, 2, 3, 5, 10, 1, 1, 3}[trial%8]
	lik, y, mean, cov = drawnRows(rng, 60, c, []float64{1, 0.3, 0.1}[trial/8%3], math.Exp(rng.NormFloat64()-1))
	link = predictive.DefaultLink(lik, c)
	switch trial % 8 {
	case 5:
		lik = glm.Poisson{}
		mean.Scale(0.3, mean)
		link = predictive.DefaultLink(lik, c)
	case 6:
		lik, link = testref.Must(glm.NewGaussian(0.3))(t), predictive.Exact{}
	case 7:
		link = predictive.Probit{}
	}
	return lik, y, mean, cov, link
}

// Moments that differ by 1e-12 of themselves have scales that differ by less than 1e-9:
// the optimum is one of a smooth function (E18, E21).
func TestE21CalibrationIsASmoothFunctionOfTheMoments(t *testing.T) {
	rng := testref.Rand(21)
	near := func(m *mat.Dense) *mat.Dense {
		var to mat.Dense
		to.Apply(func(_, _ int, v float64) float64 { return v * (1 + 1e-12*(2*rng.Float64()-1)) }, m)
		return &to
	}
	tempered := 0
	for trial := range 24 {
		lik, y, mean, cov, link := drawnProblem(t, rng, trial)
		want := testref.Must(Calibrate(t.Context(), lik, y, mean, cov, &CalibrateOptions{Link: link}))(t)
		got := testref.Must(Calibrate(t.Context(), lik, y, near(mean), near(cov), &CalibrateOptions{Link: link}))(t)
		require.InEpsilon(t, want.Scale, got.Scale, 1e-9, "trial %d", trial)
		require.InEpsilon(t, want.Temperature, got.Temperature, 1e-9, "trial %d", trial)
		require.InEpsilon(t, want.NoiseScale, got.NoiseScale, 1e-9, "trial %d", trial)
		if want.Temperature < 1 {
			tempered++
		}
	}
	require.Greater(t, tempered, 8)
}

// The search ends at the zero of the slopes by Newton's steps of 1e-10, wherever around it
// the search began, so that not the path to it but the rows alone decide (E18).
func TestE18SearchEndsAtTheSameScalesFromAnyStart(t *testing.T) {
	rng := testref.Rand(26)
	for trial := range 24 {
		lik, y, mean, cov, link := drawnProblem(t, rng, trial)
		rows := testref.Must(newScoredRows(lik, y, mean, cov, nil))(t)
		var counts strays
		if _, ok := lik.(glm.Poisson); ok {
			counts = newStrays(rows)
		}
		s := testref.Must(newScaleSearch(t.Context(), link, lik, rows, counts, &CalibrateOptions{}))(t)
		want := testref.Must(s.find(t.Context()))(t)
		for _, move := range []predictive.ScalePoint{pointAt(0.3, 0), pointAt(-0.2, -0.1), pointAt(0.01, -0.04)} {
			if len(s.others) == 1 {
				move.Other = 0
			}
			start := pointAt(min(max(want.Scale+move.Scale, s.lo.Scale), s.hi.Scale), min(max(want.Other+move.Other, s.lo.Other), s.hi.Other))
			got := testref.Must(s.descend(t.Context(), start))(t)
			require.InDelta(t, want.Scale, got.Scale, 1e-9, "trial %d, log s from %v", trial, move)
			require.InDelta(t, want.Other, got.Other, 1e-9, "trial %d, log τ or log t from %v", trial, move)
		}
	}
}

// Of the points of the grid, those that are left out are not the best one, nor nearly so (E18).
func TestE18GridLeavesOutWorsePoints(t *testing.T) {
	rng := testref.Rand(27)
	left := 0
	for trial := range 8 {
		lik, y, mean, cov := drawnRows(rng, 60+40*trial, []int{1, 1, 2, 3}[trial%4], 8, .1)
		mean.Scale(8, mean) // a network that is as sure as right
		link := predictive.DefaultLink(lik, mean.RawMatrix().Cols)
		if trial == 1 {
			link = predictive.Probit{}
		}
		rows := testref.Must(newScoredRows(lik, y, mean, cov, nil))(t)
		s := testref.Must(newScaleSearch(t.Context(), link, lik, rows, nil, &CalibrateOptions{}))(t)
		var grid, surface []predictive.ScalePoint
		for _, x := range []float64{-3, -1, 0, 1, 3} {
			for _, y := range s.others {
				grid, surface = append(grid, pointAt(x, y)), append(surface, s.onSurface(pointAt(x, y)))
			}
		}
		want := testref.Must(s.Values(t.Context(), surface, 1))(t)
		got := testref.Must(s.grid(t.Context(), grid, surface))(t)
		least := math.Inf(1)
		for i, v := range want {
			least = min(least, v+s.priorAt(grid[i]).Value)
		}
		for i, v := range got {
			if math.IsInf(v, 1) && !math.IsInf(want[i], 1) {
				left++
				require.Greater(t, want[i]+s.priorAt(grid[i]).Value, least+1e-10, "trial %d, point %v", trial, grid[i])
				continue
			}
			require.InEpsilon(t, want[i], v, 1e-12, "trial %d, point %v", trial, grid[i])
		}
	}
	require.Greater(t, left, 100)
}

// slopesOf compares derivatives with central differences of the values.
func slopesOf(t *testing.T, s surface, at predictive.ScalePoint, rel float64, msg string) {
	t.Helper()
	const h = 1e-4
	expand := func(dx, dy float64) predictive.ScaleSlopes {
		return testref.Must(s.Expand(t.Context(), pointAt(at.Scale+dx, at.Other+dy)))(t)
	}
	d, left, right, down, up := expand(0, 0), expand(-h, 0), expand(h, 0), expand(0, -h), expand(0, h)
	near := func(want, got float64, what string) {
		t.Helper()
		require.InDelta(t, want, got, rel*(1+math.Abs(want)), "%s %s at %v", msg, what, at)
	}
	near((right.Value-left.Value)/(2*h), d.Scale, "∂/∂log s")
	near((up.Value-down.Value)/(2*h), d.Other, "∂/∂other")
	near((right.Scale-left.Scale)/(2*h), d.ScaleScale, "∂²/∂log s²")
	near((up.Scale-down.Scale)/(2*h), d.Both, "∂²/∂log s ∂other")
	near((right.Other-left.Other)/(2*h), d.Both, "∂²/∂other ∂log s")
	near((up.Other-down.Other)/(2*h), d.OtherOther, "∂²/∂other²")
}

// The derivatives of the objective are those of its values, by differences (E18, E21).
func TestE18DerivativesAgainstDifferences(t *testing.T) {
	rng := testref.Rand(23)
	for trial := range 40 {
		c := []int{1, 2, 3, 5, 10}[trial%5]
		lik, y, mean, cov := drawnRows(rng, 4, c, 0.5, math.Exp(1.5*rng.NormFloat64()))
		if trial%10 == 5 {
			y.Set(0, 0, 0.3)
		}
		rows := testref.Must(newScoredRows(lik, y, mean, cov, nil))(t)
		s := classSurfaceOf(t, lik, rows)
		for range 5 {
			at := pointAt(9*(rng.Float64()-0.6), -3*rng.Float64())
			require.NoError(t, testref.Err(s.Settle(t.Context(), pointAt(at.Scale+0.3, at.Other-0.2))))
			slopesOf(t, s, at, 2e-7, fmt.Sprint("C = ", c))
		}
		g, err := whiten(t.Context(), testref.Must(glm.NewGaussian(0.4))(t), &scoredRows{rows: 4, c: c, kept: []int{0, 1, 2, 3}, y: mean, mean: mean, cov: cov})
		require.NoError(t, err)
		slopesOf(t, g, pointAt(rng.NormFloat64(), rng.NormFloat64()), 2e-7, "gaussian")
	}
}

// No pair of a grid is better than what is found, by the points of the search, for any
// number of classes (E21).
func TestE21ScaleAndTemperatureAgainstAGrid(t *testing.T) {
	rng := testref.Rand(24)
	for trial := range 20 {
		c := []int{1, 2, 3, 5, 10}[trial%5]
		const n = 30
		spread := []float64{math.Inf(1), 2}[trial%2]
		lik, y, mean, cov := drawnRows(rng, n, c, []float64{1, 0.5, 0.2, 0.05}[trial/5], math.Exp(rng.NormFloat64()-1))
		got := testref.Must(Calibrate(t.Context(), lik, y, mean, cov, &CalibrateOptions{Spread: spread}))(t)
		rows := testref.Must(newScoredRows(lik, y, mean, cov, nil))(t)
		s := classSurfaceOf(t, lik, rows)
		at := func(scale, tau float64) float64 {
			p := pointAt(math.Log(scale), math.Log(tau))
			require.NoError(t, testref.Err(s.Settle(t.Context(), p)))
			d := testref.Must(s.Expand(t.Context(), p))(t)
			return d.Value + penaltyOfBoth(scale, tau, spread, n)
		}
		best := at(got.Scale, got.Temperature)
		// Points that are moved to the mode of each pair err by other amounts, a row of ten
		// classes under the widest covariances by .04.
		tol := map[int]float64{1: 1e-12, 2: 1e-12, 3: 5e-5, 5: 1e-3, 10: 0.015}[c]
		for i := range 19 {
			for j := range 13 {
				tau := math.Pow(minTemperature, float64(j)/12)
				scale := tau * tau * minScale * math.Pow(1e6, float64(i)/18)
				require.LessOrEqual(t, best, at(scale, tau)+tol, "trial %d, C = %d: %v %v against %v %v", trial, c, got.Scale, got.Temperature, scale, tau)
			}
		}
	}
}

// Where means are too small rather than too large, the temperature is 1 and not nearly 1,
// though a larger one would predict better.
func TestE21TemperatureIsAtMostOne(t *testing.T) {
	rng := testref.Rand(25)
	for _, c := range []int{1, 2, 3, 5} {
		lik, y, mean, cov := drawnRows(rng, 300, c, 1.6, 0.1)
		got := testref.Must(Calibrate(t.Context(), lik, y, mean, cov, nil))(t)
		require.Equal(t, 1.0, got.Temperature)
		link := predictive.DefaultLink(lik, c)
		require.Less(t, temperedNLL(t, link, lik, y, mean, cov, got.Scale, 1.3), got.NLL)
		if w := linearize.FindWarning(got.Warnings, "scale-edge"); w != nil { // one end of the temperature is no edge
			require.Contains(t, w.Text, "scale of the covariance")
		}
	}
}

// classSurfaceOf returns the surface of rows of classes under the default link.
func classSurfaceOf(t *testing.T, lik glm.Likelihood, rows *scoredRows) *predictive.ClassSurface {
	t.Helper()
	s := predictive.NewClassSurface(predictive.DefaultLink(lik, rows.c), lik, rows.y, rows.mean)
	require.NotNil(t, s)
	require.NoError(t, s.Load(0, rows.y, rows.mean, rows.cov))
	return s
}
