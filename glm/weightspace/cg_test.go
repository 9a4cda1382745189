package weightspace_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// wideProblem has 2,065 parameters, enough that a refit takes steps without a
// factorization.
func wideProblem(t testing.TB, n, c int, lik glm.Likelihood, precision float64) *spaceProblem {
	t.Helper()
	rng := rand.New(rand.NewPCG(61, 99))
	q := &spaceProblem{lik: lik}
	q.train = gptest.RandomBatch(rng, n, c, gptest.Layer{In: 60, Out: 30}, gptest.Layer{In: 20, Out: 10}, gptest.Layer{Out: 25})
	q.test = gptest.Another(rng, q.train, 9)
	for range q.train.P {
		q.theta = append(q.theta, 0.05*rng.NormFloat64())
	}
	prior := testref.Must(ntk.NewIsotropic(precision, nil))(t)
	variance, mean := make([]float64, q.train.P), make([]float64, q.train.P)
	prior.VarianceTo(variance)
	q.prior = testref.Must(ntk.NewDiagonal(variance, mean))(t)
	q.kernel = ntk.New(q.prior, q.theta)
	q.y = randomTargets(rng, lik, n, c)
	return q
}

// passes counts the sums of H̃ over the examples, one for each factorization,
// and the Newton steps.
type passes struct{ sums, steps int }

func (p *passes) options() *weightspace.Options {
	return &weightspace.Options{Mean: gp.LinearGaussian, Limits: linearize.Limits{Progress: func(stage string, done, _ int) {
		switch {
		case stage == gp.StageNewton:
			p.steps++
		case stage == weightspace.StagePrecision && done == 0:
			p.sums++
		}
	}}}
}

// A refit factors H at θ* and at the mode, and not at the steps between, unless
// conjugate gradients do not converge there, as in the last problem. It ends
// where gp's does, and takes over the factor of the fit.
func TestE9RefitFactorsSeldom(t *testing.T) {
	for _, row := range []struct {
		q    *spaceProblem
		most int // factorizations
	}{
		{wideProblem(t, 150, 1, glm.Bernoulli{}, 2000), 2},
		{wideProblem(t, 50, 3, glm.Categorical{}, 2000), 2},
		{wideProblem(t, 150, 1, glm.Poisson{}, 10000), 4},
	} {
		t.Run(row.q.lik.Name(), func(t *testing.T) {
			q := row.q
			var p passes
			w := testref.Must(weightspace.Fit(t.Context(), q.train, q.sites(t), q.prior, q.theta, p.options()))(t)
			require.Equal(t, 1, p.sums)
			w = testref.Must(w.Refit(t.Context(), gp.NewTargets(q.y, q.lik)))(t)
			require.Empty(t, w.Warnings())
			t.Logf("%d Newton steps, %d factorizations", p.steps, p.sums)
			require.GreaterOrEqual(t, p.steps, 5)
			require.LessOrEqual(t, p.sums, row.most)
			c := testref.Must(weightspace.Validate(t.Context(), q.exactRefit(t), w, q.test, 1e-11))(t)
			requireRows(t, c, "refit mean", "refit covariance", "refit log det", "refit log evidence (E9)")
		})
	}
}

// Where Λ does not depend on f, the factor of the fit is that of the refit.
func TestE9GaussianRefitKeepsTheFactor(t *testing.T) {
	q := spaceProblems(t)[0]
	var p passes
	w := testref.Must(weightspace.Fit(t.Context(), q.train, q.sites(t), q.prior, q.theta, p.options()))(t)
	logDet := w.LogDet()
	w = testref.Must(w.Refit(t.Context(), gp.NewTargets(q.y, q.lik)))(t)
	require.Equal(t, 1, p.sums)
	require.Equal(t, logDet, w.LogDet())
	c := testref.Must(weightspace.Validate(t.Context(), q.exactRefit(t), w, q.test, spaceTol))(t)
	require.True(t, c.OK(), "%v", c.Rows)
}

// Of a prior variance of 1e300 and outputs of 700 nothing converges: the log
// evidence is −5e302. The refit says how far it is from the mode.
func TestE9RefitFarFromTheModeWarns(t *testing.T) {
	q := newSpaceProblem(t, "far", 26, 40, 1, glm.Bernoulli{}, 0.5)
	for i, f := range q.train.F.RawMatrix().Data {
		q.train.F.Set(i, 0, f+700*float64(1-2*(i%2)))
	}
	variance := make([]float64, len(q.theta))
	for i := range variance {
		variance[i] = 1e300
	}
	w, err := weightspace.Refit(t.Context(), q.train, gp.NewTargets(q.y, q.lik), rawPrior{make([]float64, len(variance)), variance}, q.theta, nil)
	require.NoError(t, err)
	require.Less(t, w.EvidenceRefit().Value, -1e302)
	warned := testkit.RequireWarnings(t, w.Warnings(), "refit-steps", "refit-gap")
	require.Greater(t, warned[0].Value, 0.1)
	require.Greater(t, warned[1].Value, 1e150)
	require.Regexp(t, `raise the log posterior by \S+e\+3\d\d`, warned[1].Text)
}

// A recorder cancels its context when the at-th report of progress comes, and
// keeps the reports.
type recorder struct {
	cancel context.CancelFunc
	at     int
	stages []string
}

func (r *recorder) report(stage string, _, _ int) {
	r.stages = append(r.stages, stage)
	if len(r.stages) == r.at {
		r.cancel()
	}
}

// A cancelled fit, comparison or refit ends with the context's error, whichever
// report of progress it is cancelled in, and reports nothing more.
func TestWeightsAreCancelledAtEachStage(t *testing.T) {
	q := newSpaceProblem(t, "cancel", 27, 300, 2, glm.Bernoulli{}, 1)
	x := gptest.Another(rand.New(rand.NewPCG(3, 9)), q.train, 300)
	exact, sites := q.exact(t, gp.LinearGaussian), q.sites(t)
	all := func(ctx context.Context, r *recorder) error {
		w, err := weightspace.Fit(ctx, q.train, sites, q.prior, q.theta, &weightspace.Options{Mean: gp.LinearGaussian, Limits: linearize.Limits{Progress: r.report}})
		if err != nil {
			return err
		}
		if _, err = weightspace.Validate(ctx, exact, w, x, 0); err != nil {
			return err
		}
		_, err = w.Refit(ctx, gp.NewTargets(q.y, q.lik))
		return err
	}
	seen := map[string]bool{}
	for at := 1; ; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		r := &recorder{cancel: cancel, at: at}
		err := all(ctx, r)
		cancel()
		if err == nil {
			require.Less(t, len(r.stages), at)
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, r.stages, at, "progress after the cancellation")
		seen[r.stages[at-1]] = true
	}
	require.Equal(t, map[string]bool{weightspace.StagePrecision: true, weightspace.StageComparison: true, gp.StageNewton: true}, seen)
}

func BenchmarkWeights(b *testing.B) {
	q := wideProblem(b, 150, 1, glm.Bernoulli{}, 2000)
	sites := testref.Must(gp.NewSites(gp.NewTargets(q.y, q.lik), q.train.F))(b)
	fit := func() *weightspace.Posterior {
		return testref.Must(weightspace.Fit(b.Context(), q.train, sites, q.prior, q.theta, nil))(b)
	}
	b.Run("fit/N=150/P=2065", func(b *testing.B) {
		for b.Loop() {
			fit()
		}
	})
	b.Run("fit and refit/N=150/P=2065", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, testref.Err(fit().Refit(b.Context(), gp.NewTargets(q.y, q.lik))))
		}
	})
}
