package gp_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// columnsBatch is n examples whose Jacobian is j, n·C×P.
func columnsBatch(j, f *mat.Dense) *linearize.Batch {
	_, p := j.Dims()
	_, c := f.Dims()
	return &linearize.Batch{F: f, P: p, Blocks: []linearize.Block{
		&linearize.Full{J: j, C: c, Params: []linearize.Span{{Name: "all", Rows: 1, Cols: p}}}}}
}

// sums returns m + Σ C(x, x_i) b_i, m + Σ κ(x, x_i) α_i and the mean of e at x.
func (q *problem) sums(t *testing.T, e *gp.Exact, x *linearize.Batch) (post, raw, mean *mat.Dense) {
	t.Helper()
	m := make([]float64, x.Len()*q.c)
	q.prior.MeanTo(m, x)
	post = plus(product(q.cross(t, e, x, gp.PosteriorTerms), vec(e.PseudoTargets())), 1, vec(m))
	raw = plus(product(q.cross(t, e, x, gp.RawTerms), vec(e.Alpha())), 1, vec(m))
	mean = new(mat.Dense)
	require.NoError(t, e.PredictTo(t.Context(), mean, nil, x))
	return post, raw, column(mean)
}

// illConditioned draws n examples with p parameters under a prior of precision
// delta; with repeats, the second half is the first with targets of its own.
func illConditioned(t *testing.T, lik gp.Likelihood, n, c, p int, delta, scale float64, repeats bool) *problem {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	j, f := random(rng, n*c, p, 1), random(rng, n, c, scale)
	y := targets(rng, lik, f)
	for i := range n / 2 * c {
		if repeats {
			j.SetRow(n/2*c+i, j.RawRowView(i))
			f.SetRow(n/2+i/c, f.RawRowView(i/c))
		}
	}
	prior := testref.Must(ntk.NewIsotropic(delta, nil))(t)
	theta := random(rng, 1, p, 0.1).RawMatrix().Data
	return &problem{lik: lik, n: n, t: 10, c: c, p: p, y: y, train: columnsBatch(j, f),
		test: columnsBatch(random(rng, 10*c, p, 1), random(rng, 10, c, scale)), prior: ntk.New(prior, theta)}
}

// Where the examples are apart, B may have any condition: both sums close. A
// difference of prior and explained covariance alone is off by up to 2e-3 here.
func TestSumsCloseWherePriorIsWide(t *testing.T) {
	for _, delta := range []float64{1e-2, 1e-6, 1e-9} {
		for _, noise := range []float64{1, max(1e-3, 1e-9/delta)} { // leverage up to 1 − 1e-12
			lik := testref.Must(glm.NewGaussian(noise))(t)
			q := illConditioned(t, lik, 60, 1, 400, delta, 1, false)
			e := testref.Must(gp.Refit(t.Context(), q.prior, q.train, gp.NewTargets(q.y, lik), nil))(t)
			for _, x := range []*linearize.Batch{q.train, q.test} {
				post, raw, mean := q.sums(t, e, x)
				requireClose(t, "m + Σ C b", post, mean, 1e-10)
				requireClose(t, "m + Σ κ α", raw, mean, 1e-10)
			}
			require.Nil(t, linearize.FindWarning(e.Warnings(), "sums-open"))
		}
	}
}

// Repeated examples with conflicting targets, few parameters and saturated
// outputs under a wide prior: a sum closes, or a warning tells its gap.
func TestOpenSumsAreToldOf(t *testing.T) {
	gauss := testref.Must(glm.NewGaussian(1))(t)
	warned := 0
	for _, delta := range []float64{1, 1e-4, 1e-8, 1e-11} {
		for _, lik := range []gp.Likelihood{gauss, glm.Bernoulli{}, glm.Categorical{}, glm.Poisson{}} {
			for _, scale := range []float64{1, 60} {
				if _, ok := lik.(glm.Poisson); ok && scale > 1 {
					continue // exp(60) events
				}
				c := 1
				if _, ok := lik.(glm.Categorical); ok {
					c = 3
				}
				for _, p := range []int{10, 300} {
					q := illConditioned(t, lik, 40, c, p, delta, scale, true)
					e := testref.Must(gp.Refit(t.Context(), q.prior, q.train, gp.NewTargets(q.y, lik), nil))(t)
					told := 0.0
					if w := linearize.FindWarning(e.Warnings(), "sums-open"); w != nil {
						told = w.Value
						require.Greater(t, told, 1e-8)
						warned++
					}
					post, _, mean := q.sums(t, e, q.train)
					// A prediction's own rounding, which depends on the machine, comes on top.
					requireClose(t, fmt.Sprintf("m + Σ C b of %T, δ = %g, P = %d, outputs of %g", lik, delta, p, scale), post, mean, math.Max(2e-8, 50*told))
				}
			}
		}
	}
	require.Greater(t, warned, 3)
}

// promise returns how much higher the objective of the refit is at its mode, by
// the quadratic model at the sites of e, with the Hessian over parameters.
func (q *problem) promise(t *testing.T, e *gp.Exact, delta float64) float64 {
	t.Helper()
	s, j := e.Sites(), q.train.Blocks[0].(*linearize.Full).J
	// Jᵀ(r − α) and JᵀΛJ + δI
	d := plus(column(s.Residual), -1, vec(e.Alpha()))
	g, h := product(j.T(), d), mat.NewSymDense(q.p, nil)
	lj := mat.NewDense(q.n*q.c, q.p, nil)
	for i := range q.n {
		lo, hi := i*q.c, (i+1)*q.c
		lj.Slice(lo, hi, 0, q.p).(*mat.Dense).Mul(s.Lambda.Slice(lo, hi, 0, q.c), j.Slice(lo, hi, 0, q.p))
	}
	jlj := product(j.T(), lj)
	for a := range q.p {
		for b := a; b < q.p; b++ {
			h.SetSym(a, b, (jlj.At(a, b)+jlj.At(b, a))/2)
		}
		h.SetSym(a, a, h.At(a, a)+delta)
	}
	var f mat.Cholesky
	require.True(t, f.Factorize(h))
	var step mat.Dense
	if err := f.SolveTo(&step, g); err != nil {
		var bad mat.Condition
		require.ErrorAs(t, err, &bad) // a wide prior; the step is still right in size
	}
	return product(step.T(), g).At(0, 0) / 2
}

