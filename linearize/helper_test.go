package linearize_test

import (
	"context"

	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/linearize"
)

// bare is a Source without further methods.
type bare struct{ src linearize.Source }

var requireSums = testkit.RequireSums

var gaussianMatrix = testkit.RandomMatrix

func (p bare) Len() int { return p.src.Len() }

func (p bare) Batches(ctx context.Context, yield func(int, *linearize.Batch) error) error {
	return p.src.Batches(ctx, yield)
}
