package gp_test

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
	"github.com/funcgp/funcgp/ntk"
)

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		for name, e := range map[string]*gp.Exact{
			"Fit":            q.fit(t, nil),
			"LinearGaussian": q.fit(t, &gp.Options{Mean: gp.LinearGaussian}),
			"Refit":          q.refit(t, nil),
		} {
			t.Run(name, func(t *testing.T) {
				c := gptest.DualCase{
					LatentCase: gptest.LatentCase{Test: q.test, Kernel: q.kernel, Tol: 1e-11},
					Dual:       e, Train: q.train,
					SumTol: 1e-9, // b of saturated sites is 1e3 times the sum
				}
				if name == "LinearGaussian" && q.n < 100 {
					c.Without = func(t *testing.T, row int) gp.Latent {
						return q.without(row).fit(t, &gp.Options{Mean: gp.LinearGaussian})
					}
				}
				gptest.Dual(t, c)
			})
		}
	})
}

// The structured kernel in place of the dense one changes nothing but the
// order of sums.
func TestNTKAgreesWithDenseKernel(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		k := ntk.New(q.kernel.densePrior, q.theta)
		e := testref.Must(gp.Refit(t.Context(), k, q.train, gp.NewTargets(q.y, q.lik), nil))(t)
		var mean, cov, wantMean, wantCov mat.Dense
		require.NoError(t, e.PredictTo(t.Context(), &mean, &cov, q.test))
		require.NoError(t, q.refit(t, nil).PredictTo(t.Context(), &wantMean, &wantCov, q.test))
		requireClose(t, "mean", &mean, &wantMean, tol)
		requireClose(t, "covariance", &cov, &wantCov, tol)
	})
}

// Sites that carry no information, Λ = 0 exactly, leave the prior's covariance.
func TestSaturatedSitesAreExact(t *testing.T) {
	q := newProblem("bernoulli", 21, 1, glm.Bernoulli{}, 1)
	for i := range q.n {
		q.train.F.Set(i, 0, math.Copysign(900, q.y.At(i, 0)-0.5))
	}
	q.fill()
	s := q.sites(t)
	require.Zero(t, mat.Max(s.Lambda))
	e := q.fit(t, &gp.Options{Mean: gp.LinearGaussian})
	var mean, cov mat.Dense
	require.NoError(t, e.PredictTo(t.Context(), &mean, &cov, q.test))
	requireClose(t, "covariance", &cov, diagonalBlocks(q.kTest, 1), 1e-14)
	requireClose(t, "mean", column(&mean), plus(q.priorTest, 1, product(q.kCross, column(s.Residual))), 1e-14)
	require.Zero(t, linearGaussian(t, e).LogDet)
}

// The result is the same to the last bit for any number of processors and for
// tiles of any size the same to rounding.
func TestBitIdentical(t *testing.T) {
	q := largeProblem()
	run := func(procs int) []float64 {
		testref.Procs(t, procs)
		e := q.refit(t, nil)
		var mean, cov mat.Dense
		require.NoError(t, e.PredictTo(t.Context(), &mean, &cov, q.test))
		steps := make([]float64, q.n*q.c)
		require.NoError(t, testkit.RemovalTo(t.Context(), e, steps))
		grad := testref.Must(testkit.GradientLinearGaussian(t.Context(), e, []ntk.Kernel{q.kernel}))(t)
		out := append(flat(&mean), flat(&cov)...)
		out = append(out, flat(q.cross(t, e, q.test, gp.PosteriorTerms))...)
		out = append(append(out, e.Alpha()...), steps...)
		return append(append(out, grad...), e.EvidenceRefit().Value)
	}
	want := run(1)
	for _, procs := range []int{2, 3, 7} {
		require.Equal(t, want, run(procs), "GOMAXPROCS %d", procs)
	}
}

func TestPredictInTiles(t *testing.T) {
	q := newProblem("categorical", 6, 4, glm.Categorical{}, 1)
	e := q.refit(t, nil)
	var wantMean, wantCov mat.Dense
	require.NoError(t, e.PredictTo(t.Context(), &wantMean, &wantCov, q.test))
	for _, bytes := range []int{1, 8 * q.c * q.n * q.c * 4} { // one example, four examples
		e.SetTile(bytes)
		var mean, cov mat.Dense
		require.NoError(t, e.PredictTo(t.Context(), &mean, &cov, q.test))
		requireClose(t, "mean", &mean, &wantMean, 1e-13)
		requireClose(t, "covariance", &cov, &wantCov, 1e-12)
	}
}

// counting calls a hook before each block and diagonal.
type counting struct {
	ntk.Kernel
	block, diag func()
}

func (k counting) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	k.block()
	k.Kernel.BlockTo(dst, a, b)
}

func (k counting) DiagTo(dst *mat.Dense, b *linearize.Batch) {
	k.diag()
	k.Kernel.DiagTo(dst, b)
}

