package mode_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A matchProblem is a linear model whose weights θ* come from gradient ascent on ℓ, begun at
// the prior mean: training that stopped early.
type matchProblem struct {
	train *linearize.Batch // F at θ*
	y     *mat.Dense
	lik   gp.Likelihood
	prior ntk.Prior
	theta []float64
}

// ascend returns the problem where ℓ has risen to this part of what it may rise.
func ascend(t *testing.T, q *testkit.Problem, prior ntk.Prior, part float64) *matchProblem {
	t.Helper()
	var j mat.Dense
	q.Train.JacobianTo(&j)
	p := &matchProblem{y: q.Y, lik: q.Likelihood, prior: prior, theta: make([]float64, q.Train.P)}
	prior.MeanTo(p.theta)
	variance := make([]float64, q.Train.P)
	prior.VarianceTo(variance)
	at := func(theta []float64) *mat.Dense {
		d := floats.SubTo(make([]float64, len(theta)), theta, q.Theta)
		f := mat.NewDense(q.N*q.C, 1, nil)
		f.Mul(&j, vec(d))
		f.Add(f, testkit.Column(q.Train.F))
		return mat.NewDense(q.N, q.C, f.RawMatrix().Data)
	}
	f, step := at(p.theta), 1.0
	p.train = &linearize.Batch{X: q.Train.X, F: f, Blocks: q.Train.Blocks, P: q.Train.P}
	from := p.network(t)
	target := from + part*(p.logLik(t, lowest)-from)
	for p.network(t) < target-.01*(target-from) {
		s := testref.Must(gp.NewSites(q.Targets(), f))(t)
		var g mat.Dense
		g.Mul(j.T(), testkit.Column(s.Residual))
		for ; ; step /= 2 {
			require.Greater(t, step, 1e-14)
			next := make([]float64, len(p.theta))
			for i := range next {
				next[i] = p.theta[i] + step*variance[i]*g.At(i, 0)
			}
			to, err := gp.NewSites(q.Targets(), at(next))
			if err == nil && to.LogLik > s.LogLik && to.LogLik < target {
				p.theta, f, step = next, to.F, step*1.5
				p.train.F = f
				break
			}
		}
	}
	return p
}

// lowest is the log factor below which no test looks.
const lowest = -9

func vec(v []float64) *mat.Dense { return mat.NewDense(len(v), 1, v) }

// A scaledPrior has the variances of another prior times factor, and none where held says
// so.
type scaledPrior struct {
	ntk.Prior
	factor float64
	held   func(i int) bool
}

func (p scaledPrior) VarianceTo(dst []float64) {
	p.Prior.VarianceTo(dst)
	for i := range dst {
		if dst[i] *= p.factor; p.held != nil && p.held(i) {
			dst[i] = 0
		}
	}
}

// logLik returns ℓ at the mode under precisions times e^t, by the dense kernel.
func (p *matchProblem) logLik(t *testing.T, log float64) float64 {
	t.Helper()
	k := ntk.New(scaledPrior{Prior: p.prior, factor: math.Exp(-log)}, p.theta)
	e := testref.Must(gp.Refit(t.Context(), k, p.train, gp.NewTargets(p.y, p.lik), nil))(t)
	return e.Sites().LogLik
}

// network returns ℓ of the network.
func (p *matchProblem) network(t *testing.T) float64 {
	t.Helper()
	s := testref.Must(gp.NewSites(gp.NewTargets(p.y, p.lik), p.train.F))(t)
	return s.LogLik
}

