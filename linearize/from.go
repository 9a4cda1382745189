package linearize

import "context"

// A Skipper is a Source that can start at a later example without computing the examples before it.
type Skipper interface {
	// From is the function From for this Source, for 0 < first < Len.
	From(first int) Source
}

// From returns the examples of src from position first on, which becomes position 0. A Batch, a Skipper, a source
// made by NewSource, and one made from these by Rebatch neither load nor linearize the examples before first. Any other
// Source computes them, and From discards them. first = src.Len() leaves no examples; more panics.
func From(src Source, first int) Source {
	if first < 0 || first > src.Len() {
		panic("linearize: first example out of range")
	}
	if 0 < first && first < src.Len() {
		switch s := src.(type) {
		case *Batch:
			return s.Slice(first, s.Len())
		case Skipper:
			return s.From(first)
		}
	}
	if first == 0 {
		return src
	}
	return later{src, first}
}

// A later has the examples of src from position first on.
type later struct {
	src   Source
	first int
}

func (l later) Len() int { return l.src.Len() - l.first }

// Batches implements Source.
func (l later) Batches(ctx context.Context, yield func(first int, b *Batch) error) error {
	if l.Len() == 0 {
		return ctx.Err()
	}
	return ordered(ctx, l.src, func(first int, b *Batch) error {
		if first+b.Len() <= l.first {
			return nil
		}
		skip := max(0, l.first-first)
		return yield(first+skip-l.first, b.Slice(skip, b.Len()))
	})
}

var (
	_ Skipper = (*stream)(nil)
	_ Skipper = (*rebatched)(nil)
)

// From implements Skipper. The tiles of the result begin at first.
func (s *stream) From(first int) Source {
	return &stream{model: s.model, first: s.first + first, n: s.n - first, tile: s.tile, load: s.load}
}

// From implements Skipper. The batches of the result begin at first.
func (r *rebatched) From(first int) Source { return Rebatch(From(r.src, first), r.size) }
