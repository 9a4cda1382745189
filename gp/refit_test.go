package gp_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Newton's full steps do not converge from everywhere; the line search makes
// them. The outputs at θ* and the prior mean are both far from the mode.
func TestRefitFromFarAway(t *testing.T) {
	for _, scale := range []float64{10, 50, 300} {
		for seed := range uint64(5) {
			for _, q := range []*problem{
				newProblem("bernoulli", 100+seed, 1, glm.Bernoulli{}, scale),
				newProblem("categorical", 200+seed, 4, glm.Categorical{}, scale),
				newProblem("poisson", 300+seed, 1, glm.Poisson{}, math.Min(scale, 10)), // exp(50) leaves no digits of α
			} {
				e := q.refit(t, nil)
				v := q.modeOfWeights(t)
				want := plus(q.fTrain, 1, product(q.jTrain, plus(v, -1, vec(q.theta))))
				requireClose(t, q.name, column(e.Sites().F), want, 1e-7)
				// Stationary: f̂ = m + K r(f̂).
				f := plus(q.priorTrain, 1, product(q.kTrain, column(e.Sites().Residual)))
				requireClose(t, q.name+": m + Kr", f, column(e.Sites().F), 1e-7)
			}
		}
	}
}

func TestRefitStopsAtMaxIter(t *testing.T) {
	q := newProblem("categorical", 6, 4, glm.Categorical{}, 1)
	e := testref.Must(gp.Refit(t.Context(), q.kernel, q.train, q.y, q.lik, &gp.Options{MaxIter: 1}))(t)
	w := testkit.RequireWarnings(t, e.Warnings(), "refit-steps", "refit-gap")
	require.ErrorContains(t, w[0], "after 1 Newton steps")
	require.Greater(t, w[1].Value, 1e-6)
	// Sites, B, b and α still belong together: both sums agree.
	raw := product(q.cross(t, e, q.test, gp.Raw), vec(e.Alpha()))
	post := product(q.cross(t, e, q.test, gp.Posterior), vec(e.PseudoTargets()))
	requireClose(t, "Σ Cb", post, raw, tol)
}

func TestRefitHasNoFiniteStart(t *testing.T) {
	lik := glm.Poisson{}
	k := fixedKernel{mat.NewDense(1, 1, []float64{1e-3})}
	x := &linearize.Batch{F: mat.NewDense(1, 1, []float64{1})}
	_, err := gp.Refit(t.Context(), shiftedKernel{k, 1e6}, x, mat.NewDense(1, 1, []float64{1}), lik, nil)
	require.ErrorContains(t, err, "no finite value")
}

// shiftedKernel has a constant prior mean.
type shiftedKernel struct {
	fixedKernel
	mean float64
}

func (k shiftedKernel) MeanTo(dst []float64, _ *linearize.Batch) {
	for i := range dst {
		dst[i] = k.mean
	}
}

func TestRefitChecksTargets(t *testing.T) {
	q := newProblem("bernoulli", 3, 1, glm.Bernoulli{}, 1)
	q.y.Set(4, 0, math.NaN())
	_, err := gp.Refit(t.Context(), q.kernel, q.train, q.y, q.lik, nil)
	requireNotFinite(t, err, "target", 4, 0)
	q.y.Set(4, 0, 7)
	require.ErrorContains(t, testref.Err(gp.Refit(t.Context(), q.kernel, q.train, q.y, q.lik, nil)), "example 4")
}

// Under a likelihood with Fisher information the refit climbs to a point without slope,
// also where the data nearly fix the means, so that scoring alone would take thousands of
// steps.
func TestRefitByFisherScoring(t *testing.T) {
	for seed := range uint64(8) {
		for _, scale := range []float64{1, 3} {
			q := newProblem("heteroscedastic", 400+seed, 2, glm.Heteroscedastic{}, scale)
			e := testref.Must(gp.Refit(t.Context(), q.kernel, q.train, q.y, q.lik, nil))(t)
			tol := 1e-4
			if len(e.Warnings()) > 0 { // where σ² is tiny, α has few digits
				testkit.RequireWarnings(t, e.Warnings(), "refit-gap")
				tol = 1e-3
			}
			// Stationary: f̂ = m + K r(f̂).
			r := column(e.Sites().Residual)
			var pull mat.Dense
			pull.Mul(q.kTrain, plus(vec(e.Alpha()), -1, r))
			require.Less(t, mat.Norm(&pull, math.Inf(1)), tol*mat.Norm(column(e.Sites().F), math.Inf(1)), "seed %d, scale %v", seed, scale)
			require.Greater(t, e.EvidenceRefit().LogLik-e.EvidenceRefit().Scatter/2, q.sites(t).LogLik-gp.Scatter(q.kernel.densePrior, q.theta)/2)
		}
	}
}

// The total derivative of the evidence takes the curvature of the likelihood for the
// moving mode, and not its expectation.
func TestE10OfFisherScoring(t *testing.T) {
	for _, q := range []*problem{
		newProblemOf("heteroscedastic", 10, 60, 2, glm.Heteroscedastic{}, 0.5),
		newProblemOf("heteroscedastic-two", 12, 40, 4, glm.Heteroscedastic{}, 0.5),
	} {
		at := func(x float64) *gp.Exact {
			e := testref.Must(gp.Refit(t.Context(), q.scaledPrior(math.Exp(x)), q.train, q.y, q.lik, nil))(t)
			require.Empty(t, e.Warnings())
			return e
		}
		const h = 0.02
		value := func(x float64) float64 { return at(x).EvidenceRefit().Value }
		want := (8*(value(h)-value(-h)) - (value(2*h) - value(-2*h))) / (12 * h)
		e := at(0)
		got := testref.Must(testkit.GradientRefit(t.Context(), e, []ntk.Kernel{q.kernel}, q.y, q.lik))(t)
		requireNumber(t, q.name, got[0], want, 1e-6)
		still := testref.Must(testkit.GradientLinearGaussian(t.Context(), e, []ntk.Kernel{q.kernel}))(t)
		t.Logf("%s: %.9g by differences %.9g, without the moving mode %.4g", q.name, got[0], want, still[0])
	}
}
