package score

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// A ReliabilityBin is one of the 15 bins of a reliability diagram, which are the bins of ECE. In a bin without rows
// Confidence and Accuracy are NaN.
type ReliabilityBin struct {
	Lo, Hi     float64 // the bin holds probabilities of the top class in (Lo, Hi]
	Count      int     // rows in the bin
	Confidence float64 // mean probability of the top class
	Accuracy   float64 // share of rows whose label is the top class
	// BandLo and BandHi bound the accuracy that a calibrated prediction has by chance. They are NaN where no
	// resample has a row in the bin.
	BandLo, BandHi float64
}

// Reliability returns the bins of a reliability diagram for the probabilities of N events, where happened tells
// which events happened. The band of each bin is the consistency bar of Bröcker and Smith (2007, Increasing the
// Reliability of Reliability Diagrams). In each resample the events are drawn with replacement and each happens
// with its probability. The band holds the central 95 % of the resampled frequencies in the bin. A
// frequency outside the band is evidence against calibration. The bands depend only on the arguments. A probability
// that is NaN panics.
func Reliability(prob []float64, happened []bool, resamples int) []ReliabilityBin {
	bins := make([]ReliabilityBin, eceBins)
	bin := make([]int, len(prob))
	for i, p := range prob {
		if math.IsNaN(p) {
			panic("score: a probability is NaN")
		}
		bin[i] = eceBin(p)
		b := &bins[bin[i]]
		b.Count++
		b.Confidence += p
		if happened[i] {
			b.Accuracy++
		}
	}
	// Compute the accuracies of each bin in the resamples that have rows in it.
	var accuracies [eceBins][]float64
	rng := rand.New(rand.NewPCG(0, 0x6a09e667f3bcc909))
	for range resamples {
		var rows, hits [eceBins]float64
		for range prob {
			i := rng.IntN(len(prob))
			rows[bin[i]]++
			if rng.Float64() < prob[i] {
				hits[bin[i]]++
			}
		}
		for k, n := range rows {
			if n > 0 {
				accuracies[k] = append(accuracies[k], hits[k]/n)
			}
		}
	}
	for k := range bins {
		b := &bins[k]
		b.Lo, b.Hi = float64(k)/eceBins, float64(k+1)/eceBins
		b.Confidence /= float64(b.Count)
		b.Accuracy /= float64(b.Count)
		b.BandLo, b.BandHi = middle(accuracies[k])
	}
	return bins
}

// middle drops as many numbers as possible at both ends, equally many, such that at least 95 % remain.
// It returns the smallest and the largest remaining number. It sorts v.
func middle(v []float64) (lo, hi float64) {
	if len(v) == 0 {
		return math.NaN(), math.NaN()
	}
	slices.Sort(v)
	drop := int((1 - .95) / 2 * float64(len(v)))
	return v[drop], v[len(v)-1-drop]
}

// A CoveragePoint compares the share of targets in central predictive intervals with the share that should be in
// them.
type CoveragePoint struct {
	Nominal, Empirical float64
	// BandLo and BandHi hold the central 95 % of Empirical for a calibrated prediction of independent targets.
	BandLo, BandHi float64
	Count          int // targets
}

// CoverageOf returns the coverage of central intervals for each level in (0, 1). cdf has P(Y < y) + P(Y = y)/2
// under the predictive distribution at each target y. The interval of level q holds the target where this number is
// between (1−q)/2 and (1+q)/2. NaN is left out. Without any number the points are NaN.
func CoverageOf(cdf, levels []float64) []CoveragePoint {
	held := make([]float64, 0, len(cdf)) // level of the narrowest interval with the target
	for _, u := range cdf {
		if !math.IsNaN(u) {
			held = append(held, math.Abs(2*u-1))
		}
	}
	n := len(held)
	points := make([]CoveragePoint, len(levels))
	for k, q := range levels {
		if !(q > 0 && q < 1) {
			panic("score: a level of coverage is not between 0 and 1")
		}
		points[k] = CoveragePoint{Nominal: q, Empirical: math.NaN(), BandLo: math.NaN(), BandHi: math.NaN()}
		if n == 0 {
			continue
		}
		inside := 0
		for _, v := range held {
			if v <= q {
				inside++
			}
		}
		points[k].Count, points[k].Empirical = n, float64(inside)/float64(n)
		points[k].BandLo, points[k].BandHi = BinomialBand(n, q, 0.95)
	}
	return points
}

// BinomialBand returns the central interval, with the given coverage, of the share of successes in n independent
// trials with success probability p. At most (1 − coverage)/2 of the distribution is below lo, and at most as much
// above hi. It panics unless n > 0 and p and coverage are in (0, 1).
func BinomialBand(n int, p, coverage float64) (lo, hi float64) {
	if n <= 0 || !(p > 0 && p < 1) || !(coverage > 0 && coverage < 1) {
		panic("score: a binomial band needs trials, and probabilities between 0 and 1")
	}
	tail := (1 - coverage) / 2
	// P(X ≤ k) = I_{1−p}(n − k, k + 1)
	atMost := func(k int) float64 {
		if k >= n {
			return 1
		}
		return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
	}
	first := func(q float64) int { // the first k with P(X ≤ k) ≥ q
		a, b := 0, n
		for a < b {
			if k := (a + b) / 2; atMost(k) >= q {
				b = k
			} else {
				a = k + 1
			}
		}
		return a
	}
	return float64(first(tail)) / float64(n), float64(first(1-tail)) / float64(n)
}
