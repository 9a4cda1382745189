package sparse_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// The variance is never above the prior's, whatever the inducing examples,
// and a subset's never below the exact one: it has fewer observations of the
// same sites.
func TestVarianceOrder(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		x := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
		var exact, cov mat.Dense
		require.NoError(t, x.PredictTo(t.Context(), nil, &exact, q.Test))
		for _, m := range []int{1, 5, 12, 20} {
			z := q.inducing(t, q.all(t).Rows[:m]...)
			require.NoError(t, q.fit(t, z, linear()).PredictTo(t.Context(), nil, &cov, q.Test))
			q.requireVariances(t, &cov, func(i int, v float64) bool { return v <= q.KTest.At(i, i)*(1+1e-12) })
			_, s := q.rows(t, z.Rows)
			p := testref.Must(sparse.FitSubset(t.Context(), q.Kernel, q.Train, s, z, nil))(t)
			require.NoError(t, p.PredictTo(t.Context(), nil, &cov, q.Test))
			q.requireVariances(t, &cov, func(i int, v float64) bool { return v >= exact.At(i, i%q.C)-1e-11*q.KTest.At(i, i) })
		}
	})
}

func (q *problem) requireVariances(t *testing.T, cov *mat.Dense, ok func(i int, v float64) bool) {
	t.Helper()
	for i := range q.T * q.C {
		require.True(t, ok(i, cov.At(i, i%q.C)), "output %d has the variance %v", i, cov.At(i, i%q.C))
	}
}

// Far from the inducing examples, where they explain nothing, the variance is
// the prior's: the residual k_** − q_** is kept.
func TestVarianceReturnsToPrior(t *testing.T) {
	q := problems(t)[5]
	// A test example whose Jacobian is orthogonal to those of the inducing
	// ones: theirs does not reach the last parameter, its reaches no other.
	far := &linearize.Batch{X: q.Test.X, F: q.Test.F, P: q.Test.P}
	near := &linearize.Batch{X: q.Train.X, F: q.Train.F, P: q.Train.P}
	span := []linearize.Span{{Name: "all", Rows: 1, Cols: q.Train.P}}
	j, jt := new(mat.Dense), mat.NewDense(q.T*q.C, q.Train.P, nil)
	q.Train.JacobianTo(j)
	for i := range q.N * q.C {
		j.Set(i, q.Train.P-1, 0)
	}
	for i := range q.T * q.C {
		jt.Set(i, q.Train.P-1, float64(i+1))
	}
	near.Blocks, far.Blocks = []linearize.Block{&linearize.Full{J: j, Params: span, C: q.C}}, []linearize.Block{&linearize.Full{J: jt, Params: span, C: q.C}}
	z := testref.Must(sparse.Select(t.Context(), sparse.Uniform{}, nil, near, 5, nil))(t)
	p := testref.Must(sparse.Fit(t.Context(), q.Kernel, near, q.Sites(t), z, linear()))(t)
	var cov, prior mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), nil, &cov, far))
	q.Kernel.DiagTo(&prior, far)
	requireClose(t, "variance", &cov, &prior, 1e-14)
}

func TestFitErrors(t *testing.T) {
	q := problems(t)[5]
	s := q.Sites(t)
	_, err := sparse.Fit(t.Context(), q.Kernel, q.Train.Slice(0, 3), s, q.some(t), nil)
	require.Equal(t, &sparse.CountError{M: 7, N: 3}, err)

	bad := *s
	bad.Residual = mat.DenseCopyOf(s.Residual)
	bad.Residual.Set(4, 1, math.NaN())
	_, err = sparse.Fit(t.Context(), q.Kernel, q.Train, &bad, q.some(t), nil)
	nf := testref.As[*gp.NotFiniteError](t, err)
	require.Equal(t, [2]int{4, 1}, [2]int{nf.Row, nf.Output})

	_, err = sparse.Refit(t.Context(), q.Kernel, q.Train, gp.NewTargets(mat.NewDense(3, 1, nil), q.Likelihood), q.some(t), nil)
	require.ErrorContains(t, err, "3 rows of targets for 20 examples")
	y := mat.DenseCopyOf(q.Y)
	y.Set(7, 0, 99)
	_, err = sparse.Refit(t.Context(), q.Kernel, q.Train, gp.NewTargets(y, q.Likelihood), q.some(t), nil)
	require.ErrorContains(t, err, "example 7")
	y.Set(7, 0, math.Inf(1))
	require.ErrorAs(t, testref.Err(sparse.Refit(t.Context(), q.Kernel, q.Train, gp.NewTargets(y, q.Likelihood), q.some(t), nil)), &nf)
	require.Equal(t, 7, nf.Row)

	_, err = q.fit(t, q.some(t), nil).WithData(t.Context(), q.Train.Slice(0, 4), s)
	require.ErrorContains(t, err, "4 training examples")

	zero := q.inducing(t, 1, 2)
	require.ErrorContains(t, testref.Err(sparse.NewBuilder(t.Context(), scaledKernel{q.Kernel, 0}, zero, nil)), "zero")
}

