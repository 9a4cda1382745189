package gp_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
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
	e := testref.Must(gp.Refit(t.Context(), q.kernel, q.train, gp.NewTargets(q.y, q.lik), &gp.Options{MaxIter: 1}))(t)
	w := testkit.RequireWarnings(t, e.Warnings(), "refit-steps", "refit-gap")
	require.ErrorContains(t, w[0], "after 1 Newton steps")
	require.Greater(t, w[1].Value, 1e-6)
	// Sites, B, b and α still belong together: both sums agree.
	raw := product(q.cross(t, e, q.test, gp.RawTerms), vec(e.Alpha()))
	post := product(q.cross(t, e, q.test, gp.PosteriorTerms), vec(e.PseudoTargets()))
	requireClose(t, "Σ Cb", post, raw, tol)
}

func TestRefitHasNoFiniteStart(t *testing.T) {
	lik := glm.Poisson{}
	k := fixedKernel{mat.NewDense(1, 1, []float64{1e-3})}
	x := &linearize.Batch{F: mat.NewDense(1, 1, []float64{1})}
	_, err := gp.Refit(t.Context(), shiftedKernel{k, 1e6}, x, gp.NewTargets(mat.NewDense(1, 1, []float64{1}), lik), nil)
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
	_, err := gp.Refit(t.Context(), q.kernel, q.train, gp.NewTargets(q.y, q.lik), nil)
	requireNotFinite(t, err, "target", 4, 0)
	q.y.Set(4, 0, 7)
	require.ErrorContains(t, testref.Err(gp.Refit(t.Context(), q.kernel, q.train, gp.NewTargets(q.y, q.lik), nil)), "example 4")
}

// Under a likelihood with Fisher information the refit climbs to a point without slope,
// also where the data nearly fix the means, so that scoring alone would take thousands of
// steps.
func TestRefitByFisherScoring(t *testing.T) {
	for seed := range uint64(8) {
		for _, scale := range []float64{1, 3} {
			q := newProblem("heteroscedastic", 400+seed, 2, glm.Heteroscedastic{}, scale)
			e := testref.Must(gp.Refit(t.Context(), q.kernel, q.train, gp.NewTargets(q.y, q.lik), nil))(t)
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
			e := testref.Must(gp.Refit(t.Context(), q.scaledPrior(math.Exp(x)), q.train, gp.NewTargets(q.y, q.lik), nil))(t)
			require.Empty(t, e.Warnings())
			return e
		}
		const h = 0.02
		value := func(x float64) float64 { return at(x).EvidenceRefit().Value }
		want := (8*(value(h)-value(-h)) - (value(2*h) - value(-2*h))) / (12 * h)
		e := at(0)
		got := testref.Must(testkit.GradientRefit(t.Context(), e, []ntk.Kernel{q.kernel}, gp.NewTargets(q.y, q.lik)))(t)
		requireNumber(t, q.name, got[0], want, 1e-6)
		still := testref.Must(testkit.GradientLinearGaussian(t.Context(), e, []ntk.Kernel{q.kernel}))(t)
		t.Logf("%s: %.9g by differences %.9g, without the moving mode %.4g", q.name, got[0], want, still[0])
	}
}

// scaledPrior returns the kernel of q with its prior variances times factor.
func (q *problem) scaledPrior(factor float64) denseKernel {
	k := q.kernel
	k.variance = make([]float64, len(q.variance))
	for i, v := range q.variance {
		k.variance[i] = factor * v
	}
	return k
}

// A posterior that was rescaled, once and again, is the one computed anew.
func TestRescale(t *testing.T) {
	for _, q := range problems(t) {
		for _, refit := range []bool{false, true} {
			at := func(factor float64) *gp.Exact {
				k := q.scaledPrior(factor)
				if refit {
					e, err := gp.Refit(t.Context(), k, q.train, gp.NewTargets(q.y, q.lik), nil)
					require.NoError(t, err, q.name)
					return e
				}
				s, err := gp.NewSites(gp.NewTargets(q.y, q.lik), q.train.F)
				require.NoError(t, err, q.name)
				e, err := gp.Fit(t.Context(), k, q.train, s, nil)
				require.NoError(t, err, q.name)
				return e
			}
			e, last := at(1), 1.0
			for _, factor := range []float64{3, 0.04, 0.7} {
				var err error
				e, err = e.Rescale(t.Context(), q.scaledPrior(factor), factor/last, gp.NewTargets(q.y, q.lik))
				require.NoError(t, err, q.name)
				want := at(factor)
				require.Equal(t, refit, e.Refitted())
				// A refit settles to 1e-12 of f̂, which K⁻¹ multiplies in α.
				requireClose(t, q.name+": f", column(e.Sites().F), column(want.Sites().F), 1e-9)
				requireNumber(t, q.name+": evidence", linearGaussian(t, e).Value, linearGaussian(t, want).Value, 1e-9)
				var mean, cov, wantMean, wantCov mat.Dense
				require.NoError(t, e.PredictTo(t.Context(), &mean, &cov, q.test))
				require.NoError(t, want.PredictTo(t.Context(), &wantMean, &wantCov, q.test))
				requireClose(t, q.name+": mean", &mean, &wantMean, 1e-8)
				requireClose(t, q.name+": covariance", &cov, &wantCov, 1e-8)
				last = factor
			}
		}
	}
}

func TestRescaleStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	q := problems(t)[5]
	e := q.refit(t, nil)
	cancel()
	require.ErrorIs(t, testref.Err(e.Rescale(ctx, q.scaledPrior(2), 2, gp.NewTargets(q.y, q.lik))), context.Canceled)
	require.Panics(t, func() { _, _ = q.refit(t, nil).Rescale(t.Context(), q.kernel, 0, gp.NewTargets(q.y, q.lik)) })
}

// An exact posterior that is moved to other sites is that fitted there, to the last bit,
// and its mean at the training examples is the one it predicts.
func TestRecondition(t *testing.T) {
	for _, q := range problems(t) {
		t.Run(q.name, func(t *testing.T) {
			at := testref.Must(gp.NewSites(gp.NewTargets(q.y, q.lik), q.train.F))(t)
			moved := mat.DenseCopyOf(q.train.F)
			moved.Scale(0.7, moved)
			other := testref.Must(gp.NewSites(gp.NewTargets(q.y, q.lik), moved))(t)
			o := &gp.Options{Mean: gp.LinearGaussian}
			want := testref.Must(gp.Fit(t.Context(), q.kernel, q.train, other, o))(t)
			first := testref.Must(gp.Fit(t.Context(), q.kernel, q.train, at, nil))(t)
			got := testref.Must(first.Recondition(t.Context(), other))(t)
			require.Equal(t, want.Alpha(), got.Alpha())
			require.Equal(t, linearGaussian(t, want), linearGaussian(t, got))
			var mean, wantMean mat.Dense
			require.NoError(t, got.PredictTo(t.Context(), &mean, nil, q.test))
			require.NoError(t, want.PredictTo(t.Context(), &wantMean, nil, q.test))
			require.Equal(t, wantMean.RawMatrix().Data, mean.RawMatrix().Data)
			var train mat.Dense
			require.NoError(t, got.PredictTo(t.Context(), &train, nil, q.train))
			require.InDeltaSlice(t, train.RawMatrix().Data, testref.Must(got.TrainingMean(t.Context()))(t), 1e-9*(1+mat.Norm(&train, math.Inf(1))))
			require.Panics(t, func() { _, _ = got.Recondition(t.Context(), other.Rows([]int{0})) })
		})
	}
}

// concave are the problems whose likelihood is concave.
func concave(t *testing.T) []*problem {
	var list []*problem
	for _, q := range problems(t) {
		if _, ok := q.lik.(gp.Scored); !ok {
			list = append(list, q)
		}
	}
	return list
}

// refitAt is the refit of q under prior precisions times factor, computed anew.
func (q *problem) refitAt(t *testing.T, factor float64) *gp.Exact {
	t.Helper()
	e, err := gp.Refit(t.Context(), q.scaledPrior(1/factor), q.train, gp.NewTargets(q.y, q.lik), nil)
	require.NoError(t, err, q.name)
	return e
}

func (q *problem) kernelAt(factor float64) (ntk.Kernel, error) { return q.scaledPrior(1 / factor), nil }

// best is the most that the log likelihood of the targets of q can be.
func (q *problem) best() float64 {
	sum := 0.0
	for i := range q.n {
		switch lik := q.lik.(type) {
		case *glm.Gaussian:
			sum += lik.LogProb(q.y.RawRowView(i), q.y.RawRowView(i))
		case glm.Poisson:
			sum += lik.LogProb(q.y.RawRowView(i), []float64{math.Log(math.Max(q.y.At(i, 0), 1e-300))})
		}
	}
	return sum
}

// TestE21Slope compares dℓ(f̂)/d log δ = −αᵀC(X,X)α with differences of refits: the search that is
// given another slope than that of its refits does not take as few of them.
func TestE21Slope(t *testing.T) {
	for _, q := range concave(t) {
		const h = 1e-3
		up, down := q.refitAt(t, math.Exp(h)).Sites().LogLik, q.refitAt(t, math.Exp(-h)).Sites().LogLik
		slope := testref.Must(q.refitAt(t, 1).MatchSlope(t.Context()))(t)
		require.InDelta(t, (up-down)/(2*h), slope, 1e-4*(1+math.Abs(slope)), q.name)
	}
}

