package explain

import (
	"context"
	"fmt"
	"math"

	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// Classes holds the classes that a Summary compares, in any numbering.
type Classes struct {
	Train     []int // class of each training example
	Predicted []int // class that the network predicts for each test row
	True      []int // true class of each test row
}

// A Summary says over many test rows whether explanations are specific to
// their row and whether they agree with removal. Where a model has several
// outputs, each row is explained for the output that is largest there.
type Summary struct {
	Rows, Top       int
	Posterior, Raw  TermsSummary
	Similar         SimilarSummary
	WorstClosure    float64 // largest |Sum − RawSum| over the largest |Sum|
	MedianRemainder float64 // median |f − m − Sum|
}

// TermsSummary summarizes one kind of terms.
type TermsSummary struct {
	Cancellation    float64 // median over rows of Σ|v|/|Σv|
	Overlap         float64 // mean share of their largest terms that two different rows have in common
	RankCorrelation float64 // median over rows of Spearman's ρ between v_i and −removal_i over all N
}

// SimilarSummary summarizes the lists of the most similar examples.
type SimilarSummary struct {
	Overlap          float64 // as in TermsSummary
	PredictedClass   float64 // mean share of a list that has the class predicted for its row
	Errors           int     // rows predicted wrongly
	TrueClassOfError float64 // mean share of a list that has the true class, over the rows predicted wrongly
}

// Summarize explains every row of x and all N training examples for each, a
// bounded number of rows at a time. It compares the lists of length
// Options.Top and ignores the other options of what to list. With nil classes
// the shares of classes are NaN.
func (e *Explainer) Summarize(ctx context.Context, x linearize.Source, classes *Classes) (*Summary, error) {
	train := e.n
	test := x.Len()
	switch {
	case classes == nil:
	case len(classes.Train) != train:
		return nil, fmt.Errorf("explain: %d classes for %d training examples", len(classes.Train), train)
	case len(classes.Predicted) != test || len(classes.True) != test:
		return nil, fmt.Errorf("explain: %d predicted and %d true classes for %d test rows", len(classes.Predicted), len(classes.True), test)
	}
	full := *e
	full.options.All, full.options.Similar = true, e.options.Top
	full.options.Curve, full.groups = false, 0
	full.options.ErrorBars, full.options.Layers = false, nil
	if err := full.knowAll(ctx); err != nil {
		return nil, err
	}
	s := newStatistics(e.n, e.options.Top, classes)
	// Four columns and two tiles, so that a chunk stays near 64 MiB.
	chunk := max(1, 8*tileFloats/(6*e.n*e.c*e.c))
	err := x.Batches(ctx, func(first int, b *linearize.Batch) error {
		for k := range par.Tiles(b.Len(), chunk) {
			lo, hi := par.Bounds(k, b.Len(), chunk)
			part := b.Slice(lo, hi)
			rows, err := full.explain(ctx, part, nil, func(t int) []Target { return []Target{Single(largest(part.F.RawRowView(t)))} })
			if err != nil {
				return err
			}
			// Add the explanations of the test rows from first on, one target each.
			workers := e.options.Workers
			first := first + lo
			rank := make([][2]float64, len(rows))
			err = par.Do(ctx, workers, len(rows), func(t int) error {
				all := rows[t][0].All
				effect := make([]float64, len(all.Removal))
				for i, v := range all.Removal {
					effect[i] = -v
				}
				rank[t] = [2]float64{spearman(all.Value, effect), spearman(all.Raw, effect)}
				return nil
			})
			if err != nil {
				return err
			}
			for t, row := range rows {
				x := row[0]
				s.posterior.add(x.Cancellation, rank[t][0], x.All.Value)
				s.raw.add(x.RawCancellation, rank[t][1], x.All.Raw)
				s.gap = math.Max(s.gap, math.Abs(x.Sum-x.RawSum))
				s.scale = math.Max(s.scale, math.Abs(x.Sum))
				s.remainder = append(s.remainder, math.Abs(x.Remainder))
				row := first + t
				list := x.Similar
				s.similar.rows++
				predicted, right := 0, 0
				for _, x := range list {
					s.similar.listed[x.Index]++
					if s.classes == nil {
						continue
					}
					if s.classes.Train[x.Index] == s.classes.Predicted[row] {
						predicted++
					}
					if s.classes.Train[x.Index] == s.classes.True[row] {
						right++
					}
				}
				if s.classes == nil || len(list) == 0 {
					continue
				}
				s.predicted.add(float64(predicted) / float64(len(list)))
				if s.classes.Predicted[row] != s.classes.True[row] {
					s.mistake.add(float64(right) / float64(len(list)))
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	return (&Summary{
		Rows:      len(s.remainder),
		Top:       s.top,
		Posterior: s.posterior.summary(),
		Raw:       s.raw.summary(),
		Similar: SimilarSummary{
			Overlap:          s.similar.mean(),
			PredictedClass:   s.predicted.value(),
			Errors:           s.mistake.n,
			TrueClassOfError: s.mistake.value(),
		},
		WorstClosure:    s.gap / s.scale,
		MedianRemainder: median(s.remainder),
	}), nil
}

// statistics collects a Summary row by row.
type statistics struct {
	classes            *Classes
	top                int
	posterior, raw     termsStatistics
	similar            overlap
	predicted, mistake mean
	gap, scale         float64
	remainder          []float64
}

type termsStatistics struct {
	cancellation, rank []float64
	overlap            overlap
}

func newStatistics(n, top int, classes *Classes) *statistics {
	return &statistics{
		classes:   classes,
		top:       top,
		posterior: termsStatistics{overlap: newOverlap(n, top)},
		raw:       termsStatistics{overlap: newOverlap(n, top)},
		similar:   newOverlap(n, top),
	}
}

func (s *termsStatistics) add(cancellation, rank float64, v []float64) {
	s.cancellation = append(s.cancellation, cancellation)
	s.rank = append(s.rank, rank)
	list := top{k: s.overlap.top}
	for i, v := range v {
		list.offer(candidate{index: i, score: math.Abs(v)})
	}
	for _, c := range list.heap {
		s.overlap.listed[c.index]++
	}
	s.overlap.rows++
}

func (s *termsStatistics) summary() TermsSummary {
	return TermsSummary{Cancellation: median(s.cancellation), Overlap: s.overlap.mean(), RankCorrelation: median(s.rank)}
}

// overlap counts how often each training example is listed. What pairs of lists
// have in common follows from that without comparing the lists.
type overlap struct {
	listed    []int // number of lists with each training example
	top, rows int   // length and number of the lists
}

func newOverlap(n, top int) overlap { return overlap{listed: make([]int, n), top: top} }

// mean returns Σ_pairs |A∩B| / (top · pairs), whose numerator is Σ_i n_i(n_i−1)/2.
func (o overlap) mean() float64 {
	common := 0.0
	for _, n := range o.listed {
		common += float64(n) * float64(n-1) / 2
	}
	return common / (float64(o.top) * float64(o.rows) * float64(o.rows-1) / 2)
}

// mean is a running mean; that of no numbers is NaN.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum += v; m.n++ }

func (m *mean) value() float64 { return m.sum / float64(m.n) }

// largest returns the first index of the largest entry.
func largest(v []float64) int {
	k := 0
	for c := range v {
		if v[c] > v[k] {
			k = c
		}
	}
	return k
}
