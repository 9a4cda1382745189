package score_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
)

// By leave-one-out of the refit at the match of a network, the scale and the temperature are those
// of an independent implementation, and with them the network's own outputs and the
// covariance of the refit predict the test rows as well as there (E21). There s is from a grid
// of four points a decade, and neither has a prior.
func TestE21CalibrateAtTheMatch(t *testing.T) {
	for _, c := range testkit.MatchCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			if testing.Short() && !strings.HasPrefix(c.Name, "wine") {
				t.Skip("needs a refit of many rows; run without -short")
			}
			if strings.HasPrefix(c.Name, "digits") {
				t.Skip("a refit of 5000 outputs takes too long")
			}
			net, train, test, y, yTest := c.Open(t)
			var lik interface {
				glm.Likelihood
				gp.Likelihood
			} = glm.Categorical{}
			if c.Likelihood == "bernoulli" {
				lik = glm.Bernoulli{}
			}
			prior := testref.Must(ntk.NewIsotropic(c.Match, nil))(t)
			post := testref.Must(gp.Refit(t.Context(), ntk.New(prior, net.Theta()), train, gp.NewTargets(y, lik), nil))(t)
			var mean, cov, fHat, testCov mat.Dense
			require.NoError(t, post.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(train.Len()), train))
			require.NoError(t, post.PredictTo(t.Context(), &fHat, &testCov, test))
			var link predictive.Link = predictive.Exact{}
			if c.Likelihood == "categorical" {
				link = fewPoints{}
			}
			calibrated := func(o score.CalibrateOptions) *score.Calibration {
				o.Link = link
				return testref.Must(score.Calibrate(t.Context(), lik, y, &mean, &cov, &o))(t)
			}
			nll := func(k *score.Calibration, f *mat.Dense) float64 {
				lik, f, cov, err := k.Apply(lik, f, &testCov)
				require.NoError(t, err)
				s := testref.Must(score.ScoreOf(link, lik, yTest, f, cov))(t)
				return s.NLL
			}
			// At the scales found there, the same NLL. Of five classes 1,024 points err by more.
			tol := 0.0005
			if c.Name == "overlap5-adamw" {
				tol = 0.004
			}
			theirs := &score.Calibration{Scale: c.S}
			require.InDelta(t, c.NLL["fhat_s"], nll(theirs, &fHat), tol)
			require.InDelta(t, c.NLL["theta_s"], nll(theirs, test.F), tol)
			alone := calibrated(score.CalibrateOptions{Spread: math.Inf(1), KeepMean: true})
			require.InDelta(t, math.Log(c.S), math.Log(alone.Scale), math.Log(10)/8)
			require.Less(t, alone.NLL, c.LOO+0.0001)
			require.InEpsilon(t, c.LOO, alone.NLL, 0.015)
			both := calibrated(score.CalibrateOptions{Spread: math.Inf(1)})
			require.LessOrEqual(t, both.NLL, alone.NLL+1e-9)
			if len(c.Tau) == 0 {
				require.Greater(t, both.Temperature, 0.9) // they chose 1
				require.InDelta(t, c.NLL["theta_s"], nll(both, test.F), 0.005)
				return
			}
			// Theirs is the scale before the temperature, s/τ².
			want := &score.Calibration{Temperature: c.Tau[0], Scale: max(c.Tau[0]*c.Tau[0]*c.Tau[1], 1e-300)} // 0 would mean 1
			require.InDelta(t, c.NLL["theta_tau_s"], nll(want, test.F), tol)
			require.InEpsilon(t, c.Tau[0], both.Temperature, 0.07)
			require.InDelta(t, c.NLL["theta_tau_s"], nll(both, test.F), 0.001)
			require.Less(t, nll(calibrated(score.CalibrateOptions{}), test.F), nll(alone, test.F)) // with the priors too
		})
	}
}

// fewPoints takes the points with which scales are compared.
type fewPoints struct{ predictive.QMC }

// LogPredictiveTo implements predictive.Link.
func (l fewPoints) LogPredictiveTo(dst []float64, lik glm.Likelihood, y, f, cov *mat.Dense) error {
	return l.LogPredictiveScalesTo(context.Background(), mat.NewDense(len(dst), 1, dst), []float64{1}, lik, y, f, cov)
}

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
		return testref.Must(score.ScoreOf(nil, lik, y, mean, cov))(t)
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
