package glm_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/ntk"
)

// By leave-one-out of the refit at the match of a network, the scale and the temperature are those
// of an independent implementation, and with them the network's own outputs and the
// covariance of the refit predict the test rows as well as there (E21). There s is from a grid
// of four points a decade, τ from one of steps of .01 to .1, and they have no prior.
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
			prior, err := ntk.NewIsotropic(c.Match, nil)
			require.NoError(t, err)
			post, err := gp.Refit(t.Context(), ntk.New(prior, net.Theta(), nil), train, y, lik, nil)
			require.NoError(t, err)
			var mean, cov, fHat, testCov mat.Dense
			require.NoError(t, post.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(train.Len()), train))
			require.NoError(t, post.PredictTo(t.Context(), &fHat, &testCov, test))
			both, err := glm.Calibrate(t.Context(), lik, y, &mean, &cov, &glm.CalibrateOptions{Spread: math.Inf(1)})
			require.NoError(t, err)
			alone, err := glm.Calibrate(t.Context(), lik, y, &mean, &cov, &glm.CalibrateOptions{Spread: math.Inf(1), KeepMean: true})
			require.NoError(t, err)
			withPrior, err := glm.Calibrate(t.Context(), lik, y, &mean, &cov, nil)
			require.NoError(t, err)
			score := func(k *glm.Calibration, f *mat.Dense) float64 {
				lik, f, cov, err := k.Apply(lik, f, &testCov)
				require.NoError(t, err)
				s, err := glm.ScoreOf(nil, lik, yTest, f, cov)
				require.NoError(t, err)
				return s.NLL
			}
			t.Logf("%v\nalone s %.4g loo %.4f; both s %.4g tau %.4g loo %.4f; prior s %.4g tau %.4g loo %.4f; theirs s %v tau %v loo %v", c.NLL, alone.Scale, alone.NLL, both.Scale, both.Temperature, both.NLL, withPrior.Scale, withPrior.Temperature, withPrior.NLL, c.S, c.Tau, c.LOO)
			t.Logf("fhat_s %.4f theta_s %.4f theta_tau_s %.4f with the prior %.4f", score(alone, &fHat), score(alone, test.F), score(both, test.F), score(withPrior, test.F))
			t.Log(both.Warnings, withPrior.Warnings)
		})
	}
}
