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
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// The variance is never above the prior's, whatever the inducing examples,
// and a subset's never below the exact one: it has fewer observations of the
// same sites.
func TestVarianceOrder(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		x, err := gp.Fit(t.Context(), q.kernel, q.train, q.sites(t), nil)
		require.NoError(t, err)
		var exact, cov mat.Dense
		require.NoError(t, x.PredictTo(t.Context(), nil, &exact, q.test))
		for _, m := range []int{1, 5, 12, 20} {
			z := q.inducing(t, q.all(t).Rows[:m]...)
			for _, a := range approximations {
				require.NoError(t, q.fit(t, z, linear(a)).PredictTo(t.Context(), nil, &cov, q.test))
				q.requireVariances(t, &cov, func(i int, v float64) bool { return v <= q.kTest.At(i, i)*(1+1e-12) })
			}
			_, s := q.rows(t, z.Rows)
			p, err := sparse.FitSubset(t.Context(), q.kernel, q.train, s, z, nil)
			require.NoError(t, err)
			require.NoError(t, p.PredictTo(t.Context(), nil, &cov, q.test))
			q.requireVariances(t, &cov, func(i int, v float64) bool { return v >= exact.At(i, i%q.c)-1e-11*q.kTest.At(i, i) })
		}
	})
}

func (q *problem) requireVariances(t *testing.T, cov *mat.Dense, ok func(i int, v float64) bool) {
	t.Helper()
	for i := range q.t * q.c {
		require.True(t, ok(i, cov.At(i, i%q.c)), "output %d has the variance %v", i, cov.At(i, i%q.c))
	}
}

// Far from the inducing examples, where they explain nothing, the variance is
// the prior's: the residual k_** − q_** is kept.
func TestVarianceReturnsToPrior(t *testing.T) {
	q := problems(t)[5]
	// A test example whose Jacobian is orthogonal to those of the inducing
	// ones: theirs does not reach the last parameter, its reaches no other.
	far := &linearize.Batch{X: q.test.X, F: q.test.F, P: q.test.P}
	near := &linearize.Batch{X: q.train.X, F: q.train.F, P: q.train.P}
	span := []linearize.Span{{Name: "all", Rows: 1, Cols: q.train.P}}
	j, jt := new(mat.Dense), mat.NewDense(q.t*q.c, q.train.P, nil)
	q.train.JacobianTo(j)
	for i := range q.n * q.c {
		j.Set(i, q.train.P-1, 0)
	}
	for i := range q.t * q.c {
		jt.Set(i, q.train.P-1, float64(i+1))
	}
	near.Blocks, far.Blocks = []linearize.Block{&linearize.Full{J: j, Params: span, C: q.c}}, []linearize.Block{&linearize.Full{J: jt, Params: span, C: q.c}}
	z, err := sparse.Select(t.Context(), sparse.Uniform{}, nil, near, 5, nil)
	require.NoError(t, err)
	for _, a := range approximations {
		p, err := sparse.Fit(t.Context(), q.kernel, near, q.sites(t), z, linear(a))
		require.NoError(t, err)
		var cov, prior mat.Dense
		require.NoError(t, p.PredictTo(t.Context(), nil, &cov, far))
		q.kernel.DiagTo(&prior, far)
		requireClose(t, "variance", &cov, &prior, 1e-14)
	}
}

