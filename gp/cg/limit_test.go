package cg_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A stepCounts counts the steps of conjugate gradients, of Newton and of
// Lanczos.
type stepCounts map[string]int

func (c stepCounts) options(rank, steps int) *cg.Options {
	o := linearMean(rank)
	o.MaxSteps = steps
	o.Progress = func(stage string, _, _ int) { c[stage]++ }
	return o
}

// Solves that cannot converge end after the steps that the options allow.
func TestStepsAreBounded(t *testing.T) {
	q := newProblem("bernoulli", 51, 300, 1, glm.Bernoulli{}, 1)
	const most = 2
	count := stepCounts{}
	p := q.fitPosterior(t, count.options(-1, most))
	require.LessOrEqual(t, count[cg.StageSolve], 2*most)
	require.Equal(t, count[cg.StageSolve], p.Solved().Steps)
	count = stepCounts{}
	p = q.refitPosterior(t, count.options(-1, most))
	require.LessOrEqual(t, p.Solved().Steps, 20*most)
	require.LessOrEqual(t, count[cg.StageSolve], p.Solved().Steps+most, "one more solve checks the sums")
	require.Positive(t, linearize.FindWarning(p.Warnings(), "refit-steps").Value)
}

// With noise variances over the whole range every solve ends within its steps,
// and either reaches its tolerance, or says what it reached, or names the number
// that is not finite.
func TestExtremes(t *testing.T) {
	const most = 200
	for _, variance := range []float64{1e-300, 1e-100, 1e-30, 1e-15, 1e15, 1e30, 1e300} {
		for _, rank := range []int{0, -1} {
			for _, refit := range []bool{false, true} {
				t.Run(fmt.Sprint(variance, rank, refit), func(t *testing.T) {
					q := newProblem("gaussian", 31, 40, 2, glm.Bernoulli{}, 1)
					var err error
					q.Likelihood = testref.Must(glm.NewGaussian(variance))(t)
					count, allowed := stepCounts{}, 2*most
					var p *cg.Posterior
					if o := count.options(rank, most); refit {
						allowed = 21 * most
						p, err = cg.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), o)
					} else {
						p, err = cg.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), o)
					}
					require.LessOrEqual(t, count[cg.StageSolve], allowed)
					if err != nil {
						requireRange(t, err)
						return
					}
					requireConverged(t, p)
					_, err = p.PredictBounded(t.Context(), nil, new(mat.Dense), q.Test)
					if requireRange(t, err); err == nil {
						requireConverged(t, p)
					}
					_, err = p.LogDet(t.Context())
					requireRange(t, err)
					require.LessOrEqual(t, count[cg.StageLogDet], most)
				})
			}
		}
	}
}

// requireRange accepts no error, and one of a number that is not finite.
func requireRange(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	e := testref.As[*cg.RangeError](t, err)
	require.True(t, math.IsNaN(e.Value) || math.IsInf(e.Value, 0))
	require.Contains(t, err.Error(), e.What)
}

// requireConverged wants a finite residual within the tolerance, or a warning.
func requireConverged(t *testing.T, p *cg.Posterior) {
	t.Helper()
	s := p.Solved()
	require.False(t, math.IsNaN(s.Residual) || math.IsInf(s.Residual, 0), "residual %v", s.Residual)
	if s.Residual <= 1e-10 {
		return
	}
	w := linearize.FindWarning(p.Warnings(), "solve-residual")
	require.Equal(t, s.Residual, w.Value)
	require.Contains(t, w.Text, fmt.Sprintf("in %d steps", s.Steps))
}

// Repeated examples with other targets under a wide prior make sums that do not
// close: that is a warning with the number, as is the distance from the mode.
// Where there is no warning, they close.
func TestOpenSumsAreWarnedOf(t *testing.T) {
	warned := 0
	for _, precision := range []float64{1, 1e-4, 1e-8} {
		q := &problem{testkit.Conflicting(t, precision)}
		p := q.refitPosterior(t, nil)
		n := q.RequireHonest(t, p, p.Warnings(), gp.PosteriorTerms)
		if warned += n; n > 0 {
			require.Greater(t, linearize.FindWarning(p.Warnings(), "refit-steps").Value, 1e-8)
			require.NotNil(t, linearize.FindWarning(p.Warnings(), "refit-gap"))
			require.NotNil(t, linearize.FindWarning(p.Warnings(), "solve-residual"))
		}
	}
	require.Positive(t, warned)
}

// Missing sites say so.
func TestMissingSites(t *testing.T) {
	q := problems(t)[2]
	require.PanicsWithValue(t, "sites: the sites of the examples are missing", func() { _, _ = cg.Fit(t.Context(), q.Kernel, q.Train, &gp.Sites{}, nil) })
}

// steep is a likelihood with one constant residual and no curvature.
type steep struct{ residual float64 }

func (l steep) Expand(residual, lambda, root, _, _ []float64) float64 {
	for i := range residual {
		residual[i] = l.residual
	}
	clear(lambda)
	clear(root)
	return 0
}

func (l steep) MeanTo(dst, f []float64) { copy(dst, f) }

// A dual vector and K α that are finite may have a product that is not.
func TestRefitChecksScatter(t *testing.T) {
	q := problems(t)[0]
	prior := testref.Must(ntk.NewIsotropic(1e-20, nil))(t)
	k := ntk.New(prior, q.Theta)
	at := testref.As[*gp.NotFiniteError](t, testref.Err(gp.Refit(t.Context(), k, q.Train, gp.NewTargets(q.Y, steep{1e150}), nil)))
	require.Equal(t, "scatter αᵀKα", at.What)
	require.ErrorAs(t, testref.Err(cg.Refit(t.Context(), k, q.Train, gp.NewTargets(q.Y, steep{1e150}), nil)), &at)
	require.Equal(t, "scatter αᵀKα", at.What)
	require.NoError(t, testref.Err(cg.Refit(t.Context(), k, q.Train, gp.NewTargets(q.Y, steep{1e100}), nil)))
}
