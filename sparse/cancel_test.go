package sparse_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/store"
)

// Whatever is long stops between the panels of its products: a cancelled call
// looks at its context only a few times more.
func TestStopsBetweenPanels(t *testing.T) {
	q := newProblemOf("many panels", 4, 600, 1, glm.Bernoulli{}, 1, 20)
	s, z := q.Sites(t), q.inducing(t, seq(0, 400)...)
	o := &sparse.Options{Workers: 1}
	p := q.fit(t, z, o)
	for name, call := range map[string]func(ctx context.Context) error{
		"NewBuilder": func(ctx context.Context) error { _, err := sparse.NewBuilder(ctx, q.Kernel, z, o); return err },
		"Fit":        func(ctx context.Context) error { _, err := sparse.Fit(ctx, q.Kernel, q.Train, s, z, o); return err },
		"Refit": func(ctx context.Context) error {
			_, err := sparse.Refit(ctx, q.Kernel, q.Train, q.Y, q.Likelihood, z, o)
			return err
		},
		"Add": func(ctx context.Context) error { _, err := p.Add(ctx, q.Train, s); return err },
		"GradientLinearGaussian": func(ctx context.Context) error {
			_, err := p.GradientLinearGaussian(ctx, []ntk.Kernel{q.Kernel})
			return err
		},
		"Select": func(ctx context.Context) error {
			_, err := sparse.Select(ctx, sparse.Greedy{}, q.Kernel, q.Train, 400, o)
			return err
		},
	} {
		testkit.Stops(t, name, 12, call)
	}
}

// A pass that is cancelled within a product hands out the sums of the chunks
// before: what goes on from them is the same to the last bit.
func TestCheckpointWithinProducts(t *testing.T) {
	q := newProblemOf("two chunks", 4, 2100, 1, glm.Bernoulli{}, 1, 10)
	s, z := q.Sites(t), q.inducing(t, seq(0, 90)...)
	want := q.fit(t, z, nil)
	whole := &testkit.Countdown{Context: t.Context(), Left: 1 << 40}
	_, err := sparse.Fit(whole, q.Kernel, q.Train, s, z, &sparse.Options{Checkpoint: func(int, int, func(*store.Writer) error) error { return nil }})
	require.NoError(t, err)
	all, times := whole.Asked.Load(), 0
	for left := all / 2; left < all; left += 1 + all/8 {
		var state []byte
		o := &sparse.Options{CheckpointEvery: 1 << 30, Checkpoint: func(_, _ int, save func(w *store.Writer) error) error {
			state = stored(t, save)
			return nil
		}}
		_, err := sparse.Fit(&testkit.Countdown{Context: t.Context(), Left: left}, q.Kernel, q.Train, s, z, o)
		require.ErrorIs(t, err, context.Canceled)
		if state == nil {
			continue
		}
		got, err := sparse.Fit(t.Context(), q.Kernel, q.Train, s, z, &sparse.Options{Resume: resumed(t, state)})
		require.NoError(t, err)
		require.Equal(t, want.Alpha(), got.Alpha())
		times++
	}
	require.Positive(t, times)
}

// One worker is the caller: nothing that sparse does starts a goroutine.
func TestWorkersBoundGoroutines(t *testing.T) {
	q := newProblemOf("one worker", 4, 500, 1, glm.Bernoulli{}, 1, 20)
	k := ntk.New(q.Prior, q.Theta, &ntk.Options{Workers: 1})
	s, o := q.Sites(t), &sparse.Options{Workers: 1}
	testkit.NoGoroutines(t, func() {
		z := testref.Must(sparse.Select(t.Context(), sparse.Greedy{}, k, q.Train, 400, o))(t)
		p := testref.Must(sparse.Fit(t.Context(), k, q.Train, s, z, o))(t)
		var mean, cov mat.Dense
		require.NoError(t, p.JointTo(t.Context(), &mean, &cov, q.Train.Slice(0, 300)))
		require.NoError(t, testref.Err(p.Cross(t.Context(), q.Train)))
		require.NoError(t, testref.Err(p.GradientLinearGaussian(t.Context(), []ntk.Kernel{k})))
		require.NoError(t, testref.Err(p.At(t.Context(), 2)))
	})
}
