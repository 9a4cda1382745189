package gp_test

import (
	"context"
	"math/rand/v2"
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

// snapshot is what a posterior answers, and the data it was given.
func (q *problem) snapshot(t *testing.T, e *gp.Exact) []*mat.Dense {
	t.Helper()
	var mean, cov mat.Dense
	require.NoError(t, e.PredictTo(t.Context(), &mean, &cov, q.test))
	var j mat.Dense
	q.train.JacobianTo(&j)
	removal := mat.NewDense(1, q.n*q.c, nil)
	require.NoError(t, testkit.RemovalTo(t.Context(), e, removal.RawRowView(0)))
	evidence := linearGaussian(t, e)
	s := e.Sites()
	return []*mat.Dense{&mean, &cov, removal, q.cross(t, e, q.test, gp.PosteriorTerms), vec(e.Alpha()), vec(e.PseudoTargets()),
		mat.NewDense(1, 4, []float64{evidence.Value, evidence.LogLik, evidence.Scatter, evidence.LogDet}),
		mat.DenseCopyOf(s.F), mat.DenseCopyOf(s.Residual), mat.DenseCopyOf(s.Lambda), mat.DenseCopyOf(s.Root),
		mat.DenseCopyOf(q.y), mat.DenseCopyOf(q.train.F), &j}
}

// A refit that is cancelled anywhere, one that fails and one that finishes
// leave the posterior, its sites, the targets and the examples as they were.
func TestRefitLeavesItsReceiver(t *testing.T) {
	q := newProblem("categorical", 6, 4, glm.Categorical{}, 1)
	e := q.fit(t, nil)
	before := q.snapshot(t, e)
	whole := &testkit.Countdown{Context: t.Context(), Left: 1 << 30}
	want := testref.Must(e.Refit(whole, gp.NewTargets(q.y, q.lik)))(t)
	require.Equal(t, before, q.snapshot(t, e))
	for left, asked := int64(0), whole.Asked.Load(); left < asked; left += 1 + asked/23 {
		_, err := e.Refit(&testkit.Countdown{Context: t.Context(), Left: left}, gp.NewTargets(q.y, q.lik))
		require.ErrorIs(t, err, context.Canceled)
		require.NotEqual(t, context.Canceled, err, "it is wrapped")
	}
	require.Equal(t, before, q.snapshot(t, e))
	require.Error(t, testref.Err(e.Refit(t.Context(), gp.NewTargets(q.y, failing{q.lik}))))
	require.Equal(t, before, q.snapshot(t, e))
	got := testref.Must(e.Refit(t.Context(), gp.NewTargets(q.y, q.lik)))(t)
	require.Equal(t, want.Alpha(), got.Alpha())
	require.NoError(t, testref.Err(want.Refit(t.Context(), gp.NewTargets(q.y, q.lik))))
	require.Equal(t, q.snapshot(t, got), q.snapshot(t, want))
}

// failing gives a residual that is not a number.
type failing struct{ gp.Likelihood }

func (f failing) Expand(residual, lambda, root, y, fx []float64) float64 {
	v := f.Likelihood.Expand(residual, lambda, root, y, fx)
	if residual != nil {
		residual[0] /= 0 * residual[0]
	}
	return v
}

// Long work that is cancelled after any number of panels does none of the
// rest: its context is asked only a few times more, on the way out.
func TestFitStopsBetweenPanels(t *testing.T) {
	q := newProblemOf("many panels", 4, 700, 1, glm.Bernoulli{}, 1)
	prior := testref.Must(ntk.NewIsotropic(1, nil))(t)
	k := ntk.New(prior, make([]float64, q.p))
	s := q.sites(t)
	long := map[string]func(ctx context.Context) error{
		"Fit": func(ctx context.Context) error { _, err := gp.Fit(ctx, k, q.train, s, nil); return err },
		"Refit": func(ctx context.Context) error {
			_, err := gp.Refit(ctx, k, q.train, gp.NewTargets(q.y, q.lik), nil)
			return err
		},
	}
	e := testref.Must(gp.Fit(t.Context(), k, q.train, s, nil))(t)
	long["RemovalTo"] = func(ctx context.Context) error { return testkit.RemovalTo(ctx, e, make([]float64, q.n)) }
	long["GradientLinearGaussian"] = func(ctx context.Context) error {
		_, err := testkit.GradientLinearGaussian(ctx, e, []ntk.Kernel{k})
		return err
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for name, call := range long {
		whole := &testkit.Countdown{Context: t.Context(), Left: 1 << 30}
		require.NoError(t, call(whole))
		for range 4 {
			ctx := &testkit.Countdown{Context: t.Context(), Left: rng.Int64N(whole.Asked.Load())}
			require.ErrorIs(t, call(ctx), context.Canceled, name)
			require.LessOrEqual(t, ctx.Asked.Load(), ctx.Left+16, "%s of %d", name, whole.Asked.Load())
		}
	}
}

// On one processor nothing that gp does starts a goroutine.
func TestOneProcessor(t *testing.T) {
	q := newProblemOf("one processor", 4, 600, 1, glm.Bernoulli{}, 1)
	prior := testref.Must(ntk.NewIsotropic(1, nil))(t)
	k := ntk.New(prior, make([]float64, q.p))
	testkit.NoGoroutines(t, func() {
		e := testref.Must(gp.Fit(t.Context(), k, q.train, q.sites(t), nil))(t)
		var mean, cov mat.Dense
		require.NoError(t, e.JointTo(t.Context(), &mean, &cov, q.train.Slice(0, 300)))
		require.NoError(t, testref.Err(e.Cross(t.Context(), q.train)))
		require.NoError(t, testkit.RemovalTo(t.Context(), e, make([]float64, q.n)))
	})
}

// A tilewise kernel forms blocks an example of the left side at a time. It counts them, and
// cancels a context after a number of them.
type tilewise struct {
	*ntk.NTK
	tiles, left int
	cancel      context.CancelFunc
}

// BlockTo implements ntk.Kernel.
func (k *tilewise) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	_ = k.BlockContextTo(context.Background(), dst, a, b)
}

// BlockContextTo is BlockTo that stops between examples.
func (k *tilewise) BlockContextTo(ctx context.Context, dst *mat.Dense, a, b *linearize.Batch) error {
	k.NTK.BlockTo(dst, a, b)
	for range a.Len() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if k.tiles++; k.tiles == k.left {
			k.cancel()
		}
	}
	return nil
}

