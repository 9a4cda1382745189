package explain

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/linearize"
)

// Every number of a Summary against its definition, pair of rows by pair.
func TestSummaryAgainstDefinition(t *testing.T) {
	for seed, size := range sizes {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		d := testkit.NewDual(rng, size.n, size.c, size.p)
		x := testkit.RandomBatch(rng, 11, size.c, size.p)
		e, err := New(d, d, &Options{Top: 3})
		require.NoError(t, err)
		classes := &Classes{}
		for range size.n {
			classes.Train = append(classes.Train, rng.IntN(2))
		}
		for range x.Len() {
			classes.Predicted = append(classes.Predicted, rng.IntN(2))
			classes.True = append(classes.True, rng.IntN(2))
		}
		got, err := e.Summarize(t.Context(), testkit.Chunked{B: x, Size: 4}, classes)
		require.NoError(t, err)

		var rows []Explanation
		for row, outputs := range every(t, d, x) {
			rows = append(rows, outputs[slices.Index(x.F.RawRowView(row), slices.Max(x.F.RawRowView(row)))])
		}
		requireTerms(t, rows, got.Posterior, func(c *Columns) []float64 { return c.Value })
		requireTerms(t, rows, got.Raw, func(c *Columns) []float64 { return c.Raw })
		requireSimilar(t, rows, classes, got.Similar)
		require.Equal(t, 11, got.Rows)
		require.Less(t, got.WorstClosure, 1e-9)
	}
}

func requireTerms(t *testing.T, rows []Explanation, got TermsSummary, column func(*Columns) []float64) {
	t.Helper()
	var cancel, rank []float64
	var lists [][]int
	for _, x := range rows {
		v, s, a := column(x.All), 0.0, 0.0
		effect := make([]float64, len(v))
		for i := range v {
			s, a = s+v[i], a+math.Abs(v[i])
			effect[i] = -x.All.Removal[i]
		}
		cancel, rank = append(cancel, a/math.Abs(s)), append(rank, dumbSpearman(v, effect))
		lists = append(lists, sortedBy(v, math.Abs)[:3])
	}
	testkit.RequireNear(t, dumbMedian(cancel), got.Cancellation, tight, "cancellation")
	testkit.RequireNear(t, dumbMedian(rank), got.RankCorrelation, tight, "rank correlation")
	testkit.RequireNear(t, dumbOverlap(lists), got.Overlap, tight, "overlap")
}

func requireSimilar(t *testing.T, rows []Explanation, c *Classes, got SimilarSummary) {
	t.Helper()
	var lists [][]int
	var predicted, right []float64
	for row, x := range rows {
		list := sortedBy(x.All.Similarity, func(v float64) float64 { return v })[:3]
		lists = append(lists, list)
		share := func(class int) (s float64) {
			for _, i := range list {
				if c.Train[i] == class {
					s += 1. / 3
				}
			}
			return s
		}
		predicted = append(predicted, share(c.Predicted[row]))
		if c.True[row] != c.Predicted[row] {
			right = append(right, share(c.True[row]))
		}
	}
	testkit.RequireNear(t, dumbOverlap(lists), got.Overlap, tight, "overlap")
	testkit.RequireNear(t, stat.Mean(predicted, nil), got.PredictedClass, tight, "predicted class")
	require.Equal(t, len(right), got.Errors)
	testkit.RequireNear(t, stat.Mean(right, nil), got.TrueClassOfError, tight, "true class")
}

func dumbOverlap(lists [][]int) float64 {
	common, pairs := 0, 0
	for i := range lists {
		for j := range i {
			pairs++
			for _, k := range lists[i] {
				if slices.Contains(lists[j], k) {
					common++
				}
			}
		}
	}
	return float64(common) / float64(3*pairs)
}

func dumbMedian(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// dumbSpearman counts for every entry how many are below and equal.
func dumbSpearman(x, y []float64) float64 {
	rank := func(v []float64) []float64 {
		r := make([]float64, len(v))
		for i := range v {
			for j := range v {
				switch {
				case v[j] < v[i]:
					r[i]++
				case v[j] == v[i]:
					r[i] += 0.5
				}
			}
		}
		return r
	}
	return stat.Correlation(rank(x), rank(y), nil)
}

func TestSpearmanWithTies(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 200 {
		n := 3 + rng.IntN(30)
		x, y := make([]float64, n), make([]float64, n)
		for i := range x {
			x[i], y[i] = float64(rng.IntN(6)), float64(rng.IntN(6))
		}
		x[0], x[1], y[0], y[1] = 0, 7, 0, 7 // neither constant
		// ranks are multiples of ½: exact but for the correlation's rounding
		testkit.RequireNear(t, dumbSpearman(x, y), spearman(x, y), 1e-13, "spearman")
	}
}

func TestSpearmanLeavesOutUndefined(t *testing.T) {
	nan := math.NaN()
	testkit.RequireNear(t, 1, spearman([]float64{1, 5, 2, 3}, []float64{10, nan, 20, 30}), 1e-15, "three pairs")
	require.True(t, math.IsNaN(spearman([]float64{nan}, []float64{1})))
	require.True(t, math.IsNaN(median([]float64{nan})))
}

func TestSummaryNeedsMatchingClasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	d := testkit.NewDual(rng, 6, 1, 3)
	x := testkit.RandomBatch(rng, 2, 1, 3)
	e, err := New(d, d, nil)
	require.NoError(t, err)
	_, err = e.Summarize(t.Context(), x, &Classes{Train: make([]int, 5)})
	require.ErrorContains(t, err, "5 classes for 6 training examples")
	_, err = e.Summarize(t.Context(), x, &Classes{Train: make([]int, 6), Predicted: []int{1}})
	require.ErrorContains(t, err, "1 predicted and 0 true classes for 2 test rows")
	s, err := e.Summarize(t.Context(), linearize.Source(x), nil)
	require.NoError(t, err)
	require.True(t, math.IsNaN(s.Similar.PredictedClass))
}