// root returns the log factor in [lo, hi] by bisection.
func (p *matchProblem) root(t *testing.T, lo, hi float64) float64 {
	t.Helper()
	want := p.network(t)
	require.Greater(t, p.logLik(t, lo), want)
	require.Less(t, p.logLik(t, hi), want)
	for hi-lo > 1e-4 {
		if mid := (lo + hi) / 2; p.logLik(t, mid) > want {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// TestMatchE21 compares the factor with bisection over dense refits, for every likelihood
// that is concave, layerwise priors with a mean, and parameters that are held.
func TestMatchE21(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		for name, prior := range map[string]ntk.Prior{
			"layerwise": q.Prior,
			"held":      scaledPrior{Prior: q.Prior, factor: 1, held: func(i int) bool { return i%3 == 0 }},
		} {
			for _, part := range []float64{.3, .9, .99} {
				t.Run(fmt.Sprintf("%s/%s/%v", q.Name, name, part), func(t *testing.T) {
					t.Parallel()
					p := ascend(t, q, prior, part)
					want := p.root(t, lowest, 14)
					for what, o := range map[string]struct {
						tolerance  float64
						directions int
					}{"default": {}, "restarts": {directions: 8}, "finer": {tolerance: 1e-4}} {
						if what == "restarts" && strings.Contains(q.Name, "saturated") {
							continue // ℓ is nearly piecewise linear, so that what was learnt of Λ does not last
						}
						m, err := mode.FindMatchWithin(t.Context(), testkit.InTiles(p.train, 7), gp.NewTargets(p.y, p.lik), p.prior, p.theta, nil, o.tolerance, 0, o.directions, 0)
						require.NoError(t, err, what)
						require.Empty(t, m.Warnings, what)
						got := math.Log(m.Factor)
						t.Logf("%s: log factor %.5f, want %.5f, error %.2g, %d passes", what, got, want, m.Error, m.Passes)
						require.LessOrEqual(t, math.Abs(got-want), m.Error+1e-4, what)
						require.InDelta(t, p.network(t), m.Network, 1e-9*math.Abs(m.Network))
						if math.Abs(got)+m.Error >= .1 {
							allowed := .01
							if o.tolerance > 0 {
								allowed = o.tolerance
							}
							require.LessOrEqual(t, m.Error, allowed, what)
						}
					}
				})
			}
		}
	}
}

// TestMatchOfAMode checks that a network at the mode under a known factor has this one.
func TestMatchOfAMode(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		for _, want := range []float64{.01, 1, 40} {
			v, err := mode.Find(t.Context(), q.Train, q.Targets(), scaledPrior{Prior: q.Prior, factor: 1 / want}, q.Theta, nil)
			require.NoError(t, err)
			at := *q.Train
			at.F = v.Sites.F
			m := testref.Must(mode.FindMatch(t.Context(), &at, q.Targets(), q.Prior, v.Theta, nil))(t)
			require.InDelta(t, math.Log(want), math.Log(m.Factor), m.Error, q.Name)
			if want != 1 {
				require.LessOrEqual(t, m.Error, .01)
			}
		}
	}
}

// TestNoMatchE21 has networks without a root.
func TestNoMatchE21(t *testing.T) {
	q := testkit.Problems(t)[5]
	worse := *q.Train // outputs that are sure of a wrong class
	worse.F = mat.NewDense(q.N, q.C, nil)
	for i := range q.N {
		worse.F.Set(i, (int(q.Y.At(i, 0))+1)%q.C, 900)
	}
	_, err := mode.FindMatch(t.Context(), &worse, q.Targets(), scaledPrior{Prior: q.Prior, factor: 1}, q.Theta, nil)
	none := testref.As[*gp.NoMatchError](t, err)
	require.Less(t, none.Network, none.Prior)
	_, err = mode.FindMatch(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, &mode.Options{Limits: linearize.Limits{Memory: 1000}})
	testref.As[*gp.MemoryError](t, err)
	h := testkit.Heteroscedastic()
	_, err = mode.FindMatch(t.Context(), h.Train, gp.NewTargets(h.Y, h.Likelihood), h.Prior, h.Theta, nil)
	require.ErrorContains(t, err, "concave")
}

// requireRoot checks with two dense refits that the root lies within so much of a log
// factor.
func (p *matchProblem) requireRoot(t *testing.T, log, within float64) {
	t.Helper()
	want := p.network(t)
	require.Greater(t, p.logLik(t, log-within), want)
	require.Less(t, p.logLik(t, log+within), want)
}

// TestMatchReferences finds the match of trained networks by central differences of the
// network and compares it with dense refits.
func TestMatchReferences(t *testing.T) {
	for _, name := range []string{"categorical", "categorical-diagonal-prior", "poisson", "two-moons", "snelson", "gaussian-two-outputs", "mnist10-mlp", "thesis-cnn"} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && (name == "mnist10-mlp" || name == "thesis-cnn") {
				t.Skip("dense refits of thousands of outputs are not short")
			}
			q := testkit.OpenReference(t, name)
			p := &matchProblem{train: q.Train, y: q.Y, lik: q.Likelihood, prior: q.Prior, theta: q.Net.Theta()}
			p.find(t, q.Net)
		})
	}
}

// mostDense bounds the outputs of dense refits.
const mostDense = 2000

// find finds the match and compares it with dense refits.
func (p *matchProblem) find(t *testing.T, net *network.Network) *mode.Match {
	t.Helper()
	products := testref.Must(net.Products(p.train.X))(t)
	m, err := mode.FindMatch(t.Context(), p.train, gp.NewTargets(p.y, p.lik), p.prior, p.theta, &mode.Options{Products: products, Outputs: p.train.F})
	require.NoError(t, err)
	require.Empty(t, m.Warnings)
	log := math.Log(m.Factor)
	t.Logf("log factor %.4f, error %.2g, %d passes", log, m.Error, m.Passes)
	if math.Abs(log)+m.Error >= .1 {
		require.LessOrEqual(t, m.Error, .01)
	}
	if len(p.train.F.RawMatrix().Data) <= mostDense {
		p.requireRoot(t, log, m.Error+1e-4)
	}
	return m
}