func TestFitErrors(t *testing.T) {
	q := problems(t)[5]
	s := q.sites(t)
	_, err := sparse.Fit(t.Context(), q.kernel, q.train.Slice(0, 3), s, q.some(t), nil)
	require.Equal(t, &sparse.CountError{M: 7, N: 3}, err)

	bad := *s
	bad.Residual = mat.DenseCopyOf(s.Residual)
	bad.Residual.Set(4, 1, math.NaN())
	_, err = sparse.Fit(t.Context(), q.kernel, q.train, &bad, q.some(t), nil)
	var nf *gp.NotFiniteError
	require.ErrorAs(t, err, &nf)
	require.Equal(t, [2]int{4, 1}, [2]int{nf.Row, nf.Output})

	_, err = sparse.Refit(t.Context(), q.kernel, q.train, mat.NewDense(3, 1, nil), q.lik, q.some(t), nil)
	require.ErrorContains(t, err, "3 rows of targets for 20 examples")
	y := mat.DenseCopyOf(q.y)
	y.Set(7, 0, 99)
	_, err = sparse.Refit(t.Context(), q.kernel, q.train, y, q.lik, q.some(t), nil)
	require.ErrorContains(t, err, "example 7")
	y.Set(7, 0, math.Inf(1))
	_, err = sparse.Refit(t.Context(), q.kernel, q.train, y, q.lik, q.some(t), nil)
	require.ErrorAs(t, err, &nf)
	require.Equal(t, 7, nf.Row)

	_, err = q.fit(t, q.some(t), nil).WithData(t.Context(), q.train.Slice(0, 4), s)
	require.ErrorContains(t, err, "4 training examples")

	b := q.builder(t, q.some(t), nil)
	require.NoError(t, b.Add(t.Context(), q.train.Slice(0, 4), rowsOf(s, 4)))
	require.NoError(t, b.Remove(t.Context(), q.train, s))
	_, err = b.Posterior(t.Context())
	var pd *gp.NotPDError
	require.ErrorAs(t, err, &pd)
	require.NotEmpty(t, pd.Error())

	zero := q.inducing(t, 1, 2)
	_, err = sparse.NewBuilder(t.Context(), scaledKernel{q.kernel, 0}, zero, nil)
	require.ErrorContains(t, err, "zero")
}

// rowsOf returns the first n of s.
func rowsOf(s *gp.Sites, n int) *gp.Sites {
	_, c := s.F.Dims()
	cut := func(m *mat.Dense, rows int) *mat.Dense { return m.Slice(0, rows, 0, c).(*mat.Dense) }
	return &gp.Sites{F: cut(s.F, n), Residual: cut(s.Residual, n), Lambda: cut(s.Lambda, n*c), Root: cut(s.Root, n*c)}
}

// A subset takes in no other data.
func TestSubsetIsNotUpdated(t *testing.T) {
	q := problems(t)[0]
	z := q.some(t)
	x, s := q.rows(t, z.Rows)
	p, err := sparse.FitSubset(t.Context(), q.kernel, q.train, s, z, nil)
	require.NoError(t, err)
	_, err = p.Add(t.Context(), x, s)
	require.ErrorContains(t, err, "subset")
	require.True(t, math.IsNaN(p.TraceError()))
	require.Panics(t, func() { p.EvidenceLowerBound() })
	require.Panics(t, func() { p.EvidenceRefit() })
}

func TestMemoryIsPlanned(t *testing.T) {
	q := problems(t)[5]
	limit := sparse.Bytes(5, q.n, q.c, false)
	_, err := sparse.Fit(t.Context(), q.kernel, q.train, q.sites(t), q.some(t), &sparse.Options{MaxMemory: limit})
	var e *gp.MemoryError
	require.ErrorAs(t, err, &e)
	require.Equal(t, 5, e.Largest)
	require.Equal(t, sparse.Bytes(7, q.n, q.c, false), e.Needed)
	require.Contains(t, e.Error(), "at most 5 inducing examples fit")
	require.Equal(t, int64(math.MaxInt64), sparse.Bytes(math.MaxInt64, 3, 10, true))
	require.Greater(t, sparse.Bytes(5, q.n, q.c, true), limit)

	p := q.fit(t, q.some(t), nil)
	require.NotNil(t, p)
	small, err := sparse.Fit(t.Context(), q.kernel, q.train, q.sites(t), q.inducing(t, 1), &sparse.Options{MaxMemory: sparse.Bytes(1, q.n, q.c, false)})
	require.NoError(t, err)
	big := gptest.Another(testRand(), q.train, 400)
	var me *gp.MemoryError
	require.ErrorAs(t, small.JointTo(t.Context(), nil, new(mat.Dense), big), &me)
	require.Positive(t, me.Largest)
	_, err = small.Cross(t.Context(), gptest.Another(testRand(), q.train, 4000))
	require.ErrorAs(t, err, &me)
}

