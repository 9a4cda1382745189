package audit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// poolOf draws a pool for a problem.
func poolOf(q *testkit.Problem, n int) *linearize.Batch {
	return gptest.Another(rand.New(rand.NewPCG(17, 4)), q.Train, n)
}

// A joint is the joint posterior of a pool.
type joint struct {
	cov  mat.Dense
	root []*mat.Dense
	c    int
}

func jointOf(t *testing.T, post gp.Latent, q *testkit.Problem, pool *linearize.Batch) *joint {
	t.Helper()
	x := &joint{c: q.C}
	var mean mat.Dense
	require.NoError(t, post.JointTo(t.Context(), &mean, &x.cov, pool))
	for i := range pool.Len() {
		r := make([]float64, q.C*q.C)
		q.Likelihood.Expand(nil, nil, r, make([]float64, likelihood(q).Targets(q.C)), mean.RawRowView(i))
		x.root = append(x.root, mat.NewDense(q.C, q.C, r))
	}
	return x
}

// gain is ½ log det(I + RᵀCR) of some rows, by dense algebra.
func (x *joint) gain(rows ...int) float64 {
	n, c := len(rows)*x.c, x.c
	root, part := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
	for a, i := range rows {
		root.Slice(a*c, (a+1)*c, a*c, (a+1)*c).(*mat.Dense).Copy(x.root[i])
		for b, j := range rows {
			part.Slice(a*c, (a+1)*c, b*c, (b+1)*c).(*mat.Dense).Copy(x.cov.Slice(i*c, (i+1)*c, j*c, (j+1)*c))
		}
	}
	return testkit.LogDet(testkit.Plus(testkit.Identity(n), 1, testkit.Product(root.T(), part, root))) / 2
}

// The batch is that of a greedy search which computes every determinant anew, and its
// gains add up to the determinant of all its rows.
func TestBatchIsGreedy(t *testing.T) {
	for _, q := range problems(t) {
		post := refit(t, q)
		pool := poolOf(q, 12)
		got, err := audit.Acquire(t.Context(), post, likelihood(q), pool, 5, linearize.Limits{})
		require.NoError(t, err, q.Name)
		require.Empty(t, got.Warnings)
		all := jointOf(t, post, q, pool)
		var chosen []int
		for k, x := range got.Batch {
			best, gain := -1, math.Inf(-1)
			for i := range pool.Len() {
				if slices.Contains(chosen, i) {
					continue
				}
				if g := all.gain(append(slices.Clone(chosen), i)...); g > gain {
					best, gain = i, g
				}
			}
			// Where rows add nothing to rounding, any of them is right.
			own := all.gain(append(slices.Clone(chosen), x.Index)...)
			require.InDelta(t, gain, own, 1e-7*(1+gain), "%s: step %d takes %d, not %d", q.Name, k, x.Index, best)
			require.InDelta(t, gain, x.Total, 1e-7*(1+gain), q.Name)
			require.False(t, slices.Contains(chosen, x.Index))
			chosen = append(chosen, x.Index)
		}
		require.InDelta(t, got.Batch[4].Total, got.Batch[3].Total+got.Batch[4].Gain, 1e-12*(1+got.Batch[4].Total))
	}
}

// A pair chosen greedily has at least 1 − 1/e of the information of the best pair, and
// often all of it.
func TestGreedyAgainstTheBestPair(t *testing.T) {
	best := 0
	for seed := range uint64(8) {
		q := testkit.NewProblem("categorical", seed, 15, 3, glm.Categorical{}, 1)
		post := refit(t, q)
		pool := poolOf(q, 9)
		got := testref.Must(audit.Acquire(t.Context(), post, likelihood(q), pool, 2, linearize.Limits{}))(t)
		all, most := jointOf(t, post, q, pool), 0.0
		for i := range pool.Len() {
			for j := range i {
				most = math.Max(most, all.gain(i, j))
			}
		}
		require.GreaterOrEqual(t, got.Batch[1].Total, (1-1/math.E)*most)
		if got.Batch[1].Total > (1-1e-9)*most {
			best++
		}
	}
	require.GreaterOrEqual(t, best, 4)
}

