package gp_test

import (
	"context"
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
