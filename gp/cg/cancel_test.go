package cg_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
)

// Building the preconditioner and solving stop between the panels of their
// products.
func TestStopsBetweenPanels(t *testing.T) {
	q := newProblemOf("many panels", 4, 400, 1, glm.Bernoulli{}, 1, 16)
	s, o := q.Sites(t), &cg.Options{Rank: 300}
	testref.Procs(t, 1)
	testkit.Stops(t, "Fit", 30, func(ctx context.Context) error {
		_, err := cg.Fit(ctx, q.Kernel, q.Train, s, o)
		return err
	})
	testkit.Stops(t, "Refit", 30, func(ctx context.Context) error {
		_, err := cg.Refit(ctx, q.Kernel, q.Train, q.Targets(), o)
		return err
	})
}

// On one processor nothing that cg does starts a goroutine.
func TestOneProcessor(t *testing.T) {
	q := newProblemOf("one processor", 4, 400, 1, glm.Bernoulli{}, 1, 16)
	k := ntk.New(q.Prior, q.Theta)
	s := q.Sites(t)
	testkit.NoGoroutines(t, func() {
		p, err := cg.Fit(t.Context(), k, q.Train, s, &cg.Options{Rank: 300})
		require.NoError(t, err)
		var mean, cov, joint mat.Dense
		require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
		require.NoError(t, p.JointTo(t.Context(), &mean, &joint, q.Test))
	})
}

// An interruption ends an operation at one of its calls of Progress: by a
// cancel, or by an error of the data.
type interruption struct {
	after  int // calls that are let pass; negative: all
	calls  int
	cancel context.CancelFunc
}

func (i *interruption) progress(string, int, int) {
	if i.calls++; i.cancel != nil && i.calls == i.after {
		i.cancel()
	}
}

// A Posterior answers as before after predictions, explanations and log determinants
// that were cancelled.
func TestIsImmutable(t *testing.T) {
	q := problems(t)[5]
	i := new(interruption)
	o := linearMean(-1)
	o.Progress = i.progress
	p := q.refitPosterior(t, o)
	before := q.everything(t, q.refitPosterior(t, o))
	for cut := 1; cut <= 3; cut++ {
		ctx, cancel := context.WithCancel(t.Context())
		*i = interruption{after: cut, cancel: cancel}
		require.ErrorIs(t, testref.Err(p.LogDet(ctx)), context.Canceled)
		require.ErrorIs(t, testref.Err(p.PredictBounded(ctx, nil, new(mat.Dense), q.Test)), context.Canceled)
		cancel()
	}
	*i = interruption{}
	gptest.RequireBits(t, "after cancels", q.everything(t, p), before)
}

// A tile asks its context between parts of the kernel, and forms none after it is cancelled.
func TestTileStops(t *testing.T) {
	q := newProblemOf("tile", 3, 700, 2, glm.Categorical{}, 1, 4)
	p := q.fitPosterior(t, nil)
	cross := testref.Must(p.Cross(t.Context(), q.Test))(t)
	for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
		testkit.Stops(t, "tile", 8, func(ctx context.Context) error { return cross.TileTo(ctx, new(mat.Dense), 0, q.Train, terms) })
	}
}