// The gain of a row is what its label adds to ½ log det B (E4) of the training examples,
// for a Gaussian exactly, and for others at the sites of the posterior.
func TestGainIsTheGrowthOfLogDet(t *testing.T) {
	for _, name := range []string{"gaussian", "gaussian-full-covariance"} {
		q := problemNamed(t, name)
		post := refit(t, q)
		pool := poolOf(q, 4)
		got := testref.Must(audit.Acquire(t.Context(), post, likelihood(q), pool, 0, linearize.Limits{}))(t)
		require.Nil(t, got.Batch)
		for i, x := range got.Pool {
			more := linearize.Concat(q.Train, pool.Slice(i, i+1))
			y := mat.NewDense(q.N+1, q.Y.RawMatrix().Cols, nil)
			y.Slice(0, q.N, 0, q.Y.RawMatrix().Cols).(*mat.Dense).Copy(q.Y)
			with := testref.Must(gp.Refit(t.Context(), q.Kernel, more, gp.NewTargets(y, q.Likelihood), nil))(t)
			want := (with.EvidenceRefit().LogDet - post.EvidenceRefit().LogDet) / 2
			require.InDelta(t, want, x.Gain, 1e-8*(1+want), name)
			require.Equal(t, x.Gain, x.Information, "of a Gaussian both are the same")
		}
	}
}

// The information of classes is the mutual information of label and function, here of
// the exact binary case by a sum over both labels.
func TestInformationIsMutual(t *testing.T) {
	q := problemNamed(t, "bernoulli")
	post := refit(t, q)
	pool := poolOf(q, 7)
	got := testref.Must(audit.Acquire(t.Context(), post, likelihood(q), pool, 0, linearize.Limits{}))(t)
	var mean, cov mat.Dense
	require.NoError(t, post.PredictTo(t.Context(), &mean, &cov, pool))
	entropy := func(p float64) float64 { return -p*math.Log(p) - (1-p)*math.Log(1-p) }
	for i, x := range got.Pool {
		sigma := func(f float64) float64 { return 1 / (1 + math.Exp(-f)) }
		p := integral.Expectation(sigma, mean.At(i, 0), cov.At(i, 0))
		h := integral.Expectation(func(f float64) float64 {
			if s := sigma(f); s > 0 && s < 1 {
				return entropy(s)
			}
			return 0
		}, mean.At(i, 0), cov.At(i, 0))
		require.InDelta(t, entropy(p)-h, x.Information, 1e-8)
		require.Equal(t, mean.RawRowView(i), x.Mean)
	}
	for k := 1; k < len(got.Ranking); k++ {
		require.GreaterOrEqual(t, got.Pool[got.Ranking[k-1]].Information, got.Pool[got.Ranking[k]].Information)
	}
}