// A context that is done ends the work between chunks.
func TestContext(t *testing.T) {
	q := large()
	for stage, run := range map[string]func(ctx context.Context, o *sparse.Options) error{
		sparse.StageInducing: func(ctx context.Context, o *sparse.Options) error {
			_, err := sparse.NewBuilder(ctx, q.kernel, q.all(t), o)
			return err
		},
		sparse.StageData: func(ctx context.Context, o *sparse.Options) error {
			_, err := sparse.Fit(ctx, q.kernel, q.train, q.sites(t), q.some2(t), o)
			return err
		},
		sparse.StageDual: func(ctx context.Context, o *sparse.Options) error {
			_, err := sparse.Fit(ctx, q.kernel, q.train, q.sites(t), q.some2(t), o)
			return err
		},
		sparse.StageNewton: func(ctx context.Context, o *sparse.Options) error {
			_, err := sparse.Refit(ctx, q.kernel, q.train, q.y, q.lik, q.some2(t), o)
			return err
		},
		sparse.StageSelect: func(ctx context.Context, o *sparse.Options) error {
			_, err := sparse.Select(ctx, sparse.Greedy{}, q.kernel, q.train, 600, o)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		err := run(ctx, &sparse.Options{Progress: func(s string, done, total int) {
			if s == stage {
				calls++
				cancel()
			}
		}})
		require.ErrorIs(t, err, context.Canceled, stage)
		require.Equal(t, 1, calls, stage)
		cancel()
	}
}

// A likelihood that overflows where Newton's first step leads is met with a
// shorter step.
func TestRefitSurvivesOverflow(t *testing.T) {
	q := newProblem("poisson", 91, 20, 1, glm.Poisson{}, 0.5)
	q.y.Set(0, 0, 1e6)
	for _, a := range approximations {
		p := q.refit(t, q.all(t), &sparse.Options{Approximation: a})
		x, err := gp.Refit(t.Context(), q.kernel, q.train, q.y, q.lik, nil)
		require.NoError(t, err)
		requireSameTo(t, p, x, q, 1e-8)
	}
}

// MaxIter stops early and says so.
func TestRefitStopsAtMaxIter(t *testing.T) {
	q := problems(t)[5]
	p := q.refit(t, q.some(t), &sparse.Options{MaxIter: 1})
	require.Len(t, p.Warnings(), 2)
	var it *gp.IterationWarning
	require.ErrorAs(t, p.Warnings()[0], &it)
	var gap *gp.GapWarning
	require.ErrorAs(t, p.Warnings()[1], &gap)
}

func TestInvalidOptionsPanic(t *testing.T) {
	q := problems(t)[0]
	for _, o := range []sparse.Options{{MaxIter: -1}, {MaxMemory: -1}, {Workers: -1}, {Mean: 7}, {Approximation: subsetOfData}, {Approximation: -1}} {
		require.PanicsWithValue(t, "sparse: invalid options", func() { q.fit(t, q.some(t), &o) })
	}
	require.Panics(t, func() { q.fit(t, &sparse.Inducing{Rows: []int{1}, Batch: q.train}, nil) })
	require.Panics(t, func() { q.fit(t, &sparse.Inducing{Rows: []int{99}, Batch: q.train.Slice(0, 1)}, nil) })
	require.Panics(t, func() { q.fit(t, q.some(t), nil).PredictTo(t.Context(), nil, nil, problems(t)[1].test) })
}
