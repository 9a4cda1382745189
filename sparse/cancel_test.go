package sparse_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// Whatever is long stops between the panels of its products: a cancelled call
// looks at its context only a few times more.
func TestStopsBetweenPanels(t *testing.T) {
	q := newProblemOf("many panels", 4, 600, 1, glm.Bernoulli{}, 1, 20)
	s, z := q.Sites(t), q.inducing(t, seq(0, 400)...)
	p := q.fit(t, z, nil)
	testref.Procs(t, 1)
	for name, call := range map[string]func(ctx context.Context) error{
		"NewBuilder": func(ctx context.Context) error { _, err := sparse.NewBuilder(ctx, q.Kernel, z, nil); return err },
		"Fit":        func(ctx context.Context) error { _, err := sparse.Fit(ctx, q.Kernel, q.Train, s, z, nil); return err },
		"Refit": func(ctx context.Context) error {
			_, err := sparse.Refit(ctx, q.Kernel, q.Train, q.Targets(), z, nil)
			return err
		},
		"GradientLinearGaussian": func(ctx context.Context) error {
			_, err := p.GradientLinearGaussian(ctx, []ntk.Kernel{q.Kernel})
			return err
		},
		"Select": func(ctx context.Context) error {
			_, err := sparse.Select(ctx, sparse.Greedy{}, q.Kernel, q.Train, 400, nil)
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

// On one processor nothing that sparse does starts a goroutine.
func TestOneProcessor(t *testing.T) {
	q := newProblemOf("one processor", 4, 500, 1, glm.Bernoulli{}, 1, 20)
	k := ntk.New(q.Prior, q.Theta)
	s := q.Sites(t)
	testkit.NoGoroutines(t, func() {
		z := testref.Must(sparse.Select(t.Context(), sparse.Greedy{}, k, q.Train, 400, nil))(t)
		p := testref.Must(sparse.Fit(t.Context(), k, q.Train, s, z, nil))(t)
		var mean, cov mat.Dense
		require.NoError(t, p.JointTo(t.Context(), &mean, &cov, q.Train.Slice(0, 300)))
		require.NoError(t, testref.Err(p.Cross(t.Context(), q.Train)))
		require.NoError(t, testref.Err(p.GradientLinearGaussian(t.Context(), []ntk.Kernel{k})))
		require.NoError(t, testref.Err(p.At(t.Context(), 2)))
	})
}

// A report answers a cancel, with a sample and without.
func TestReportContext(t *testing.T) {
	q := problems(t)[2]
	p := q.fit(t, q.some(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, sample := range []int{0, 5} {
		r, err := p.Report(ctx, q.Test, sample, 0)
		require.ErrorIs(t, err, context.Canceled)
		require.Nil(t, r)
	}
}

// counted is a Source that gathers, and counts its passes.
type counted struct {
	linearize.Source
	passes, gathers *int
}

func (s counted) Batches(ctx context.Context, yield func(first int, b *linearize.Batch) error) error {
	*s.passes++
	return s.Source.Batches(ctx, yield)
}

func (s counted) Gather(ctx context.Context, rows []int) (*linearize.Batch, error) {
	*s.gathers++
	return linearize.Gather(ctx, s.Source, rows)
}

// Where the data gather, no pass is made for the few examples of a report's sample.
func TestGatherersAreAsked(t *testing.T) {
	q := problems(t)[2]
	var passes, gathers int
	s := q.Sites(t)
	p := testref.Must(sparse.Fit(t.Context(), q.Kernel, counted{q.Train, &passes, &gathers}, s, q.some(t), nil))(t)
	passes, gathers = 0, 0
	require.NoError(t, testref.Err(p.Report(t.Context(), q.Test, 5, 0)))
	require.Equal(t, []int{0, 1}, []int{passes, gathers})
}