// TestE21Match finds the precision at which the refit has the log likelihood of a network whose
// outputs are those of a refit at another precision, from near and far, and compares it with
// bisection on refits that are computed anew.
func TestE21Match(t *testing.T) {
	for _, q := range concave(t) {
		for _, root := range []float64{-3, -0.4, 0.07, 2.5} {
			target := q.refitAt(t, math.Exp(root)).Sites().LogLik
			lo, hi := root-1, root+1
			for range 40 {
				mid := (lo + hi) / 2
				if q.refitAt(t, math.Exp(mid)).Sites().LogLik > target {
					lo = mid
				} else {
					hi = mid
				}
			}
			require.InDelta(t, root, lo, 1e-6, q.name)

			e := q.refitAt(t, 1)
			prior := q.logLik(e.PriorMean())
			factor := 1.0
			at := func(ctx context.Context, x float64) (gp.MatchTrial, error) {
				next := math.Exp(x)
				k, err := q.kernelAt(next)
				if err != nil {
					return gp.MatchTrial{}, err
				}
				if e, err = e.Rescale(ctx, k, factor/next, gp.NewTargets(q.y, q.lik)); err != nil {
					return gp.MatchTrial{}, err
				}
				factor = next
				slope, err := e.MatchSlope(ctx)
				return gp.MatchTrial{LogLik: e.Sites().LogLik, Slope: slope, Arrived: true}, err
			}
			m := testref.Must(gp.FindMatch(t.Context(), target, prior, q.best(), false, at, nil))(t)
			require.InDelta(t, root, math.Log(m.Root), 1e-5, "%s: the last step is quadratic in the one before", q.name)
			if math.Abs(root) < gp.MatchKeeps {
				require.Equal(t, gp.MatchKept, m.End, q.name)
				require.Equal(t, 1.0, m.Factor)
			} else {
				require.Equal(t, gp.MatchFound, m.End, q.name)
				require.InDelta(t, root, math.Log(m.Factor), 1.1e-3, q.name)
			}
			require.Equal(t, m.Factor, factor, "the last refit is the result")
			require.LessOrEqual(t, m.Refits, 10, q.name)
		}
	}
}

// logLik is the log likelihood of the targets at stacked function values.
func (q *problem) logLik(f []float64) float64 {
	sum := 0.0
	for i := range q.n {
		sum += q.lik.Expand(nil, nil, nil, q.y.RawRowView(i), f[i*q.c:(i+1)*q.c])
	}
	return sum
}

// TestE21ExactMatch checks that Exact.Match ends with the refit at the precision that it reports, and
// that the log likelihood there is the network's.
func TestE21ExactMatch(t *testing.T) {
	for _, q := range concave(t) {
		e, m, err := q.refitAt(t, 1).Match(t.Context(), q.kernelAt, gp.NewTargets(q.y, q.lik), q.best(), false)
		require.NoError(t, err, q.name)
		require.Equal(t, q.logLik(dense.Flat(q.train.F)), m.Network)
		want := q.refitAt(t, m.Factor)
		require.InDelta(t, want.Sites().LogLik, m.LogLik, 1e-7*(1+math.Abs(m.LogLik)), q.name)
		requireClose(t, q.name, column(e.Sites().F), column(want.Sites().F), 1e-8)
		switch prior := q.logLik(e.PriorMean()); {
		case m.Network <= prior:
			require.Equal(t, gp.MatchNone, m.End, q.name)
			require.Equal(t, 1.0, m.Factor)
		case m.End == gp.MatchFound:
			require.InDelta(t, m.Network, m.LogLik, 2e-3*math.Abs(m.Network-q.best())+1e-9, q.name)
		}
	}
}

// TestE21MatchOfInterpolation checks that a network which fits its training examples better than any
// refit of certain leverages gets the smallest precision at which these are certain.
func TestE21MatchOfInterpolation(t *testing.T) {
	q := newProblem("gaussian", 1, 1, testref.Must(glm.NewGaussian(0.2))(t), 1)
	q.train.F.Copy(q.y) // the network interpolates
	q.fill()
	e, m, err := q.refitAt(t, 1).Match(t.Context(), q.kernelAt, gp.NewTargets(q.y, q.lik), q.best(), false)
	require.NoError(t, err)
	require.Equal(t, gp.MatchBelow, m.End)
	require.Less(t, m.Factor, 1.0)
	require.Greater(t, m.Factor, 1e-12)
	require.True(t, e.Refitted())
}

