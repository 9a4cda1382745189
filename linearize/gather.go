package linearize

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// gathers reports whether all sources are Gatherers.
func gathers(sources ...Source) bool {
	return !slices.ContainsFunc(sources, func(s Source) bool {
		_, ok := s.(Gatherer)
		return !ok
	})
}

// A gatherFrom gathers examples from another Source, which has them at different
// positions.
type gatherFrom struct {
	from Source
	move func(row int) int // the position in from
}

// Gather implements Gatherer.
func (g gatherFrom) Gather(ctx context.Context, rows []int) (*Batch, error) {
	return Gather(ctx, g.from, g.positions(rows))
}

// GatherCombined implements combinedGatherer.
func (g gatherFrom) GatherCombined(ctx context.Context, rows []int, w *mat.Dense) (*Batch, error) {
	return GatherCombined(ctx, g.from, g.positions(rows), w)
}

func (g gatherFrom) positions(rows []int) []int {
	at := make([]int, len(rows))
	for i, r := range rows {
		at[i] = g.move(r)
	}
	return at
}

// Sources made from one Source that is a Gatherer.
type (
	gatheringRebatched struct {
		*rebatched
		gatherFrom
	}
	gatheringWithout struct {
		*without
		gatherFrom
	}
	gatheringRest struct {
		*rest
		gatherFrom
	}
)

// A gatheringChain is a chain of Gatherers.
type gatheringChain struct{ chain }

var (
	_ Gatherer = gatheringRebatched{}
	_ Gatherer = gatheringWithout{}
	_ Gatherer = gatheringRest{}
	_ Gatherer = gatheringChain{}

	_ combinedGatherer = gatheringRebatched{}
	_ combinedGatherer = gatheringWithout{}
	_ combinedGatherer = gatheringRest{}
	_ combinedGatherer = gatheringChain{}

	_ Combiner = gatheringRebatched{}
	_ Combiner = gatheringWithout{}
	_ Combiner = gatheringChain{}

	_ Skipper = gatheringRebatched{}
	_ Skipper = gatheringWithout{}
	_ Skipper = gatheringChain{}
)

// Gather implements Gatherer.
func (c gatheringChain) Gather(ctx context.Context, rows []int) (*Batch, error) {
	return c.gather(rows, func(s Source, own, _ []int) (*Batch, error) { return Gather(ctx, s, own) })
}

// GatherCombined implements combinedGatherer.
func (c gatheringChain) GatherCombined(ctx context.Context, rows []int, w *mat.Dense) (*Batch, error) {
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

// gather joins the batches that take gathers from each source. take gets the
// positions in the source and their indices in rows.
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
