package cg_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testref"
)

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
