package linearize

import (
	"context"
	"errors"

	"github.com/funcgp/funcgp/internal/dense"
)

// Gathers tells whether src can give single examples without a pass over all of them.
func Gathers(src Source) bool {
	_, ok := src.(Gatherer)
	return ok
}

// First returns the first n examples of src, or all if there are fewer, as a batch with memory of its own, and nil
// for no examples. It linearizes no more than the batches with these examples.
func First(ctx context.Context, src Source, n int) (*Batch, error) {
	if n = min(n, src.Len()); n > 0 && Gathers(src) {
		return Gather(ctx, src, dense.Range(n))
	}
	var parts []*Batch
	err := src.Batches(ctx, func(first int, b *Batch) error {
		if first < n {
			parts = append(parts, Concat(b.Slice(0, min(b.Len(), n-first))))
		}
		if first+b.Len() >= n {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) || parts == nil {
		return nil, err
	}
	return Concat(parts...), nil
}

// errEnough ends a pass when there are enough examples.
var errEnough = errors.New("linearize: enough examples")