// K is formed once for all Newton steps, also after a Fit, and the network's
// own mean needs no kernel at all.
func TestKernelIsFormedOnce(t *testing.T) {
	q := newProblem("bernoulli", 3, 1, glm.Bernoulli{}, 1)
	blocks, diags := 0, 0
	k := counting{q.kernel, func() { blocks++ }, func() { diags++ }}
	e := testref.Must(gp.Fit(t.Context(), k, q.train, q.sites(t), nil))(t)
	require.Equal(t, [2]int{1, 0}, [2]int{blocks, diags})
	var mean, cov mat.Dense
	require.NoError(t, e.PredictTo(t.Context(), &mean, nil, q.test))
	require.Equal(t, [2]int{1, 0}, [2]int{blocks, diags})

	e = testref.Must(e.Refit(t.Context(), gp.NewTargets(q.y, q.lik)))(t)
	require.Equal(t, [2]int{1, 0}, [2]int{blocks, diags})
	require.True(t, e.Refitted())
	require.NoError(t, e.PredictTo(t.Context(), &mean, &cov, q.test))
	require.Equal(t, [2]int{2, 1}, [2]int{blocks, diags})

	want := q.refit(t, nil)
	require.Equal(t, want.Alpha(), e.Alpha())
	require.Equal(t, want.EvidenceRefit(), e.EvidenceRefit())
}

func TestCancel(t *testing.T) {
	q := largeProblem()
	ctx, cancel := context.WithCancel(t.Context())
	blocks := 0
	k := counting{q.kernel, func() { blocks++ }, func() {}}
	progress := func(stage string, done, total int) {
		require.Equal(t, gp.StageKernel, stage)
		require.Equal(t, q.n, total)
		require.Less(t, done, total)
		cancel()
	}
	_, err := gp.Fit(ctx, k, q.train, q.sites(t), &gp.Options{Limits: linearize.Limits{Progress: progress}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, blocks)

	ctx, cancel = context.WithCancel(t.Context())
	_, err = gp.Refit(ctx, q.kernel, q.train, gp.NewTargets(q.y, q.lik), &gp.Options{Limits: linearize.Limits{Progress: func(stage string, _, _ int) {
		if stage == gp.StageNewton {
			cancel()
		}
	}}})
	require.ErrorIs(t, err, context.Canceled)

	e := q.fit(t, nil)
	_, err = testkit.GradientAtTheta(ctx, e, []ntk.Kernel{q.kernel}, []float64{0})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, testkit.RemovalTo(ctx, e, make([]float64, q.n*q.c)), context.Canceled)
}

func TestMemory(t *testing.T) {
	q := newProblem("categorical", 6, 4, glm.Categorical{}, 1)
	need := gp.Bytes(q.n, q.c)
	_, err := gp.Fit(t.Context(), q.kernel, q.train, q.sites(t), &gp.Options{Limits: linearize.Limits{Memory: need - 1}})
	short := testref.As[*gp.MemoryError](t, err)
	require.Equal(t, gp.MemoryError{Op: short.Op, Needed: need, Available: need - 1, Largest: q.n - 1, Unit: gp.TrainingExamples}, *short)
	require.ErrorContains(t, err, "at most 13 training examples fit")

	e := q.fit(t, &gp.Options{Limits: linearize.Limits{Memory: need}})
	// Three of the test examples share 3·4×14·4 numbers with the training
	// examples, twice over.
	require.NoError(t, testref.Err(e.Cross(t.Context(), q.test.Slice(0, 3))))
	many := &linearize.Batch{F: mat.NewDense(400, q.c, nil), P: q.p}
	require.ErrorAs(t, testref.Err(e.Cross(t.Context(), many)), &short)
	require.Equal(t, int64(2*8*400*q.c*q.n*q.c), short.Needed)
	require.ErrorAs(t, e.JointTo(t.Context(), nil, new(mat.Dense), many), &short)
	require.Equal(t, int64(8*400*q.c*(400*q.c+q.n*q.c)), short.Needed)
}

// poisonedKernel spoils one number.
type poisonedKernel struct {
	ntk.Kernel
	block, mean bool
	diag        float64 // factor on the diagonal blocks
	at          int
}

func (k poisonedKernel) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	k.Kernel.BlockTo(dst, a, b)
	if k.block {
		dst.Set(k.at, 1, math.Inf(1))
	}
}

func (k poisonedKernel) MeanTo(dst []float64, b *linearize.Batch) {
	k.Kernel.MeanTo(dst, b)
	if k.mean {
		dst[k.at] = math.NaN()
	}
}

func (k poisonedKernel) DiagTo(dst *mat.Dense, b *linearize.Batch) {
	k.Kernel.DiagTo(dst, b)
	dst.Scale(k.diag, dst)
}

