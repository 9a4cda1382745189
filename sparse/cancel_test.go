package sparse_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/testlimit"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// Whatever is long stops between the panels of its products: a cancelled call
// looks at its context only a few times more.
func TestStopsBetweenPanels(t *testing.T) {
	q := newProblemOf("many panels", 4, 600, 1, glm.Bernoulli{}, 1, 20)
	s, z := q.sites(t), q.inducing(t, seq(0, 400)...)
	o := &sparse.Options{Workers: 1}
	p := q.fit(t, z, o)
	for name, call := range map[string]func(ctx context.Context) error{
		"NewBuilder": func(ctx context.Context) error { _, err := sparse.NewBuilder(ctx, q.kernel, z, o); return err },
		"Fit":        func(ctx context.Context) error { _, err := sparse.Fit(ctx, q.kernel, q.train, s, z, o); return err },
		"Refit": func(ctx context.Context) error {
			_, err := sparse.Refit(ctx, q.kernel, q.train, q.y, q.lik, z, o)
			return err
		},
		"Add": func(ctx context.Context) error { _, err := p.Add(ctx, q.train, s); return err },
		"GradientLinearGaussian": func(ctx context.Context) error {
			_, err := p.GradientLinearGaussian(ctx, []ntk.Kernel{q.kernel})
			return err
		},
		"Select": func(ctx context.Context) error {
			_, err := sparse.Select(ctx, sparse.Greedy{}, q.kernel, q.train, 400, o)
			return err
		},
	} {
		testlimit.Stops(t, name, 12, call)
	}
}

// A pass that is cancelled within a product hands out the sums of the chunks
// before: what goes on from them is the same to the last bit.
func TestCheckpointWithinProducts(t *testing.T) {
	q := newProblemOf("two chunks", 4, 2100, 1, glm.Bernoulli{}, 1, 10)
	s, z := q.sites(t), q.inducing(t, seq(0, 90)...)
	want := q.fit(t, z, nil)
	whole := &testlimit.Countdown{Context: t.Context(), Left: 1 << 40}
	_, err := sparse.Fit(whole, q.kernel, q.train, s, z, &sparse.Options{Checkpoint: func(*sparse.Checkpoint) error { return nil }})
	require.NoError(t, err)
	all, resumed := whole.Asked.Load(), 0
	for left := all / 2; left < all; left += 1 + all/8 {
		var state []byte
		o := &sparse.Options{CheckpointEvery: 1 << 30, Checkpoint: func(c *sparse.Checkpoint) (err error) {
			state, err = c.MarshalBinary()
			return err
		}}
		_, err := sparse.Fit(&testlimit.Countdown{Context: t.Context(), Left: left}, q.kernel, q.train, s, z, o)
		require.ErrorIs(t, err, context.Canceled)
		if state == nil {
			continue
		}
		var c sparse.Checkpoint
		require.NoError(t, c.UnmarshalBinary(state))
		got, err := sparse.Fit(t.Context(), q.kernel, q.train, s, z, &sparse.Options{Resume: &c})
		require.NoError(t, err)
		require.Equal(t, want.Alpha(), got.Alpha())
		resumed++
	}
	require.Positive(t, resumed)
}

// One worker is the caller: nothing that sparse does starts a goroutine.
func TestWorkersBoundGoroutines(t *testing.T) {
	q := newProblemOf("one worker", 4, 500, 1, glm.Bernoulli{}, 1, 20)
	k := ntk.New(q.prior, q.theta, &ntk.Options{Workers: 1})
	s, o := q.sites(t), &sparse.Options{Workers: 1}
	testlimit.NoGoroutines(t, func() {
		z, err := sparse.Select(t.Context(), sparse.Pairs(sparse.Greedy{}), k, q.train, 400, o)
		require.NoError(t, err)
		p, err := sparse.Fit(t.Context(), k, q.train, s, z, o)
		require.NoError(t, err)
		var mean, cov mat.Dense
		require.NoError(t, p.JointTo(t.Context(), &mean, &cov, q.train.Slice(0, 300)))
		_, err = p.Cross(t.Context(), q.train)
		require.NoError(t, err)
		_, err = p.GradientLinearGaussian(t.Context(), []ntk.Kernel{k})
		require.NoError(t, err)
		_, err = p.At(t.Context(), 2)
		require.NoError(t, err)
	})
}
