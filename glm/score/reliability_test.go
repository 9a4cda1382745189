package score

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/combin"

	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/testref"
)

// The bins are those of ECE: their gaps add up to it.
func TestReliabilityBins(t *testing.T) {
	rng := testref.Rand(31)
	for range 20 {
		n, k := 1+rng.IntN(60), 2+rng.IntN(4)
		prob, labels := mat.NewDense(n, k, nil), make([]int, n)
		for i := range n {
			integral.SoftmaxTo(prob.RawRowView(i), testref.Vec(rng, k, 2))
			labels[i] = rng.IntN(k)
		}
		top, hit := topClasses(prob, labels)
		bins := Reliability(top, hit, 20)
		require.Len(t, bins, 15)
		ece, rows := 0.0, 0
		for b, v := range bins {
			require.Equal(t, []float64{float64(b) / 15, float64(b+1) / 15}, []float64{v.Lo, v.Hi})
			rows += v.Count
			if v.Count == 0 {
				require.True(t, math.IsNaN(v.Confidence) && math.IsNaN(v.Accuracy) && math.IsNaN(v.BandLo) && math.IsNaN(v.BandHi))
				continue
			}
			require.True(t, v.Lo < v.Confidence && v.Confidence <= v.Hi)
			ece += float64(v.Count) / float64(n) * math.Abs(v.Accuracy-v.Confidence)
		}
		require.Equal(t, n, rows)
		require.InDelta(t, ECE(prob, labels), ece, 1e-13)
	}
	// Four rows by hand: the second and the fourth share a bin.
	top, hit := topClasses(handProb, handLabels)
	b := Reliability(top, hit, 1000)[8]
	require.Equal(t, 2, b.Count)
	require.InDelta(t, 0.575, b.Confidence, 1e-15)
	require.Equal(t, 0.5, b.Accuracy)
	require.Panics(t, func() { Reliability([]float64{math.NaN()}, []bool{true}, 1) })
}

// Where events happen with the stated probabilities, 19 bins in 20 lie within a
// 95 % band; where they happen less often, few do. The bands are the same each time.
func TestReliabilityBand(t *testing.T) {
	testref.Long(t, "one goroutine, long under the race detector")
	rng := testref.Rand(32)
	inside, all, insideWrong := 0.0, 0.0, 0.0
	const n = 400
	for range 60 {
		prob, happened, wrong := make([]float64, n), make([]bool, n), make([]bool, n)
		for i := range prob {
			prob[i] = rng.Float64()
			u := rng.Float64()
			happened[i], wrong[i] = u < prob[i], u < prob[i]/2
		}
		bins := Reliability(prob, happened, 300)
		require.Equal(t, bins, Reliability(prob, happened, 300))
		for k, b := range Reliability(prob, wrong, 300) {
			require.Equal(t, bins[k].BandLo, b.BandLo, "the band does not depend on what happened")
			all++
			if b.BandLo <= b.Accuracy && b.Accuracy <= b.BandHi {
				insideWrong++
			}
			if a := bins[k].Accuracy; b.BandLo <= a && a <= b.BandHi {
				inside++
			}
		}
	}
	// 900 bins; the band of a discrete share holds a little more than 95 %.
	require.InDelta(t, 0.96, inside/all, 0.03)
	require.Less(t, insideWrong/all, 0.5)
}

// The band of one large bin is that of a binomial share.
func TestReliabilityBandIsBinomial(t *testing.T) {
	const n, p = 2000, 0.62
	prob, happened := make([]float64, n), make([]bool, n)
	for i := range prob {
		prob[i] = p
	}
	b := Reliability(prob, happened, 4000)[eceBin(p)]
	lo, hi := BinomialBand(n, p, 0.95)
	require.InDelta(t, lo, b.BandLo, 0.003)
	require.InDelta(t, hi, b.BandHi, 0.003)
}

// The binomial band against the sum of its terms.
func TestBinomialBand(t *testing.T) {
	for _, n := range []int{1, 2, 7, 40} {
		for _, p := range []float64{0.03, 0.5, 0.9} {
			for _, coverage := range []float64{0.5, 0.95} {
				lo, hi := BinomialBand(n, p, coverage)
				below, above := 0.0, 0.0
				for k := range n + 1 {
					term := float64(combin.Binomial(n, k)) * math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
					share := float64(k) / float64(n)
					if share < lo {
						below += term
					}
					if share > hi {
						above += term
					}
				}
				tail := (1 - coverage) / 2
				require.Less(t, below, tail+1e-12)
				require.Less(t, above, tail+1e-12)
				require.GreaterOrEqual(t, 1-below-above, coverage-1e-12)
			}
		}
	}
	lo, hi := BinomialBand(100000, 0.9, 0.95)
	require.InDelta(t, 0.9-1.96*math.Sqrt(0.09/100000), lo, 2e-5)
	require.InDelta(t, 0.9+1.96*math.Sqrt(0.09/100000), hi, 2e-5)
	require.PanicsWithValue(t, "score: a binomial band needs trials, and probabilities between 0 and 1", func() { BinomialBand(0, 0.5, 0.5) })
}

// Coverage counts the targets whose distribution function is in the middle.
func TestCoverageOf(t *testing.T) {
	cdf := []float64{0.01, 0.3, 0.5, 0.72, 0.96, math.NaN(), 1}
	points := CoverageOf(cdf, []float64{0.5, 0.9, 0.95})
	for k, want := range []float64{3, 3, 4} {
		lo, hi := BinomialBand(6, points[k].Nominal, 0.95)
		require.Equal(t, CoveragePoint{points[k].Nominal, want / 6, lo, hi, 6}, points[k])
	}
	none := CoverageOf([]float64{math.NaN()}, []float64{0.5})[0]
	require.True(t, math.IsNaN(none.Empirical) && math.IsNaN(none.BandLo) && none.Count == 0)
	// Uniform values are covered as often as they should be.
	rng := testref.Rand(33)
	uniform := make([]float64, 20000)
	for i := range uniform {
		uniform[i] = rng.Float64()
	}
	for _, p := range CoverageOf(uniform, []float64{0.1, 0.5, 0.9}) {
		require.InDelta(t, p.Nominal, p.Empirical, 0.015)
		require.True(t, p.BandLo < p.Nominal && p.Nominal < p.BandHi)
	}
}