// rowsOf returns the first n of s.
func rowsOf(s *gp.Sites, n int) *gp.Sites {
	_, c := s.F.Dims()
	cut := func(m *mat.Dense, rows int) *mat.Dense { return m.Slice(0, rows, 0, c).(*mat.Dense) }
	return &gp.Sites{F: cut(s.F, n), Residual: cut(s.Residual, n), Lambda: cut(s.Lambda, n*c), Root: cut(s.Root, n*c)}
}

// A subset has no bound of the evidence of all data.
func TestSubsetHasNoBound(t *testing.T) {
	q := problems(t)[0]
	z := q.some(t)
	_, s := q.rows(t, z.Rows)
	p := testref.Must(sparse.FitSubset(t.Context(), q.Kernel, q.Train, s, z, nil))(t)
	require.True(t, math.IsNaN(p.TraceError()))
	require.Panics(t, func() { p.EvidenceLowerBound() })
	require.Panics(t, func() { p.EvidenceRefit() })
}

func TestMemoryIsPlanned(t *testing.T) {
	q := problems(t)[5]
	limit := sparse.Bytes(5, q.N, q.C, false)
	_, err := sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), q.some(t), &sparse.Options{Limits: linearize.Limits{Memory: limit}})
	e := testref.As[*gp.MemoryError](t, err)
	require.Equal(t, 5, e.Largest)
	require.Equal(t, sparse.Bytes(7, q.N, q.C, false), e.Needed)
	require.Contains(t, e.Error(), "at most 5 inducing examples fit")
	require.Equal(t, int64(math.MaxInt64), sparse.Bytes(math.MaxInt64, 3, 10, true))
	require.Greater(t, sparse.Bytes(5, q.N, q.C, true), limit)

	p := q.fit(t, q.some(t), nil)
	require.NotNil(t, p)
	small, err := sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), q.inducing(t, 1), &sparse.Options{Limits: linearize.Limits{Memory: sparse.Bytes(1, q.N, q.C, false)}})
	require.NoError(t, err)
	big := gptest.Another(testRand(), q.Train, 400)
	me := testref.As[*gp.MemoryError](t, small.JointTo(t.Context(), nil, new(mat.Dense), big))
	require.Positive(t, me.Largest)
	require.ErrorAs(t, testref.Err(small.Cross(t.Context(), gptest.Another(testRand(), q.Train, 4000))), &me)
}

// A context that is done ends the work between chunks.
func TestContext(t *testing.T) {
	q := large()
	for stage, run := range map[string]func(ctx context.Context, o *sparse.Options) error{
		sparse.StageInducing: func(ctx context.Context, o *sparse.Options) error {
			_, err := sparse.NewBuilder(ctx, q.Kernel, q.all(t), o)
			return err
		},
		sparse.StageData: func(ctx context.Context, o *sparse.Options) error {
			_, err := sparse.Fit(ctx, q.Kernel, q.Train, q.Sites(t), q.some2(t), o)
			return err
		},
		sparse.StageDual: func(ctx context.Context, o *sparse.Options) error {
			_, err := sparse.Fit(ctx, q.Kernel, q.Train, q.Sites(t), q.some2(t), o)
			return err
		},
		sparse.StageNewton: func(ctx context.Context, o *sparse.Options) error {
			_, err := sparse.Refit(ctx, q.Kernel, q.Train, q.Targets(), q.some2(t), o)
			return err
		},
		sparse.StageSelect: func(ctx context.Context, o *sparse.Options) error {
			_, err := sparse.Select(ctx, sparse.Greedy{}, q.Kernel, q.Train, 600, o)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		err := run(ctx, &sparse.Options{Limits: linearize.Limits{Progress: func(s string, done, total int) {
			if s == stage {
				calls++
				cancel()
			}
		}}})
		require.ErrorIs(t, err, context.Canceled, stage)
		require.Equal(t, 1, calls, stage)
		cancel()
	}
}

// A likelihood that overflows where Newton's first step leads is met with a
// shorter step.
func TestRefitSurvivesOverflow(t *testing.T) {
	q := newProblem("poisson", 91, 20, 1, glm.Poisson{}, 0.5)
	q.Y.Set(0, 0, 1e6)
	p := q.refit(t, q.all(t), nil)
	x := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
	requireSameTo(t, p, x, q, 1e-8)
}

// MaxIter stops early and says so.
func TestRefitStopsAtMaxIter(t *testing.T) {
	q := problems(t)[5]
	p := q.refit(t, q.some(t), &sparse.Options{MaxIter: 1})
	testkit.RequireWarnings(t, p.Warnings(), "refit-steps", "refit-gap")
}

func TestInvalidOptionsPanic(t *testing.T) {
	q := problems(t)[0]
	for _, o := range []sparse.Options{{MaxIter: -1}, {Limits: linearize.Limits{Memory: -1}}, {Mean: 7}} {
		require.PanicsWithValue(t, "sparse: invalid options", func() { q.fit(t, q.some(t), &o) })
	}
	require.Panics(t, func() { q.fit(t, &sparse.Inducing{Rows: []int{1}, Batch: q.Train}, nil) })
	require.Panics(t, func() { q.fit(t, &sparse.Inducing{Rows: []int{99}, Batch: q.Train.Slice(0, 1)}, nil) })
	require.Panics(t, func() { q.fit(t, q.some(t), nil).PredictTo(t.Context(), nil, nil, problems(t)[1].Test) })
}
