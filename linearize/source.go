package linearize

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// A Gatherer is a Source that gives single examples without passing over all
// of them.
type Gatherer interface {
	// Gather returns the examples at these positions, in this order.
	Gather(ctx context.Context, rows []int) (*Batch, error)
}

// A stream linearizes rows as they are asked for. Its example i is row first+i
// of what load gives, and errors name it so.
type stream struct {
	model          Model
	first, n, tile int
	load           func(lo, hi int) (*mat.Dense, error)
}

var (
	_ Source   = (*stream)(nil)
	_ Gatherer = (*stream)(nil)
)

// NewSource returns n examples of a model that are linearized tile by tile,
// anew in every pass, so that no more than one tile of Jacobian is in memory.
// load returns rows [lo, hi) of the inputs, (hi−lo)×D; its memory may be used
// again at the next call. A batch is valid until yield returns. The Source is
// for one pass at a time.
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

// pass yields batches that linearize makes of rows [lo, hi), x.
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

// rows loads rows [lo, hi) and checks their size.
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

// at loads single rows.
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

// Gather returns the examples of src at these positions, in this order, as a
// batch with memory of its own. It takes one pass over src, unless src is a
// Gatherer. A position outside src panics; no positions do too.
func Gather(ctx context.Context, src Source, rows []int) (*Batch, error) {
	if len(rows) == 0 || slices.Min(rows) < 0 || slices.Max(rows) >= src.Len() {
		panic("linearize: gathered row out of range")
	}
	if g, ok := src.(Gatherer); ok {
		return g.Gather(ctx, rows)
	}
	return gatherEach(ctx, src, rows, func(b *Batch, _ int) *Batch { return Concat(b) })
}

