package linearize

import (
	"context"
	"errors"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// Gathers tells whether src can give single examples without a pass over all of them. For a source made by Rebatch,
// Chain, Without or From, this requires that all its parts can.
func Gathers(src Source) bool {
	if d, ok := src.(derived); ok {
		return d.gathers()
	}
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

// A derived is a Source made from others. It gathers from these, even where one of them is no Gatherer and needs a
// pass.
type derived interface {
	Gatherer
	combinedGatherer
	gathers() bool
}

var (
	_ derived = (*rebatched)(nil)
	_ derived = (*without)(nil)
	_ derived = chain(nil)
)

func (r *rebatched) gathers() bool { return Gathers(r.src) }
func (w *without) gathers() bool   { return Gathers(w.src) }
func (c chain) gathers() bool {
	return !slices.ContainsFunc(c, func(s Source) bool { return !Gathers(s) })
}

// Gather implements Gatherer.
func (r *rebatched) Gather(ctx context.Context, rows []int) (*Batch, error) {
	return Gather(ctx, r.src, rows)
}

// GatherCombined implements combinedGatherer.
func (r *rebatched) GatherCombined(ctx context.Context, rows []int, w *mat.Dense) (*Batch, error) {
	return GatherCombined(ctx, r.src, rows, w)
}

// Gather implements Gatherer.
func (w *without) Gather(ctx context.Context, rows []int) (*Batch, error) {
	return Gather(ctx, w.src, w.positions(rows))
}

// GatherCombined implements combinedGatherer.
func (w *without) GatherCombined(ctx context.Context, rows []int, weights *mat.Dense) (*Batch, error) {
	return GatherCombined(ctx, w.src, w.positions(rows), weights)
}

func (w *without) positions(rows []int) []int {
	at := make([]int, len(rows))
	for i, r := range rows {
		at[i] = w.position(r)
	}
	return at
}

// Gather implements Gatherer.
func (c chain) Gather(ctx context.Context, rows []int) (*Batch, error) {
	return c.gather(rows, func(s Source, own, _ []int) (*Batch, error) { return Gather(ctx, s, own) })
}

// GatherCombined implements combinedGatherer.
func (c chain) GatherCombined(ctx context.Context, rows []int, w *mat.Dense) (*Batch, error) {
	k := sumsOfEach(w, len(rows))
	_, outputs := w.Dims()
	return c.gather(rows, func(s Source, own, places []int) (*Batch, error) {
		part := mat.NewDense(len(own)*k, outputs, nil)
		for i, place := range places {
			dense.Slice(part, i*k, (i+1)*k).Copy(dense.Slice(w, place*k, (place+1)*k))
		}
		return GatherCombined(ctx, s, own, part)
	})
}

// gather joins the batches that take gathers from each source of the chain. own has the positions in that source,
// places their indices in rows.
func (c chain) gather(rows []int, take func(s Source, own, places []int) (*Batch, error)) (*Batch, error) {
	own, places := make([][]int, len(c)), make([][]int, len(c))
	for place, row := range rows {
		i := 0
		for row >= c[i].Len() {
			row -= c[i].Len()
			i++
		}
		own[i], places[i] = append(own[i], row), append(places[i], place)
	}
	parts := make([]*Batch, len(rows))
	for i, s := range c {
		if len(own[i]) == 0 {
			continue
		}
		b, err := take(s, own[i], places[i])
		if err != nil || len(own[i]) == len(rows) {
			return b, err
		}
		for j, place := range places[i] {
			parts[place] = b.Slice(j, j+1)
		}
	}
	return Concat(parts...), nil
}
