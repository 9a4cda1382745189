package variational

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// unknowns are those of a solver with these sites.
func (s *solver) unknowns(at *gp.Sites) []float64 {
	x := make([]float64, len(s.m))
	copy(x, at.Residual.RawMatrix().Data)
	s.addShift(x, at.Lambda.RawMatrix().Data, at.F.RawMatrix().Data, 1)
	return append(x, at.Lambda.RawMatrix().Data...)
}

// The bound is never below that of the Laplace posterior at the mode of the linearized model, and within .01 of the best of 20
// restarts from sites at functions that are drawn from the prior. (The problem is concave for a log-concave likelihood.)
func TestBoundAgainstLaplaceAndRestarts(t *testing.T) {
	for _, toy := range []string{"snelson", "two-moons", "poisson", "gaussian-two-outputs", "categorical"} {
		for _, structure := range []weightspace.Structure{weightspace.Full, weightspace.Diagonal} {
			t.Run(toy+"/"+structure.String(), func(t *testing.T) {
				testref.Long(t, "many refinements")
				q := testkit.OpenReference(t, toy)
				if toy == "categorical" || toy == "two-moons" {
					q = q.Head(15) // all of two-moons take a minute
				}
				theta, o := q.Net.Theta(), &Options{Tolerance: 1e-3, Points: 256}
				s, r, err := refine(t.Context(), structure, q.Train, q.Targets(), q.Prior, theta, o)
				require.NoError(t, err)
				laplace, err := gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil)
				require.NoError(t, err)
				at, err := s.at(t.Context(), s.unknowns(laplace.Sites()))
				require.NoError(t, err)
				t.Logf("%d iterations, ELBO %.6f, that of Laplace %.6f", r.Iterations, r.ELBO.Value, at.elbo.Value)
				require.GreaterOrEqual(t, r.ELBO.Value, at.elbo.Value-1e-9*math.Abs(at.elbo.Value))
				rng := rand.New(rand.NewPCG(8, 8))
				var prior mat.Dense
				q.Kernel.DiagTo(&prior, q.Train)
				best := math.Inf(-1)
				for range 20 {
					f := mat.DenseCopyOf(q.Train.F)
					f.Apply(func(i, j int, _ float64) float64 {
						k := i*s.c + j
						return s.m[k] + math.Min(3, math.Sqrt(prior.At(k, j)))*rng.NormFloat64()
					}, f)
					start, err := gp.NewSites(q.Targets(), f)
					require.NoError(t, err)
					it, _, err := s.run(t.Context(), s.unknowns(start))
					require.NoError(t, err)
					best = max(best, it.elbo.Value)
				}
				require.InDelta(t, best, r.ELBO.Value, .01)
			})
		}
	}
}

// Weights of rows are powers of the likelihood (E23): a weight of 2 is that row twice, and one of 0 none, by either solver.
func TestRefineOfWeightedRows(t *testing.T) {
	for _, lik := range []gp.Likelihood{glm.Bernoulli{}, glm.Categorical{}} {
		c := 1
		if lik == (glm.Categorical{}) {
			c = 3
		}
		q := testkit.NewProblemOf("weights", 6, 10, c, lik, 1, 4)
		y := q.Targets()
		y.Weights = []float64{2, 0, 1, 1, 1, 1, 1, 1, 1, 1}
		rows := []int{0, 0, 2, 3, 4, 5, 6, 7, 8, 9}
		x, err := linearize.Gather(t.Context(), q.Train, []int{0, 2, 3, 4, 5, 6, 7, 8, 9})
		require.NoError(t, err)
		x = linearize.Concat(x.Slice(0, 1), x)
		want, err := Refine(t.Context(), x, q.Targets().Rows(rows), q.Prior, q.Theta, nil)
		require.NoError(t, err)
		for _, s := range []Solver{Rows, Parameters} {
			got, err := Refine(t.Context(), q.Train, y, q.Prior, q.Theta, &Options{Solver: s})
			require.NoError(t, err)
			require.InEpsilon(t, want.ELBO.Value, got.ELBO.Value, 1e-9)
			require.InEpsilon(t, want.ELBO.KL, got.ELBO.KL, 1e-9)
			var mean, cov, wantMean, wantCov mat.Dense
			require.NoError(t, got.PredictTo(t.Context(), &mean, &cov, q.Test))
			require.NoError(t, want.PredictTo(t.Context(), &wantMean, &wantCov, q.Test))
			require.True(t, mat.EqualApprox(&mean, &wantMean, 1e-8))
			require.True(t, mat.EqualApprox(&cov, &wantCov, 1e-8))
		}
	}
}

