package score_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

// On thesis-cnn the scale by leave-one-out, with no held-out row, predicts the test
// rows as well as the best scale does, and as well as the network alone, which the
// unscaled posterior does not.
func TestCalibrateThesisCNN(t *testing.T) {
	testref.Long(t, "needs a factorization of 3000 rows")
	r := testkit.OpenReference(t, "thesis-cnn")
	post, lik := r.Exact(t), glm.Bernoulli{}
	var mean, cov, testMean, testCov mat.Dense
	require.NoError(t, post.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(r.Train.Len()), r.Train))
	require.NoError(t, post.PredictTo(t.Context(), &testMean, &testCov, r.Test))
	y := mat.NewDense(len(r.TestLabels), 1, nil)
	for i, label := range r.TestLabels {
		y.Set(i, 0, float64(label))
	}
	testAt := func(s, tau float64) *score.Score {
		_, mean, cov, err := (&score.Calibration{Scale: s, Temperature: tau}).Apply(lik, &testMean, &testCov)
		require.NoError(t, err)
		score := testref.Must(score.ScoreOf(nil, lik, y, mean, cov))(t)
		return score
	}
	c := testref.Must(score.Calibrate(t.Context(), lik, r.Y, &mean, &cov, nil))(t)
	require.Empty(t, c.Warnings)
	_, tempered, scaled, err := c.Apply(lik, &mean, &cov)
	require.NoError(t, err)
	loo := testref.Must(score.ScoreOf(nil, lik, r.Y, tempered, scaled))(t)
	network := testref.Must(score.ScoreOf(nil, lik, y, &testMean, nil))(t)
	at := testAt(c.Scale, c.Temperature)

	require.InDelta(t, 0.9927, loo.Accuracy, 5e-5)
	require.InDelta(t, 0.9915, at.Accuracy, 5e-5)
	require.InDelta(t, 0.0523, c.Unscaled, 1e-4)
	require.InDelta(t, 0.0238, c.NLL, 1e-4)
	require.InDelta(t, c.NLL, loo.NLL, 1e-12)
	require.InDelta(t, loo.NLL, at.NLL, math.Hypot(2*c.StdErr, 2*at.StdErr))
	require.Less(t, at.NLL, network.NLL+0.001)
	require.Greater(t, testAt(1, 1).NLL, network.NLL+0.03)
	for _, s := range []float64{0.3, 0.1, 0.05, 0.02, 0.01, 0.001} {
		require.Less(t, at.NLL, testAt(s, 1).NLL+0.001, "the regret of s = %v against %v", c.Scale, s)
	}
	require.Less(t, at.ECE, 0.01)
}
