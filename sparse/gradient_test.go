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
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// at returns the kernel with the variance of group g times exp(h); the prior
// mean is zero shift there too.
func (q *problem) at(g int, h float64) ntk.Kernel {
	groups := q.Prior.Groups()
	groups[g].Precision *= math.Exp(-h)
	prior, err := ntk.NewLayerwise(q.Train.P, groups, []float64{0.1})
	if err != nil {
		panic(err)
	}
	return ntk.New(prior, q.Theta)
}

// The derivatives in log s_g, sites fixed, are those of finite differences of
// the evidence (E10). Central differences of step 1e-4 are off by 1e-8 of the
// third derivative and 1e-12 of the evidence.
func TestE10Gradients(t *testing.T) {
	const h, tol = 1e-4, 2e-6
	each(t, func(t *testing.T, q *problem) {
		z, s, o := q.some(t), q.Sites(t), linear()
		p := q.fit(t, z, o)
		linearGaussian := testref.Must(p.GradientLinearGaussian(t.Context(), q.groups()))(t)
		scatter := make([]float64, len(linearGaussian))
		atTheta := testref.Must(p.GradientAtTheta(t.Context(), q.groups(), scatter))(t)
		for g := range linearGaussian {
			difference := func(f func(p *sparse.Posterior) float64) float64 {
				var v [2]float64
				for i, sign := range []float64{1, -1} {
					p := testref.Must(sparse.Fit(t.Context(), q.at(g, sign*h), q.Train, s, z, o))(t)
					v[i] = f(p)
				}
				return (v[0] - v[1]) / (2 * h)
			}
			requireNumber(t, "evidence", linearGaussian[g], difference(func(p *sparse.Posterior) float64 { return p.Projected.EvidenceLinearGaussian().Value }), tol)
			requireNumber(t, "at θ*", atTheta[g], difference(func(p *sparse.Posterior) float64 { return p.EvidenceAtTheta(0).Value }), tol)
		}
	})
}

// With M = N the gradients are those of the exact posterior, and with a
// subset those of the subset's.
func TestE10GradientsOfExact(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		scatter := make([]float64, len(q.groups()))
		check := func(p *sparse.Posterior, train *linearize.Batch, s *gp.Sites) {
			x := testref.Must(gp.Fit(t.Context(), q.Kernel, train, s, nil))(t)
			want := testref.Must(testkit.GradientLinearGaussian(t.Context(), x, q.groups()))(t)
			got := testref.Must(p.GradientLinearGaussian(t.Context(), q.groups()))(t)
			requireClose(t, "gradient", vec(got), vec(want), 1e-7)
			want = testref.Must(testkit.GradientAtTheta(t.Context(), x, q.groups(), scatter))(t)
			got = testref.Must(p.GradientAtTheta(t.Context(), q.groups(), scatter))(t)
			requireClose(t, "gradient at θ*", vec(got), vec(want), 1e-7)
		}
		check(q.fit(t, q.all(t), linear()), q.Train, q.Sites(t))
		z := q.some(t)
		_, s := q.rows(t, z.Rows)
		p := testref.Must(sparse.FitSubset(t.Context(), q.Kernel, q.Train, s, z, nil))(t)
		check(p, z.Batch, s)
	})
}

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
		scaled.Kernel = ntk.New(prior, q.Theta)
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
}

// A widened prior has its variances multiplied by a factor.
type widened struct {
	ntk.Prior
	factor float64
}

func (w widened) VarianceTo(dst []float64) {
	w.Prior.VarianceTo(dst)
	for i := range dst {
		dst[i] *= w.factor
	}
}

// TestE21ScaleNoise checks that a posterior whose noise and prior variances are scaled is the one that a
// pass over the data gives under them.
func TestE21ScaleNoise(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		lik, ok := q.Likelihood.(*glm.Gaussian)
		if !ok {
			continue
		}
		const factor = 3.7
		wide := testref.Must(lik.ScaleNoise(factor))(t)
		k := ntk.New(widened{q.Prior, factor}, q.Theta)
		rows := []int{9, 2, 17, 5, 0}
		batch := testref.Must(q.Train.Gather(t.Context(), rows))(t)
		z, o := &sparse.Inducing{Rows: rows, Batch: batch}, &sparse.Options{Mean: gp.LinearGaussian}
		s := testref.Must(gp.NewSites(gp.NewTargets(q.Y, wide), q.Train.F))(t)
		want := testref.Must(sparse.Fit(t.Context(), k, q.Train, s, z, o))(t)
		before := testref.Must(sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), z, o))(t)
		got := testref.Must(before.ScaleNoise(t.Context(), k, factor, s))(t)

		var mean, cov, wantMean, wantCov mat.Dense
		require.NoError(t, got.PredictTo(t.Context(), &mean, &cov, q.Test))
		require.NoError(t, want.PredictTo(t.Context(), &wantMean, &wantCov, q.Test))
		testkit.RequireClose(t, "mean", &mean, &wantMean, 1e-10)
		testkit.RequireClose(t, "covariance", &cov, &wantCov, 1e-10)
		testkit.RequireClose(t, "α", testkit.Vec(got.Alpha()), testkit.Vec(want.Alpha()), 1e-9)
		testkit.RequireClose(t, "b", testkit.Vec(got.PseudoTargets()), testkit.Vec(want.PseudoTargets()), 1e-9)
		testkit.RequireNumber(t, "evidence", got.Projected.EvidenceLinearGaussian().Value, want.Projected.EvidenceLinearGaussian().Value, 1e-10)
		testkit.RequireNumber(t, "trace error", got.TraceError(), want.TraceError(), 1e-10)
		all := make([]int, q.N)
		for i := range all {
			all[i] = i
		}
		mean, cov, wantMean, wantCov = mat.Dense{}, mat.Dense{}, mat.Dense{}, mat.Dense{}
		require.NoError(t, got.LeaveOneOutTo(t.Context(), &mean, &cov, all, q.Train))
		require.NoError(t, want.LeaveOneOutTo(t.Context(), &wantMean, &wantCov, all, q.Train))
		testkit.RequireClose(t, "leave-one-out mean", &mean, &wantMean, 1e-8)
		testkit.RequireClose(t, "leave-one-out covariance", &cov, &wantCov, 1e-8)
	}
}