// A batch from the rows with the largest gains is that of the whole pool, and where
// memory ends the search, a warning says from which row on it may not be.
func TestFewCandidatesGiveTheWholePoolsBatch(t *testing.T) {
	q := testkit.NewProblem("categorical", 6, 20, 3, glm.Categorical{}, 1)
	post := refit(t, q)
	pool := poolOf(q, 300)
	// The best rows are nearly the same one, so that 64 of them hold no good batch.
	first, err := audit.Acquire(t.Context(), post, likelihood(q), pool, 0, linearize.Limits{})
	require.NoError(t, err)
	top := 0
	for i, x := range first.Pool {
		if x.Gain > first.Pool[top].Gain {
			top = i
		}
	}
	rows := dense.Range(300)
	for i := range 90 {
		rows[i] = top
	}
	slices.Sort(rows)
	pool = testref.Must(pool.Gather(t.Context(), rows))(t)
	got := testref.Must(audit.Acquire(t.Context(), post, likelihood(q), testkit.InTiles(pool, 50), 6, linearize.Limits{}))(t)
	require.Empty(t, got.Warnings)
	all := jointOf(t, post, q, pool)
	var chosen []int
	for _, x := range got.Batch {
		gain := math.Inf(-1)
		for i := range pool.Len() {
			if i == 0 || rows[i] != rows[i-1] {
				gain = math.Max(gain, all.gain(append(slices.Clone(chosen), i)...))
			}
		}
		require.InDelta(t, gain, x.Total, 1e-7)
		chosen = append(chosen, x.Index)
	}
	// 64 rows of 3 outputs fit, 128 do not.
	limited := linearize.Limits{Memory: 8*3*64*(64+6+6)*3 + 1}
	some := testref.Must(audit.Acquire(t.Context(), post, likelihood(q), pool, 6, limited))(t)
	require.Len(t, some.Batch, 6)
	w := testkit.RequireWarnings(t, some.Warnings, "batch-rough")[0]
	require.Less(t, w.Limit, w.Value)
	step := slices.IndexFunc(some.Batch, func(x audit.Chosen) bool { return x.Gain == w.Limit })
	require.Contains(t, w.Text, fmt.Sprintf("64 of 300 rows, whose joint covariance fits into memory. From its row %d on", step+1))
	for k := range step {
		require.Equal(t, got.Batch[k].Index, some.Batch[k].Index)
	}
	limited.Memory /= 2
	testref.As[*gp.MemoryError](t, testref.Err(audit.Acquire(t.Context(), post, likelihood(q), pool, 6, limited)))
}

// The result is the same for any number of processors.
func TestAcquireProcessors(t *testing.T) {
	q := testkit.NewProblem("categorical", 6, 20, 3, glm.Categorical{}, 1)
	post, pool := refit(t, q), poolOf(q, 100)
	testref.Procs(t, 1)
	one, err := audit.Acquire(t.Context(), post, likelihood(q), pool, 7, linearize.Limits{})
	require.NoError(t, err)
	testref.Procs(t, 4)
	many, err := audit.Acquire(t.Context(), post, likelihood(q), pool, 7, linearize.Limits{})
	require.NoError(t, err)
	require.Equal(t, one, many)
}

// own is a likelihood that is none of package glm.
type own struct{ glm.Likelihood }

func TestAcquireErrors(t *testing.T) {
	q := problemNamed(t, "poisson")
	post, pool := refit(t, q), poolOf(q, 3)
	var batch *audit.BatchError
	_, err := audit.Acquire(t.Context(), post, likelihood(q), pool, 4, linearize.Limits{})
	require.ErrorAs(t, err, &batch)
	require.Equal(t, audit.BatchError{Batch: 4, Pool: 3}, *batch)
	_, err = audit.Acquire(t.Context(), post, likelihood(q), testkit.InTiles(pool.Slice(0, 0), 1), 0, linearize.Limits{})
	require.ErrorAs(t, err, &batch)
	require.ErrorContains(t, err, "empty")
	testref.As[*audit.UnsupportedError](t, testref.Err(audit.Acquire(t.Context(), post, own{likelihood(q)}, pool, 0, linearize.Limits{})))
	broken := errors.New("broken")
	require.ErrorIs(t, testref.Err(audit.Acquire(t.Context(), failing{post, broken}, likelihood(q), pool, 0, linearize.Limits{})), broken)
	testkit.Stops(t, "an acquisition", 3, func(ctx context.Context) error {
		_, err := audit.Acquire(ctx, post, likelihood(q), pool, 2, linearize.Limits{})
		return err
	})
}

// failing cannot predict.
type failing struct {
	gp.Latent
	err error
}

func (f failing) PredictTo(context.Context, *mat.Dense, *mat.Dense, *linearize.Batch) error {
	return f.err
}
