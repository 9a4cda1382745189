package linearize

import (
	"context"
	"fmt"
)

// A Skipper is a Source that can start later, without computing the examples
// before.
type Skipper interface {
	// From returns the examples from position first on, 0 < first < Len.
	From(first int) Source
}

// From returns the examples of src from position first on, the first of them
// numbered 0. Those before are neither loaded nor linearized where src is a
// Batch, a Skipper, or made by NewSource, or by Rebatch, Chain or Without from
// such; of any other Source they are passed over. first may be src's length:
// nothing is left then. Outside src it panics.
func From(src Source, first int) Source {
	if first < 0 || first > src.Len() {
		panic("linearize: first example out of range")
	}
	switch first {
	case 0:
		return src
	case src.Len():
		return Chain()
	}
	switch s := src.(type) {
	case *Batch:
		return s.Slice(first, s.Len())
	case Skipper:
		return s.From(first)
	}
	return &rest{src: src, first: first}
}

// A rest passes over all of src and drops what comes before first.
type rest struct {
	src   Source
	first int
}

func (r *rest) Len() int { return r.src.Len() - r.first }

// Batches implements Source.
func (r *rest) Batches(ctx context.Context, yield func(first int, b *Batch) error) error {
	return ordered(ctx, r.src, func(first int, b *Batch) error {
		if drop := r.first - first; drop >= b.Len() {
			return nil
		} else if drop > 0 {
			first, b = r.first, b.Slice(drop, b.Len())
		}
		return yield(first-r.first, b)
	})
}

// A lateStream is a stream that starts at first. Its tiles do too.
type lateStream struct {
	s     *stream
	first int
}

var (
	_ Skipper = (*stream)(nil)
	_ Skipper = (*lateStream)(nil)
	_ Skipper = (*rebatched)(nil)
	_ Skipper = chain(nil)
	_ Skipper = (*without)(nil)
)

// From implements Skipper.
func (s *stream) From(first int) Source { return &lateStream{s: s, first: first} }

// From implements Skipper.
func (l *lateStream) From(first int) Source { return &lateStream{s: l.s, first: l.first + first} }

func (l *lateStream) Len() int { return l.s.n - l.first }

// Batches implements Source. Errors name the examples as the stream does.
func (l *lateStream) Batches(ctx context.Context, yield func(first int, b *Batch) error) error {
	for lo := l.first; lo < l.s.n; lo += l.s.tile {
		if err := ctx.Err(); err != nil {
			return err
		}
		x, err := l.s.rows(lo, min(lo+l.s.tile, l.s.n))
		if err != nil {
			return err
		}
		b, err := l.s.model.Linearize(ctx, x)
		if err != nil {
			return fmt.Errorf("linearize: examples from %d: %w", lo, err)
		}
		if err := yield(lo-l.first, b); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// From implements Skipper: batches are counted from first.
func (r *rebatched) From(first int) Source { return Rebatch(From(r.src, first), r.size) }

// From implements Skipper.
func (c chain) From(first int) Source {
	for i, s := range c {
		if first < s.Len() {
			return append(chain{From(s, first)}, c[i+1:]...)
		}
		first -= s.Len()
	}
	return Chain()
}

// From implements Skipper.
func (w *without) From(first int) Source {
	dropped := 0
	for _, d := range w.drop {
		if d > first {
			break
		}
		first++
		dropped++
	}
	later := make([]int, 0, len(w.drop)-dropped)
	for _, d := range w.drop[dropped:] {
		later = append(later, d-first)
	}
	return Without(From(w.src, first), later)
}