// A stream of batches is refined as one batch is, and Exact is there for the solver of rows alone.
func TestRefineOfStreams(t *testing.T) {
	q := testkit.NewProblemOf("stream", 3, 20, 2, glm.Bernoulli{}, 1, 4)
	for _, s := range []Solver{Smaller, Rows, Parameters} {
		want, err := Refine(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, &Options{Solver: s})
		require.NoError(t, err)
		got, err := Refine(t.Context(), testkit.InTiles(q.Train, 7), q.Targets(), q.Prior, q.Theta, &Options{Solver: s})
		require.NoError(t, err)
		require.InEpsilon(t, want.ELBO.Value, got.ELBO.Value, 1e-10)
		require.True(t, mat.EqualApprox(want.TrainMean, got.TrainMean, 1e-9))
		require.True(t, mat.EqualApprox(want.TrainCov, got.TrainCov, 1e-9))
		require.Equal(t, s == Rows || s == Smaller && 40 <= len(q.Theta), got.Exact != nil)
	}
}

// What a user gives is an error that names it, and what diverges one with the remedy.
func TestRefineErrors(t *testing.T) {
	q := testkit.NewProblemOf("poisson", 5, 12, 1, glm.Poisson{}, 0.5, 4)
	fit := func(o *Options) error {
		_, err := Refine(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, o)
		return err
	}
	for _, o := range []*Options{{Tolerance: -1}, {Tolerance: math.NaN()}, {MaxIter: -1}, {Points: -1}, {Points: 1 << 20}, {Solver: 3}} {
		require.ErrorContains(t, fit(o), "a number is not negative")
	}
	_, err := RefineStructure(t.Context(), weightspace.KFAC, q.Train, q.Targets(), q.Prior, q.Theta, nil)
	require.ErrorContains(t, err, "structure kfac cannot be refined; take full, block or diag")
	for _, s := range []Solver{Rows, Parameters} {
		var memory *gp.MemoryError
		require.ErrorAs(t, fit(&Options{Solver: s, Limits: linearize.Limits{Memory: 100}}), &memory)
	}
	_, _, err = newExpectations(glm.Categorical{}, 3, 1000, 64, 1)
	require.ErrorContains(t, err, "at most")
	_, _, err = newExpectations(&glm.Gaussian{}, 3, 1000, 64, 1)
	require.NoError(t, err)

	r, err := Refine(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, &Options{MaxIter: 1})
	require.NoError(t, err)
	require.Equal(t, "sites-unsettled", linearize.WarningOf(r.Warnings()[0]).Code)

	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	o := &Options{Limits: linearize.Limits{Progress: func(stage string, done, total int) {
		require.Equal(t, StageRefine, stage)
		if told = done; done == 2 {
			cancel()
		}
	}}}
	_, err = Refine(ctx, q.Train, q.Targets(), q.Prior, q.Theta, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, told)

	q.Train.F.Set(3, 0, -50) // its site says nothing, and E e^f at the variance of the prior is beyond float64
	wide, err := ntk.NewIsotropic(1e-4, nil)
	require.NoError(t, err)
	_, err = Refine(t.Context(), q.Train, q.Targets(), wide, q.Theta, nil)
	require.ErrorContains(t, testref.As[*DivergedError](t, err), "the refinement diverged: the lower bound is not finite at the posterior from which it starts; scale the targets or raise the prior precision")
	q.Y.Set(3, 0, math.NaN())
	notFinite := testref.As[*gp.NotFiniteError](t, fit(nil))
	require.Equal(t, 3, notFinite.Row)
}
