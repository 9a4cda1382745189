package testkit

import (
	"context"

	"github.com/funcgp/funcgp/linearize"
)

// Chunked yields a batch in pieces of Size examples, 0 for one piece, and gives
// no single examples.
type Chunked struct {
	B    *linearize.Batch
	Size int
}

// InTiles yields b in pieces of size examples.
func InTiles(b *linearize.Batch, size int) Chunked { return Chunked{B: b, Size: size} }

// Len implements linearize.Source.
func (c Chunked) Len() int { return c.B.Len() }

// Batches implements linearize.Source.
func (c Chunked) Batches(ctx context.Context, yield func(int, *linearize.Batch) error) error {
	size := c.Size
	if size == 0 {
		size = c.B.Len()
	}
	for i := 0; i < c.B.Len(); i += size {
		if err := yield(i, c.B.Slice(i, min(i+size, c.B.Len()))); err != nil {
			return err
		}
	}
	return ctx.Err()
}