// Refits under wide priors, with repeated examples, conflicting targets and
// saturated outputs, end at the mode, where a Newton step reaches beyond the mode
// by up to 1e26.
func TestRefitReachesItsMode(t *testing.T) {
	for _, lik := range []gp.Likelihood{glm.Poisson{}, glm.Bernoulli{}, glm.Categorical{}} {
		c, scale := 1, 60.0
		switch lik.(type) {
		case glm.Poisson:
			scale = 3
		case glm.Categorical:
			c = 3
		}
		for _, delta := range []float64{1, 1e-3, 1e-6, 1e-8} {
			for _, p := range []int{5, 40, 120} {
				q := illConditioned(t, lik, 40, c, p, delta, scale, true)
				e := testref.Must(gp.Refit(t.Context(), q.prior, q.train, gp.NewTargets(q.y, lik), nil))(t)
				require.LessOrEqual(t, q.promise(t, e, delta), 1e-6, "%T, δ = %g, P = %d: %v", lik, delta, p, e.Warnings())
			}
		}
	}
}

// Where rounding under a wide prior keeps the refit from its mode, it says so.
func TestRefitThatRoundingStopsIsToldOf(t *testing.T) {
	q := illConditioned(t, glm.Bernoulli{}, 40, 1, 300, 1e-12, 60, true)
	e := testref.Must(gp.Refit(t.Context(), q.prior, q.train, gp.NewTargets(q.y, q.lik), nil))(t)
	require.Greater(t, e.EvidenceRefit().Value, -1e3)
	stopped := linearize.FindWarning(e.Warnings(), "refit-steps")
	require.NotNil(t, stopped, "%v", e.Warnings())
	require.Greater(t, stopped.Value, 1e-8)
}

// A refit whose numbers overflow is an error with a number and a remedy, never
// a posterior whose evidence is NaN.
func TestRefitThatOverflowsIsAnError(t *testing.T) {
	for _, c := range []struct {
		lik          gp.Likelihood
		delta, scale float64
	}{{glm.Poisson{}, 1, 300}, {glm.Bernoulli{}, 1e-300, 30}, {glm.Bernoulli{}, 1e-300, 600}, {glm.Bernoulli{}, 1e-150, 60}} {
		for _, p := range []int{3, 30} {
			q := illConditioned(t, glm.Bernoulli{}, 20, 1, p, c.delta, c.scale, false)
			e, err := gp.Refit(t.Context(), q.prior, q.train, gp.NewTargets(q.y, c.lik), nil)
			if err != nil {
				testref.As[*gp.NotFiniteError](t, err)
				require.ErrorContains(t, err, "raise the prior precision")
				continue
			}
			require.False(t, math.IsNaN(e.EvidenceRefit().Value), "%T, δ = %g", c.lik, c.delta)
		}
	}
}

// A prior so wide that B has no place in a float64 is an error with its number
// and a remedy, and no jitter is infinite.
func TestOverflowIsAnError(t *testing.T) {
	fit := func(k, lambda float64) (*gp.Exact, error) {
		kernel := fixedKernel{mat.NewDense(3, 3, []float64{k, k, k, k, k, k, k, k, k})}
		x := &linearize.Batch{F: mat.NewDense(3, 1, nil)}
		lik := testref.Must(glm.NewGaussian(1 / lambda))(t)
		s := testref.Must(gp.NewSites(gp.NewTargets(mat.NewDense(3, 1, []float64{1, 2, 3}), lik), x.F))(t)
		return gp.Fit(t.Context(), kernel, x, s, nil)
	}
	var at *gp.NotFiniteError
	_, err := fit(1e305, 1e6)
	require.ErrorAs(t, err, &at)
	require.Equal(t, "I + RᵀKR", at.What)
	require.ErrorContains(t, err, "raise the prior precision")
	_, err = fit(math.Inf(1), 1)
	require.ErrorAs(t, err, &at)
	require.Equal(t, "kernel", at.What)
	require.ErrorContains(t, err, "raise the prior precision")
	// The diagonal adds up to more than a float64 holds.
	e, err := fit(1e308, 1)
	if err != nil {
		require.ErrorAs(t, err, &at)
		return
	}
	if w := linearize.FindWarning(e.Warnings(), "jitter"); w != nil {
		require.NotContains(t, w.Text, "Inf")
	}
}

// Outputs that are 0 to rounding, of targets that say nothing, give no warning: their sums
// are 0 too.
func TestClosureOfOutputsThatAreZero(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const n = 100
	row := random(rng, 1, 3, 1).RawRowView(0)
	j, f, y := mat.NewDense(n, 3, nil), mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		j.SetRow(i, row)
		f.Set(i, 0, 1e-9)
		y.Set(i, 0, float64(i%2))
	}
	prior := testref.Must(ntk.NewIsotropic(3, nil))(t)
	k := ntk.New(prior, make([]float64, 3))
	e := testref.Must(gp.Refit(t.Context(), k, columnsBatch(j, f), gp.NewTargets(y, glm.Bernoulli{}), nil))(t)
	require.Empty(t, e.Warnings())
}