// TestMatchCases compares with the matches of an independent implementation, of which two
// digits are meant.
func TestMatchCases(t *testing.T) {
	for _, c := range testkit.EveryMatchCase(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			net, train, _, y, _ := c.Open(t)
			stated := c.Stated
			if stated == 0 {
				stated = 1
			}
			if c.Decay > 0 {
				stated = c.Decay * float64(train.Len())
			}
			p := &matchProblem{train: train, y: y, theta: net.Theta()}
			var err error
			p.prior, err = ntk.NewIsotropic(stated, nil)
			require.NoError(t, err)
			switch c.Likelihood {
			case "categorical":
				p.lik = glm.Categorical{}
			case "bernoulli":
				p.lik = glm.Bernoulli{}
			default:
				// Only λ = δσ² matters, so any σ² will do.
				p.lik, err = glm.NewGaussian(1)
				require.NoError(t, err)
			}
			m := p.find(t, net)
			if c.Match > 0 {
				require.InEpsilon(t, c.Match, stated*m.Factor, .035)
			}
		})
	}
}

// TestMatchInterpolates has a network that fits its targets, so that the root is smaller
// than the least factor asked for, and says so.
func TestMatchInterpolates(t *testing.T) {
	q := testkit.Problems(t)[2]
	p := ascend(t, q, q.Prior, .999)
	m, err := mode.FindMatchWithin(t.Context(), p.train, gp.NewTargets(p.y, p.lik), p.prior, p.theta, nil, 0, .5, 0, 0)
	require.NoError(t, err)
	require.True(t, m.Bounded)
	require.InDelta(t, .5, m.Factor, 1e-12)
	require.Less(t, p.logLik(t, math.Log(.5)), p.network(t))
	free := testref.Must(mode.FindMatch(t.Context(), p.train, gp.NewTargets(p.y, p.lik), p.prior, p.theta, nil))(t)
	require.False(t, free.Bounded)
	require.Less(t, free.Factor, .5)
}

// TestMatchStops checks that few passes are said to be few, and that a cancelled context
// ends the search.
func TestMatchStops(t *testing.T) {
	q := testkit.Problems(t)[5]
	p := ascend(t, q, q.Prior, .9)
	find := func(ctx context.Context, o *mode.Options, passes int) (*mode.Match, error) {
		return mode.FindMatchWithin(ctx, testkit.InTiles(p.train, 3), gp.NewTargets(p.y, p.lik), p.prior, p.theta, o, 0, 0, 0, passes)
	}
	done := 0
	m := testref.Must(find(t.Context(), &mode.Options{Limits: linearize.Limits{Progress: func(stage string, n, total int) {
		require.Equal(t, mode.StageMatch, stage)
		require.Equal(t, done+1, n)
		require.Zero(t, total)
		done = n
	}}}, 6))(t)
	require.Equal(t, done, m.Passes)
	require.LessOrEqual(t, m.Passes, 7)
	require.Equal(t, math.Exp(m.Error), testkit.RequireWarnings(t, m.Warnings, "match-rough")[0].Value)
	testref.Procs(t, 1)
	testkit.Stops(t, "FindMatch", 20, func(ctx context.Context) error {
		_, err := find(ctx, nil, 0)
		return err
	})
}

// TestMatchProcessors checks that the numbers do not depend on the number of processors.
func TestMatchProcessors(t *testing.T) {
	q := testkit.NewProblem("many", 3, 600, 2, glm.Categorical{}, 1)
	p := ascend(t, q, q.Prior, .3)
	var want *mode.Match
	for _, procs := range []int{1, 5} {
		testref.Procs(t, procs)
		m, err := mode.FindMatch(t.Context(), p.train, gp.NewTargets(p.y, p.lik), p.prior, p.theta, nil)
		require.NoError(t, err)
		if want == nil {
			want = m
		}
		require.Equal(t, want, m)
	}
}

// TestMatchFromPriorMean has a network whose free parameters are at the prior mean, so that
// the search begins without a direction.
func TestMatchFromPriorMean(t *testing.T) {
	q := testkit.Problems(t)[2]
	p := ascend(t, q, q.Prior, .5)
	mean := make([]float64, len(p.theta))
	q.Prior.MeanTo(mean)
	for i := range mean {
		if i%2 == 1 {
			mean[i] = 2*p.theta[i] - mean[i] // so far off that the prior mean is worse
		} else {
			mean[i] = p.theta[i]
		}
	}
	p.prior = movedPrior{scaledPrior{Prior: q.Prior, factor: 1, held: func(i int) bool { return i%2 == 1 }}, mean}
	m := testref.Must(mode.FindMatch(t.Context(), p.train, gp.NewTargets(p.y, p.lik), p.prior, p.theta, nil))(t)
	require.Empty(t, m.Warnings)
	p.requireRoot(t, math.Log(m.Factor), m.Error+1e-4)
}

// A movedPrior has another mean.
type movedPrior struct {
	ntk.Prior
	mean []float64
}

func (p movedPrior) MeanTo(dst []float64) { copy(dst, p.mean) }
