package cg_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/linearize"
)

// unreadable examples fail to load.
type unreadable struct {
	linearize.Source
	err error
}

func (u unreadable) Batches(context.Context, func(int, *linearize.Batch) error) error { return u.err }

// Where the examples fail to load, that is the only thing an error says.
func TestSourceOfUnreadableExamples(t *testing.T) {
	q := newProblem("bernoulli", 3, 20, 1, glm.Bernoulli{}, 1)
	disk := errors.New("disk on fire")
	data := unreadable{q.Train, disk}
	_, err := cg.Fit(t.Context(), q.Kernel, data, q.Sites(t), nil)
	require.Equal(t, disk, err)
	_, err = cg.Refit(t.Context(), q.Kernel, data, q.Targets(), nil)
	require.Equal(t, disk, err)
	_, err = cg.Fit(t.Context(), q.Kernel, unreadable{q.Train, nil}, q.Sites(t), nil)
	require.EqualError(t, err, "gp: there are no training examples")
}

// counted examples count the batches that are linearized.
type counted struct {
	linearize.Source
	batches *int
}

func (c counted) Batches(ctx context.Context, yield func(int, *linearize.Batch) error) error {
	return c.Source.Batches(ctx, func(first int, b *linearize.Batch) error {
		*c.batches++
		return yield(first, b)
	})
}

// A limit that is too small is refused, with the numbers, when the first batch says how
// large a posterior is: before any kernel and before another batch.
func TestMemoryIsCheckedFirst(t *testing.T) {
	q := problems(t)[5]
	need := cg.Bytes(q.N, q.C, q.Train.P, 0, q.C)
	var unused struct{ cg.MulKernel } // panics when it is asked for anything
	for _, limit := range []int64{1, 1000, need - 1} {
		for name, fit := range map[string]func(x linearize.Source, o *cg.Options) error{
			"Fit": func(x linearize.Source, o *cg.Options) error {
				_, err := cg.Fit(t.Context(), unused, x, q.Sites(t), o)
				return err
			},
			"Refit": func(x linearize.Source, o *cg.Options) error {
				_, err := cg.Refit(t.Context(), unused, x, q.Targets(), o)
				return err
			},
		} {
			batches := 0
			err := fit(counted{linearize.Rebatch(q.Train, 1), &batches}, &cg.Options{MaxMemory: limit})
			var m *gp.MemoryError
			require.ErrorAs(t, err, &m, name)
			require.Equal(t, 1, batches, name)
			require.Equal(t, need, m.Needed)
			require.Equal(t, limit, m.Available)
			require.Equal(t, gp.TrainingExamples, m.Unit)
			require.Less(t, m.Largest, q.N)
			require.Equal(t, err, cg.CheckMemory(q.N, q.C, q.Train.P, limit))
		}
	}
	require.NoError(t, cg.CheckMemory(q.N, q.C, q.Train.P, need))
}
