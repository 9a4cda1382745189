package gptest

import (
	"context"
	"errors"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
)

func (c LatentCase) cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	requireCanceled(t, "PredictTo", c.Latent.PredictTo(ctx, new(mat.Dense), new(mat.Dense), c.Test))
	requireCanceled(t, "PredictTo of the mean", c.Latent.PredictTo(ctx, new(mat.Dense), nil, c.Test))
	requireCanceled(t, "JointTo", c.Latent.JointTo(ctx, new(mat.Dense), new(mat.Dense), c.Test))
	requireCanceled(t, "JointTo of the mean", c.Latent.JointTo(ctx, new(mat.Dense), nil, c.Test))
	c.predict(t, c.Test) // the posterior is as good as before
}

func (c DualCase) cancelledDual(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	q, err := c.Dual.Cross(ctx, c.Test)
	if err != nil {
		t.Fatalf("Cross: %v", err)
	}
	cancel()
	few := c.Train.Slice(0, 2)
	for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
		requireCanceled(t, "TileTo", q.TileTo(ctx, new(mat.Dense), 0, few, terms))
		if q, ok := q.(gp.CombinedCross); ok {
			requireCanceled(t, "CombinedTo", q.CombinedTo(ctx, new(mat.Dense), few, terms))
		}
	}
	_, err = c.Dual.Cross(ctx, c.Test)
	requireCanceled(t, "Cross", err)
	requireCanceled(t, "LeaveOneOutTo", c.Dual.LeaveOneOutTo(ctx, new(mat.Dense), new(mat.Dense), []int{0, 1}, few))
	requireCanceled(t, "InfluenceTo", c.Dual.InfluenceTo(ctx, new(mat.Dense), new(mat.Dense), []int{0, 1}, few))
}

func requireCanceled(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%s with a cancelled context: error %v", what, err)
	}
}
