package gp_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/sparse"
)

// counted gives the rows of a problem the weights 0, 1, 2 and 3 in turn, and the same as repeated rows.
func counted(q *testkit.Problem) (weighted *gp.Targets, rows []int) {
	weighted = q.Targets()
	for i := range q.N {
		w := (i + 1) % 4
		weighted.Weights = append(weighted.Weights, float64(w))
		rows = append(rows, slices.Repeat([]int{i}, w)...)
	}
	return weighted, rows
}

// weightProblems are those of testkit whose likelihoods let all methods refit.
func weightProblems(t *testing.T) []*testkit.Problem {
	return slices.DeleteFunc(append(testkit.Problems(t), testkit.Heteroscedastic()), func(q *testkit.Problem) bool {
		return q.Name == "bernoulli-saturated" || q.Name == "categorical-saturated"
	})
}

// TestE23Weights compares targets with the weights 0, 1, 2 and 3 with rows that are left out or repeated (E23): the
// posterior at θ* and at the mode, the evidence and its derivatives, and the match. α of a weighted row is the sum over
// its repetitions.
func TestE23Weights(t *testing.T) {
	for _, q := range weightProblems(t) {
		y, rows := counted(q)
		x := testref.Must(q.Train.Gather(t.Context(), rows))(t)
		repeated := q.Targets().Rows(rows)
		for _, refit := range []bool{false, true} {
			var got, want *gp.Exact
			if refit {
				got = testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, y, nil))(t)
				want = testref.Must(gp.Refit(t.Context(), q.Kernel, x, repeated, nil))(t)
				require.InEpsilon(t, want.EvidenceRefit().Value, got.EvidenceRefit().Value, 1e-9, q.Name)
			} else {
				got = testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, testref.Must(gp.NewSites(y, q.Train.F))(t), nil))(t)
				want = testref.Must(gp.Fit(t.Context(), q.Kernel, x, testref.Must(gp.NewSites(repeated, x.F))(t), nil))(t)
			}
			require.InEpsilon(t, linearGaussian(t, want).Value, linearGaussian(t, got).Value, 1e-9, q.Name)
			var mean, cov, wantMean, wantCov mat.Dense
			require.NoError(t, got.PredictTo(t.Context(), &mean, &cov, q.Test))
			require.NoError(t, want.PredictTo(t.Context(), &wantMean, &wantCov, q.Test))
			testkit.RequireClose(t, q.Name, &mean, &wantMean, 1e-8)
			testkit.RequireClose(t, q.Name, &cov, &wantCov, 1e-8)
			sum := make([]float64, q.N*q.C)
			for k, i := range rows {
				for c := range q.C {
					sum[i*q.C+c] += want.Alpha()[k*q.C+c]
				}
			}
			testkit.RequireClose(t, q.Name, mat.NewDense(q.N, q.C, got.Alpha()), mat.NewDense(q.N, q.C, sum), 1e-6)
		}
		for _, form := range []evidence.Form{evidence.AtTheta, evidence.LinearGaussian, evidence.Refit, evidence.HeldSites} {
			p := &evidence.Problem{X: q.Train, Y: y, Theta: q.Theta, Prior: q.Prior}
			r := &evidence.Problem{X: x, Y: repeated, Theta: q.Theta, Prior: q.Prior}
			got := testref.Must(evidence.Evaluate(t.Context(), p, form, nil))(t)
			want := testref.Must(evidence.Evaluate(t.Context(), r, form, nil))(t)
			require.InEpsilon(t, want.Evidence.Value, got.Evidence.Value, 1e-9, "%s %s", q.Name, form)
			testkit.RequireClose(t, q.Name, mat.NewVecDense(len(got.Gradient), got.Gradient), mat.NewVecDense(len(want.Gradient), want.Gradient), 1e-6)
			if _, ok := q.Likelihood.(*glm.Gaussian); ok {
				require.InEpsilon(t, want.NoiseGradient, got.NoiseGradient, 1e-7, "%s %s", q.Name, form)
			}
		}
	}
}

// TestE23EveryMethod compares refits to weighted targets with the exact one, where the approximation is exact:
// all rows kept, all inducing, conjugate gradients to the end, and weight space.
func TestE23EveryMethod(t *testing.T) {
	for _, q := range weightProblems(t) {
		y, _ := counted(q)
		var mean, cov, otherMean, otherCov mat.Dense
		exact := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, y, nil))(t)
		require.NoError(t, exact.PredictTo(t.Context(), &mean, &cov, q.Test))
		same := func(l gp.Latent, err error) {
			t.Helper()
			require.NoError(t, err, q.Name)
			require.NoError(t, l.PredictTo(t.Context(), &otherMean, &otherCov, q.Test))
			testkit.RequireClose(t, q.Name, &otherMean, &mean, 1e-6)
			testkit.RequireClose(t, q.Name, &otherCov, &cov, 1e-6)
		}
		same(weightspace.Refit(t.Context(), q.Train, y, q.Prior, q.Theta, nil))
		same(weightspace.RefitSums(t.Context(), q.Train, y, q.Prior, q.Theta, nil, nil))
		same(sparse.Refit(t.Context(), q.Kernel, q.Train, y, &sparse.Inducing{Batch: q.Train, Rows: dense.Range(q.N)}, nil))
		found := testref.Must(mode.Find(t.Context(), q.Train, y, q.Prior, q.Theta, nil))(t)
		testkit.RequireClose(t, q.Name, found.Sites.F, exact.Sites().F, 1e-6)
		if !y.Scored() {
			same(kept.Refit(t.Context(), q.Train, y, q.Prior, q.Theta, nil))
		}
	}
}

// TestWeights refuses weights that are negative, not finite or too few, and takes none for weights of 1.
func TestWeights(t *testing.T) {
	q := testkit.NewProblem("weights", 9, 6, 1, glm.Bernoulli{}, 1)
	y := q.Targets()
	plain := testref.Must(gp.NewSites(y, q.Train.F))(t)
	y.Weights = slices.Repeat([]float64{1}, 6)
	require.Equal(t, plain, testref.Must(gp.NewSites(y, q.Train.F))(t))
	for _, w := range []float64{-1, math.NaN(), math.Inf(1)} {
		y.Weights[4] = w
		_, err := gp.NewSites(y, q.Train.F)
		require.ErrorContains(t, err, "the weight of example 4")
	}
	y.Weights = y.Weights[:5]
	_, err := gp.NewSites(y, q.Train.F)
	require.ErrorContains(t, err, "5 weights for 6 examples")
}
