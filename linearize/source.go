package linearize

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// A Gatherer is a Source that can give single examples without a pass over all of them.
type Gatherer interface {
	// Gather returns the examples at positions rows, in this order, as a batch with memory of its own.
	Gather(ctx context.Context, rows []int) (*Batch, error)
}

// A stream loads and linearizes examples when they are needed. Its example i is row first+i of load. Errors name
// that row.
type stream struct {
	model          Model
	first, n, tile int
	load           func(lo, hi int) (*mat.Dense, error)
}

var (
	_ Source   = (*stream)(nil)
	_ Gatherer = (*stream)(nil)
)

// NewSource returns a Source of n examples that are linearized tile by tile, anew in every pass, so that the
// Jacobian of only one tile is in memory. load returns rows lo to hi−1 of the inputs, (hi−lo)×D, and may reuse
// their memory in the next call. A batch is valid until yield returns. Only one pass may run at a time. NewSource
// panics unless n ≥ 0 and tile ≥ 1. Tile returns a tile that suits inference.
func NewSource(model Model, n, tile int, load func(lo, hi int) (*mat.Dense, error)) Source {
	if n < 0 || tile < 1 {
		panic("linearize: a source needs a positive tile")
	}
	return &stream{model: model, n: n, tile: tile, load: load}
}

func (s *stream) Len() int { return s.n }

// Batches implements Source.
func (s *stream) Batches(ctx context.Context, yield func(first int, b *Batch) error) error {
	return s.pass(ctx, yield, func(_, _ int, x *mat.Dense) (*Batch, error) { return s.model.Linearize(ctx, x) })
}

// pass yields a batch for each tile: the result of linearize for rows lo to hi−1 of the stream with inputs x.
func (s *stream) pass(ctx context.Context, yield func(first int, b *Batch) error, linearize func(lo, hi int, x *mat.Dense) (*Batch, error)) error {
	for lo := 0; lo < s.n; lo += s.tile {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+s.tile, s.n)
		x, err := s.rows(lo, hi)
		if err != nil {
			return err
		}
		b, err := linearize(lo, hi, x)
		if err != nil {
			return fmt.Errorf("linearize: examples from %d: %w", s.first+lo, err)
		}
		if err := yield(lo, b); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// rows loads the inputs of examples lo to hi−1 and checks their number.
func (s *stream) rows(lo, hi int) (*mat.Dense, error) {
	lo, hi = s.first+lo, s.first+hi
	x, err := s.load(lo, hi)
	if err != nil {
		return nil, fmt.Errorf("linearize: loading examples %d to %d: %w", lo, hi-1, err)
	}
	if r, _ := x.Dims(); r != hi-lo {
		return nil, fmt.Errorf("linearize: loading examples %d to %d gave %d rows", lo, hi-1, r)
	}
	return x, nil
}

// Gather implements Gatherer.
func (s *stream) Gather(ctx context.Context, rows []int) (*Batch, error) {
	x, err := s.at(rows)
	if err != nil {
		return nil, err
	}
	return s.model.Linearize(ctx, x)
}

// at loads the inputs of the examples at positions rows.
func (s *stream) at(rows []int) (*mat.Dense, error) {
	var x *mat.Dense
	for i, r := range rows {
		one, err := s.rows(r, r+1)
		if err != nil {
			return nil, err
		}
		if x == nil {
			_, d := one.Dims()
			x = mat.NewDense(len(rows), d, nil)
		}
		copy(x.RawRowView(i), one.RawRowView(0))
	}
	return x, nil
}

// Gather returns the examples of src at positions rows, in this order, as a batch with memory of its own. It takes
// one pass over src, and none if src Gathers. It panics for a position outside src, and for an empty list.
func Gather(ctx context.Context, src Source, rows []int) (*Batch, error) {
	if len(rows) == 0 || slices.Min(rows) < 0 || slices.Max(rows) >= src.Len() {
		panic("linearize: gathered row out of range")
	}
	if g, ok := src.(Gatherer); ok {
		return g.Gather(ctx, rows)
	}
	return gatherEach(ctx, src, rows, func(b *Batch, _ int) *Batch { return Concat(b) })
}

// gatherEach passes over src once and joins pick(b, place) for the examples at the positions in rows, where b is the
// batch of one example and place its index in rows. pick must return a batch with memory of its own.
func gatherEach(ctx context.Context, src Source, rows []int, pick func(b *Batch, place int) *Batch) (*Batch, error) {
	at := make(map[int][]int, len(rows)) // indices in rows of each position
	for i, r := range rows {
		at[r] = append(at[r], i)
	}
	parts := make([]*Batch, len(rows))
	err := ordered(ctx, src, func(first int, b *Batch) error {
		for i := range b.Len() {
			for _, place := range at[first+i] {
				parts[place] = pick(b.Slice(i, i+1), place)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return Concat(parts...), nil
}

// Gather implements Gatherer.
func (b *Batch) Gather(ctx context.Context, rows []int) (*Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	parts := make([]*Batch, len(rows))
	for i, r := range rows {
		parts[i] = b.Slice(r, r+1)
	}
	return Concat(parts...), nil
}

var _ Gatherer = (*Batch)(nil)

// ordered passes over src. It returns an error if a batch does not begin where the previous one ended, and if
// examples are missing at the end.
func ordered(ctx context.Context, src Source, yield func(first int, b *Batch) error) error {
	next, n := 0, src.Len()
	err := src.Batches(ctx, func(first int, b *Batch) error {
		if first != next || first+b.Len() > n {
			return fmt.Errorf("linearize: a source gave examples %d to %d where %d was next of %d", first, first+b.Len()-1, next, n)
		}
		next += b.Len()
		return yield(first, b)
	})
	if err == nil && next != n {
		return fmt.Errorf("linearize: a source ended after %d of %d examples", next, n)
	}
	return err
}

// Rebatch returns the examples of src in batches of size examples; the last batch may have fewer. Sums over batches
// then do not depend on the batches of src. A batch is valid until yield returns. Batches of src that are out of
// order or incomplete are an error. A size below 1 panics.
func Rebatch(src Source, size int) Source {
	if size < 1 {
		panic("linearize: batches need a positive size")
	}
	return &rebatched{src: src, size: size}
}

// A rebatched is the result of Rebatch.
type rebatched struct {
	src  Source
	size int
}

func (r *rebatched) Len() int { return r.src.Len() }

// Batches implements Source. It copies examples only where a batch of src ends
// inside a batch of the result.
func (r *rebatched) Batches(ctx context.Context, yield func(first int, b *Batch) error) error {
	var held []*Batch // copies of the examples in a batch that is not full yet
	count, next := 0, 0
	flush := func() error {
		b := Concat(held...)
		first := next
		next, held, count = next+count, nil, 0
		return yield(first, b)
	}
	err := ordered(ctx, r.src, func(_ int, b *Batch) error {
		for at := 0; at < b.Len(); {
			take := min(r.size-count, b.Len()-at)
			part := b.Slice(at, at+take)
			at += take
			if take == r.size {
				next += take
				if err := yield(next-take, part); err != nil {
					return err
				}
				continue
			}
			held, count = append(held, Concat(part)), count+take
			if count == r.size {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil || count == 0 {
		return err
	}
	return flush()
}
