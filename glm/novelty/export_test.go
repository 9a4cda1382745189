package novelty

import (
	"context"

	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
)

// Noise returns ε.
func (d *Detector) Noise() float64 { return d.noise }

// Variance returns tr v/√tr κ.
func (d *Detector) Variance(ctx context.Context, x *linearize.Batch) ([]float64, error) {
	dst := make([]float64, x.Len())
	return dst, d.variance.predictTo(ctx, nil, nil, nil, dst, x)
}

// InputDistances returns the Mahalanobis distance and the angle.
func (d *Detector) InputDistances(ctx context.Context, x *linearize.Batch) (mahalanobis, angle []float64, err error) {
	mahalanobis, angle = make([]float64, x.Len()), make([]float64, x.Len())
	return mahalanobis, angle, d.inputs.distancesTo(ctx, mahalanobis, angle, x.X, false)
}

// SaveFromMean writes sections of version 1, with the distances of d.
func (d *Detector) SaveFromMean(w *store.Writer) error {
	old, in := *d, *d.inputs
	old.inputs, in.own = &in, nil
	return old.Save(w)
}

// Sorted returns leave-one-out distances of training examples, ascending.
func (d *Detector) Sorted(distance int) []float64 { return d.tails[distance].sorted }

// Summed returns the training examples that v is computed from.
func (d *Detector) Summed(n, inducing int, seed uint64) []int { return d.summed(n, inducing, seed) }
