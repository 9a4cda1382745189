package linearize

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"
)

// A Forwarder is a Model that can compute its outputs without linearizing.
type Forwarder interface {
	// Forward returns f(x;θ*), N×C, at the rows of x.
	Forward(ctx context.Context, x *mat.Dense) (*mat.Dense, error)
}

// Outputs returns f(x;θ*) of all examples of x, N×C, in one pass. A Source from NewSource is not linearized if its
// model is a Forwarder. The result may share memory with a Batch and must not be changed.
func Outputs(ctx context.Context, x Source) (*mat.Dense, error) {
	switch x := x.(type) {
	case *Batch:
		return x.F, ctx.Err()
	case *stream:
		if m, ok := x.model.(Forwarder); ok {
			return x.outputs(ctx, m)
		}
	}
	return outputsOf(x.Len(), func(yield func(first int, f *mat.Dense)) error {
		return x.Batches(ctx, func(first int, b *Batch) error {
			yield(first, b.F)
			return nil
		})
	})
}

// outputs computes the outputs of all rows without linearizing them.
func (s *stream) outputs(ctx context.Context, m Forwarder) (*mat.Dense, error) {
	return outputsOf(s.n, func(yield func(first int, f *mat.Dense)) error {
		for lo := 0; lo < s.n; lo += s.tile {
			if err := ctx.Err(); err != nil {
				return err
			}
			x, err := s.rows(lo, min(lo+s.tile, s.n))
			if err != nil {
				return err
			}
			f, err := m.Forward(ctx, x)
			if err != nil {
				return fmt.Errorf("linearize: examples from %d: %w", s.first+lo, err)
			}
			yield(lo, f)
		}
		return ctx.Err()
	})
}

// outputsOf collects the outputs of n examples, N×C, from the parts that pass yields.
func outputsOf(n int, pass func(yield func(first int, f *mat.Dense)) error) (*mat.Dense, error) {
	var all mat.Dense
	err := pass(func(first int, f *mat.Dense) {
		rows, c := f.Dims()
		if all.IsEmpty() && rows > 0 {
			all.ReuseAs(n, c)
		}
		for i := range rows {
			all.SetRow(first+i, f.RawRowView(i))
		}
	})
	return &all, err
}