func TestNotFinite(t *testing.T) {
	q := newProblem("bernoulli-two", 5, 2, glm.Bernoulli{}, 1)
	fit := func(k ntk.Kernel) error {
		_, err := gp.Fit(t.Context(), k, q.train, q.sites(t), nil)
		return err
	}
	requireNotFinite(t, fit(poisonedKernel{Kernel: q.kernel, block: true, at: 7}), "kernel", 3, 1)
	requireNotFinite(t, fit(poisonedKernel{Kernel: q.kernel, mean: true, at: 8}), "prior mean", 4, 0)

	s := q.sites(t)
	s.Lambda.Set(7, 0, math.NaN())
	_, err := gp.Fit(t.Context(), q.kernel, q.train, s, nil)
	requireNotFinite(t, err, "Λ", 3, 1)

	e := q.refit(t, nil)
	q.test.F.Set(5, 1, math.NaN())
	var m mat.Dense
	e.SetTile(1)
	requireNotFinite(t, e.PredictTo(t.Context(), &m, nil, q.test), "network output", 5, 1)
	requireNotFinite(t, e.JointTo(t.Context(), nil, new(mat.Dense), q.test), "network output", 5, 1)
}

func requireNotFinite(t *testing.T, err error, what string, row, output int) {
	t.Helper()
	at := testref.As[*gp.NotFiniteError](t, err)
	require.Equal(t, gp.NotFiniteError{What: what, Row: row, Output: output}, gp.NotFiniteError{What: at.What, Row: at.Row, Output: at.Output})
	require.True(t, math.IsNaN(at.Value) || math.IsInf(at.Value, 0))
}

func TestNegativeVariance(t *testing.T) {
	q := newProblem("bernoulli-two", 5, 2, glm.Bernoulli{}, 1)
	e := testref.Must(gp.Fit(t.Context(), poisonedKernel{Kernel: q.kernel, diag: 0.01}, q.train, q.sites(t), nil))(t)
	var negative *gp.NegativeVarianceError
	e.SetTile(1)
	require.ErrorAs(t, e.PredictTo(t.Context(), nil, new(mat.Dense), q.test), &negative)
	require.Negative(t, negative.Variance)
	require.Positive(t, negative.Prior)
}

// fixedKernel is any matrix as K, for one output and no parameters to speak of.
type fixedKernel struct{ k *mat.Dense }

func (k fixedKernel) MeanTo(dst []float64, _ *linearize.Batch)      { clear(dst) }
func (k fixedKernel) BlockTo(dst *mat.Dense, _, _ *linearize.Batch) { dst.Copy(k.k) }
func (k fixedKernel) DiagTo(dst *mat.Dense, _ *linearize.Batch)     { dst.Copy(k.k.ColView(0)) }

// A K with the eigenvalue −1−δ leaves B with −δ: rounding where δ is small, no
// covariance where it is large.
func TestJitter(t *testing.T) {
	lik := testref.Must(glm.NewGaussian(1))(t)
	fit := func(delta float64) (*gp.Exact, error) {
		k := fixedKernel{mat.NewDense(2, 2, []float64{1e6, 1e6 + 1 + delta, 1e6 + 1 + delta, 1e6})}
		x := &linearize.Batch{F: mat.NewDense(2, 1, nil)}
		s := testref.Must(gp.NewSites(gp.NewTargets(mat.NewDense(2, 1, nil), lik), x.F))(t)
		return gp.Fit(t.Context(), k, x, s, nil)
	}
	e := testref.Must(fit(-0.5))(t)
	require.Empty(t, e.Warnings())

	e = testref.Must(fit(1e-6))(t)
	used := testkit.RequireWarnings(t, e.Warnings(), "jitter")[0]
	require.InDelta(t, 1e-5, used.Value, 1e-9) // 1e-11 of the mean diagonal

	failed := testref.As[*gp.NotPDError](t, testref.Err(fit(1e3)))
	require.Equal(t, 2, failed.N)
	require.InDelta(t, 0.1, failed.Jitter, 1e-6)
}

func TestGradientNorm(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		s := q.sites(t)
		g := plus(product(q.jTrain.T(), column(s.Residual)), 1, product(q.sigmaInv, q.shift))
		requireNumber(t, "‖Jᵀr − Σ₀⁻¹(θ*−μ₀)‖", gp.GradientNorm(q.train, s, q.kernel.densePrior, q.theta), mat.Norm(g, 2), 1e-12)
	})
}

func TestPanics(t *testing.T) {
	q, other := newProblem("bernoulli", 3, 1, glm.Bernoulli{}, 1), newProblem("categorical", 6, 4, glm.Categorical{}, 1)
	e := q.fit(t, nil)
	for text, call := range map[string]func(){
		"gp: sites and examples differ in size":       func() { gp.Fit(t.Context(), q.kernel, q.train, other.sites(t), nil) },
		"gp: inputs do not fit the training examples": func() { e.PredictTo(t.Context(), nil, nil, other.test) },
		"gp: the evidence (E9) needs a refit":         func() { e.EvidenceRefit() },
		"gp: invalid options":                         func() { gp.Fit(t.Context(), q.kernel, q.train, q.sites(t), &gp.Options{MaxIter: -1}) },
	} {
		require.PanicsWithValue(t, text, call)
	}
}