// TestMatchStops checks that a cancelled context ends the search, and that the posterior must be a refit.
func TestMatchStops(t *testing.T) {
	q := problems(t)[2]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := q.refitAt(t, 1).Match(ctx, q.kernelAt, gp.NewTargets(q.y, q.lik), 0, false)
	require.ErrorIs(t, err, context.Canceled)
}

// Conditioning on the same noise everywhere gives v = K_** − K_*n (K + εI)⁻¹ K_n* (E22), and
// leaves the posterior as it is. Leaving out an example in closed form is the inverse of the
// block of (K + εI)⁻¹ less ε, and what the formula gives without its rows.
func TestConditionOnUniformNoise(t *testing.T) {
	const noise = 0.03
	for _, q := range problems(t) {
		s, err := gp.NewSites(gp.NewTargets(q.y, q.lik), q.train.F)
		require.NoError(t, err, q.name)
		e, err := gp.Fit(t.Context(), q.kernel, q.train, s, nil)
		require.NoError(t, err, q.name)
		var before, after, beforeCov, afterCov mat.Dense
		require.NoError(t, e.PredictTo(t.Context(), &before, &beforeCov, q.test))
		v, err := e.Condition(t.Context(), gp.UniformSites(q.n, q.c, noise))
		require.NoError(t, err, q.name)
		require.NoError(t, e.PredictTo(t.Context(), &after, &afterCov, q.test))
		require.Equal(t, before.RawMatrix().Data, after.RawMatrix().Data, q.name)
		require.Equal(t, beforeCov.RawMatrix().Data, afterCov.RawMatrix().Data, q.name)

		inner := inverse(t, plus(q.kTrain, noise, identity(q.n*q.c)))
		want := plus(q.kTest, -1, product(q.kCross, inner, q.kCross.T()))
		var mean, cov mat.Dense
		require.NoError(t, v.PredictTo(t.Context(), &mean, &cov, q.test))
		require.Equal(t, q.test.F.RawMatrix().Data, mean.RawMatrix().Data, q.name)
		// v is a difference up to a thousand times smaller than K.
		requireClose(t, q.name+": v", &cov, diagonalBlocks(want, q.c), 1e-8)

		rows := make([]int, q.n)
		for i := range rows {
			rows[i] = i
		}
		cov.Reset()
		require.NoError(t, v.LeaveOneOutTo(t.Context(), nil, &cov, rows, q.train))
		for i := 0; i < q.n; i += 1 + q.n/20 {
			lo, hi := i*q.c, (i+1)*q.c
			own := plus(inverse(t, inner.Slice(lo, hi, lo, hi)), -noise, identity(q.c))
			requireClose(t, q.name+": left out, by the inverse", cov.Slice(lo, hi, 0, q.c), own, 1e-7)
			rest, cross := apart(q.kTrain, lo, hi)
			again := inverse(t, plus(rest, noise, identity(q.n*q.c-q.c)))
			again = plus(q.kTrain.Slice(lo, hi, lo, hi), -1, product(cross, again, cross.T()))
			requireClose(t, q.name+": left out, anew", cov.Slice(lo, hi, 0, q.c), again, 1e-7)
		}
	}
}

// apart returns k without rows and columns [lo, hi), and these rows without those columns.
func apart(k *mat.Dense, lo, hi int) (rest, cross *mat.Dense) {
	n, _ := k.Dims()
	at := func(i int) int {
		if i < lo {
			return i
		}
		return i + hi - lo
	}
	rest, cross = mat.NewDense(n-hi+lo, n-hi+lo, nil), mat.NewDense(hi-lo, n-hi+lo, nil)
	rest.Apply(func(i, j int, _ float64) float64 { return k.At(at(i), at(j)) }, rest)
	cross.Apply(func(i, j int, _ float64) float64 { return k.At(lo+i, at(j)) }, cross)
	return rest, cross
}

func TestConditionNeedsMemory(t *testing.T) {
	q := problems(t)[0]
	s, err := gp.NewSites(gp.NewTargets(q.y, q.lik), q.train.F)
	require.NoError(t, err)
	e := testref.Must(gp.Fit(t.Context(), q.kernel, q.train, s, &gp.Options{Limits: linearize.Limits{Memory: gp.Bytes(q.n, q.c)}}))(t)
	require.NoError(t, testref.Err(e.Condition(t.Context(), gp.UniformSites(q.n, q.c, 1))))
	e, err = gp.Fit(t.Context(), q.kernel, q.train, s, &gp.Options{Reuse: e, Limits: linearize.Limits{Memory: 1}})
	require.NoError(t, err) // the memory is there
	testref.As[*gp.MemoryError](t, testref.Err(e.Condition(t.Context(), gp.UniformSites(q.n, q.c, 1))))
	require.Panics(t, func() { gp.UniformSites(2, 1, 0) })
}
