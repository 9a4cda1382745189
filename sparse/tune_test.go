package sparse_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// TestTune compares the chosen precision with the best of a fine grid of
// posteriors that are fitted anew under each.
func TestTune(t *testing.T) {
	q := newProblem("categorical", 6, 20, 3, glm.Categorical{}, 1)
	y := mat.NewDense(q.T, 1, []float64{0, 2, 1, 1, 0, 2})
	score := func(mean, cov *mat.Dense) (float64, error) {
		logp := make([]float64, q.T)
		err := predictive.Probit{}.LogPredictiveTo(logp, glm.Categorical{}, y, mean, cov)
		return score.NLL(logp), err
	}
	p := q.fit(t, q.some(t), nil)
	prepared := testref.Must(p.Prepare(t.Context(), q.Test))(t)
	got := testref.Must(p.Tune(t.Context(), prepared, score))(t)
	require.Equal(t, 1.0, got.Trials[0].Factor)
	best, at := math.Inf(1), 0.0
	for e := -6.0; e <= 6; e += 1. / 16 {
		groups := q.Prior.Groups()
		for g := range groups {
			groups[g].Precision *= math.Pow(10, -e)
		}
		prior := testref.Must(ntk.NewLayerwise(q.Train.P, groups, []float64{0.1}))(t)
		c := *q.Problem
		scaled := &problem{&c}
		scaled.Kernel = ntk.New(prior, q.Theta, nil)
		other := scaled.fit(t, scaled.some(t), nil)
		var mean, cov mat.Dense
		require.NoError(t, other.PredictTo(t.Context(), &mean, &cov, q.Test))
		v := testref.Must(score(&mean, &cov))(t)
		if v < best {
			best, at = v, math.Pow(10, e)
		}
	}
	require.InDelta(t, best, got.Score, 1e-12, "best factor of the grid %g, chosen %g", at, got.Factor)
	var mean, cov mat.Dense
	require.NoError(t, got.Posterior.PredictTo(t.Context(), &mean, &cov, q.Test))
	v := testref.Must(score(&mean, &cov))(t)
	require.InDelta(t, got.Score, v, 1e-12)
}

// TestTuneStops bounds a score that has no minimum and passes on errors.
func TestTuneStops(t *testing.T) {
	q := problems(t)[0]
	p := q.fit(t, q.some(t), nil)
	prepared := testref.Must(p.Prepare(t.Context(), q.Test))(t)
	got, err := p.Tune(t.Context(), prepared, func(_, cov *mat.Dense) (float64, error) { return mat.Trace(cov.Slice(0, 1, 0, 1)), nil })
	require.NoError(t, err)
	require.InDelta(t, 1e-6, got.Factor, 1e-12)
	broken := errors.New("broken")
	_, err = p.Tune(t.Context(), prepared, func(_, _ *mat.Dense) (float64, error) { return 0, broken })
	require.ErrorIs(t, err, broken)
	_, err = p.Tune(t.Context(), prepared, func(_, _ *mat.Dense) (float64, error) { return math.NaN(), nil })
	require.ErrorContains(t, err, "every prior precision")
	fitc := q.fit(t, q.some(t), &sparse.Options{Approximation: sparse.FITC})
	prepared = testref.Must(fitc.Prepare(t.Context(), q.Test))(t)
	_, err = fitc.Tune(t.Context(), prepared, func(_, _ *mat.Dense) (float64, error) { return 0, nil })
	require.ErrorContains(t, err, "FITC")
}