// A context that is cancelled within a block of the kernel ends the call there.
func TestStopsWithinBlocks(t *testing.T) {
	q := testkit.NewProblemOf("tiles", 3, 40, 1, glm.Bernoulli{}, 1, 4)
	k := &tilewise{NTK: q.Kernel}
	s := q.Sites(t)
	e := testref.Must(gp.Fit(t.Context(), k, q.Train, s, nil))(t)
	kept := testref.Must(gp.Keep(t.Context(), k, q.Train, s, nil))(t)
	thin := testref.Must(gp.FitKept(t.Context(), k, q.Train, s, kept, nil))(t)
	rows := []int{0, 1, 2, 3}
	own, r := q.Train.Slice(0, 4), mat.NewDense(4, 1, nil)
	for name, call := range map[string]func(ctx context.Context) error{
		"Exact.PredictTo":       func(ctx context.Context) error { return e.PredictTo(ctx, nil, new(mat.Dense), q.Test) },
		"Exact.JointTo":         func(ctx context.Context) error { return e.JointTo(ctx, nil, new(mat.Dense), q.Test) },
		"Exact.Cross":           func(ctx context.Context) error { _, err := e.Cross(ctx, q.Test); return err },
		"Thinned.JointTo":       func(ctx context.Context) error { return thin.JointTo(ctx, nil, new(mat.Dense), q.Test) },
		"Thinned.HalfTo":        func(ctx context.Context) error { return thin.HalfTo(ctx, new(mat.Dense), q.Test) },
		"Thinned.GainTo":        func(ctx context.Context) error { return thin.GainTo(ctx, new(mat.Dense), q.Test, nil) },
		"Thinned.LeaveOneOutTo": func(ctx context.Context) error { return thin.LeaveOneOutTo(ctx, nil, new(mat.Dense), rows, own) },
		"Thinned.InfluenceTo": func(ctx context.Context) error {
			return thin.InfluenceTo(ctx, new(mat.Dense), new(mat.Dense), rows, own, r)
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		k.tiles, k.left, k.cancel = 0, 2, cancel
		require.ErrorIs(t, call(ctx), context.Canceled, name)
		require.Equal(t, 2, k.tiles, "%s: examples formed, of which the second cancels", name)
	}
}