// gatherEach passes over src and joins what of returns of each position: of
// the batch of its example alone, and its place among the positions. The
// result must have memory of its own.
func gatherEach(ctx context.Context, src Source, rows []int, of func(b *Batch, place int) *Batch) (*Batch, error) {
	at := make(map[int][]int, len(rows)) // row to places
	for i, r := range rows {
		at[r] = append(at[r], i)
	}
	parts := make([]*Batch, len(rows))
	err := ordered(ctx, src, func(first int, b *Batch) error {
		for i := range b.Len() {
			for _, place := range at[first+i] {
				parts[place] = of(b.Slice(i, i+1), place)
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

// ordered passes over src and checks that its batches follow one another and
// are all there.
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

// Rebatch returns the examples of src in batches of exactly size examples,
// but for the last one. What is computed from them batch by batch then does
// not depend on the batches of src. A batch is valid until yield returns. A
// src whose batches are out of order or incomplete is an error. It is a
// Gatherer where src is.
func Rebatch(src Source, size int) Source {
	if size < 1 {
		panic("linearize: batches need a positive size")
	}
	r := &rebatched{src: src, size: size}
	if gathers(src) {
		return gatheringRebatched{r, gatherFrom{src, func(row int) int { return row }}}
	}
	return r
}

type rebatched struct {
	src  Source
	size int
}

func (r *rebatched) Len() int { return r.src.Len() }

// Batches implements Source. Examples at the seams of src are copied.
func (r *rebatched) Batches(ctx context.Context, yield func(first int, b *Batch) error) error {
	var held []*Batch // copies of the examples before
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

// Chain returns the examples of several sources of one model, one source
// after the other. It is a Gatherer where all sources are.
func Chain(sources ...Source) Source {
	if gathers(sources...) {
		return gatheringChain{chain(sources)}
	}
	return chain(sources)
}

type chain []Source

func (c chain) Len() int {
	n := 0
	for _, s := range c {
		n += s.Len()
	}
	return n
}

// Batches implements Source.
func (c chain) Batches(ctx context.Context, yield func(first int, b *Batch) error) error {
	before := 0
	for _, s := range c {
		err := ordered(ctx, s, func(first int, b *Batch) error { return yield(before+first, b) })
		if err != nil {
			return err
		}
		before += s.Len()
	}
	return nil
}

// Without returns the examples of src but those at the positions in drop,
// which must be distinct and inside src. It is a Gatherer where src is.
func Without(src Source, drop []int) Source {
	w := &without{src: src, drop: slices.Sorted(slices.Values(drop))}
	for i, r := range w.drop {
		if r < 0 || r >= src.Len() || i > 0 && r == w.drop[i-1] {
			panic("linearize: dropped rows repeat or are out of range")
		}
	}
	if gathers(src) {
		return gatheringWithout{w, gatherFrom{src, w.position}}
	}
	return w
}

type without struct {
	src  Source
	drop []int // ascending
}

func (w *without) Len() int { return w.src.Len() - len(w.drop) }

// position returns the position in src of an example that is kept.
func (w *without) position(row int) int {
	// drop[j]−j examples are kept before the j-th that is not.
	return row + sort.Search(len(w.drop), func(j int) bool { return w.drop[j]-j > row })
}

// Batches implements Source: a batch of src is cut where an example is left
// out.
func (w *without) Batches(ctx context.Context, yield func(first int, b *Batch) error) error {
	dropped := 0
	return ordered(ctx, w.src, func(first int, b *Batch) error {
		for lo := 0; lo < b.Len(); {
			hi, skip := b.Len(), 0
			if dropped < len(w.drop) && w.drop[dropped]-first < hi {
				hi, skip = w.drop[dropped]-first, 1
			}
			if lo < hi {
				if err := yield(first+lo-dropped, b.Slice(lo, hi)); err != nil {
					return err
				}
			}
			dropped += skip
			lo = hi + skip
		}
		return nil
	})
}

// Concat returns the examples of batches of one network as one batch with
// memory of its own. Blocks of a kind that is not linearize's become Full.
func Concat(batches ...*Batch) *Batch {
	if len(batches) == 0 {
		panic("linearize: no batches")
	}
	first := batches[0]
	out := &Batch{P: first.P, Model: commonModel(batches)}
	var xs, fs []*mat.Dense
	for _, b := range batches {
		if b.P != first.P || b.Outputs() != first.Outputs() || len(b.Blocks) != len(first.Blocks) {
			panic("linearize: batches of different networks")
		}
		xs, fs = append(xs, b.X), append(fs, b.F)
	}
	out.X, out.F = dense.Stack(xs), dense.Stack(fs)
	for i := range first.Blocks {
		blocks := make([]Block, len(batches))
		for j, b := range batches {
			blocks[j] = b.Blocks[i]
		}
		out.Blocks = append(out.Blocks, concatBlocks(blocks, batches))
	}
	return out
}

// concatBlocks returns one block of the batches.
func concatBlocks(blocks []Block, batches []*Batch) Block {
	switch blocks[0].(type) {
	case *Outer:
		if all, ok := allAs[*Outer](blocks); ok {
			o := *all[0]
			o.A = stackOf(all, func(o *Outer) *mat.Dense { return o.A })
			o.G = stackOf(all, func(o *Outer) *mat.Dense { return o.G })
			return &o
		}
	case *Conv:
		if all, ok := allAs[*Conv](blocks); ok {
			v := *all[0]
			v.X = stackOf(all, func(v *Conv) *mat.Dense { return v.X })
			v.G = stackOf(all, func(v *Conv) *mat.Dense { return v.G })
			return &v
		}
	case *Full:
		if all, ok := allAs[*Full](blocks); ok {
			f := *all[0]
			f.J = stackOf(all, func(f *Full) *mat.Dense { return f.J })
			return &f
		}
	}
	tiles, c := make([]*mat.Dense, len(blocks)), batches[0].Outputs()
	for j, b := range blocks {
		if rows := batches[j].Len() * c; rows > 0 {
			tiles[j] = mat.NewDense(rows, Width(b), nil)
			b.TileTo(tiles[j])
		} else {
			tiles[j] = new(mat.Dense)
		}
	}
	return &Full{J: dense.Stack(tiles), Params: blocks[0].Spans(), C: c}
}

func allAs[T Block](blocks []Block) ([]T, bool) {
	all := make([]T, len(blocks))
	for i, b := range blocks {
		t, ok := b.(T)
		if !ok {
			return nil, false
		}
		all[i] = t
	}
	return all, true
}

func stackOf[T any](blocks []T, of func(T) *mat.Dense) *mat.Dense {
	parts := make([]*mat.Dense, len(blocks))
	for i, b := range blocks {
		parts[i] = of(b)
	}
	return dense.Stack(parts)
}
