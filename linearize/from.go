package linearize

import "github.com/funcgp/funcgp/internal/dense"

// A Skipper is a Source that can start at a later example without computing the examples before it.
type Skipper interface {
	// From is the function From for this Source, for 0 < first < Len.
	From(first int) Source
}

// From returns the examples of src from position first on, which becomes position 0. A Batch, a Skipper, a source
// made by NewSource, and one made from these by Rebatch, Chain or Without neither load nor linearize the examples
// before first. Any other Source computes them, and From discards them. first = src.Len() leaves no examples; more
// panics.
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
	return Without(src, dense.Range(first))
}

var (
	_ Skipper = (*stream)(nil)
	_ Skipper = (*rebatched)(nil)
	_ Skipper = chain(nil)
	_ Skipper = (*without)(nil)
)

// From implements Skipper. The tiles of the result begin at first.
func (s *stream) From(first int) Source {
	return &stream{model: s.model, first: s.first + first, n: s.n - first, tile: s.tile, load: s.load}
}

// From implements Skipper. The batches of the result begin at first.
func (r *rebatched) From(first int) Source { return Rebatch(From(r.src, first), r.size) }

// From implements Skipper.
func (c chain) From(first int) Source {
	for i, s := range c {
		if first < s.Len() {
			return Chain(append([]Source{From(s, first)}, c[i+1:]...)...)
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
